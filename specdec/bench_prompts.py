"""The prompts of a benchmark: sets of questions from a folder, or the course's own.

A set is a file SET.jsonl with one object a line, whose `turns[0]` is the question (the format of MT-Bench and
Spec-Bench). Such sets are not part of the repository; without a folder the course's `benchmarks/prompts.json`
serves, and a result says so. Its kinds (chat, code, summary, ...) are then the sets.

What is chosen or measured about trained drafts without public sets uses `held_out`: prompts from the training
generators that no training has seen.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec.bench import found_above
from specdec.errors import SpecdecError

OWN = Path("benchmarks") / "prompts.json"
PUBLIC = ("mt_bench", "humaneval", "gsm8k", "alpaca", "sum")  # the sets of the EAGLE papers
SOURCE = (
    "the question files of EAGLE (github.com/SafeAILab/EAGLE, eagle/data/SET/question.jsonl) or of "
    "Spec-Bench (github.com/hemingkx/Spec-Bench, data/spec_bench/question.jsonl), saved as SET.jsonl: one "
    'JSON object a line, {"question_id": 81, "turns": ["the question"]}'
)
HELD_OUT = "held-out"
TRAINED_ON = 40_000  # prompts of seed 0 that a training may have seen; the shipped heads' were 6,000
HELD_OUT_SEED = 1


@dataclass(frozen=True)
class Prompt:
    """One question: the set it belongs to, what it is called there, and its text."""

    set: str
    id: str
    text: str

    def __str__(self) -> str:
        return f"prompt {self.id} of {self.set}"


def read_prompts(folder: Path | None, sets: Collection[str] = (), per_set: int | None = None) -> list[Prompt]:
    """The first `per_set` prompts of each of `sets` (none: of all there are), set by set.

    Raises SpecdecError when a file or set is missing, and with file and line where one cannot be read.
    """
    known = own_sets() if folder is None else {file.stem: file for file in sorted(folder.glob("*.jsonl"))}
    where = OWN.as_posix() if folder is None else str(folder)
    if folder is not None and not folder.is_dir():
        raise SpecdecError(f"there is no folder {folder}: --prompt-dir is a folder with files SET.jsonl")
    if not known:
        raise SpecdecError(f"{folder} has no files SET.jsonl: --prompt-dir is a folder with such files")
    if missing := [name for name in sets if name not in known]:
        raise SpecdecError(f"{where} has no set {missing[0]!r}: it has {', '.join(known)}")
    prompts = []
    for name in sets or known:
        found = known[name]
        prompts += (read_set(found) if isinstance(found, Path) else found)[:per_set]
    return prompts


def read_set(file: Path) -> list[Prompt]:
    """All prompts of a SET.jsonl; empty lines are passed over."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SpecdecError(f"cannot read {file}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise SpecdecError(f"{file} is not UTF-8 text: byte {error.start} cannot be read") from None
    prompts = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise SpecdecError(f"{file}, line {number}, is not JSON: {error}") from None
        text = first_turn(entry)
        if text is None:
            raise SpecdecError(
                f"{file}, line {number}, has no question: expected an object whose turns[0] is a text"
            )
        prompts.append(Prompt(file.stem, str(entry.get("question_id", number)), text))
    if not prompts:
        raise SpecdecError(f"{file} has no prompts: expected one JSON object a line")
    return prompts


def first_turn(entry: Any) -> str | None:
    """`turns[0]`, or None where there is no such text."""
    turns = entry.get("turns") if isinstance(entry, dict) else None
    first = turns[0] if isinstance(turns, list) and turns else None
    return first if isinstance(first, str) and first.strip() else None


def own_sets() -> dict[str, list[Prompt]]:
    """The course's own prompts by kind."""
    file = found_above(OWN)
    if file is None:
        raise SpecdecError(
            f"there is no {OWN.as_posix()} in or above {Path.cwd()}: work inside a clone of the course, or "
            "give a folder with files SET.jsonl by --prompt-dir"
        )
    sets: dict[str, list[Prompt]] = {}
    for number, entry in enumerate(json.loads(file.read_text(encoding="utf-8")), 1):
        sets.setdefault(entry["kind"], []).append(Prompt(entry["kind"], str(number), entry["prompt"]))
    return sets


def held_out(count: int, part: int = 0, trained_on: int = TRAINED_ON) -> list[Prompt]:
    """`count` prompts of the training generators that are in no training, as the set "held-out".

    part: 0 to measure on, 1 to choose policies on; the two share no prompt.
    """
    from specdec.train.prompts import make_prompts

    seen = {prompt.text for prompt in make_prompts(trained_on, seed=0)}
    drawn = make_prompts(4 * count + 40, HELD_OUT_SEED)
    fresh = [(i, prompt) for i, prompt in enumerate(drawn) if prompt.text not in seen][part::2]
    if len(fresh) < count:
        raise SpecdecError(f"there are only {len(fresh)} held-out prompts: ask for at most as many")
    return [Prompt(HELD_OUT, str(i), prompt.text) for i, prompt in fresh[:count]]


def public_prompts(folder: Path, sets: Collection[str]) -> list[Prompt]:
    """All prompts of `sets`; without names of those of PUBLIC that there are, or if there is none, of all."""
    return read_prompts(folder, sets or [name for name in PUBLIC if (folder / f"{name}.jsonl").is_file()])


def evenly(prompts: Sequence[Prompt], per_set: int) -> list[Prompt]:
    """`per_set` prompts of each set, evenly spaced: public sets are sorted by category."""
    chosen = []
    for name in dict.fromkeys(prompt.set for prompt in prompts):
        own = [prompt for prompt in prompts if prompt.set == name]
        kept = min(per_set, len(own))
        chosen += [own[i * len(own) // kept] for i in range(kept)]
    return chosen
