"""Prompts that ask for a text: stories, poems, letters, posts, speeches, roles to play, opinions."""

from specdec.train.prompts.topics import (
    CLAIMS,
    JOBS,
    PEOPLE,
    PLACES,
    PRODUCTS,
    SCIENCE,
    SKILLS,
    SOCIETY,
    TECHNOLOGY,
    THINGS,
    listed,
)
from specdec.train.prompts.words import MOODS, Pick, sentence

LENGTH = listed("""
Keep it under 100 words.; In two paragraphs.; About 150 words.; As short as you can.; Exactly four
sentences.; Make it rhyme.; Use simple language.; Add a title.; End with a twist.; Avoid clichés.; Use the
present tense.; Include a dialogue.; Write in the first person.; Use vivid details.; Finish with a question.
""")
CREATIVE = listed("""
Write a {mood} [short |]story about {x}. {length}; Write a [poem|haiku|limerick|sonnet|song] about {x}.; Tell
me a {mood} bedtime story about {x}.; Describe {x} in a {mood} tone. {length}; Begin a novel with {x}.
{length}; Write the last page of a story about {x}.; Write a dialogue between a {job} and a {job2} about
{x}.; Invent a {mood} myth that explains {x}.; Write a diary entry of a {job} who comes across {x}.; Give me
five titles for a {mood} story about {x}.; Write a scene set in {place} that involves {x}. {length}; Write a
monologue of {x}.; Continue this story: "Nobody in {place} spoke of {x} any more."; Write a children's story
in which a {job} meets {x}.; Sketch the plot of a film about {x}, set in {place}.; Create a character: a
{job} from {place} with a secret about {x}.; Write a review of an imaginary book called "{title}".; Write a
{mood} letter from {person} to {person2}.; Write a riddle whose answer is {x}.; Write two opening lines about
{x}, one {mood} and one {mood2}.
""")
PRACTICAL = listed("""
Write an email to my [boss|landlord|neighbour|teacher|bank] about {matter}. {length}; Draft a
[polite|firm|friendly] reply to a customer who complains about {matter}.; Write a [LinkedIn|blog|forum] post
about {topic}. {length}; Write a short speech for {occasion}. {length}; Write a thank-you note to a {job} who
helped me with {matter}.; Write a product description for {product}. {length}; Write [a slogan|three
slogans|a tag line] for {product}.; Write a press release announcing {product}.; Write a cover letter for a
job as a {job}. {length}; Write an invitation to {occasion}.; Write a job advert for a {job} in {place}.;
Write a notice for a shared kitchen about {matter}.; Write an outline for an essay on {topic}.; Write an
introduction to an article about {topic}. {length}; Write a conclusion for a report on {topic}.; Write a
travel blog entry on a rainy weekend in {place}. {length}; Write the script of a 30-second radio advert for
{product}.; Write a short questionnaire about {topic}.; Write a recommendation letter for a {job}.; Write an
obituary for an imaginary {job} from {place}.; Write a checklist for {occasion}.; Write frequently asked
questions, with answers, for {product}.
""")
MATTERS = listed("""
a late delivery; a broken heater; noise at night; a missed deadline; a wrong invoice; a day off next week; a
lost parcel; unpaid overtime; a parking space; a leaking roof; a change of address; a delayed flight; an
overdue library book; a refund; a password reset; a new bank card; missing homework; a barking dog; an
appointment that has to move; dirty dishes
""")
OCCASIONS = listed("""
a colleague's retirement; a friend's wedding; my sister's graduation; a charity run; the opening of a school
library; a street party; a book club evening; a housewarming; my father's seventieth birthday; a team lunch;
a science fair; a funeral; a farewell party; the last day of school; a sports award; a blood donation drive;
a neighbourhood clean-up; new year's eve
""")
ROLE = listed("""
Act as a {job}. {ask}; You are a {job} [with thirty years of experience|on your first day|in {place}]. {ask};
Pretend to be {person}. {ask2}; Imagine that you are {x2}. [Introduce yourself.|Describe your day.|Complain
about people.]; Be my {job} for a moment. {ask}; Play a {mood} {job}. {ask}; As a {job}, [how do you see|what
do you say to people who doubt] {topic}?; You are interviewing {person}. Ask three questions and answer them
in their voice.; Answer like a pirate: {ask}; Speak as a {job} who has to explain {topic} to {person}.
{length}; Take the role of a tour guide in {place}. [What do you show first?|Welcome us.]
""")
ASKS = listed("""
I want to {skill}. What do I do first?; What is the hardest part of your work?; Give me one piece of advice.;
I have a question about {topic}.; Explain {topic} to me.; What do people misunderstand about you?; I am
nervous. Calm me down.; How would you {skill}?; Tell me a story from your work.; Criticise my plan to
{skill}.; What tools do you use?; Convince me to hire you.
""")
OPINION = listed("""
Do you think [that |]{claim}?; "{Claim}." [Do you agree?|Discuss.|Argue against this.|What would a critic
say?]; Give two arguments for and two against: {claim}.; Write a persuasive paragraph saying that {claim}.
{length}; Debate the idea that {claim}. {length}; I believe that {claim}. Change my mind.; Is it true that
{claim}? {length}; What would {person} say to the claim that {claim}?; Write a letter to the editor:
{claim}.; Rank the three best arguments that {claim}.
""")


DETAILS = listed("""
I will use it at [work|school|a club meeting].; The reader knows nothing about the subject.; Do not use the
word "very".; Mention at least one number.; Use [short|long|plain|elegant] sentences.; Keep the tone
[warm|neutral|confident|playful|serious].; It should take two minutes to read aloud.; Structure it with
headings.; Start in the middle of the action.; Do not give away the ending too early.; Give your reasons.;
Address the reader directly.; Include a small surprise.; My audience is {audience}.; Leave out the boring
parts.; If something is unclear, make a sensible assumption.; Offer two versions.; Include a concrete example
from {place}.; Say what you would leave out, too.; Do not mention {person}.; Please use British spelling.;
Add a short summary at the end.; Ask me a question before you finish.; Make sure that it sounds like a person
and not like a brochure.
""")
AUDIENCES = listed("""
retired teachers; new employees; teenagers; tourists; my family; investors; parents of small children; a
local council; sports fans; people who are in a hurry
""")


def writing(pick: Pick) -> str:
    jobs, people, moods = pick.some(JOBS, 2), pick.some(PEOPLE, 2), pick.some(MOODS, 2)
    claim, x = pick.one(CLAIMS), pick.one(THINGS)
    values = {
        "x": x,
        "x2": pick.one([thing for thing in THINGS if thing.startswith("a")]),
        "title": x.removeprefix("a ").title(),
        "job": jobs[0],
        "job2": jobs[1],
        "person": people[0],
        "person2": people[1],
        "mood": moods[0],
        "mood2": moods[1],
        "place": pick.one(PLACES),
        "product": pick.one(PRODUCTS),
        "topic": pick.one([*SCIENCE, *TECHNOLOGY, *SOCIETY]),
        "matter": pick.one(MATTERS),
        "occasion": pick.one(OCCASIONS),
        "length": pick.one(LENGTH) if pick.chance(0.6) else "",
        "claim": claim,
        "Claim": sentence(claim),
        "skill": pick.one(SKILLS),
    }
    values["ask"] = pick.fill(pick.one(ASKS), values)
    values["ask2"] = pick.one(
        listed("""
            What are you working on?; What do you regret?; What would you tell your younger self?; Describe
            your home.; Who are your rivals?
        """)
    )
    sort = pick.choices([CREATIVE, PRACTICAL, ROLE, OPINION], [4, 4, 3, 3])[0]
    text = " ".join(pick.fill(pick.one(sort), values).split())
    if pick.chance(0.3):
        values["audience"] = pick.one(AUDIENCES)
        text = " ".join(
            [text, *(pick.fill(detail, values) for detail in pick.some(DETAILS, pick.randint(1, 4)))]
        )
    return (
        text.replace(" a a", " an a")
        .replace(" a e", " an e")
        .replace(" a o", " an o")
        .replace(" a i", " an i")
    )
