"""What a student sees: the checks beside the notebook, with the standard library alone."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ex1_notebooks import (
    ACCEPT_INVERTED,
    BONUS_FROM_USED_ROW,
    CHI_WRONG_DF,
    CORRECTION_FROM_Q,
    DRAFT_BY_ARGMAX,
    EXERCISE,
    GOES_ON,
    NO_BONUS,
    RELEASED,
    RESIDUAL_UNCLAMPED,
    RESIDUAL_UNNORMALISED,
    released,
    solved,
)

from autograder.exercises import ROOT, template

# Runs a notebook's cells in order, as Jupyter does, and prints "NAME: what its check said".
RUNNER = """
import json, sys
names = {"__name__": "__main__"}
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] != "code":
        continue
    name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
    try:
        exec("".join(cell["source"]), names)
    except Exception as error:
        shown = error._render_traceback_() if hasattr(error, "_render_traceback_") else ["raised"]
        print(f"{name}: {' | '.join(shown)}")
assert not {"numpy", "scipy", "specdec", "autograder"} & set(sys.modules)
"""


def said(folder: Path, notebook: dict[str, Any]) -> dict[str, str]:
    """{check: sentence} of every visible check that fails, in a Python with its standard library alone."""
    for name, content in EXERCISE.companions().items():
        (folder / name).write_bytes(content)
    (folder / "work.ipynb").write_text(json.dumps(notebook))
    run = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, '.')\n{RUNNER}", "work.ipynb"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    lines = [line.split(": ", 1) for line in run.stdout.splitlines() if ": " in line and "ok: " not in line]
    return {name: text for name, text in lines if name in template(EXERCISE).tests}


def test_the_reference_solution_passes_every_visible_check(tmp_path: Path) -> None:
    assert said(tmp_path, solved()) == {}


def test_an_empty_notebook_is_told_what_is_not_written(tmp_path: Path) -> None:
    told = said(tmp_path, released())
    assert set(told) == set(template(EXERCISE).tests)
    assert all(EXERCISE.ideas["not-written"]["sentence"] in text for text in told.values())


@pytest.mark.parametrize(
    ("cell", "source", "check"),
    [
        ("accept_code", ACCEPT_INVERTED, "accept"),
        ("residual_code", RESIDUAL_UNCLAMPED, "residual-positive"),
        ("residual_code", RESIDUAL_UNNORMALISED, "residual-sums-to-one"),
        ("step_code", DRAFT_BY_ARGMAX, "step-drafts"),
        ("step_code", GOES_ON, "step-stops"),
        ("step_code", CORRECTION_FROM_Q, "step-correction"),
        ("step_code", NO_BONUS, "step-bonus"),
        ("step_code", BONUS_FROM_USED_ROW, "step-bonus"),
        ("chi_code", CHI_WRONG_DF, "chi-df"),
    ],
)
def test_a_wrong_idea_is_told_in_a_sentence_and_nothing_else_is(
    tmp_path: Path, cell: str, source: str, check: str
) -> None:
    told = said(tmp_path, solved(**{cell: source}))
    assert set(told) == {check}
    assert "|" not in told[check]  # one line: no traceback frames
    assert re.match(r"Not yet \(.+\): .+\. Read again: chapter 0\d-[\w-]+, [\w ]+\.$", told[check])


def test_a_notebook_opened_alone_says_which_files_belong_next_to_it(tmp_path: Path) -> None:
    notebook = solved()
    run = subprocess.run(
        [sys.executable, "-S", "-c", RUNNER, _write(tmp_path / "alone.ipynb", notebook)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "ex1_checks.py and ex1_ideas.json" in run.stdout


def _write(path: Path, notebook: dict[str, Any]) -> str:
    path.write_text(json.dumps(notebook))
    return str(path)


def test_the_visible_checks_import_the_standard_library_only() -> None:
    tree = ast.parse((EXERCISE.folder / "ex1_checks.py").read_text())
    imported = {
        (node.module or "").split(".")[0] if isinstance(node, ast.ImportFrom) else alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert imported <= set(sys.stdlib_module_names)


def test_every_idea_has_a_sentence_a_hint_and_a_page_that_exists() -> None:
    for name, idea in EXERCISE.ideas.items():
        assert set(idea) == {"title", "sentence", "hint", "page", "section"}, name
        assert idea["sentence"].endswith((".", "!")), name
        page = ROOT / "book" / f"{idea['page']}.md"
        assert page.is_file(), name
        assert re.search(rf"^#+ {re.escape(idea['section'])}$", page.read_text(), re.MULTILINE), name


def test_the_notebook_says_difficulty_importance_minutes_and_the_points_of_every_task() -> None:
    cells = released()["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    for word in ("Difficulty", "Importance", "minutes", "chapter 02"):
        assert word in text
    table = [int(points) for points in re.findall(r"^\| \d \|.*\| (\d+) \|$", text, re.MULTILINE)]
    headings = [int(points) for points in re.findall(r"^## Task \d: .*\((\d+) points\)$", text, re.MULTILINE)]
    assert table == headings
    assert sum(table) == sum(template(EXERCISE).points.values()) == 20
    assert text.count("<details>") == 2 * len(table)


def test_the_first_cell_is_the_setup_cell_and_no_cell_has_an_output() -> None:
    for path in (RELEASED, EXERCISE.notebook):
        cells = json.loads(path.read_text())["cells"]
        assert cells[0]["metadata"]["tags"] == ["setup"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
