"""Where an exercise's parts lie, which checks it has, and what is said about an idea that was missed.

An exercise is a folder solutions/NAME with a notebook NAME.ipynb, the files that students see next to it, and
KEY_ideas.json; its hidden checks are the tests in autograder/KEY/ (KEY is "ex1" for "ex1-leviathan-check").
"""

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest

from autograder.errors import GraderError
from autograder.process import Died
from autograder.student import Blocked, Missed, NoAnswer

ROOT = Path(__file__).resolve().parent.parent
HIDDEN = ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS")
UNANSWERED = "YOUR ANSWER HERE"  # what nbgrader puts in place of a written answer
CheckOutcome = Literal[
    "passed", "failed", "blocked", "by hand", "timed out", "out of memory", "crashed", "error"
]


@dataclass(frozen=True)
class Check:
    """One test function: its name is also the id of the notebook's test cell and of its main idea."""

    name: str
    points: int
    function: Callable[..., None]


@dataclass(frozen=True)
class Exercise:
    name: str

    @property
    def key(self) -> str:
        return self.name.split("-")[0]

    @property
    def folder(self) -> Path:
        return ROOT / "solutions" / self.name

    @property
    def notebook(self) -> Path:
        return self.folder / f"{self.name}.ipynb"

    def companions(self) -> dict[str, bytes]:
        """The files that students see next to the notebook, by name."""
        return {path.name: path.read_bytes() for path in files_in(self.folder) if path.suffix != ".ipynb"}

    @property
    def ideas(self) -> dict[str, dict[str, str]]:
        """The table idea -> title, sentence, hint, and the page and section to read again."""
        return json.loads((self.folder / f"{self.key}_ideas.json").read_text(encoding="utf-8"))

    def checks(self) -> list[Check]:
        """The hidden checks, in the order of the notebook's test cells."""
        return list(_checks(self.key, tuple(template(self).tests)))


def exercises() -> list[Exercise]:
    """All exercises of the course, in order."""
    return [Exercise(path.parent.name) for path in sorted((ROOT / "solutions").glob("ex*/ex*.ipynb"))]


def find_exercise(name: str) -> Exercise:
    """By its name or its key; GraderError lists what there is."""
    for exercise in exercises():
        if name in (exercise.name, exercise.key):
            return exercise
    raise GraderError(f"There is no exercise {name!r}: choose from {', '.join(e.name for e in exercises())}.")


def files_in(folder: Path) -> list[Path]:
    """The regular files of a folder that are not hidden."""
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


@cache
def _checks(key: str, order: tuple[str, ...]) -> tuple[Check, ...]:
    found = {}
    for path in sorted((ROOT / "autograder" / key).glob("test_*.py")):
        module = importlib.import_module(f"autograder.{key}.{path.stem}")
        for function in vars(module).values():
            marker = check_marker(function)
            if marker and function.__module__ == module.__name__:
                found[marker.args[0]] = Check(marker.args[0], marker.kwargs["points"], function)
    if set(found) != set(order):
        raise GraderError(
            f"The checks of {key} and its notebook's test cells differ: {sorted(set(found) ^ set(order))}."
        )
    return tuple(found[name] for name in order)


def check_marker(function: Any) -> pytest.Mark | None:
    """The marker @pytest.mark.check(name, points=...) of a test function."""
    marks = getattr(function, "pytestmark", [])
    return next((mark for mark in marks if mark.name == "check"), None) if isinstance(marks, list) else None


def verdict(error: BaseException | None) -> tuple[CheckOutcome, str]:
    """What a check that ended with this error means: its outcome and the idea to name in the feedback."""
    match error:
        case None:
            return "passed", ""
        case Missed():
            return "failed", error.idea
        case NoAnswer():
            return ("out of memory" if error.idea == "out of memory" else "failed"), error.idea
        case Blocked():
            return "blocked", "blocked"
        case Died():
            return error.kind, error.kind
        case _:
            return "error", "error"


# -- the source notebook -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Template:
    """What a submission is compared with: locked cells {id: source}, test cells {id: released source}.

    `written` are the answers in words, {id: points}: no check reads them, an instructor does.
    """

    given: dict[str, str]
    tests: dict[str, str]
    points: dict[str, int]
    written: dict[str, int]

    @property
    def max_score(self) -> int:
        return sum(self.points.values()) + sum(self.written.values())


def template(exercise: Exercise) -> Template:
    notebook = json.loads(exercise.notebook.read_text(encoding="utf-8"))
    result = Template({}, {}, {}, {})
    for cell in notebook["cells"]:
        about = cell["metadata"].get("nbgrader", {})
        source = "".join(cell["source"])
        if about.get("grade") and about.get("solution"):
            result.written[about["grade_id"]] = about["points"]
        elif about.get("grade"):
            result.tests[about["grade_id"]] = without_hidden(source)
            result.points[about["grade_id"]] = about["points"]
        elif about.get("locked") and cell["cell_type"] == "code":
            result.given[about["grade_id"]] = source
    return result


def without_hidden(source: str) -> str:
    """A test cell as nbgrader releases it."""
    kept, hidden = [], False
    for line in source.splitlines():
        hidden = hidden or line.strip() == HIDDEN[0]
        if not hidden:
            kept.append(line)
        hidden = hidden and line.strip() != HIDDEN[1]
    return "\n".join(kept)
