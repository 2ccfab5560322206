"""Prompts that ask for a translation, into and out of English, and for words, grammar and pronunciation."""

from specdec.train.prompts.topics import ANIMALS, DISHES, JOBS, PLACES, SOCIETY, listed
from specdec.train.prompts.words import COLOURS, DAYS, FIRST_NAMES, GOODS, MONTHS, SUBJECTS, TOWNS, Pick

LANGUAGES = listed("""
Spanish; Spanish; Spanish; French; French; German; German; Italian; Portuguese; Dutch; Polish; Latin;
Swedish; Japanese; Turkish
""")

ENGLISH = listed("""
The shop [opens|closes] at {h} on {day}.; {A} lives in {town} and works as a {job}.; I would like {n}
{goods}, please.; Where is the nearest [pharmacy|station|bank|post office]?; My flight to {place} was
cancelled.; We have been waiting for {n} hours.; {A} has never eaten {dish} before.; If it rains on {day}, we
will stay at home.; Could you [speak more slowly|repeat that|help me with my suitcase], please?; The {colour}
house at the end of the street belongs to a {job}.; {A} said that the meeting had been moved to {day}.;
Although the exam was hard, most students passed {subject}.; I am allergic to nuts and cannot eat {dish}.;
There are no {animal} on this island any more.; The train to {place} leaves from platform {n}.; Please do not
feed the {animal}.; Happy birthday, dear {A}! We wish you all the best.; Yesterday {A} lost the keys and
found them under the {colour} chair.; The rent is due on the first of {month}.; She would have called if she
had known your number.; He speaks three languages, but none of them well.; [Thank you for your letter|We
regret to inform you that the position has been filled|Your order has been shipped and will arrive on
{day}].; The museum in {place} is free for students.; My grandmother taught me how to make {dish}.; Every
morning {A} runs {n} kilometres along the river.; Nobody knew why the {animal} had left the forest.; The
doctor told {A} to rest until {day}.; I do not understand {idea}, but I would like to.; The best way to learn
is to make mistakes.; What time does the film start, and how long is it?; We need a new roof before winter.;
The {job} forgot to bring the tools.; I have lived in {town} since {month}.; Turn left at the church and then
go straight on.
""")
FOREIGN = {
    "Spanish": listed("""
        La biblioteca cierra a las ocho.; Mi hermana vive en {place} desde hace {n} años.; ¿Dónde puedo
        comprar un billete de tren?; Ayer llovió tanto que nos quedamos en casa.; El perro duerme debajo de
        la mesa.; Si tuviera más tiempo, aprendería a tocar el piano.; Nos vemos el viernes en la plaza.;
        Hace falta más sal en la sopa.; Los niños juegan en el parque hasta que anochece.; Perdone, ¿a qué
        hora sale el próximo autobús?; Me duele la cabeza desde esta mañana.; {A} perdió las llaves y tuvo
        que llamar a un cerrajero.; No creo que venga mañana.; La casa donde nací ya no existe.; Quisiera una
        mesa para {n} personas, por favor.
    """),
    "French": listed("""
        Le marché ouvre à sept heures.; Ma voisine a trois chats et un perroquet.; Où se trouve la gare, s'il
        vous plaît ?; Il a plu toute la nuit à {place}.; Je voudrais {n} croissants et un café.; Nous avons
        manqué le dernier train.; Les enfants dorment déjà.; Il faut que tu finisses tes devoirs.; {A}
        travaille dans un hôpital depuis {n} ans.; Cette robe est trop chère pour moi.; Quand j'étais petit,
        j'habitais à la campagne.; On se retrouve devant le cinéma.
    """),
    "German": listed("""
        Der Zug nach {place} hat zehn Minuten Verspätung.; Am Wochenende gehen wir wandern.; Können Sie mir
        bitte helfen?; {A} hat den Schlüssel vergessen.; Das Buch liegt auf dem Tisch.; Ich hätte gern {n}
        Brötchen.; Gestern war es kälter als heute.; Die Kinder bauen eine Burg aus Sand.; Wir haben uns
        lange nicht gesehen.; Obwohl er müde war, las er weiter.; Der Laden um die Ecke verkauft frisches
        Brot.; Weißt du, wo der Arzt wohnt?
    """),
    "Italian": listed("""
        Il treno parte tra {n} minuti.; Mia nonna fa il pane ogni sabato.; Vorrei un bicchiere d'acqua, per
        favore.; {A} abita vicino al mare.; Non ho ancora finito il libro.; Ieri sera abbiamo visto un film
        bellissimo.; Dove posso parcheggiare?
    """),
    "Portuguese": listed("""
        O barco sai às {n} horas.; A minha irmã estuda em {place}.; Queria dois bilhetes, por favor.; Ontem
        fez muito calor.; {A} gosta de cozinhar para os amigos.; Não sei onde deixei os óculos.; A praia fica
        a dez minutos daqui.
    """),
}
INTO = listed("""
Translate [into|to] {lang}: {s}; How do you say "{s}" in {lang}?; Translate the following sentence into
{lang}.\\n{s}; What is the {lang} for: {s}; Put this into [polite|informal|simple] {lang}: {s}; {s} — in
{lang}, please.; I need this in {lang} for [a letter|a sign|a text message]: "{s}"; Translate into {lang} and
explain the grammar: {s}; English to {lang}:\\n{s} {s2}; Translate these two sentences into {lang}.\\n1.
{s}\\n2. {s2}; Give two different {lang} translations of "{s}"
""")
OUT = listed("""
Translate into English: {f}; Translate {lang} into English:\\n{f}; What does "{f}" mean?; What does this
{lang} sentence mean? {f}; Which language is this, and what does it say? {f}; {f}\\n\\nIn English, please.;
Translate and explain each word: {f}; Put this {lang} into natural English: {f} {f2}; Correct my translation.
{lang}: {f} English: "I do not know."
""")
WORDS = listed("""
How do you count to ten in {lang}?; What are the days of the week in {lang}?; How do I introduce myself in
{lang}?; What is the {lang} word for "{w}"?; What are the {lang} words for {w}, {w2} and {w3}?; Give me ten
useful {lang} phrases for [a restaurant|the doctor|a hotel|shopping|the first day at work|an airport].; How
do you form the past tense in {lang}?; Conjugate the {lang} verb for "to {verb}" in the present tense.; Is
{lang} hard to learn for [English|Spanish|French] speakers?; Write a short dialogue in {lang} between a {job}
and a customer, with a translation.; What are false friends between English and {lang}?; Explain the
difference between formal and informal address in {lang}.; Write three simple sentences in {lang} about {w}.;
How do you pronounce [r|vowels|double letters|the alphabet] in {lang}?; Which English words come from {lang}?
""")
VERBS = listed(
    "be; have; go; come; eat; speak; write; sleep; want; know; do; see; give; read; live; work; buy; drink"
)


def translation(pick: Pick) -> str:
    lang = pick.one(LANGUAGES)
    words = pick.some([*GOODS, *ANIMALS, *COLOURS], 3)
    values = {
        "h": str(pick.randint(7, 11)),
        "day": pick.one(DAYS),
        "A": pick.one(FIRST_NAMES),
        "town": pick.one(TOWNS),
        "job": pick.one(JOBS),
        "n": str(pick.randint(2, 12)),
        "goods": pick.one(GOODS),
        "place": pick.one([p for p in PLACES if not p.startswith("the ")]),
        "dish": pick.one(DISHES),
        "colour": pick.one(COLOURS),
        "subject": pick.one(SUBJECTS),
        "animal": pick.one(ANIMALS),
        "month": pick.one(MONTHS),
        "idea": pick.one(SOCIETY),
        "lang": lang,
        "w": words[0],
        "w2": words[1],
        "w3": words[2],
        "verb": pick.one(VERBS),
    }
    sort = pick.choices(["into", "out", "words"], [6, 4, 2])[0]
    if sort == "words":
        return pick.fill(pick.one(WORDS), values)
    if sort == "into":
        first, second = pick.some(ENGLISH, 2)
        values |= {"s": pick.fill(first, values), "s2": pick.fill(second, values)}
        return pick.fill(pick.one(INTO), values).replace("\\n", "\n")
    lang = pick.one(list(FOREIGN))
    first, second = pick.some(FOREIGN[lang], 2)
    values |= {"lang": lang, "f": pick.fill(first, values), "f2": pick.fill(second, values)}
    return pick.fill(pick.one(OUT), values).replace("\\n", "\n")
