"""One run over a class that hands in several exercises, as a tree and as a heap of notebooks."""

import json
from pathlib import Path

import pytest
from bank import Bank
from grading import run_cli

pytestmark = pytest.mark.sandbox
EX1, EX2, EX4 = (Bank(key) for key in ("ex1", "ex2", "ex4"))


def graded(folder: Path, out: Path, *options: str) -> dict[tuple[str, str], tuple[str, int]]:
    """{(student, exercise): (outcome, score)} of the class table."""
    run = run_cli("grade", folder, "--out", out, "--no-nbgrader", *options)
    assert run.returncode == 0, run.stderr
    rows = json.loads((out / "grades.json").read_text())
    return {(row["student"], row["exercise"]): (row["outcome"], row["score"]) for row in rows}


def test_a_tree_with_several_exercises_is_graded_and_what_is_missing_is_asked_for(tmp_path: Path) -> None:
    for bank in (EX2, EX4):
        bank.hand_in(tmp_path / "class", "ada", bank.solved())
    EX2.hand_in(tmp_path / "class", "bob", EX2.released())
    expected = {
        ("ada", EX2.name): ("graded", 12),
        ("ada", EX4.name): ("graded", 20),
        ("bob", EX2.name): ("graded", 0),
        ("bob", EX4.name): ("not submitted", 0),
    }
    assert graded(tmp_path / "class", tmp_path / "all") == expected
    assert (tmp_path / "all" / "ada" / EX4.name / "feedback.md").is_file()
    only = graded(tmp_path / "class", tmp_path / "only", "--exercise", "ex4")
    assert only == {key: value for key, value in expected.items() if key[1] == EX4.name}


def test_loose_notebooks_are_told_apart_by_what_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    for name, bank in {"ada": EX1, "bob": EX2, "eve": EX4}.items():
        (tmp_path / "class" / f"{name}.ipynb").write_text(json.dumps(bank.solved()))
    assert graded(tmp_path / "class", tmp_path / "out") == {
        ("ada", EX1.name): ("graded", 20),
        ("bob", EX2.name): ("graded", 12),
        ("eve", EX4.name): ("graded", 20),
    }
