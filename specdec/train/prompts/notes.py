"""Passages of daily life: product descriptions, minutes, messages, conversations, restaurant reviews."""

from specdec.train.prompts.passages import Passage, composed
from specdec.train.prompts.topics import DISHES, JOBS, PRODUCTS, listed
from specdec.train.prompts.words import COLOURS, DAYS, MATERIALS, MONTHS, SUBJECTS, TOWNS, Pick, joined, plain

BRANDS = listed("Luma; Orbit; Pico; Terra; Vela; Nido; Kora; Brisa; Mono; Tovi; Arlo; Senda")


def product(pick: Pick) -> Passage:
    thing = pick.one(PRODUCTS)
    company, price = pick.company(), f"${pick.randint(9, 400)}.{pick.one(['00', '50', '95', '99'])}"
    values = {
        "thing": thing,
        "name": f"{pick.one(BRANDS)} {pick.randint(2, 900)}",
        "company": company,
        "price": price,
        "colours": joined(pick.some(COLOURS, 3)),
        "material": pick.one(MATERIALS),
        "weight": f"{pick.randint(12, 950) * 10} g",
        "years": str(pick.randint(2, 10)),
        "days": str(pick.randint(14, 100)),
        "hours": str(pick.randint(3, 60)),
        "rating": f"{pick.randint(31, 49) / 10}",
        "reviews": f"{pick.randint(40, 9000):,}",
        "month": pick.one(MONTHS),
    }
    text = composed(
        pick,
        values,
        listed("""
            [Meet|Say hello to] the {name}, {thing} [made|designed] for [busy days|small homes|people who
            hate waste].; The {name} by {company} is {thing} that [does one thing well|lasts|gets out of your
            way].; {company} [presents|has released] the {name}: {thing} with [a twist|fewer parts|a
            conscience].
        """),
        listed("""
            It is made of {material}, weighs {weight}, and comes in {colours}.; [Set-up takes|You are ready
            in] [five minutes|under an hour|two steps], with no [tools|account|manual] needed.; One charge
            [lasts|keeps it going for] {hours} hours.; Every part can be [replaced|repaired], and the
            guarantee covers {years} years.; [Customers|Testers] gave it {rating} out of 5 in {reviews}
            reviews, and the most common complaint was [the noise|the price|the strap|slow delivery].; It
            costs {price}, and {company} [plants a tree|gives one dollar to a school] for each one sold.; It
            should not be [left in the sun|put in a dishwasher|used by children under six].
        """),
        [
            "Orders ship from {month}.",
            "It can be returned within {days} days.",
            "Delivery is free above $50.",
        ],
    )
    questions = listed("""
        How much does it cost, and who makes it?; What is it made of?; What do customers complain about?; Can
        it be returned or repaired?; Who is it meant for?
    """)
    return Passage(
        text,
        "product description",
        questions,
        ["product name", "company", "price", "colours", "material", "guarantee"],
    )


AGENDA = listed("""
the budget for the summer party; the leaking roof; a new website; the parking rules; late deliveries; hiring
a second {job}; the exhibition in {town}; the rise in rent; the training plan; complaints about noise; the
newsletter; the order of {number} chairs; the safety inspection; moving the office to {town}; the contract
with {company}; volunteers for {day}
""")
DECISIONS = listed("""
{name} [will ask for|is to get] three offers by {date}.; It was [agreed|decided] to spend no more than
{money}.; The [vote|decision] was postponed to {date}, because [figures were missing|{name} was ill|no one
had read the report].; {name} [objected|was against], but the majority was in favour.; A small group led by
{name} will [report back|make a proposal] in {month}.; [Nobody|Only {name}] volunteered.; The proposal was
[rejected|accepted] by {number} votes to two.
""")


def minutes(pick: Pick) -> Passage:
    people = [pick.name() for _ in range(pick.randint(3, 5))]
    lines = []
    for i, item in enumerate(pick.some(AGENDA, pick.randint(2, 4)), 1):
        values = {
            "job": pick.one(JOBS),
            "town": pick.one(TOWNS),
            "number": str(pick.randint(6, 90)),
            "company": pick.company(),
            "day": pick.one(DAYS),
            "name": pick.one(people),
            "date": pick.date(),
            "money": f"{pick.randint(2, 60) * 50:,} euros",
            "month": pick.one(MONTHS),
        }
        decided = " ".join(pick.fill(d, values) for d in pick.some(DECISIONS, pick.randint(1, 2)))
        lines.append(f"{i}. {pick.one(['On', 'Regarding', 'About'])} {pick.fill(item, values)}: {decided}")
    head = (
        pick.one(["Minutes of the meeting of", "Notes from the meeting on", "Team meeting,"])
        + f" {pick.date()}"
    )
    text = f"{head}\nPresent: {joined(people)}\n" + "\n".join(lines)
    questions = [
        "Who has to do what, and by when?",
        "What was decided?",
        "Who was at the meeting?",
        "Which points are still open?",
    ]
    return Passage(
        text,
        "meeting record",
        questions,
        ["date", "people present", "decisions", "deadlines", "tasks and who does them"],
    )


GREETINGS = listed("Best,; Kind regards,; Yours,; Thanks,; See you soon,; Regards,")


def message(pick: Pick) -> Passage:
    """An e-mail with an order, a booking, a complaint or an application."""
    sender, reader = pick.name(), pick.name()
    values = {
        "reader": reader.split()[0],
        "n": str(pick.randint(2, 12)),
        "code": f"{pick.one('ABKRTX')}{pick.randint(1000, 99999)}",
        "thing": pick.one(PRODUCTS),
        "date": pick.date(),
        "date2": pick.date(),
        "town": pick.one(TOWNS),
        "price": f"{pick.randint(20, 900)} euros",
        "company": pick.company(),
        "phone": f"{pick.randint(600, 799)} {pick.randint(100, 999)} {pick.randint(100, 999)}",
        "job": pick.one(JOBS),
        "colour": pick.one(COLOURS),
        "mail": f"{sender.split()[0].lower()}@{plain(pick.one(PRODUCTS)).split()[-1]}.example",
        "years": str(pick.randint(2, 20)),
    }
    bodies = {
        "complaint": listed("""
            On {date} I ordered {thing} from {company} (order {code}). It arrived on {date2}, but [the box
            was open|it was {colour} instead of what I chose|a part was missing].; I [wrote|called] twice and
            got no answer.; Please [send a replacement|refund the {price}] [within ten days|as soon as you
            can].; You can reach me at {phone}.
        """),
        "booking": listed("""
            I would like to book a room in {town} for {n} nights from {date}, for two adults and [one child|a
            small dog].; We [expect to arrive late|come by train] and need [a cot|parking|a quiet room].; On
            your page I saw a price of {price}: does it include breakfast?; Please confirm to {mail} or
            {phone}.
        """),
        "application": listed("""
            I am writing about the post of {job} at {company} in {town}. I have worked as a {job} for {years}
            years, [most recently|since 2019] in a team of {n}.; I speak [French and Arabic|Spanish|four
            languages] and [can start on {date}|am free from {date}].; My salary expectation is {price} a
            week.; I can be reached at {mail}.
        """),
        "invitation": listed("""
            We are [turning forty|moving to {town}|celebrating ten years of {company}] and want you to be
            there on {date}.; [Doors open|We start] at {n} o'clock, at {n} Station Street in {town}.; Bring
            [nothing but yourself|a salad|a song], and tell us by {date2} [whether you come|what you do not
            eat].; Questions? Call {phone}.
        """),
    }
    parts = bodies[pick.one(list(bodies))]
    text = (
        f"Dear {values['reader']},\n"
        + " ".join(pick.fill(part, values) for part in parts)
        + f"\n{pick.one(GREETINGS)}\n{sender}"
    )
    questions = [
        "What does the writer want?",
        "Which dates are mentioned, and what for?",
        "How can the writer be reached?",
        "What should the reader do next?",
    ]
    return Passage(text, "message", questions, ["sender", "dates", "contact details", "request", "amounts"])


TALKS = [
    listed("""
        Did you [book|get] the tickets to {town}?; Not yet. They cost {price} each now.; That is more than we
        said. What about the bus at {hour}?; The bus takes {n} hours. I would rather [pay|stay at home].; All
        right, but you choose the hotel.; [Deal.|Fine, but do not complain afterwards.]
    """),
    listed("""
        Are we still [meeting|having dinner] on {day}?; Sorry, I [forgot|have to work late]. Can we say
        {day2}?; {day2} is fine, but not before {hour}.; Good. Shall I cook? I could make {dish}.; Only if I
        may bring the dessert.; Perfect. See you then.
    """),
    listed("""
        I [failed|barely passed] the {subject} exam.; Really? After {n} weeks of work?; I know. I should have
        asked for help earlier.; Let us look at it together on {day}.; Thanks. I will bring the book and
        {dish}.; [Bring the exam paper too.|And turn your phone off this time.]
    """),
    listed("""
        The landlord called again.; What did they want this time?; Money, mostly. {price} more a month for
        the heating.; We should read the contract first. I am free on {day}.; I will write to them before
        {day}, then.; And I will ask my sister. She [is a lawyer|had the same problem].
    """),
    listed("""
        The printer in room {n} is [broken|making that noise] again.; Did you turn it off and on?; Twice. And
        the report is due on {day}.; Use the one upstairs until the technician comes on {day2}.; That one has
        no ink, and a cartridge costs {price}.; [Then send it by mail.|I will order two.]
    """),
    listed("""
        How was {town}?; Wet. It rained for {n} days.; But the food was good, I hope?; We had {dish} for
        {price}, and it was [worth it|a robbery].; Would you go again?; In spring, yes. On {day} I will show
        you the pictures.
    """),
]


def talk(pick: Pick) -> Passage:
    """A dialogue between two people."""
    first, second = pick.name().split()[0], pick.name().split()[0]
    values = {
        "day": pick.one(DAYS),
        "day2": pick.one(DAYS),
        "town": pick.one(TOWNS),
        "dish": pick.one(DISHES),
        "n": str(pick.randint(2, 12)),
        "price": f"{pick.randint(8, 90)} euros",
        "subject": pick.one(SUBJECTS),
        "hour": str(pick.randint(2, 11)),
    }
    turns = TALKS[pick.randrange(len(TALKS))][: pick.randint(4, 6)]
    text = "\n".join(
        f"{first if i % 2 == 0 else second}: {pick.fill(turn, values)}" for i, turn in enumerate(turns)
    )
    questions = [
        f"What does {first} want?",
        f"What do {first} and {second} agree on?",
        "What is the problem?",
        "When will they meet, if at all?",
    ]
    return Passage(text, "conversation", questions, ["speakers", "days and times", "prices", "agreement"])


def review(pick: Pick) -> Passage:
    values = {
        "dish": pick.one(DISHES),
        "dish2": pick.one(DISHES),
        "town": pick.one(TOWNS),
        "name": pick.one(
            listed("""
        The Blue Door; Casa Norte; Lantern House; Mill & Stone; Saffron Yard; The Quiet Fork
    """)
        ),
        "price": str(pick.randint(9, 70)),
        "n": str(pick.randint(10, 75)),
        "day": pick.one(DAYS),
        "stars": str(pick.randint(1, 5)),
        "waiter": pick.name().split()[0],
    }
    text = composed(
        pick,
        values,
        listed("""
            We [went to|tried] {name} in {town} on a {day}.; {name}, {town}: {stars} out of 5 stars.; Friends
            had [praised|warned us about] {name} in {town}, so we went to see for ourselves.
        """),
        listed("""
            The {dish} was [excellent|bland|far too salty|the best I have had in years], the {dish2} [a
            disappointment|a pleasant surprise|cold in the middle].; We waited {n} minutes for [a table|the
            menu|the bill].; {waiter}, who served us, [was kind|forgot our drinks|knew every dish].; The room
            is [loud|tiny but cosy|bright], with [plants|football on a screen|a view of the river].; At
            {price} euros a head it is [fair|not cheap|a bargain].
        """),
        ["We will [be back|not return].", "[Book ahead|Bring cash].", "[Go early|Skip the dessert]."],
    )
    questions = [
        "Did the writer like the restaurant? Why?",
        "What did they eat, and how was it?",
        "What does the review say about prices and service?",
        "Would the writer go again?",
    ]
    return Passage(
        text, "review", questions, ["restaurant", "dishes", "price", "waiting time", "overall opinion"]
    )
