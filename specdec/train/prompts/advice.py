"""Prompts of daily life: how to do something, plans, recipes, trips, choices, health and money."""

from specdec.train.prompts.topics import (
    ANIMALS,
    CLAIMS,
    COUNTRIES,
    DISHES,
    JOBS,
    PLACES,
    PRODUCTS,
    SKILLS,
    THINGS,
    listed,
)
from specdec.train.prompts.words import DAYS, SUBJECTS, Pick, sentence

TEMPLATES = listed("""
How do I {skill}?; How can I {skill}?[ {limit}| I am a complete beginner.|]; What is the best way to
{skill}?; I want to {skill}. Where do I start?; I keep failing to {skill}. What am I doing wrong?; Give me
[three|five|ten] tips to {skill}.; Make a [one-week|30-day|weekend] plan to help me {skill}. {limit}; What
do I need to {skill}?; Is it [hard|expensive|worth the time] to {skill}?; List common mistakes when people
try to {skill}.; How long does it take to {skill}?; Teach me to {skill}, step by step.; Explain to a teenager
how to {skill}.; Write short instructions to {skill}, as numbered steps.; What should I do before I {skill}?;
Give me a recipe for {dish}[.| for {n} people.| without {avoid}.]; What can I cook with {ingredients}?; How
do I make {dish}[?| in twenty minutes?| for someone who cannot eat {avoid}?]; Plan a [three-course
dinner|picnic|week of lunches] around {dish}. {limit}; {dish} always comes out [too dry|bland|soggy|burnt]
when I cook. Why?; What is a good side dish for {dish}?; Can I replace {avoid} in {dish}?; Suggest a
healthier version of {dish}.; Plan a {n}-day trip to {place}. {limit}; What should I pack for {n} days in
{place}?; We have one afternoon in {place}. What should we do?; Where can I eat cheaply in {place}?; Is
{place} [safe|good with children|worth a visit in winter]?; How do I get from {place} to {place2}?; Suggest a
[quiet|cheap|romantic|active] holiday in {country}. {limit}; I am moving to {country} as a {job}. What should
I prepare?; What manners should I know before visiting {country}?; Gift ideas for a {job} who loves
{animal}?; Suggest [names|ten names|a funny name] for {product}.; Brainstorm ideas to promote {product}.
{limit}; Who would buy {product}, and why?; Write interview questions for a {job}.; How should I prepare for
a job interview as a {job}?; I am a {job} and [bored|exhausted|underpaid]. What are my options?; Which jobs
suit someone who likes {subject} and {animal}?; Make a study plan for a {subject} exam on {day}. {limit}; How
can I get better at {subject}? {limit}; I have {n} hours on {day}. Help me plan them: {tasks}.; Put these in
a sensible order: {tasks}.; My [friend|brother|colleague|flatmate] {trouble}. What should I say?; I feel
{feeling} because {reason}. Any advice?; How do I tell my [parents|boss|partner] that {news}?; What are the
signs of {health}?; What helps against {health}?; When should I see a doctor about {health}?; Can {health} be
prevented? {limit}; How much should I save each month if I earn {money} and want {goal}?; Should I {choice},
or {choice2}?; Help me decide: {choice} or {choice2}?; Is it a bad idea to {choice}?; List pros and cons:
{choice}.; How do I keep {animal} away from my garden?; What is a good first pet for a family: {animal} or
{animal2}?; I found {thing}. What should I do?
""")
LIMITS = listed("""
I have little money.; I only have ten minutes a day.; I live in a small flat.; I have two small children.; I
do not own a car.; I am over sixty.; Keep it realistic.; I have a bad knee.; I am vegetarian.; Please be
brief.; Be honest.; I get bored easily.; I work nights.; Give reasons.; Put it in a table.; No shopping,
please.
""")
INGREDIENTS = listed("""
eggs; rice; lentils; chickpeas; potatoes; leeks; spinach; tomatoes; mushrooms; carrots; cabbage; yoghurt;
feta; tofu; tuna; chicken; mince; lemons; apples; oats; honey; stale bread; pasta; coconut milk; peanuts;
black beans; peppers; aubergines; pumpkin; leftover rice
""")
TASKS = listed("""
buy a birthday present; call the dentist; finish a report; do the laundry; water the plants; pick up a
parcel; go for a run; answer emails; cook for six; clean the bathroom; return library books; pay the rent;
book flights; repair a chair; visit an aunt; study vocabulary; walk the dog; bake a cake; charge the car;
vote; get a haircut; update the CV; sort old photos; take out the rubbish
""")
TROUBLES = listed("""
never pays me back; has stopped answering my messages; talks too loudly on the phone; takes credit for my
work; is always late; lost a job; is afraid of flying; wants to drop out of school; borrowed my bike and
broke it; just became a parent; is grieving; keeps interrupting me; eats my food; wants to start a company;
spends too much time online; has no friends at the new school
""")
FEELINGS = listed("""
tired; lonely; guilty; nervous; jealous; proud; lost; angry; overwhelmed; bored; ashamed; restless; hopeful
""")
REASONS = listed("""
I said no to a friend; I have three exams in one week; my best friend moved away; I was promoted and know
nothing; nobody reads what I write; I forgot an anniversary; I cannot sleep; I spend every evening on my
phone; I argued with my sister; I did not get the job; my children have left home; I have to give a talk; I
compare myself with others; winter is long here; my plan did not work out
""")
NEWS = listed("""
I failed an exam; I want to change my job; I am getting married; I dented the car; I do not want children; I
am leaving the company; I need help; I disagree with a decision; I spent the savings; I want to study abroad;
I cannot come at the weekend; I made a mistake
""")
HEALTH = listed("""
a common cold; dehydration; a migraine; high blood pressure; back pain; iron deficiency; hay fever; food
poisoning; sunburn; insomnia; a sprained ankle; stress; a sore throat; heartburn; flu; motion sickness; dry
skin; muscle cramps; eye strain; hiccups; a bee sting; anxiety
""")
GOALS = listed("""
a house in ten years; a car next year; a trip around the world; to retire at sixty; an emergency fund; a new
laptop
""")
CHOICES = listed("""
buy a used car; rent a bigger flat; go back to university; adopt a second cat; learn German; quit my job
without a new one; paint the kitchen dark green; cut my own hair; lend money to a friend; delete my social
media; start a blog; work part-time; move abroad; take a year off; buy a bread machine; get a tattoo; run a
marathon; sell my car; fix the old washing machine; invite my neighbours
""")


def advice(pick: Pick) -> str:
    choices = pick.some(CHOICES, 2)
    values = {
        "skill": pick.one(SKILLS),
        "dish": pick.one(DISHES),
        "place": pick.one(PLACES),
        "place2": pick.one(PLACES),
        "country": pick.one(COUNTRIES),
        "job": pick.one(JOBS),
        "animal": pick.one(ANIMALS),
        "animal2": pick.one(ANIMALS),
        "product": pick.one(PRODUCTS),
        "subject": pick.one(SUBJECTS),
        "day": pick.one(DAYS),
        "n": str(pick.randint(2, 9)),
        "limit": pick.one(LIMITS) if pick.chance(0.6) else "",
        "thing": pick.one(THINGS[:15]),
        "avoid": pick.one(listed("eggs; butter; milk; flour; onions; garlic; nuts; meat; salt; sugar")),
        "ingredients": ", ".join(pick.some(INGREDIENTS, pick.randint(2, 4))),
        "tasks": ", ".join(pick.some(TASKS, pick.randint(3, 5))),
        "trouble": pick.one(TROUBLES),
        "feeling": pick.one(FEELINGS),
        "reason": pick.one(REASONS),
        "news": pick.one(NEWS),
        "health": pick.one(HEALTH),
        "money": f"{pick.randint(12, 60) * 100} euros",
        "goal": pick.one(GOALS),
        "choice": choices[0],
        "choice2": choices[1],
        "claim": pick.one(CLAIMS),
    }
    template = pick.one(TEMPLATES[:15]) if pick.chance(0.35) else pick.one(TEMPLATES[15:])
    return sentence(" ".join(pick.fill(template, values).split()))
