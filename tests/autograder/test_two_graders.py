"""The seven submissions, and one that pastes the library, scored by both graders in one run."""

import inspect
from types import ModuleType

import pytest
from ex1_notebooks import EXERCISE, SEVEN, hand_in, solved
from grading import Graded, run_cli

from specdec.theory import rejection, stats

pytestmark = pytest.mark.sandbox

# What each wrong idea costs, and what the feedback has to say about it.
COSTS = {
    "reference": ({}, ""),
    "m01-residual-unclamped": ({"residual-positive": 2}, "residual-positive"),
    "m05-accept-inverted": ({"accept": 2}, "accept-inverted"),
    "m06-correction-from-q": ({"step-correction": 2}, "step-correction"),
    "m08-no-bonus": ({"step-bonus": 2}, "step-bonus"),
    "m10-second-sample": ({"chi-statistic": 2}, "chi-second-sample"),
}


def code_of(module: ModuleType) -> str:
    return inspect.getsource(module).replace("from specdec.theory.rejection import check_distribution\n", "")


def pasted_library() -> str:
    """The library's public functions under the names that the exercise asks for."""
    names = "speculative_step = verify_chain\nfrom specdec.errors import SpecdecError\n"
    error = "class SpecdecError(ValueError):\n    pass\n"
    source = code_of(rejection) + code_of(stats)
    return error + source.replace("from specdec.errors import SpecdecError\n", "") + names.splitlines()[0]


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Graded:
    folder, out = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("out")
    for student, notebook in SEVEN.items():
        hand_in(folder, student, notebook())
    missing = {f"{name}_code": "" for name in ("residual", "step", "chi", "count", "run")}
    hand_in(folder, "pasted", solved(accept_code=pasted_library(), **missing))
    return Graded(out, run_cli("grade", folder, "--out", out))


@pytest.mark.parametrize("student", COSTS)
def test_each_wrong_idea_costs_exactly_its_points_in_both_graders(graded: Graded, student: str) -> None:
    costs, _ = COSTS[student]
    row = graded.rows[student]
    assert graded.lost(student) == costs
    assert row["score"] == 20 - sum(costs.values()) == row["nbgrader"]
    assert (row["outcome"], row["pending"], row["flags"]) == ("graded", 0, "")


@pytest.mark.parametrize("student", [name for name, (_, idea) in COSTS.items() if idea])
def test_feedback_names_the_idea_that_was_missed(graded: Graded, student: str) -> None:
    idea = COSTS[student][1]
    entry = EXERCISE.ideas[idea]
    feedback = graded.feedback(student)
    assert entry["sentence"] in feedback
    assert entry["hint"] in feedback
    assert f"notebooks/{entry['page']}.ipynb" in feedback
    others = [one["sentence"] for name, one in EXERCISE.ideas.items() if name != idea]
    assert not any(sentence in feedback for sentence in others)


def test_the_empty_release_earns_nothing_from_either_grader(graded: Graded) -> None:
    row = graded.rows["empty"]
    assert (row["outcome"], row["score"], row["nbgrader"], row["pending"]) == ("graded", 0, 0, 0)
    assert {check["idea"] for check in graded.result("empty")["checks"]} == {"not-written"}


def test_pasting_the_library_earns_less_than_two_fifths(graded: Graded) -> None:
    row = graded.rows["pasted"]
    assert graded.outcome("pasted", "accept") == graded.outcome("pasted", "residual-equal") == "passed"
    assert 0 < row["score"] < 0.4 * row["max_score"]
    assert row["nbgrader"] == row["score"]


def test_the_table_shows_both_scores(graded: Graded) -> None:
    line = next(line for line in graded.process.stdout.splitlines() if line.startswith("m08-no-bonus"))
    assert line.split() == ["m08-no-bonus", EXERCISE.name, "graded", "18/20", "18"]
