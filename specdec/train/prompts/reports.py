"""Passages as newspapers and encyclopaedias have them: news, biographies, entries on rivers and towns."""

from specdec.train.prompts.passages import Passage, composed
from specdec.train.prompts.topics import ANIMALS, DISHES, JOBS, listed
from specdec.train.prompts.words import DAYS, MATERIALS, MONTHS, SUBJECTS, TOWNS, WEATHER, Pick

EVENTS = {
    "a fire": listed("""
        [A|Early on {day}, a] fire [destroyed|badly damaged] {place} in {town}; Firefighters [worked|fought]
        for {n} hours to [control|put out] a blaze at {place} in {town} on {day}; {place}, a landmark of
        {town}, [was gutted by flames|went up in flames] during the night to {day}
    """),
    "an opening": listed("""
        After {n} years of [work|planning|delays], {place} in {town} [opened|reopened] its doors on {day};
        Hundreds of people [queued|lined up] in {town} on {day} for the opening of {place}; {town} has [a new
        meeting point|something to celebrate]: {place} was inaugurated on {day}
    """),
    "a dispute": listed("""
        The council of {town} [voted|decided] on {day} to close {place}, [despite protests|after a long
        debate]; A plan to [sell|demolish|move] {place} has divided {town}; Neighbours of {place} in {town}
        [went to court|handed in a petition] on {day} over noise and traffic
    """),
    "a discovery": listed("""
        Workers renovating {place} in {town} [found|came across] {n} [letters|coins|paintings] behind a wall
        on {day}; A [forgotten cellar|medieval well|Roman mosaic] has been [found|uncovered] under {place} in
        {town}; A schoolgirl from {town} [made an unusual find|discovered a rare fossil] near {place} on
        {day}
    """),
    "weather": listed("""
        {weather2} [closed|damaged|cut off] {place} in {town} on {day}; {town} is [recovering|counting the
        cost] after {weather} hit the region on {day}, with {place} worst affected; Because of {weather},
        [events|classes|visits] at {place} in {town} were called off on {day}
    """),
}
NEWS_PLACES = listed("""
the public library; the old railway station; the covered market; the Regal cinema; the town museum; a bicycle
factory; the swimming pool; St Anne's hospital; the botanical garden; the harbour bridge; a primary school;
the concert hall; the football stadium; the water tower; a retirement home; the fish market; the bus depot;
the observatory; a sawmill
""")
NEWS_MIDDLE = listed("""
No one was hurt, [said|according to] {name}, who [manages the building|lives across the street|chairs the
board].; {name3}, the [mayor|deputy mayor], [called it|described it as] [a turning point|a test|a lesson] for
the town.; The cost is [estimated at|put at|expected to reach] {money}, [of which the region will pay
half|more than planned].; [Around|More than|Nearly] {many} people [use it every week|signed up within a
day|were affected], [figures|records] show.; "We [did not expect this|have waited a long time for this|will
not give up]," said {name2}, a {job} who [grew up nearby|has lived there for {n} years].;
[Experts|Inspectors|Engineers] from {company} will [examine the site|publish a report|begin their work] in
{month}.; The building [dates from|was completed in] {year} and [was last renovated|changed owners] {n} years
ago.; Critics [say|argue] that [the money is needed elsewhere|residents were not asked|the warnings were
ignored].; Traffic on [Mill Road|Station Street|the ring road] was [diverted|held up] for several hours.; A
[fund|collection|campaign] [started by|led by] pupils has [raised|brought in] {money2} so far.
""")
NEWS_CLOSING = listed("""
A public meeting is planned for {date}.; The council will [decide|vote] on the next steps before the end of
{month}.; Until then, [visitors are asked to stay away|services will run from a temporary site|little is
likely to change].
""")


def news(pick: Pick) -> Passage:
    weather = pick.one(WEATHER)
    town, place, name = pick.one(TOWNS), pick.one(NEWS_PLACES), pick.name()
    values = {
        "town": town,
        "place": place,
        "name": name,
        "name2": pick.name(),
        "name3": pick.name(),
        "day": pick.one(DAYS),
        "n": str(pick.randint(2, 19)),
        "many": f"{pick.randint(3, 60) * 50:,}",
        "money": f"{pick.randint(2, 90) / 10} million euros",
        "money2": f"{pick.randint(2, 80) * 500:,} euros",
        "job": pick.one(JOBS),
        "company": pick.company(),
        "month": pick.one(MONTHS),
        "year": pick.year(1870, 1990),
        "date": pick.date(),
        "weather": weather,
        "weather2": weather.capitalize(),
    }
    kind = pick.one(list(EVENTS))
    text = composed(pick, values, [f"{start}." for start in EVENTS[kind]], NEWS_MIDDLE, NEWS_CLOSING)
    text = ". ".join(part[:1].upper() + part[1:] for part in text.split(". "))
    questions = [
        f"What happened in {town}?",
        "Which place is the report about?",
        "Who is quoted, and what do they say?",
        "What will happen next?",
        "How much money is mentioned, and for what?",
        "How are people in the town affected?",
    ]
    return Passage(
        text,
        "news report",
        questions,
        ["place", "date or day", "people", "amounts of money", "organisations"],
    )


ACHIEVEMENTS = listed("""
[designed|built] the first [solar-powered|hand-cranked|pocket-sized] {object}; wrote a
[much-read|controversial] book on {field}, translated into {n} languages; [founded|directed] a school for
{job}s in {town2}; discovered [a new species of|an unusual behaviour in] {animal}; mapped the
[caves|coastline|rivers] around {town2}; won the national [prize|medal] for {field} in {year3};
[led|organised] the strike of {year3}, which [changed the law|ended after {n} weeks]; [composed|recorded] {n}
songs that are still sung in {town}
""")
OBJECTS = listed(
    "radio; bicycle; water filter; telescope; sewing machine; camera; stove; calculator; pump; loom; clock"
)
FIELDS = listed("""
botany; astronomy; navigation; public health; folk music; chess; bridge building; medicine; architecture;
weaving
""")


def biography(pick: Pick) -> Passage:
    born = pick.randint(1820, 1960)
    name, she = pick.name(), pick.chance(0.5)
    values = {
        "name": name,
        "last": name.split()[-1],
        "he": "She" if she else "He",
        "his": "her" if she else "his",
        "born": str(born),
        "town": pick.one(TOWNS),
        "town2": pick.one(TOWNS),
        "job": pick.one(JOBS),
        "job2": pick.one(JOBS),
        "parent": pick.one(JOBS),
        "n": str(pick.randint(3, 30)),
        "year1": str(born + pick.randint(17, 24)),
        "year2": str(born + pick.randint(25, 34)),
        "year3": str(born + pick.randint(35, 50)),
        "died": str(born + pick.randint(55, 90)),
        "field": pick.one(FIELDS),
        "object": pick.one(OBJECTS),
        "animal": pick.one(ANIMALS),
        "spouse": pick.name(),
    }
    first, second = pick.some(ACHIEVEMENTS, 2)
    values |= {"did": pick.fill(first, values), "did2": pick.fill(second, values)}
    text = composed(
        pick,
        values,
        listed("""
            {name} [was born|came into the world] in {town} in {born}, the [youngest|eldest|only] child of a
            {parent}.; Born in {born} in {town}, {name} [trained|began] as a {job} before turning to
            {field}.; Few people in {town} have not heard of {name} ({born}-{died}), {job} and
            [self-taught|tireless] expert in {field}.
        """),
        listed("""
            {he} [left school at fourteen|studied in {town2}|learned the trade from an aunt] and worked as a
            {job} from {year1}.; In {year2}, {last} [moved to|settled in] {town2}, where {his}
            [workshop|house|office] [became|soon was] a meeting place for [artists|students|inventors].;
            {last} {did}.; {he} also {did2}.; [Not everything went well|There were setbacks]: [a fire
            destroyed {his} notes|a partner left with the money|{his} first plan was refused {n} times].;
            {he} married {spouse} in {year3}, and they [raised|had] [two|three|four|five] children.;
            [Friends|Colleagues] remembered {his} [patience|temper|dry humour|habit of working at night].
        """),
        [
            "{last} died in {died}.",
            "A [street|square|school] in {town} bears {his} name.",
            "{his} [papers|tools] are kept in the museum of {town2}.",
        ],
    )
    text = text.replace(". her ", ". Her ").replace(". his ", ". His ")
    questions = [
        f"When and where was {name} born?",
        f"What did {name} do for a living?",
        f"What is {name} best known for?",
        f"Which difficulties did {name} meet?",
        f"Where did {name} live?",
    ]
    return Passage(
        text, "biography", questions, ["name", "year of birth", "places", "occupations", "achievements"]
    )


HABITATS = listed("""
dry grassland; cloud forests; shallow bays; city parks; limestone caves; alpine meadows; mangroves; river
deltas
""")


def entry(pick: Pick) -> Passage:
    """A paragraph as from an encyclopaedia of an invented world."""
    values = {
        "river": pick.one(
            listed("""
            Alba; Senna; Torva; Minde; Ossa; Luru; Kesh; Varn
        """)
        ),
        "km": str(pick.randint(40, 900)),
        "town": pick.one(TOWNS),
        "town2": pick.one(TOWNS),
        "n": str(pick.randint(3, 60)),
        "year": pick.year(1100, 1950),
        "year2": pick.year(1820, 2020),
        "w": str(pick.randint(3, 20)),
        "people": f"{pick.randint(2, 900) * 1000:,}",
        "animal": pick.one(ANIMALS),
        "habitat": pick.one(HABITATS),
        "month": pick.one(MONTHS),
        "dish": pick.one(DISHES),
        "material": pick.one(MATERIALS),
        "subject": pick.one(SUBJECTS),
        "m": str(pick.randint(120, 3900)),
        "name": pick.name(),
    }
    kinds = {
        "river": (
            listed("""
                The {river} is a river of {km} kilometres that [rises near|has its source above] {town} and
                [joins the sea|ends in a lake] at {town2}.; With a length of {km} kilometres, the {river} is
                the [longest|second longest] river between {town} and {town2}.
            """),
            listed("""
                Its [banks|meadows] are home to {animal}, which [nest|feed] there from {month} on.; A
                [dam|canal|stone bridge] built in {year} [changed its course|made trade possible|still
                stands].; [Floods|Droughts] were common until {year2}.; About {people} people depend on it
                for drinking water.; Of the [mills|tanneries|dye works] along its lower course, {n} remain.
            """),
            listed("""
                What is the length of the river?; Which towns does it connect?; What changed its course or
                use over time?
            """),
            ["length", "towns", "years", "animals", "population"],
        ),
        "town": (
            listed("""
                {town} is a town of {people} inhabitants, {m} metres above the sea.; Founded in {year},
                {town} [lies|stands] on the [left|right] bank of the {river} and has {people} inhabitants.
            """),
            listed("""
                It [grew rich on|is known for its] trade in {material}, which [declined|ended] when the
                railway reached {town2}.; Its market, held every {month}, [draws visitors|has been held]
                since {year2}.; The local dish is {dish}, [eaten cold|served with honey|prepared only at
                weddings].; [The poet|The engineer|The painter] {name} [was born|lived and died] there.; In
                {habitat} nearby, {animal} can be [seen|heard].
            """),
            listed("""
                How many people live there?; What is the town known for?; Which customs does the text
                mention?
            """),
            ["name of the town", "population", "height", "products", "people"],
        ),
        "animal": (
            listed("""
                The [crested|spotted|dwarf|northern] relatives of {animal} live in {habitat}, [mostly near
                {town}|up to {m} metres].; In {habitat}, {animal} [behave differently|have adapted] in ways
                first described in {year}.
            """),
            listed("""
                They [weigh|reach] up to {n} kilograms.; The young [stay with their mother|leave the nest]
                after {w} weeks.; They eat [seeds|insects|fish|leaves], and in winter [almost nothing|bark].;
                [Farmers|Fishermen] [feared|protected] them until {year2}.; A study by {name} counted
                {people} of them, [fewer|more] than ten years earlier.; They are active [at dusk|at night|in
                {month}].
            """),
            listed("""
                Where do these animals live?; What do they eat?; How has their number changed?
            """),
            ["habitat", "food", "weight", "numbers", "researcher"],
        ),
    }
    opening, middle, questions, fields = kinds[pick.one(list(kinds))]
    return Passage(
        composed(
            pick,
            values,
            opening,
            middle,
            ["[Little|More] is known since {year2}.", "The name is [older than the town|of unknown origin]."],
        ),
        "text",
        questions,
        fields,
    )
