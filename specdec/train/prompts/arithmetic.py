"""Prompts to be calculated: bare sums, units, percentages, equations, and word problems told in many ways."""

from specdec.train.prompts.topics import listed
from specdec.train.prompts.words import DAYS, FIRST_NAMES, GOODS, JOBS_WITH_PAY, TOWNS, Pick, sentence

ASKS = listed("""
What is {e}?; Calculate {e}.; {e} = ?; Compute {e} step by step.; How much is {e}?; Work out {e} and show
your steps.; {e}
""")


def sum_(pick: Pick) -> str:
    a, b, c = pick.randint(2, 999), pick.randint(2, 99), pick.randint(2, 20)
    expressions = [
        f"{a} + {b}",
        f"{a} - {b}",
        f"{a} * {c}",
        f"{b} x {c}",
        f"{b * c} / {c}",
        f"({b} + {c}) * {pick.randint(2, 9)}",
        f"{a} + {b} * {c}",
        f"{c} squared",
        f"the square root of {c * c}",
        f"{pick.randint(1, 9) * 5}% of {b * 20}",
        f"{pick.randint(1, 9)}/{pick.randint(2, 12)} + {pick.randint(1, 9)}/{pick.randint(2, 12)}",
        f"{a / 10} + {b / 100}",
        f"{a} modulo {c}",
        f"2 to the power of {c}",
        f"the average of {a}, {b} and {c}",
        f"the sum of the numbers from {c} to {c + b}",
        f"{c} factorial" if c < 11 else f"{a} minus {c} times {c}",
        f"the greatest common divisor of {b * c} and {c * 6}",
        f"the least common multiple of {c} and {pick.randint(3, 15)}",
    ]
    return sentence(pick.fill(pick.one(ASKS), {"e": pick.one(expressions)}))


UNITS = listed("""
kilometres / miles; miles / kilometres; kilograms / pounds; pounds / kilograms; inches / centimetres; feet /
metres; litres / gallons; ounces / grams; degrees Celsius / degrees Fahrenheit; degrees Fahrenheit / degrees
Celsius; hours / minutes; days / hours; weeks / days; minutes / seconds; hectares / square metres; cups /
millilitres; metres per second / kilometres per hour; gigabytes / megabytes; euros / cents; years / months
""")


def conversion(pick: Pick) -> str:
    unit, other = pick.one(UNITS).split(" / ")
    values = {"n": str(pick.randint(2, 250)), "u": unit, "v": other}
    return sentence(
        pick.fill(
            pick.one(
                listed("""
                    Convert {n} {u} to {v}.; How many {v} are {n} {u}?; {n} {u} in {v}?; What is {n} {u} in
                    {v}? Show the formula.
                """)
            ),
            values,
        )
    )


def equation(pick: Pick) -> str:
    a, b, x, y = pick.randint(2, 12), pick.randint(1, 40), pick.randint(-9, 15), pick.randint(1, 12)
    text = pick.one(
        [
            f"Solve for x: {a}x + {b} = {a * x + b}",
            f"If {a}x - {b} = {a * x - b}, what is x?",
            f"Solve x^2 - {abs(x) + y}x + {abs(x) * y} = 0.",
            f"Solve the system x + y = {x + y} and x - y = {x - y}.",
            f"What is the slope of the line through ({x}, {y}) and ({x + a}, {y + b})?",
            f"Factor x^2 + {a + y}x + {a * y}.",
            f"What is the derivative of {a}x^{pick.randint(2, 6)} + {b}x?",
            f"What is the integral of {a * 2}x + {b}?",
            f"Simplify {a}(x + {b}) - {y}x.",
            f"If f(x) = {a}x + {b}, what is f({x})?",
            f"Find the next three numbers: {b}, {b + a}, {b + 2 * a}, {b + 3 * a}, ...",
            f"Continue the sequence {y}, {y * 2}, {y * 4}, {y * 8}.",
            f"For which x is {a}x + {b} > {a * x + b}?",
            f"What is the area of a rectangle of {a} by {b + y} metres?",
            f"A circle has a radius of {a} cm. What are its area and circumference?",
            f"A triangle has sides of {3 * a}, {4 * a} and {5 * a} cm. Is it right-angled? What is its area?",
            f"What is the volume of a box of {a} x {y} x {b} cm?",
            f"Two angles of a triangle are {b + 20} and {a * 5} degrees. How large is the third?",
            f"Write {b / 100} as a fraction.",
            f"Round {b * 3.7 + x / 7:.4f} to two decimals.",
            f"How many ways are there to arrange {min(a, 8)} books on a shelf?",
            f"A die is thrown {min(a, 4)} times. How likely is it to see no six?",
            f"Write {a * b + y} in binary.",
            f"A bag holds {a} red and {y} blue balls. Two are drawn. How likely are both red?",
            f"What is the median of {b}, {a}, {y}, {b + a} and {a + y}?",
        ]
    )
    tail = ["", "", " Show your work.", " Explain each step.", " Check the result."]
    return f"{text}{pick.one(tail)}"


# A story / two questions that it answers.
STORIES = listed("""
{A} [buys|bought] {n} {goods} at {p} euros each and pays with a {note}-euro note. / How much change does {A}
get? / What is left?; A box holds {k} {goods}. {A} has {n} [full |]boxes and {m} loose ones. / How many
{goods} does {A} have altogether? / After giving {m} away, how many are left?; {A} has {n} {goods}, {B} has
{times} as many, and {C} has {m} fewer than {B}. / How many do the three have together? / How many does {C}
have?; On {day} a [stall|shop] sold {n} {goods}, the next day {times} as many, and on the third day only half
of that. / How many were sold in three days? / If each costs {p} euros, what was earned?; {A}, a {job}, earns
{w} euros an hour and works {h} hours a day, {d} days a week. / What does {A} earn in a week? / How many
weeks until {A} has saved {big} euros, spending half?; A train leaves {town} at {h}:00 and travels at {speed}
km/h to {town2}, {dist} kilometres away. / When does it arrive? / How long does the journey take?; A tank
holds {big} litres. A pump fills it at {k} litres a minute, while {s} litres a minute leak out. / How long
until it is full? / How much is in it after {n} minutes?; A recipe for {s} people needs {n0} grams of flour
and {m} grams of butter. / How much is needed for {k} people? / {A} has only half the flour. For how many
people is that enough?; A coat costs {big} euros. It is reduced by {pct}%, and {A} has a voucher for another
{m} euros. / What does {A} pay? / How much is saved in total?; {A} is {m} years older than {B}. In {s} years,
their ages will add up to {sumage}. / How old are they now? / How old is {B}?; A class of {cls} pupils goes
to the museum. Tickets cost {p} euros for pupils and {w} for the {s} teachers, and the bus {big} euros. /
What is the total cost? / What must each pupil pay if the cost is shared among the pupils?; {A} reads {k}
pages a day. The book has {pages} pages, and {A} has read {m}. / How many more days does {A} need? / What
fraction has been read?; {A} runs {s} km on {day}, and each day {half} km more than the day before. / How far
does {A} run in a week? / On which day does {A} first run more than {k} km?; A farmer in {town} has {n} hens,
each laying {s} eggs a week. Eggs are sold by the dozen at {p} euros. / What does the farmer earn in {m0}
weeks? / How many full dozens are there in a week?; {A} and {B} share {big} {goods} in the ratio {s}:{t}. /
How many does each get? / How many more does one of them get?; {pct}% of the {big} visitors of a fair in
{town} came by bus, {m} walked, and the rest drove. / How many drove? / How many came by bus?; A rope of
{dist} metres is cut into pieces of {s} metres, and {m} centimetres are wasted at every cut. / How many
pieces are there? / What is left over?; {A} saves {p} euros every week, {B} saves {w} but starts {s} weeks
later. / When do they have the same amount? / Who has more after {k} weeks?; A phone plan costs {w} euros a
month plus {cents} cents a minute. In {month} {A} talked for {dist} minutes. / What is the bill? / Would a
flat rate of {big2} euros be cheaper?; {A} plants {k} rows of {n} {plants}. A storm destroys {pct}% of them,
and {A} replants {m}. / How many are growing now? / How many were lost?; Three machines make {big} {goods} in
{h} hours. / How many does one machine make in an hour? / How long would {k} machines need for twice as
many?; {A} drives {dist} km. The car uses {s} litres per 100 km, and a litre costs 1.{cents} euros. / What
does the trip cost? / How many litres are used there and back?; {A} puts {big} euros into a bank at {s}%
interest a year. / How much is there after two years? / What is the interest in the first year?; In a parking
lot there are {n} cars and {m} motorbikes, and a third of the cars leave. / How many wheels were there at
first? / How many wheels are left?; {A} sleeps {h} hours a night and spends {s} hours a day at school and
{half} hours on the bus. / How many hours are left in a week? / What percentage of the day is spent at
school?
""")


def story(pick: Pick) -> str:
    a, b, c = pick.some(FIRST_NAMES, 3)
    small = pick.randint(2, 9)
    values = {
        "A": a,
        "B": b,
        "C": c,
        "goods": pick.one(GOODS),
        "n": str(pick.randint(3, 60)),
        "m": str(pick.randint(2, 30)),
        "k": str(pick.randint(4, 40)),
        "s": str(small),
        "t": str(small + pick.randint(1, 5)),
        "p": str(pick.randint(1, 12)),
        "note": pick.one(
            listed("""
            50; 100; 200; 500
        """)
        ),
        "times": pick.one(["twice", "three times", "half", "four times"]),
        "day": pick.one(DAYS),
        "job": pick.one(JOBS_WITH_PAY),
        "w": str(pick.randint(9, 40)),
        "h": str(pick.randint(4, 11)),
        "d": str(pick.randint(3, 6)),
        "big": str(pick.randint(6, 90) * 20),
        "big2": str(pick.randint(20, 60)),
        "speed": str(pick.randint(5, 20) * 10),
        "dist": str(pick.randint(6, 60) * 10),
        "town": pick.one(TOWNS),
        "town2": pick.one(TOWNS),
        "n0": str(pick.randint(2, 12) * 50),
        "pct": str(pick.randint(1, 12) * 5),
        "sumage": str(pick.randint(20, 60) * 2),
        "cls": str(pick.randint(16, 32)),
        "pages": str(pick.randint(90, 600)),
        "half": pick.one(
            listed("""
            0.5; 1; 1.5; 2
        """)
        ),
        "m0": str(pick.randint(2, 12)),
        "cents": str(pick.randint(11, 98)),
        "month": pick.one(
            listed("""
            March; May; June
        """)
        ),
        "plants": pick.one(["lettuces", "tulips", "carrots", "beans", "strawberries", "leeks"]),
    }
    tale, *questions = pick.one(STORIES).split(" / ")
    parts = [tale]
    if pick.chance(0.25):
        extra = [
            "{A} was born in {town}.",
            "It is {day}.",
            "{B} [is|was] not interested.",
            "The weather is fine.",
            "{C} [helps|watches].",
        ]
        parts.append(pick.one(extra))
    asked = questions if pick.chance(0.25) else [pick.one(questions)]
    if pick.chance(0.25):
        asked = [
            *asked,
            pick.one(
                [
                    "Explain your steps.",
                    "Give only the number.",
                    "Show the calculation.",
                    "Think carefully.",
                    "Check your answer.",
                ]
            ),
        ]
    return " ".join(pick.fill(part, values) for part in [*parts, *asked])


def arithmetic(pick: Pick) -> str:
    return pick.choices([sum_, conversion, equation, story], [3, 1, 4, 10])[0](pick)
