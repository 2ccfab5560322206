"""Prompts as people write them in a chat: greetings, asides, requests half explained, second thoughts."""

from specdec.train.prompts.topics import (
    ANIMALS,
    CLAIMS,
    DISHES,
    JOBS,
    MATHS,
    PLACES,
    SCIENCE,
    SKILLS,
    SOCIETY,
    TECHNOLOGY,
    THINGS,
    listed,
)
from specdec.train.prompts.words import DAYS, FIRST_NAMES, SUBJECTS, TOWNS, WEATHER, Pick, sentence

HELLO = listed("""
Hi!; Hello,; Hey there,; Good morning!; Good evening.; Hi, {me} here.; hey; Hello again.; Sorry to bother
you,; Quick question:; OK so; Hmm,
""")
ASIDE = listed("""
It is {day} and we have {weather}.; I just came back from {place}.; I am on the train to {town}.; My coffee
is cold already.; I work as a {job} and had a long day.; My {relative} says I should ask you.; This may be a
stupid question.; No rush.; I have been thinking about it all week.; I am writing from my phone, so forgive
the typos.; I never asked a computer for help before.; We talked about it at dinner.; I only have a minute.;
My daughter needs this for school.; I promised {friend} an answer by {day}.; I read about it in the paper.
""")
CORE = listed("""
What can you do?; Who are you, and how do you work?; Are you a human?; Do you get tired?; What is your
favourite {favourite}?; Tell me a joke about {animal}.; Tell me something I do not know about {topic}.; Can
you help me with my {subject} homework? It is about {topic}.; What should I have for dinner? I have {dish} in
mind but no time.; Do you know {town}? I am thinking of moving there.; I cannot decide between {place} and
{place2} for the holidays.; How was your day?; I am bored. Suggest something to do [on a rainy day|at
home|with friends|without spending money].; Let's play a game: [twenty questions|a word chain|I guess a
number|trivia about {topic}].; I want to {skill}, but I am afraid I will fail.; My {relative} wants to
{skill}. How can I help?; I had an argument with my {relative} about whether {claim}.; Can we talk about
{topic} for a while?; Recommend me a [book|film|podcast|hobby] for someone who likes {topic} and {animal}.; I
cannot sleep. Talk to me about {topic}.; I just got a job as a {job}! Any advice?; It's my {relative}'s
birthday on {day}. What can I write on the card?; What would you do with a day off in {place}?; I dreamt
about {thing}. What might it mean?; Cheer me up, please.; Remind me what {topic} means again?; Ask me three
questions to find out which job suits me.; Guess my job: I work with {animal} and I am often in {place}.;
What's the weather like where you are?; Could you explain that thing about {topic} that everyone talks
about?; Please correct my English: "{mistake}"; Tell me a short story with {friend}, {thing} and {animal}.;
What do you think about this: {claim}?; Give me a compliment that a {job} would like.; What should I ask a
{job} at a party?; Say something nice to {friend}, who [failed an exam|is ill|moved away|turned thirty].; Can
you keep a secret?; What makes a good [friend|teacher|neighbour|listener]?; How do I start a conversation
with a {job}?; I need a name for my [cat|boat|band|bakery|startup|goldfish]. It should have something to do
with {topic}.
""")
FAVOURITES = listed(
    "colour; book; animal; season; word; food; film; number; song; planet; smell; city; game; invention; bird"
)
RELATIVES = listed("""
mother; father; sister; brother; son; daughter; uncle; aunt; grandfather; cousin; flatmate; boss; neighbour;
husband; wife; teacher
""")
MISTAKES = listed("""
I am agree with you since two years.; He don't never has time.; I look forward to meet you on next week.; She
explained me the problem.; We was very exciting about the travel.; The informations are not correct.; I have
seen him yesterday.; If I would know, I will tell you.; It depends of the weather.; I am boring in this
class.; How it is called in English?; She is more taller than me.; I didn't knew that he come.; Can you
borrow me a pen?; There is a lot of peoples here.
""")
FOLLOW = listed("""
Just a short answer.; Be honest!; What do you think?; Thanks in advance.; And please don't be too formal.;
Any ideas?; Explain it like a friend would.; Then ask me something back.; Thanks!; I would love to hear your
view.; One paragraph is enough.; Surprise me.
""")


def conversation(pick: Pick) -> str:
    values = {
        "me": pick.one(FIRST_NAMES),
        "friend": pick.one(FIRST_NAMES),
        "day": pick.one(DAYS),
        "weather": pick.one(WEATHER),
        "place": pick.one(PLACES),
        "place2": pick.one(PLACES),
        "town": pick.one(TOWNS),
        "job": pick.one(JOBS),
        "relative": pick.one(RELATIVES),
        "favourite": pick.one(FAVOURITES),
        "animal": pick.one(ANIMALS),
        "topic": pick.one([*SCIENCE, *TECHNOLOGY, *SOCIETY, *MATHS]),
        "subject": pick.one(SUBJECTS),
        "dish": pick.one(DISHES),
        "skill": pick.one(SKILLS),
        "claim": pick.one(CLAIMS),
        "thing": pick.one(THINGS),
        "mistake": pick.one(MISTAKES),
    }
    core = sentence(pick.fill(pick.fill(pick.one(CORE), values), values))
    parts = [core]
    if pick.chance(0.45):
        parts.insert(0, pick.fill(pick.one(HELLO), values))
    if pick.chance(0.4):
        parts.insert(-1 if pick.chance(0.7) else len(parts), pick.fill(pick.one(ASIDE), values))
    if pick.chance(0.35):
        parts.append(pick.one(FOLLOW))
    text = " ".join(" ".join(parts).split())
    return text.lower().replace(" i ", " I ") if pick.chance(0.08) else text
