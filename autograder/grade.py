"""Grades a folder of submissions with the pytest autograder, and beside it with nbgrader.

The checks run as pytest tests in this process; the code they ask about runs behind the walls (student.py).
One submission's failure is a result like any other: nothing that a submission does stops the next one.
"""

import contextlib
import hashlib
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from autograder import exercises, intake, report
from autograder.exercises import ROOT, Exercise
from autograder.nbgrader_side import NbgraderRun, SecondOpinion
from autograder.plugin import STUDENT
from autograder.process import find_walls
from autograder.result import CellResult, CheckResult, Outcome, Result
from autograder.sandbox import Isolation, Limits, Walls
from autograder.student import Submission

KEPT_OUTPUT = 2_000  # characters of a submission's own output in its result


def grade_folder(
    name: str,
    out: Path,
    only: str | None = None,
    isolation: Isolation = "bwrap",
    limits: Limits | None = None,
    with_nbgrader: bool = True,
    progress: Callable[[str], None] = lambda said: None,
) -> list[Result]:
    """Grade every submission in the folder `name` and write the results under `out`.

    Raises GraderError for a folder without submissions and SandboxError where the walls cannot be raised. Per
    student result.json and feedback.md are written as soon as they are known, grades.csv and grades.json at
    the end.
    """
    entries = intake.find_submissions(name, only)
    walls = find_walls(isolation)
    limits = limits or Limits()
    out.mkdir(parents=True, exist_ok=True)
    places = report.places(out, [(entry.student, entry.exercise.name) for entry in entries])
    results: list[Result] = []
    for exercise in dict.fromkeys(entry.exercise for entry in entries):
        own = [entry for entry in entries if entry.exercise == exercise]
        read = {entry.student: entry.path for entry in own if entry.path and _readable(entry.path)}
        with NbgraderRun(exercise, read if with_nbgrader else {}, walls) as nbgrader:
            graded = []
            for number, entry in enumerate(own, start=1):
                progress(f"{exercise.name}: {entry.student} ({number} of {len(own)})")
                graded.append(grade_safely(entry, walls, limits))
                report.write_result(places[entry.student, exercise.name], graded[-1], exercise)
            progress(f"{exercise.name}: waiting for nbgrader")
            opinions = nbgrader.opinions()
        for result in graded:
            if result.student in opinions:
                add_opinion(result, opinions[result.student])
                report.write_result(places[result.student, exercise.name], result, exercise)
        results += graded
    report.write_class(out, results)
    return results


def _readable(path: Path) -> bool:
    try:
        return bool(intake.read_notebook(path))
    except intake.Malformed:
        return False


# -- one submission ------------------------------------------------------------------------------------------


def grade_safely(entry: intake.Entry, walls: Walls, limits: Limits) -> Result:
    """grade_entry, and a result that says so where the grader itself fails: that must not stop the class."""
    try:
        return grade_entry(entry, walls, limits)
    except Exception as error:
        return Result(
            student=entry.student,
            exercise=entry.exercise.name,
            outcome="crashed",
            score=0,
            max_score=exercises.template(entry.exercise).max_score,
            pending=exercises.template(entry.exercise).max_score,
            flags=[*entry.flags, "grader error"],
            problem=f"The grader failed ({type(error).__name__}: {str(error)[:200]}): look at it by hand.",
            walls=walls.sentence,
        )


def grade_entry(entry: intake.Entry, walls: Walls, limits: Limits) -> Result:
    """Grade one submission, whatever it is."""
    exercise = entry.exercise
    template = exercises.template(exercise)
    blank: dict[str, Any] = {
        "student": entry.student,
        "exercise": exercise.name,
        "score": 0,
        "max_score": template.max_score,
        "pending": 0,
        "flags": entry.flags,
        "walls": walls.sentence,
    }
    if walls.isolation == "none":
        blank["flags"] = [*entry.flags, "no isolation"]
    if entry.path is None:
        return Result(**blank, outcome="not submitted", problem="There is no notebook.")
    try:
        notebook = intake.read_notebook(entry.path)
        blank["notebook_sha256"] = hashlib.sha256(entry.path.read_bytes()).hexdigest()
    except (intake.Malformed, OSError) as error:
        return Result(**blank, outcome="malformed", problem=str(error))
    parsed = intake.parse(notebook, template)
    submission = Submission(parsed.cells, walls, limits, exercise.companions())
    try:
        submission.load()
        checks = run_checks(exercise, submission) + written_answers(template, parsed.written)
    finally:
        submission.close()
    outcome, problem = outcome_of(submission)
    blank["flags"] = blank["flags"] + parsed.flags + _cell_flags(submission)
    blank["score"] = sum(check.earned for check in checks)
    blank["pending"] = sum(check.pending for check in checks)
    return Result(
        **blank,
        outcome=outcome,
        problem=problem,
        checks=checks,
        cells=[CellResult(index=run.index, outcome=run.outcome, error=run.error) for run in submission.runs],  # type: ignore[arg-type]
        output=submission.stdout[:KEPT_OUTPUT],
    )


def written_answers(template: exercises.Template, written: Mapping[str, str]) -> list[CheckResult]:
    """Answers in words wait for the instructor; one that is not there has lost its points."""
    return [
        CheckResult(
            name=name,
            points=points,
            earned=0,
            outcome="by hand" if written[name] else "failed",
            idea="by hand" if written[name] else "not-written",
        )
        for name, points in template.written.items()
    ]


def outcome_of(submission: Submission) -> tuple[Outcome, str]:
    """Graded, if any question got an answer or nothing worse happened than that answers were missing."""
    if submission.answers:
        return "graded", ""
    if submission.deaths:
        death = submission.deaths[0]
        return death.kind, f"Its process did not live long enough to be asked: {death}."
    if any(run.outcome == "out of memory" for run in submission.runs):
        return "out of memory", "Its cells asked for more memory than there is."
    return "graded", ""


def _cell_flags(submission: Submission) -> list[str]:
    return [
        f"cell {run.index} {run.outcome}" for run in submission.runs if run.outcome not in ("ran", "raised")
    ]


def add_opinion(result: Result, opinion: SecondOpinion) -> None:
    """Put nbgrader's score beside ours, with a flag where the two differ."""
    result.nbgrader = opinion.score
    if opinion.problem:
        result.flags.append(f"nbgrader: {opinion.problem}")
        return
    differ = [check.name for check in result.checks if opinion.checks[check.name] != check.earned]
    if differ:
        result.flags.append(f"graders differ: {', '.join(differ)}")


# -- the checks, by pytest -----------------------------------------------------------------------------------


class _Verdicts:
    """A pytest plugin that gives every check its student and keeps what came of it."""

    def __init__(self, submission: Submission) -> None:
        self.submission = submission
        self.errors: dict[str, BaseException | None] = {}

    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[STUDENT] = self.submission

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        marker = item.get_closest_marker("check")
        if marker and (call.when == "call" or call.excinfo):
            self.errors[marker.args[0]] = call.excinfo.value if call.excinfo else None
        return (yield)


def run_checks(exercise: Exercise, submission: Submission) -> list[CheckResult]:
    """Run the hidden checks of an exercise on one submission; one that pytest could not run is an error."""
    verdicts = _Verdicts(submission)
    status = _pytest([str(ROOT / "autograder" / exercise.key)], [verdicts])
    if status == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    results = []
    for check in exercise.checks():
        error = verdicts.errors.get(check.name, RuntimeError("pytest did not run it"))
        outcome, idea = exercises.verdict(error)
        earned = check.points if outcome == "passed" else 0
        results.append(
            CheckResult(name=check.name, points=check.points, earned=earned, outcome=outcome, idea=idea)
        )
    return results


def _pytest(arguments: Sequence[str], plugins: Sequence[object]) -> int:
    """pytest in this process, silent, and with nobody's configuration but ours."""
    ours = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    theirs = {
        name: os.environ.pop(name) for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS") if name in os.environ
    }
    kept = {name: os.environ.get(name) for name in (*ours, "PYTEST_CURRENT_TEST", "PYTEST_VERSION")}
    os.environ.update(ours)
    options = [
        "-c",
        os.devnull,
        "--rootdir",
        str(ROOT),
        "-p",
        "no:cacheprovider",
        "-p",
        "no:faulthandler",
        "--tb=no",
    ]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return pytest.main([*options, "--capture=no", *arguments], plugins=list(plugins))
    finally:
        for name, value in {**kept, **theirs}.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
