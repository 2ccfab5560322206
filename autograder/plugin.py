"""The pytest side of a check: its marker, the fixture `student`, and options to try checks on one notebook.

    pytest autograder/ex1 --submission alice.ipynb -k correction

runs the hidden checks on one notebook and shows what failed as pytest does. The grader (grade.py) runs the
same functions with a `student` of its own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder import exercises, intake
from autograder.process import find_walls
from autograder.student import Student, Submission

STUDENT = pytest.StashKey[Student]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("autograder", "hidden checks of the exercises")
    group.addoption(
        "--submission", metavar="FILE", help="the notebook to run the checks of autograder/exN on"
    )
    group.addoption("--isolation", choices=("bwrap", "none"), default="bwrap", help="walls around its code")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "check(name, points): a hidden check; its name is the id of its test cell"
    )


@pytest.fixture(scope="session")
def student(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The student whose functions a check may call: plain data in, plain data out."""
    given = request.config.stash.get(STUDENT, None)
    if given is not None:
        yield given
        return
    name = request.config.getoption("--submission")
    if not name:
        raise pytest.UsageError("name the notebook to check: --submission FILE")
    notebook = intake.read_notebook(Path(name))
    exercise = intake.exercise_of(notebook, name)
    parsed = intake.parse(notebook, exercises.template(exercise))
    submission = Submission(
        parsed.cells, find_walls(request.config.getoption("--isolation")), companions=exercise.companions()
    )
    yield submission
    submission.close()
