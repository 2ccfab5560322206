"""What is known about one graded submission: the schema of result.json (version 1).

`outcome` is "graded" whenever a check could run; a score of 0 with any other outcome is not a judgement of
the work. `pending` are points of checks that could not be carried out: they are neither earned nor lost yet.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from autograder.exercises import CheckOutcome

Outcome = Literal["graded", "timed out", "out of memory", "crashed", "malformed", "not submitted"]


class CheckResult(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    points: int
    earned: int
    outcome: CheckOutcome
    idea: str  # of the exercise's ideas; "" if passed

    @property
    def pending(self) -> int:
        return self.points if self.outcome in ("blocked", "by hand", "error") else 0


class CellResult(BaseModel):
    model_config = ConfigDict(extra="forbid")

    index: int  # in the notebook, from 0; -1 for a locked cell that was missing
    outcome: Literal["ran", "raised", "out of memory", "timed out", "crashed", "not tried"]
    error: str  # the type of what it raised, or how the process ended


class Result(BaseModel):
    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    student: str
    exercise: str
    outcome: Outcome
    score: int
    max_score: int
    pending: int
    flags: list[str]
    problem: str = ""  # one sentence, if the outcome is not "graded"
    checks: list[CheckResult] = []
    cells: list[CellResult] = []
    nbgrader: float | None = None
    walls: str
    notebook_sha256: str = ""
    output: str = ""  # the beginning of what the submission printed

    def row(self) -> dict[str, str | int | float | None]:
        """The line of the class table (grades.csv, grades.json)."""
        return {
            "student": self.student,
            "exercise": self.exercise,
            "outcome": self.outcome,
            "score": self.score,
            "max_score": self.max_score,
            "pending": self.pending,
            "nbgrader": self.nbgrader,
            "flags": "; ".join(self.flags),
        }
