"""Prompts that ask for an explanation or a fact: science, technology, mathematics, society, history."""

from specdec.train.prompts.topics import (
    ANIMALS,
    COUNTRIES,
    DISHES,
    HISTORY,
    JOBS,
    MATHS,
    PAIRS,
    PEOPLE,
    PLACES,
    SCIENCE,
    SOCIETY,
    TECHNOLOGY,
    listed,
)
from specdec.train.prompts.words import Pick, plain, sentence

AUDIENCE = listed("""
a five-year-old; a ten-year-old; a high-school student; a curious adult; my grandmother; a beginner; a
first-year student; an engineer; someone who hates maths; a friend over coffee; a busy manager; a class of
twelve-year-olds; a lawyer
""")
STYLE = listed("""
Keep it short.; Use an analogy.; Use an everyday example.; Use bullet points.; No jargon, please.; In three
sentences.; Step by step.; Start with the basics.; Mention a common misconception.; Give two examples.; In
one paragraph.; End with a question to test me.; Explain why it matters.; Be precise.; In under 100 words.
""")

CONCEPT = listed("""
Explain {x}.; Explain {x} to {audience}.; Explain {x} in simple terms. {style}; What [is|are] {x}?; What
exactly is meant by {x}? {style}; How would you explain {x} to {audience}?; I don't understand {x}. [Can you
help?|What am I missing?]; Give me a short introduction to {x}.; Why [is|are] {x} important?; Give a
[concrete |real-life |]example of {x}. {style}; What are the most important facts about {x}?; Tell me
something surprising about {x}.; {x}: what should I know?; Write a short encyclopaedia entry on {x}.; [Teach
me|Give me a mini lesson] about {x}. {style}; What do people often get wrong about {x}?; How does {x} affect
[everyday life|our health|the economy|the environment]?; Who discovered or invented {x}, and how?; Write
three quiz questions about {x}, with answers.; Describe {x} with a metaphor. {style}; How [is|are] {x}
related to {y}?; What is the connection between {x} and {y}? {style}; My textbook mentions {x} in the chapter
on {y}. Why?; Make a list of five key terms about {x} and define each.; What are the advantages and
disadvantages of {x}?; What questions about {x} are still open?; What is the history of {x}?; Outline a
lecture about {x} for {audience}.
""")
PAST = listed("""
Tell me about {x}.; What [caused|led to] {x}?; What were the consequences of {x}?; Describe {x} to
{audience}.; Summarise the history of {x}. {style}; Why does {x} still matter today?; Who were the key
figures in {x}?; Write a timeline of {x}.; What was daily life like at the time of {x}?; What if {x} had
never happened?; How did {x} change [trade|art|science|the law|ordinary people's lives]?; Give three causes
and three effects of {x}.; Compare {x} with {y}.; What sources tell us about {x}? {style}; What myths exist
about {x}?
""")
PERSON = listed("""
Who was {x}?; What is {x} [best |]known for?; Tell me about the life of {x}. {style}; Write a short biography
of {x}.; When and where did {x} live?; What would {x} think of [smartphones|the internet|modern cities]?; Why
is {x} still [famous|read about|controversial]?; Name three achievements of {x}.; What did {x} and {y} have
in common?; Explain the work of {x} to {audience}.; Describe a typical day in the life of {x}.
""")
COMPARE = listed("""
What is the difference between {a} and {b}?; Compare {a} and {b}. {style}; {a} or {b}: which is better[ for
beginners|, and for whom|]?; {a} versus {b}: give me a table of differences.; How are {a} and {b} alike, and
how do they differ?; When should I choose {a} over {b}?; Is there really a difference between {a} and {b}?
{style}; Explain {a} and {b} to {audience}.; Pros and cons of {a} compared with {b}?; Which came first, {a}
or {b}?
""")
WORLD = listed("""
What is the capital of {country}?; What languages are spoken in {country}?; Name three
[cities|rivers|mountains|famous people|dishes] [in|from] {country}.; What is the climate like in {country}?;
How do people greet each other in {country}?; Which countries border {country}?; What currency is used in
{country}?; What is {country} known for?; When did {country} become independent?; What do {animal} eat?; How
long do {animal} live?; Where do {animal} live? {style}; How do {animal} [sleep|communicate|raise their
young|defend themselves|find food]?; Are {animal} [intelligent|dangerous|endangered]?; Why do {animal} matter
for [nature|people|the environment]?; What is in {dish}?; Where does {dish} come from?; What goes well with
{dish}?; What does a {job} do all day?; What skills does a {job} need?; How do you become a {job}?; What is
{place} known for?; What should I see in {place}?; What is the weather like in {place} in {month}?; How many
people live in {place}?; What is the history of {place} in brief?; List five facts about {animal}.; Which is
bigger, {country} or {country2}?; What time of year is best for visiting {country}?; Name a famous {job} and
say why they are famous.; What is a good {job} paid?
""")
HOW = listed("""
How does {x} work?; How do you make {x}?; What is {x} good for?; What are the parts of {x}? {style}; Explain
{x} to {audience}.; Why was {x} invented?; What would the world be like without {x}?; What are the limits of
{x}?; What is inside {x}?; Describe {x} without using technical words.; What problem does {x} solve? {style};
What alternatives are there to {x}?; Is {x} safe? {style}; How did people manage before {x}?; Draw an analogy
between {x} and [a kitchen|a post office|a city|a library].; What should I look for when choosing {x}?; What
are typical mistakes when using {x}?; How will {x} change in the next ten years?; Give me an example of {x}
in use.; Explain the difference between {x} and {y}.
""")

FIELDS = [SCIENCE, SCIENCE, TECHNOLOGY, MATHS, SOCIETY, HISTORY, PEOPLE, PAIRS]


def explanation(pick: Pick) -> str:
    field = FIELDS[pick.randrange(len(FIELDS))]
    x, y = pick.some(field, 2)
    values = {"x": x, "y": y, "audience": pick.one(AUDIENCE), "style": pick.one(STYLE)}
    if field is PAIRS:
        values["a"], values["b"] = x.split(" / ")
        template = pick.one(COMPARE)
    elif field is HISTORY:
        template = pick.one(PAST)
    elif field is PEOPLE:
        template = pick.one(PERSON)
    elif field is TECHNOLOGY:
        template = pick.one(HOW if pick.chance(0.6) else CONCEPT)
    else:
        template = pick.one(CONCEPT)
    return sentence(pick.fill(template, values).strip())


def facts(pick: Pick) -> str:
    """Short questions about the world."""
    country, country2 = pick.some(COUNTRIES, 2)
    values = {
        "country": country,
        "country2": country2,
        "animal": pick.one(ANIMALS),
        "dish": pick.one(DISHES),
        "job": pick.one(JOBS),
        "place": pick.one(PLACES),
        "month": pick.one(
            listed("""
            January; April; July; October
        """)
        ),
        "style": pick.one(STYLE),
    }
    if pick.chance(0.35):
        topic = pick.one([*SCIENCE, *TECHNOLOGY, *MATHS, *SOCIETY])
        short = pick.one(
            [
                "What is {}?",
                "Define {}.",
                "{} in one sentence?",
                "Give an example of {}.",
                "Who needs {}, and why?",
                "Is {} hard to understand?",
            ]
        )
        return sentence(short.format(topic if pick.chance(0.8) else plain(topic)))
    return sentence(pick.fill(pick.one(WORLD), values).strip())
