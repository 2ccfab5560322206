"""What holds for each exercise: its statement, its sentences, its first cell, its visible checks."""

import ast
import json
import re
import sys

import pytest
from bank import Bank

from autograder.exercises import ROOT, Exercise, exercises, template

pytestmark = pytest.mark.parametrize("exercise", exercises(), ids=lambda one: one.key)
POINTS = {"ex1": 20, "ex2": 15, "ex3": 25, "ex4": 20, "ex5": 20}
GENERAL = {"not-written", "raised", "shape", "timed out", "out of memory", "crashed", "blocked", "error"}


def test_its_points_are_those_of_the_course(exercise: Exercise) -> None:
    source = template(exercise)
    assert {check.name: check.points for check in exercise.checks()} == source.points
    assert source.max_score == POINTS[exercise.key]
    assert sum(source.written.values()) <= 4


def test_every_idea_has_a_sentence_a_hint_and_a_page_that_exists(exercise: Exercise) -> None:
    ideas = exercise.ideas
    assert set(ideas) >= GENERAL
    assert set(template(exercise).points) | set(template(exercise).written) <= set(ideas)
    for name, idea in ideas.items():
        assert set(idea) == {"title", "sentence", "hint", "page", "section"}, name
        assert idea["sentence"].endswith((".", "!")), name
        page = ROOT / "book" / f"{idea['page']}.md"
        assert page.is_file(), name
        assert re.search(rf"^#+ {re.escape(idea['section'])}$", page.read_text(), re.MULTILINE), name


def test_every_idea_that_a_check_names_is_in_the_table(exercise: Exercise) -> None:
    sources = [path.read_text() for path in (ROOT / "autograder" / exercise.key).glob("*.py")]
    sources.append((exercise.folder / f"{exercise.key}_checks.py").read_text())
    named = {
        node.args[0].value
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Missed", "NotYet")
        and isinstance(node.args[0], ast.Constant)
    }
    assert named
    assert named <= set(exercise.ideas)


def test_its_notebook_says_difficulty_importance_minutes_and_the_points_of_every_task(
    exercise: Exercise,
) -> None:
    cells = Bank(exercise.key).released()["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    for word in ("Difficulty", "Importance", "minutes", "Prepared by", "chapter 0", "By hand", "Stretch"):
        assert word in text
    table = [int(points) for points in re.findall(r"^\| \d \|.*\| (\d+) \|$", text, re.MULTILINE)]
    headings = [int(points) for points in re.findall(r"^## Task \d: .*\((\d+) points?\b", text, re.MULTILINE)]
    assert table == headings
    assert sum(table) == template(exercise).max_score
    assert text.count("<details>") == 2 * len(table)


def test_every_check_cell_says_its_points(exercise: Exercise) -> None:
    tests = template(exercise).tests
    for name, points in template(exercise).points.items():
        word = "point" if points == 1 else "points"
        assert tests[name].startswith(f"# {points} {word}: ")


def test_its_first_cell_is_the_setup_cell_and_no_cell_has_an_output(exercise: Exercise) -> None:
    for path in (Bank(exercise.key).released_at, exercise.notebook):
        cells = json.loads(path.read_text())["cells"]
        assert cells[0]["metadata"]["tags"] == ["setup"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


def test_its_visible_checks_import_the_standard_library_only(exercise: Exercise) -> None:
    tree = ast.parse((exercise.folder / f"{exercise.key}_checks.py").read_text())
    imported = {
        (node.module or "").split(".")[0] if isinstance(node, ast.ImportFrom) else alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert imported <= set(sys.stdlib_module_names)
