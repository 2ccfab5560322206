"""What a passage to read is, and the way its sentences are put together.

A passage was never written by anyone: its facts are invented, and it is composed from sentences that exist in
several wordings, some of which are left out, so that no two run alike. It knows the questions that it answers
and what can be pulled out of it. reports.py and notes.py make them.
"""

from dataclasses import dataclass

from specdec.train.prompts.words import Pick


@dataclass(frozen=True)
class Passage:
    """A text, what it is (`the report`), questions that it answers, and what can be extracted from it."""

    text: str
    what: str
    questions: list[str]
    fields: list[str]


def composed(
    pick: Pick, values: dict[str, str], opening: list[str], middle: list[str], closing: list[str]
) -> str:
    """One opening, two to all of the middle sentences in their order, perhaps a closing."""
    keep = sorted(pick.sample(range(len(middle)), pick.randint(min(2, len(middle)), len(middle))))
    parts = [pick.one(opening), *(middle[i] for i in keep)]
    if pick.chance(0.6):
        parts.append(pick.one(closing))
    return " ".join(pick.fill(part, values) for part in parts)
