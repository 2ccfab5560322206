"""Puzzles, orders, deductions, causes and plans: prompts that want a chain of thought."""

from specdec.train.prompts.topics import ANIMALS, JOBS, PLACES, TECHNOLOGY, listed
from specdec.train.prompts.words import COLOURS, DAYS, FIRST_NAMES, Pick, joined, sentence

HOW = listed("""
; ; ; Explain your reasoning.; Think step by step.; Answer in one sentence.; Why?; Is the answer unique?; How
sure are you?
""")
RIDDLES = listed("""
{A} is taller than {B}, and {B} is taller than {C}. Who is the shortest?; {A} arrived before {B} but after
{C}. {D} was last. In which order did they arrive?; In a row of four seats, {A} sits next to {B}, and {C} is
at the left end. Where can {D} sit?; All {animal} in the park are {colour}. {A} saw something {colour} in the
park. Was it one of the {animal}?; If it rains on {day}, {A} takes the bus. {A} took the bus on {day}. Did it
rain?; No {job} is late. {A} is late. Is {A} a {job}?; {A} says that {B} lies. {B} says that {C} lies. {C}
says that both lie. Who tells the truth?; Today is {day}. What day will it be in {n} days?; What day was it
{n} days before {day}?; {A} walks {n} steps north, {n} steps east and {n} steps south. Where is {A} now, seen
from the start?; A clock shows {h} o'clock. What is the angle between its hands?; {A} faces north, turns
right twice and left once. Which way is {A} facing?; Which one does not belong: {list4}? Why?; {A}, {B} and
{C} own a {colour}, a {colour2} and a {colour3} bicycle. {A}'s is not {colour}, and {B}'s is neither {colour}
nor {colour2}. Who owns which?; A drawer holds {n} {colour} and {m} {colour2} socks. How many must {A} take
in the dark to be sure of a pair?; {A} has as many brothers as sisters, but each sister has twice as many
brothers as sisters. How many children are there?; Every {job} in {place} knows {A}. {B} does not know {A}.
What follows?; You have a {n}-litre and a {m}-litre bucket. How can you measure one litre?; There are three
boxes, labelled {colour}, {colour2} and mixed. Every label is wrong. From which box do you take one ball to
find out all?; A snail climbs {m} metres by day and slips back one at night. The wall is {h2} metres high.
When is it at the top?; {A}'s mother has four children: North, South and East are three of them. What is the
fourth called?; What comes next: {seq}?; If five {animal} eat five apples in five minutes, how many apples do
{n} eat in {n} minutes?; {A} can paint a fence in {n} hours and {B} in {m}. How long do they need together?;
{A} is twice as old as {B} was when {A} was as old as {B} is now. Give an example of their ages.; Is this
argument valid? Some {job}s are tall. All tall people like {animal}. So some {job}s like {animal}.; How many
{animal} would fit into {container}? Estimate, and state your assumptions.; Estimate how many {job}s work in
{place}.; A bridge holds two people at once, and there is one lamp. {A} needs 1 minute, {B} 2, {C} 5 and {D}
10. How do they cross quickly?; Two doors, two guards, one always lies. Which question do you ask?; {A} drops
a stone from a boat into a lake. Does the water level rise or fall?; A {colour} light and a {colour2} light
blink every {n} and {m} seconds. When do they blink together?
""")
CAUSES = listed("""
Why do [mirrors swap left and right|wet roads look darker|planes leave white trails|boats float|onions make
us cry|cats land on their feet|leaves change colour|ice cubes crack in a drink|we yawn|tyres have
grooves|manhole covers tend to be round|batteries run out faster in the cold|shadows grow in the
evening|stars twinkle|the sky is red at sunset|airplane windows have round corners]?; What would happen if
[the Moon disappeared|everyone stopped using money|insects died out|the Earth turned twice as fast|nobody had
to sleep|all ice melted|we could read thoughts|paper had never been invented|{animal} could talk|{tech}
stopped working for a day|there were no mountains|all cars were electric]?; My {object} does not work any
more. [What should I check first?|List possible causes, most likely first.]; A shop's sales fell by {n}0% in
one month. What may be the reasons?; Plants in my office keep dying. How do I find out why?; A {job} notices
that [mistakes happen mostly on {day}s|costs rise every winter|half the customers never return]. What should
they look at?; Which of these would you take to a desert island, and why: {list4}?; Rank these by
[weight|age|usefulness|price], and explain: {list4}.; Sort these into two groups and name the groups:
{list6}.; What do {list4} have in common?; How would you move a piano to the fifth floor without a lift?; How
could {place} get rid of traffic jams?; How would you find out whether {animal} can count?; Design an
experiment to test whether [music helps plants grow|coffee improves memory|people walk faster on
{day}s|{animal} prefer the colour {colour}].; Find the flaw: "{flaw}"
""")
FLAWS = listed("""
Everyone I know likes it, so it must be good.; Ice cream sales and drownings rise together, so ice cream is
dangerous.; I have never had an accident, so I need no belt.; It is natural, so it is healthy.; She is rich,
so she must be clever.; The coin showed heads five times, so tails is due.; He is a doctor, so he is right
about taxes.; If we allow this, soon everything will be allowed.; You cannot prove it is false, so it is
true.; We have always done it like this.
""")
OBJECTS = listed("""
a candle; a hammer; a map; a rope; a mirror; a knife; a blanket; a book; a spoon; a whistle; a lamp; a
bucket; a ladder; a bicycle; a violin; a stapler; a feather; a brick; an apple; a coin; a kite; a pillow; a
bottle; a stone
""")
MACHINES = listed("""
laptop; car; washing machine; phone; printer; lamp; radiator; bicycle light; doorbell; coffee machine;
television; router; toaster
""")
CONTAINERS = listed("""
a bus; a swimming pool; a phone box; a shipping container; a classroom; an elevator; a football stadium; a
suitcase
""")


def reasoning(pick: Pick) -> str:
    a, b, c, d = pick.some(FIRST_NAMES, 4)
    colours, n = pick.some(COLOURS, 3), pick.randint(3, 12)
    start, step = pick.randint(1, 9), pick.randint(2, 7)
    series = [
        [start + step * i for i in range(5)],
        [start * 2**i for i in range(5)],
        [start + i * i for i in range(5)],
        [start + step * i * (i + 1) // 2 for i in range(5)],
    ]
    values = {
        "A": a,
        "B": b,
        "C": c,
        "D": d,
        "animal": pick.one(ANIMALS),
        "job": pick.one(JOBS),
        "place": pick.one(PLACES),
        "day": pick.one(DAYS),
        "colour": colours[0],
        "colour2": colours[1],
        "colour3": colours[2],
        "n": str(n),
        "m": str(n - 2 if n > 4 else n + 2),
        "h": str(pick.randint(1, 12)),
        "h2": str(n + pick.randint(3, 20)),
        "list4": joined(pick.some(OBJECTS, 4)),
        "list6": ", ".join(pick.some([*OBJECTS, *ANIMALS], 6)),
        "seq": ", ".join(map(str, series[pick.randrange(4)])),
        "container": pick.one(CONTAINERS),
        "tech": pick.one(TECHNOLOGY),
        "object": pick.one(MACHINES),
        "flaw": pick.one(FLAWS),
    }
    text = pick.fill(pick.fill(pick.one(RIDDLES if pick.chance(0.6) else CAUSES), values), values)
    return sentence(f"{text} {pick.one(HOW) if pick.chance(0.7) else ''}".strip())
