"""Exercise 2 on a bank of right and wrong solutions: hidden checks, visible checks, both graders."""

import inspect
import json
from pathlib import Path

import pytest
from bank import Bank
from ex2_solutions import RIGHT, WRONG, optimum, pasted, time, tokens
from grading import Graded, run_cli

from autograder.exercises import template
from specdec.theory import speedup

BANK = Bank("ex2")
HALF = {"tokens_code": BANK.solutions["tokens-code"], "time_code": BANK.solutions["time-code"]}


def test_the_points_sum_to_fifteen_and_three_of_them_are_given_by_hand() -> None:
    assert {check.name: check.points for check in BANK.exercise.checks()} == BANK.points
    assert sum(BANK.points.values()) == 12
    assert template(BANK.exercise).written == {"explanation": 3}
    assert template(BANK.exercise).max_score == 15


def test_the_reference_solution_loses_nothing() -> None:
    assert BANK.lost(BANK.solved()) == {}
    assert BANK.told(BANK.solved()) == {}


def test_the_empty_release_earns_nothing_and_is_told_so() -> None:
    assert BANK.lost(BANK.released()) == dict.fromkeys(BANK.points, "not-written")
    told = BANK.told(BANK.released())
    assert set(told) == set(BANK.points)
    assert all(BANK.ideas["not-written"]["sentence"] in sentence for sentence in told.values())


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_idea_loses_its_own_points_and_is_named(name: str) -> None:
    changes, expected = WRONG[name]
    notebook = BANK.solved(**changes)
    assert BANK.lost(notebook) == expected
    told = BANK.told(notebook)
    assert set(told) == set(expected)
    for check, idea in expected.items():
        assert BANK.ideas[idea]["sentence"] in told[check]


@pytest.mark.parametrize("style", RIGHT)
def test_right_work_in_any_style_gets_full_marks(style: str) -> None:
    notebook = BANK.solved(**RIGHT[style])
    assert BANK.lost(notebook) == {}
    assert BANK.told(notebook) == {}


def test_the_visible_checks_need_the_standard_library_alone(tmp_path: Path) -> None:
    table = RIGHT["recursion, tuples and a table"]["sweep_code"]
    assert BANK.told_alone(tmp_path, BANK.solved(sweep_code=table)) == {}
    told = BANK.told_alone(tmp_path, BANK.solved(**WRONG["M12, no verifier pass"][0], sweep_code=table))
    assert set(told) == {"time-verifier"}
    assert told["time-verifier"].startswith("Not yet (the verifier's own pass): ")
    assert "|" not in told["time-verifier"]  # one line: no traceback frames


def test_wrong_ideas_in_several_parts_lose_the_points_of_each() -> None:
    changes = tokens("sum(alpha**k for k in range(N))") | time(verifier="(N + 1) / E")
    notebook = BANK.solved(**changes | optimum(sweep="lengths[place], False"))
    assert set(BANK.lost(notebook)) == {"tokens-formula", "time-verifier", "edge"}


def test_a_half_finished_notebook_gets_what_it_earned() -> None:
    missing = BANK.lost(BANK.half(**HALF))
    assert set(missing) == {"sweep-values", "sweep-labels", "edge", "optimum", "measured"}
    assert set(missing.values()) == {"not-written"}


def test_a_part_that_waits_for_an_earlier_one_is_pending_not_lost() -> None:
    missing = BANK.lost(BANK.solved(tokens_code="def expected_tokens(alpha, N):\n    return None"))
    assert missing["tokens-formula"] == "shape"
    assert missing["time-draft"] == missing["optimum"] == missing["measured"] == "blocked"
    assert "edge" not in missing


def test_pasting_the_library_earns_less_than_two_fifths() -> None:
    source = inspect.getsource(speedup).replace("from specdec.errors import SpecdecError\n", "")
    missing = BANK.lost(BANK.solved(**pasted("class SpecdecError(ValueError):\n    pass\n" + source)))
    earned = sum(points for name, points in BANK.points.items() if name not in missing)
    assert 0 < earned < 0.4 * sum(BANK.points.values())
    for function in ("expected_tokens", "wall_time", "operations"):
        alone = pasted(source.replace(f"def {function}(", "def expected_tokens("))
        assert len(BANK.lost(BANK.solved(**alone))) > 6


@pytest.mark.sandbox
def test_both_graders_agree_and_the_explanation_waits_for_its_reader(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder, out = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("out")
    handed_in = {
        "reference": BANK.solved(),
        "empty": BANK.released(),
        "m11": BANK.solved(**WRONG["M11, exponent N"][0]),
        "silent": BANK.solved(**WRONG["M13, the sweep of the task"][0], explanation="YOUR ANSWER HERE"),
        "bars": BANK.solved(**RIGHT["a class, and nothing calls an earlier part"]),
    }
    for student, notebook in handed_in.items():
        BANK.hand_in(folder, student, notebook)
    graded = Graded(out, run_cli("grade", folder, "--out", out, "--exercise", "ex2"))
    scores = {
        student: (row["score"], row["nbgrader"], row["pending"]) for student, row in graded.rows.items()
    }
    assert scores == {
        "reference": (12, 12, 3),
        "empty": (0, 0, 0),
        "m11": (10, 10, 3),
        "silent": (11, 11, 0),
        "bars": (12, 12, 3),
    }
    assert all(row["flags"] == "" and row["max_score"] == 15 for row in graded.rows.values())
    assert graded.outcome("reference", "explanation") == "by hand"
    assert graded.outcome("silent", "explanation") == "failed"
    assert BANK.ideas["by hand"]["sentence"] in graded.feedback("reference")
    assert BANK.ideas["optimum-edge"]["sentence"] in graded.feedback("silent")
    assert BANK.ideas["explanation"]["title"] in graded.feedback("silent")


def test_the_rubric_and_the_notebook_agree_on_the_points_by_hand() -> None:
    rubric = (BANK.exercise.folder.parent.parent / "autograder/ex2/rubric.md").read_text()
    assert "3 points by hand" in rubric
    assert rubric.count("\n1. ") == rubric.count("\n2. ") == rubric.count("\n3. ") == 1
    text = json.dumps(BANK.released())
    assert "read by your instructor" in text
    assert "shared by more of them" not in text
