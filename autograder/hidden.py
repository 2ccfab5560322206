"""nbgrader's hidden cells: one call that runs a check of exN/ in the notebook's own kernel.

    from autograder.hidden import run
    run("ex1", "step-bonus", globals())

The cell holds no input and no expected value, and fails with one sentence, without traceback frames. The
check is the same function that the pytest autograder runs; here it shares a process with the student's code,
which is nbgrader's way and the reason why the other score counts.
"""

import contextlib
import io
from collections.abc import Mapping
from typing import Any

from autograder.exercises import find_exercise, verdict
from autograder.student import KernelStudent


class CheckFailed(Exception):
    """One sentence. Jupyter shows it alone: IPython asks an exception for its own traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def run(key: str, name: str, names: Mapping[str, Any]) -> None:
    """Run one check on the functions and variables of a notebook; CheckFailed says which idea was missed."""
    exercise = find_exercise(key)
    check = next(check for check in exercise.checks() if check.name == name)
    # what a student's code prints is no part of the answer, and nbgrader gives a cell with stderr output 0
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            check.function(KernelStudent(names))
            return
        except Exception as error:
            _, idea = verdict(error)
    raise CheckFailed(exercise.ideas[idea]["sentence"]) from None
