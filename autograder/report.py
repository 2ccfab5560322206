"""Writes what came out: result.json and feedback.md per student, grades.csv and grades.json for the class, a
table.

feedback.md is for the student: it names ideas, never hidden inputs, expected values or the source of a check.
result.json is for the instructor. Every file is written beside its place and moved there, so none is ever
half there. Names of students and words of submissions are data: they are escaped where a file or a terminal
would read them.
"""

import csv
import io
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder.exercises import Exercise
from autograder.result import CheckResult, Result

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
GENERAL = (
    *("not-written", "raised", "shape", "timed out", "out of memory", "crashed"),
    *("blocked", "by hand", "error"),
)
STYLES = {"graded": "", "not submitted": "dim"}


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that it is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def places(out: Path, submissions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Path]:
    """One folder per (student, exercise): OUT/STUDENT/EXERCISE, of harmless characters and never shared."""
    folders: dict[str, str] = {}
    for student in dict.fromkeys(student for student, _ in submissions):
        name = plain_name = re.sub(r"[^\w.-]+", "_", student)[:80].lstrip(".") or "student"
        number = 1
        while name.lower() in (taken.lower() for taken in folders.values()):
            number += 1
            name = f"{plain_name}-{number}"
        folders[student] = name
    return {(student, exercise): out / folders[student] / exercise for student, exercise in submissions}


def write_result(folder: Path, result: Result, exercise: Exercise) -> None:
    """result.json and feedback.md of one submission."""
    write_atomically(folder / "result.json", result.model_dump_json(indent=1) + "\n")
    write_atomically(folder / "feedback.md", feedback(result, exercise))


# -- one student ---------------------------------------------------------------------------------------------


def feedback(result: Result, exercise: Exercise) -> str:
    """What a student reads: the score, and per missed idea a sentence, a hint and where to read again."""
    lines = [f"# {exercise.name}: {result.score} of {result.max_score} points", ""]
    lines += [f"Student: {markdown(result.student)}", ""]
    if result.outcome != "graded":
        lines += [
            f"**Outcome: {result.outcome}.** {result.problem} This is not a judgement of your work.",
            "",
        ]
    if result.pending:
        lines += [f"{result.pending} points are pending: they are neither earned nor lost yet.", ""]
    ideas = exercise.ideas
    missed = [check for check in result.checks if check.outcome != "passed"]
    for idea in dict.fromkeys(check.idea for check in missed if check.idea in GENERAL):
        lines += _general(idea, [check for check in missed if check.idea == idea], ideas)
    for check in missed:
        if check.idea not in GENERAL:
            lines += _missed(check, ideas)
    passed = [check for check in result.checks if check.outcome == "passed"]
    if passed:
        lines += ["## What is right", "", *_listed(passed, ideas), ""]
    return "\n".join(lines)


def _missed(check: CheckResult, ideas: dict[str, dict[str, str]]) -> list[str]:
    """One idea that was missed. A check may name a narrower idea than its own."""
    task, idea = ideas[check.name], ideas[check.idea]
    narrower = "" if check.idea == check.name else f"**{capital(idea['title'])}.** "
    return [
        f"## {capital(task['title'])} ({_points(check.points)} not earned)",
        "",
        narrower + idea["sentence"],
        "",
        f"Hint: {idea['hint']}",
        "",
        f"Read again: {where(idea)}",
        "",
    ]


def _general(name: str, checks: Sequence[CheckResult], ideas: dict[str, dict[str, str]]) -> list[str]:
    """What several checks have in common and is no idea, such as a function that is not written yet."""
    idea, points = ideas[name], sum(check.points for check in checks)
    what = "pending" if checks[0].pending else "not earned"
    pages = dict.fromkeys(where(ideas[check.name]) for check in checks)
    return [
        f"## {capital(idea['title'])} ({_points(points)} {what})",
        "",
        idea["sentence"],
        "",
        *_listed(checks, ideas),
        "",
        f"Hint: {idea['hint']}",
        "",
        f"Read again: {', '.join(pages)}",
        "",
    ]


def _listed(checks: Sequence[CheckResult], ideas: dict[str, dict[str, str]]) -> list[str]:
    return [f"- {ideas[check.name]['title']} ({_points(check.points)})" for check in checks]


def where(idea: dict[str, str]) -> str:
    """The chapter to read again, and its section."""
    return f"notebooks/{idea['page']}.ipynb, {idea['section']}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _points(points: int) -> str:
    return f"{points} point" if points == 1 else f"{points} points"


def markdown(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line."""
    shown = CONTROL.sub(" ", text)[:200].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#|!~])", r"\\\1", shown)


# -- the class -----------------------------------------------------------------------------------------------


def write_class(out: Path, results: Sequence[Result]) -> None:
    """grades.csv and grades.json."""
    rows = [result.row() for result in results]
    table = io.StringIO()
    writer = csv.DictWriter(table, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows([{key: cell(value) for key, value in row.items()} for row in rows])
    write_atomically(out / "grades.csv", table.getvalue())
    write_atomically(out / "grades.json", json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def cell(value: object) -> object:
    """A value that a spreadsheet shows and does not compute."""
    if not isinstance(value, str):
        return value
    text = CONTROL.sub(" ", value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def print_table(console: Console, results: Sequence[Result], with_nbgrader: bool) -> None:
    """The class on the terminal: both scores side by side."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("student", overflow="fold")
    for name in ("exercise", "outcome"):
        table.add_column(name, no_wrap=True)
    for name in ("score", "pending", *(["nbgrader"] if with_nbgrader else [])):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("flags", overflow="fold")
    for result in results:
        second = "-" if result.nbgrader is None else f"{result.nbgrader:g}"
        words = [
            result.student[:60],
            result.exercise,
            result.outcome,
            f"{result.score}/{result.max_score}",
            str(result.pending) if result.pending else "",
            *([second] if with_nbgrader else []),
            "; ".join(result.flags),
        ]
        style = STYLES.get(result.outcome, "yellow")
        table.add_row(*(Text(CONTROL.sub(" ", word), style=style) for word in words))
    console.print(table)
