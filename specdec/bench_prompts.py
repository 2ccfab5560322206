"""The prompts of a benchmark: sets of questions from a folder, or the course's own.

A set is a file SET.jsonl with one object a line, whose `turns[0]` is the question (the format of MT-Bench and
Spec-Bench). Such sets are not part of the repository; without a folder the course's `benchmarks/prompts.json`
serves, and a result says so. Its kinds (chat, code, summary, ...) are then the sets.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec.bench import found_above
from specdec.errors import SpecdecError

OWN = Path("benchmarks") / "prompts.json"


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
