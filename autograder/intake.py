"""From a folder to submissions, and from a notebook to the cells to run. Everything here is data; nothing is
executed.

Accepted are nbgrader's tree (DIR/STUDENT/EXERCISE/EXERCISE.ipynb) and a folder of notebooks, one per student
(DIR/alice.ipynb). What cannot be read becomes a submission with a problem, never an exception: one bad file
stops nobody else.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.errors import GraderError
from autograder.exercises import UNANSWERED, Exercise, Template, exercises, find_exercise, template
from autograder.protocol import printable

MAX_BYTES = 32 << 20
MAX_CELLS = 2_000


class Malformed(Exception):
    """A file that is not a notebook; the message is one sentence."""


@dataclass
class Entry:
    """One student and one exercise. `path` is None if nothing was handed in."""

    student: str
    exercise: Exercise
    path: Path | None
    flags: list[str] = field(default_factory=list)


@dataclass
class Parsed:
    """The code cells to run, as (index in the notebook, source), and what is odd about the notebook.

    `written` are the answers in words, {id: text}; text is empty where nothing was answered.
    """

    cells: list[tuple[int, str]]
    flags: list[str]
    written: dict[str, str] = field(default_factory=dict)


# -- the folder ----------------------------------------------------------------------------------------------


def find_submissions(name: str, only: str | None = None) -> list[Entry]:
    """The submissions in a folder; GraderError if there are none to be had. `only` names one exercise."""
    if not name.strip():
        raise GraderError("Name the folder with the submissions: make grade SUBMISSIONS=FOLDER.")
    folder = Path(name)
    if not folder.is_dir():
        raise GraderError(f"There is no folder {name}: name the one that holds the submissions.")
    known = [find_exercise(only)] if only else exercises()
    try:
        entries = _tree(folder, known) + _flat(folder, known)
    except OSError as error:
        raise GraderError(f"The folder {name} cannot be read: {error.strerror}.") from None
    if not entries:
        raise GraderError(
            f"There are no submissions in {name}: it should hold notebooks (alice.ipynb) or one folder per "
            f"student with EXERCISE/EXERCISE.ipynb inside."
        )
    chosen: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        entry.student = printable(entry.student)
        first = chosen.setdefault((entry.student, entry.exercise.name), entry)
        if first is not entry and "several notebooks" not in first.flags:
            first.flags.append("several notebooks")
    return sorted(chosen.values(), key=lambda entry: (entry.student, entry.exercise.name))


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _tree(folder: Path, known: list[Exercise]) -> list[Entry]:
    """DIR/STUDENT/EXERCISE/*.ipynb and DIR/STUDENT/*.ipynb. What one student has, all are asked for."""
    students = [path for path in _visible(folder) if path.is_dir() and not path.is_symlink()]
    found: dict[tuple[str, str], list[Path]] = {}
    for student in students:
        for exercise in known:
            inside = [path for path in _visible(student) if path.is_dir() and path.name == exercise.name]
            notebooks = [path for place in inside for path in _visible(place) if path.suffix == ".ipynb"]
            if inside or notebooks:
                found[student.name, exercise.name] = notebooks
        for path in _visible(student):
            if path.suffix == ".ipynb":
                exercise = _guess(path, known)
                found.setdefault((student.name, exercise.name), []).append(path)
    asked = {name for _, name in found}
    return [
        _choose(student.name, exercise, found.get((student.name, exercise.name), []))
        for student in students
        for exercise in known
        if exercise.name in asked
    ]


def _flat(folder: Path, known: list[Exercise]) -> list[Entry]:
    """DIR/STUDENT.ipynb."""
    notebooks = [path for path in _visible(folder) if path.suffix == ".ipynb" and not path.is_dir()]
    return [_choose(path.stem, _guess(path, known), [path]) for path in notebooks]


def _choose(student: str, exercise: Exercise, notebooks: list[Path]) -> Entry:
    """The notebook with the right name, else the first one."""
    if not notebooks:
        return Entry(student, exercise, None)
    ranked = sorted(notebooks, key=lambda path: (path.name != exercise.notebook.name, path.name))
    flags = ["several notebooks"] if len(notebooks) > 1 else []
    return Entry(student, exercise, ranked[0], flags)


def _guess(path: Path, known: list[Exercise]) -> Exercise:
    """The exercise of a notebook from what is in it, else from its name, else the first one."""
    try:
        return exercise_of(read_notebook(path), path.name, known)
    except (Malformed, GraderError):
        return next((e for e in known if path.name.startswith(e.key)), known[0])


# -- the notebook --------------------------------------------------------------------------------------------


def read_notebook(path: Path) -> dict[str, Any]:
    """A notebook as plain data, of nbformat 4; Malformed says what is wrong with the file."""
    if path.is_symlink() or not path.is_file():
        raise Malformed("It is not a regular file.")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise Malformed(f"It is larger than {MAX_BYTES >> 20} MB.")
        notebook = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise Malformed(f"It cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise Malformed("It is not a notebook: the file does not hold JSON.") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise Malformed("It is not a notebook of format 4: there is no list of cells.")
    if notebook.get("nbformat") != 4:
        raise Malformed("It is not a notebook of format 4: save it again with a current Jupyter.")
    if len(notebook["cells"]) > MAX_CELLS:
        raise Malformed(f"It has more than {MAX_CELLS:,} cells.")
    for cell in notebook["cells"]:
        if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str) or _source(cell) is None:
            raise Malformed("It is not a notebook of format 4: a cell has no type or no source.")
    return notebook


def _source(cell: dict[str, Any]) -> str | None:
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        return "".join(source)
    return source if isinstance(source, str) else None


def _about(cell: dict[str, Any]) -> dict[str, Any]:
    """nbgrader's metadata of a cell; {} if there is none or if it is not what it should be."""
    metadata = cell.get("metadata")
    about = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return about if isinstance(about, dict) and isinstance(about.get("grade_id"), str) else {}


def _tags(cell: dict[str, Any]) -> list[Any]:
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    return tags if isinstance(tags, list) else []


def exercise_of(notebook: dict[str, Any], name: str, known: list[Exercise] | None = None) -> Exercise:
    """The exercise whose cells a notebook has, else the one its name begins with."""
    known = known or exercises()
    ids = {_about(cell).get("grade_id") for cell in notebook["cells"]}
    best = max(known, key=lambda exercise: len(ids & set(template(exercise).tests)))
    if ids & set(template(best).tests):
        return best
    for exercise in known:
        if Path(name).name.startswith(exercise.key):
            return exercise
    if len(known) == 1:
        return known[0]
    raise GraderError(f"{name} belongs to no exercise of this course: name one with --exercise.")


def parse(notebook: dict[str, Any], released: Template) -> Parsed:
    """The code cells to run: all but test cells and those tagged `setup`.

    Locked cells are replaced by the course's own, and put in front if they are missing. Test cells are never
    run: if they were edited, deleted or duplicated, that is a flag and costs nothing.
    """
    cells: list[tuple[int, str]] = []
    seen: Counter[str] = Counter()
    edited = set()
    written = dict.fromkeys(released.written, "")
    for index, cell in enumerate(notebook["cells"]):
        name, source = _about(cell).get("grade_id", ""), _source(cell) or ""
        if name in written:
            written[name] = written[name] or source.replace(UNANSWERED, "").strip()
            continue
        if cell["cell_type"] != "code" or "setup" in _tags(cell):
            continue
        seen[name] += 1
        if name in released.tests:
            if _squeezed(source) != _squeezed(released.tests[name]):
                edited.add(name)
            continue
        if name in released.given:
            if seen[name] > 1:
                continue
            source = released.given[name]
        cells.append((index, source))
    missing = [(-1, source) for name, source in released.given.items() if not seen[name]]
    tests = {
        "edited": edited,
        "deleted": {name for name in released.tests if not seen[name]},
        "duplicated": {name for name in released.tests if seen[name] > 1},
    }
    flags = [f"tests {what}: {', '.join(sorted(names))}" for what, names in tests.items() if names]
    if missing:
        flags.append("locked cells deleted")
    return Parsed(missing + cells, flags, written)


def _squeezed(source: str) -> str:
    return re.sub(r"\s+", " ", source).strip()
