"""Prompts over a text that is given: summarise it, answer from it, pull things out of it."""

from collections.abc import Callable

from specdec.train.prompts.notes import message, minutes, product, review, talk
from specdec.train.prompts.passages import Passage
from specdec.train.prompts.reports import biography, entry, news
from specdec.train.prompts.topics import listed
from specdec.train.prompts.words import Pick, joined

MAKERS: list[Callable[[Pick], Passage]] = [
    news,
    news,  # twice: the sorts with the most to tell
    biography,
    product,
    minutes,
    entry,
    entry,
    message,
    talk,
    review,
]
LONGEST = 130  # words of two passages that are summarised together


def passage(pick: Pick) -> Passage:
    """A passage of any of the sorts above."""
    return MAKERS[pick.randrange(len(MAKERS))](pick)


SUMMARY = listed("""
Summarise the {what} [below|that follows].; Summarize this {what} in [one sentence|two sentences|your own
words].; [What are|List] the main points of this {what}[?|, as bullets.|, shortest first.]; Too long for me.
What is it about?; Summary, please.; Give me the gist of this {what} [in at most {n} words|in plain
language|for someone in a hurry].; Write a headline [and a one-line summary |]for this {what}.; Sum up the
following in {n} words or fewer.; I have no time to read this. What does it say?; Shorten this {what} [by
half|to three sentences|for a newsletter].; Rewrite this {what} as [a tweet|a short note to a colleague|a
message for a ten-year-old].; What is the single most important thing in this {what}[?|, and why?]
""")

ASK = listed("""
{q}; Read the {what} and answer: {q}; Answer from the text only. {q}; {q} Answer [in one
sentence|briefly|with a quote from the text].; According to the {what}: {q}; [Use|Only use] the {what}
[above|given] to answer. {q}; {q} {q2}; I have two questions about this {what}. {q} {q2}; {q} If the {what}
does not say, say so.; {q} Explain how you know.
""")

EXTRACT = listed("""
Extract the {fields} from this {what}.; [List|Find] all {fields} [mentioned |]in the {what}[.| below.]; From
the {what}, pull out: {fields}. [Answer as JSON.|One per line.|Use a table.]; Return a JSON object with the
keys {fields}[.| and nothing else.]; Make a [table|bullet list] of the {fields} in this {what}.; Which
{fields} does the {what} mention? [List them.|Write "none" where there are none.]; Turn this {what} into
[CSV|YAML|a table] with the columns {fields}.; Tag every [name|number|date] in this {what} and say what it
stands for.; Who and what is named in this {what}? Group [people, places and organisations|names and
numbers].
""")


def around(pick: Pick, instruction: str, given: Passage) -> str:
    """The instruction before or behind the text, which may be marked in one of several ways."""
    text = pick.one(["{}", '"{}"', "---\n{}\n---", "Text: {}", "<text>\n{}\n</text>", "{}"]).format(
        given.text
    )
    return f"{instruction}\n\n{text}" if pick.chance(0.65) else f"{text}\n\n{instruction}"


def summary(pick: Pick) -> str:
    given, other = passage(pick), passage(pick)
    both = f"{given.text}\n\n{other.text}"
    if pick.chance(0.3) and len(both.split()) <= LONGEST:
        given = Passage(both, "pair of texts", [], [])
    values = {"what": given.what, "n": str(pick.randint(8, 40))}
    return around(pick, pick.fill(pick.one(SUMMARY), values), given)


def reading(pick: Pick) -> str:
    given = passage(pick)
    first, second = pick.some(given.questions, 2)
    return around(pick, pick.fill(pick.one(ASK), {"what": given.what, "q": first, "q2": second}), given)


def extraction(pick: Pick) -> str:
    given = passage(pick)
    fields = joined(pick.some(given.fields, pick.randint(1, 3)))
    return around(pick, pick.fill(pick.one(EXTRACT), {"what": given.what, "fields": fields}), given)
