"""Small tasks on sentences and lists: rewrite, correct, classify, sort, complete, name, label, format."""

from specdec.train.prompts.topics import (
    ANIMALS,
    CLAIMS,
    COUNTRIES,
    DISHES,
    JOBS,
    PEOPLE,
    PLACES,
    PRODUCTS,
    SCIENCE,
    SOCIETY,
    TECHNOLOGY,
    THINGS,
    listed,
)
from specdec.train.prompts.words import (
    COLOURS,
    DAYS,
    FIRST_NAMES,
    GOODS,
    MATERIALS,
    MOODS,
    TOWNS,
    WEATHER,
    Pick,
    sentence,
)

SENTENCES = listed("""
{A} walked into the room and saw {thing}.; The {job} was late because of {weather}.; {animal} are often
misunderstood.; We could not find the {colour} {goods} anywhere in {town}.; The soup was cold and the waiter
was rude.; {A} and {B} have been friends since school.; It was a good film, but the ending was bad.; Our
company sells {product} to small shops.; They said that {claim}.; The old bridge in {town} was closed on
{day}.; {A} gave {B} a book about {topic}.; I think maybe we should perhaps wait a little.; In my opinion,
{topic} is very, very important.; The {job} who lives next door plays the drums every night.; After the storm
the street was full of branches.; {A} is a good {job}, isn't that right?; The results were surprising to
everybody.; Nobody likes to wait, but {A} waited for three hours.; The city of {place} attracts many
visitors.; My dog ate my homework, and the teacher laughed.; The train was crowded, hot and slow.; You must
hand in the form by {day}.; There is a smell of {dish} in the stairs.; The meeting was cancelled by the
{job}.; Their going to there house to get they're coats.; me and him was going to the market in {town} on
{day}; {A} dont know nothing about {topic}
""")
REWRITE = listed("""
Rewrite this sentence [in the past tense|in the future tense|in the passive voice|as a question|more
politely|more formally|without adjectives|in fewer words|for a child|so that it sounds {mood}|with the
opposite meaning]: {s}; Correct the [spelling and grammar|punctuation|mistakes]: {s}; Improve this sentence:
"{s}"; Make this longer and more vivid: {s}; Shorten: {s}; Find the [subject|verb|nouns|adjectives] in this
sentence: {s}; Give three paraphrases of: {s}; Replace the [verb|nouns] with [a synonym|synonyms]: {s}; Is
this sentence positive, negative or neutral? {s}; What is the tone of this sentence? {s}; Continue: {s};
Write a sentence that could come before this one: {s}; Turn this into a headline: {s}; Explain the grammar of
this sentence: {s}; Is this a fact or an opinion? {s}; Combine these into one sentence: {s} {s2}; Which of
these two sentences is clearer, and why? (a) {s} (b) {s2}; Change the point of view to [first person|third
person]: {s}; Rewrite as a [tweet|proverb|line of a poem|news item]: {s}
""")
LISTS = listed("""
Sort alphabetically: {list}.; Which of these are [living things|made by people|found in a kitchen|heavier
than a cat]? {list}; Put these into categories: {list}.; Make a sentence with all of these words: {list}.;
Write a {mood} two-line rhyme with {w} and {w2}.; Give [a synonym|an antonym|a definition|three rhymes] for
[happy|quick|brave|quiet|strange|bright|ancient|honest|gentle|stubborn|fragile|generous].; What is the plural
of [mouse|child|crisis|fish|knife|analysis|goose|phenomenon|ox|leaf]?; Use the word
"[however|whose|despite|although|resilient|nevertheless|ambiguous|thorough|borrow|effect]" in [a sentence|two
sentences about {w}].; Name [three|five|seven] {group}.; List [three|five|ten] things that are {colour}.;
Brainstorm [five|ten] ideas for {project}.; Generate [a name|five names] for {product}.; Give [three|four]
examples of {topic}.; Write [a multiple-choice question|a true-or-false question|a crossword clue] about
{topic}.; Classify as animal, plant, mineral or idea: {list}.; What do you call [a person who cannot see
far|a house made of snow|a group of lions|a baby goat|the fear of heights|a doctor for children|a word that
reads the same backwards|a shape with eight sides|a list of a book's contents]?; Describe {w} in [one
word|three words|one sentence without naming it].; Make an acronym from the word
[{W}|OCEAN|TEAM|LEARN|BREAD].; Format as a table: {pairs}.; Format as JSON: {pairs}.; Convert to a Markdown
list: {list}.; Write a YAML file that describes {product}.; Fill in the blanks: The ___ {job} forgot the ___
in {town}.; Complete the analogy: {analogy}.; Complete the proverb: {proverb} ...; Explain the idiom
"{idiom}".; Explain the joke: {joke}; Suggest [a title|three titles] for an essay arguing that {claim}.; Give
an argument against this: {claim}.; Rate the sentence "{s}" from 1 to 10 for clarity, and say why.; Which
word is misspelled: {list}, [definately|recieve|seperate|occured|neccessary]?; Write a haiku that contains
the word "{w}".; Invent a word for [the smell of old books|the last biscuit on a plate|waking before the
alarm|forgetting a name at once] and define it.
""")
GROUPS = listed("""
rivers in Europe; planets; musical instruments; board games; green vegetables; winter sports; Greek gods;
programming languages; chemical elements; famous painters; kitchen tools; types of cloud; Shakespeare plays;
African countries; trees; spices; card games; dances; inventions of the last century; birds that cannot fly;
famous bridges; yellow fruits; units of length; emotions; desert animals; dog breeds; ocean fish; prime
numbers above 50; Nobel laureates; types of triangle; bones; cheeses; English verbs with irregular past;
materials that conduct electricity; ways to save water; reasons to learn a language; things to do before a
trip; uses for a brick; causes of stress; symbols of peace
""")
PROJECTS = listed("""
a school newspaper; a rainy afternoon with children; a charity event; using less plastic; a team-building
day; a science fair; a small garden; decorating a rented room; a podcast; teaching fractions; making a
library more popular; a local history walk; a zero-budget birthday; saving energy in an office; a short film;
a neighbourhood app; a mural; a cookbook; welcoming new colleagues; exercise without equipment
""")
ANALOGIES = listed("""
hand is to glove as foot is to; bird is to nest as bee is to; day is to night as summer is to; author is to
book as composer is to; hot is to cold as up is to; Paris is to France as Lima is to; puppy is to dog as
kitten is to; key is to lock as password is to; thermometer is to temperature as clock is to; teacher is to
school as nurse is to; fish is to water as bird is to; seed is to tree as egg is to
""")
PROVERBS = listed("""
Too many cooks; The early bird; A stitch in time; Actions speak; When in Rome; Birds of a feather; The grass
is always; Don't count your chickens; Better late; Rome was not built; All that glitters; Curiosity
""")
IDIOMS = listed("""
break the ice; a piece of cake; under the weather; spill the beans; once in a blue moon; bite the bullet;
cost an arm and a leg; hit the sack; the ball is in your court; let the cat out of the bag; kill two birds
with one stone; beat around the bush; on thin ice; cut corners; miss the boat; a blessing in disguise
""")
JOKES = listed("""
Why did the scarecrow win a prize? It was outstanding in its field.; I would tell you a chemistry joke, but I
would get no reaction.; Parallel lines have so much in common. It is a pity they never meet.; I used to be a
banker, but I lost interest.; What do you call a fish without eyes? A fsh.; There are 10 kinds of people,
those who know binary and those who do not.; A clock is hungry when it goes back four seconds.; Why was six
afraid of seven? Because seven ate nine.
""")


def editing(pick: Pick) -> str:
    a, b = pick.some(FIRST_NAMES, 2)
    things = [thing.split(" ", 1)[1] for thing in THINGS if thing.startswith(("a ", "an "))]
    words = pick.some([*GOODS, *ANIMALS, *MATERIALS, *DISHES], pick.randint(4, 6))
    values = {
        "A": a,
        "B": b,
        "thing": f"the {pick.one(things)}",
        "job": pick.one(JOBS),
        "weather": pick.one(WEATHER),
        "animal": pick.one(ANIMALS),
        "colour": pick.one(COLOURS),
        "goods": pick.one(GOODS),
        "town": pick.one(TOWNS),
        "product": pick.one(PRODUCTS),
        "claim": pick.one(CLAIMS),
        "day": pick.one(DAYS),
        "topic": pick.one([*SCIENCE, *TECHNOLOGY, *SOCIETY]),
        "place": pick.one(PLACES),
        "dish": pick.one(DISHES),
        "mood": pick.one(MOODS),
        "list": ", ".join(words),
        "w": words[0],
        "w2": words[1],
        "W": words[2].split()[0].upper(),
        "group": pick.one(GROUPS),
        "project": pick.one(PROJECTS),
        "analogy": pick.one(ANALOGIES),
        "proverb": pick.one(PROVERBS),
        "idiom": pick.one(IDIOMS),
        "joke": pick.one(JOKES),
        "pairs": "; ".join(
            f"{name}, {pick.randint(18, 70)}, {place}"
            for name, place in zip(
                pick.some([*FIRST_NAMES, *PEOPLE], 3), pick.some([*TOWNS, *COUNTRIES], 3), strict=True
            )
        ),
    }
    first, second = pick.some(SENTENCES, 2)
    values |= {"s": sentence(pick.fill(first, values)), "s2": sentence(pick.fill(second, values))}
    return pick.fill(pick.one(REWRITE if pick.chance(0.5) else LISTS), values)
