"""Prompts to train drafts on: what a person asks an assistant, in fourteen kinds, every one written here.

A draft head learns the verifier's text only where it has seen such text: heads trained on a few hundred
narrow prompts guessed badly on everything else. So the prompts are composed from lists of topics (topics.py),
names (words.py) and wordings, one module per kind or two, and the passages to read are invented sentence by
sentence (passages.py). None of them is taken from a benchmark: tests/test_prompts.py compares n-grams.

Needs neither torch nor the verifier. A prompt's number, text and kind depend on the seed alone, and the first
n of a longer list are the list of n.
"""

from collections.abc import Callable
from dataclasses import dataclass

from specdec.errors import SpecdecError
from specdec.train.prompts.advice import advice
from specdec.train.prompts.arithmetic import arithmetic
from specdec.train.prompts.code import code
from specdec.train.prompts.conversation import conversation
from specdec.train.prompts.editing import editing
from specdec.train.prompts.explanation import explanation, facts
from specdec.train.prompts.reading import extraction, reading, summary
from specdec.train.prompts.reasoning import reasoning
from specdec.train.prompts.spanish import spanish
from specdec.train.prompts.translation import translation
from specdec.train.prompts.words import Pick
from specdec.train.prompts.writing import writing

# kind -> what makes one, and its share among the others
KINDS: dict[str, tuple[Callable[[Pick], str], int]] = {
    "advice": (advice, 8),
    "arithmetic": (arithmetic, 11),
    "code": (code, 12),
    "conversation": (conversation, 7),
    "editing": (editing, 7),
    "explanation": (explanation, 12),
    "extraction": (extraction, 6),
    "facts": (facts, 6),
    "reading": (reading, 6),
    "reasoning": (reasoning, 5),
    "spanish": (spanish, 5),
    "summary": (summary, 7),
    "translation": (translation, 8),
    "writing": (writing, 12),
}
TRIES = 200  # draws without a new prompt after which a kind counts as exhausted


@dataclass(frozen=True)
class Prompt:
    """What the user says, and which kind of request it is."""

    kind: str
    text: str


def make_prompts(count: int, seed: int = 0) -> list[Prompt]:
    """`count` distinct prompts in mixed order, the kinds in their shares.

    Raises SpecdecError when count is below 1 or the generators have no more that are new.
    """
    if count < 1:
        raise SpecdecError(f"the number of prompts is {count}, but must be at least 1")
    pick = Pick(seed)
    kinds, shares = list(KINDS), [share for _, share in KINDS.values()]
    prompts: list[Prompt] = []
    seen: set[str] = set()
    while len(prompts) < count:
        kind = pick.choices(kinds, shares)[0]
        make, _ = KINDS[kind]
        text = next((t for t in (make(pick) for _ in range(TRIES)) if t not in seen), None)
        if text is None:
            raise SpecdecError(
                f"there are no more than {len(prompts)} distinct prompts: {kind} is exhausted, ask for fewer"
            )
        seen.add(text)
        prompts.append(Prompt(kind, text))
    return prompts
