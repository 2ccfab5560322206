"""Exercise 3 on a bank of right and wrong solutions: hidden checks, visible checks, both graders."""

import itertools
import random
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest
from bank import Bank
from ex3_solutions import RIGHT, WRONG, best_path, child, expected, rows, tree
from grading import Graded, run_cli

from autograder.ex3 import rule, test_compute, test_proof, test_rows, test_tree
from autograder.student import KernelStudent
from specdec import parents as shapes
from specdec.theory import exact, rejection, speedup, stats, trees

BANK = Bank("ex3")
NAMES = ("flatten", "ancestor_mask", "choose_child", "verify_tree", "measure", "expected_tokens", "compare")
# What only other trees than the examples of the notebook can show.
HIDDEN_ONLY = ("an invented law", "a leaf counts whatever is on the walk")


def test_the_points_sum_to_twenty_five() -> None:
    assert {check.name: check.points for check in BANK.exercise.checks()} == BANK.points
    assert sum(BANK.points.values()) == 25


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
    changes, expected_loss = WRONG[name]
    notebook = BANK.solved(**changes)
    assert BANK.lost(notebook) == expected_loss
    # nbgrader runs both halves of a test cell: a visible check must never fail where the hidden one passes
    told = BANK.told(notebook)
    assert set(told) <= set(expected_loss)
    assert told or name in HIDDEN_ONLY


@pytest.mark.parametrize("style", RIGHT)
def test_right_work_in_any_style_gets_full_marks(style: str) -> None:
    notebook = BANK.solved(**RIGHT[style])
    assert BANK.lost(notebook) == {}
    assert BANK.told(notebook) == {}


def test_wrong_ideas_in_several_parts_lose_the_points_of_each() -> None:
    changes = rows(sees="j <= i") | child(sampled="left") | tree(leaf="same / len(path)")
    changes |= expected(positions="depth")
    assert set(BANK.lost(BANK.solved(**changes))) == {
        "mask",
        "child-renormalised",
        "tree-leaves",
        "equal-positions",
    }


def test_a_half_finished_notebook_gets_what_it_earned() -> None:
    done = {f"{name}_code": BANK.solutions[f"{name}-code"] for name in ("rows", "child")}
    missing = BANK.lost(BANK.half(**done))
    names = list(BANK.points)
    assert missing == dict.fromkeys(names[names.index("tree-walk") :], "not-written")


def test_parts_that_wait_for_an_earlier_one_are_pending_not_lost() -> None:
    missing = BANK.lost(BANK.solved(child_code="def choose_child(node):\n    return None"))
    blocked = {name for name, idea in missing.items() if idea == "blocked"}
    assert blocked >= {"tree-walk", "tree-correction", "tree-bonus", "tree-leaves"}
    assert missing["child-first"] == missing["child-top"] == "shape"
    assert not {"rows", "mask", "expected-tokens", "equal-passes", "best-law", "proof"} & set(missing)


def test_the_visible_checks_need_the_standard_library_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert BANK.told_alone(tmp_path_factory.mktemp("right"), BANK.solved()) == {}
    changes, _ = WRONG["M15, siblings against the same q"]
    told = BANK.told_alone(tmp_path_factory.mktemp("wrong"), BANK.solved(**changes))
    assert set(told) == {"child-sibling"}
    assert told["child-sibling"].startswith("Not yet (a rejection changes what is owed): ")
    assert "|" not in told["child-sibling"]  # one line: no traceback frames


# -- pasting the library -------------------------------------------------------------------------------------


def public(*modules: ModuleType) -> Iterator[Callable[..., object]]:
    for module in modules:
        for name, value in vars(module).items():
            if (
                callable(value)
                and not name.startswith("_")
                and getattr(value, "__module__", "") == module.__name__
            ):
                yield value


def test_pasting_any_public_function_earns_less_than_two_fifths() -> None:
    """Each under each name that the exercise asks for, the best one per check, all together."""
    tensors = [import_module(f"specdec.{name}") for name in ("tree", "verify", "grow", "enumerate_tree")]
    given = BANK.names_of(BANK.released())
    functions = list(public(trees, exact, rejection, speedup, stats, shapes, *tensors))
    assert len(functions) > 40
    earned: set[str] = set()
    for function in functions:
        student = KernelStudent(given | dict.fromkeys([*NAMES, "best_path_law"], function))
        for check in BANK.exercise.checks():
            try:
                check.function(student)
                earned.add(check.name)
            except Exception:
                continue
    assert sum(BANK.points[name] for name in earned) < 0.4 * sum(BANK.points.values())


# -- what the checks themselves compute ----------------------------------------------------------------------


def markov(seed: int, size: int) -> tuple[list[rule.Row], list[rule.Row]]:
    rng = random.Random(seed)
    return [rule.row(rng, size) for _ in range(size)], [rule.row(rng, size) for _ in range(size)]


@pytest.mark.parametrize("branching", [[2], [2, 1], [2, 2]])
def test_the_walk_of_the_checks_is_lossless(branching: list[int]) -> None:
    """Every walk with its probability: what comes out, completed by q, is the verifier's joint law."""
    q, p = markov(5, 3)
    depth = len(branching)
    joint = np.zeros((3,) * (depth + 1))
    for one in rule.all_rounds(q, p, 0, branching):
        kept, _, owed = rule.walk(one["tree"]) or ([], {}, [])
        for rest in itertools.product(range(3), repeat=depth + 1 - len(kept)):
            chance, before = one["weight"] * owed[rest[0]], rest[0]
            for token in rest[1:]:
                chance, before = chance * q[before][token], token
            joint[(*kept, *rest)] += chance
    right = exact.verifier_distribution(exact.markov_table(np.array(q), 0, depth + 1))
    assert np.abs(joint - right).sum() / 2 < 1e-12


def test_one_row_of_the_checks_is_that_of_the_library() -> None:
    for node in [*rule.sampled_rows(), *rule.top_rows()]:
        children = [child["token"] for child in node["children"]]
        ps = (
            rejection.without_replacement(node["p"], children)
            if node["drawn"] == "sampled"
            else rejection.one_hot(children, len(node["q"]))
        )
        coins = [child["coin"] for child in node["children"]]
        step = rejection.verify_children(node["q"], ps, children, coins, 0.3)
        index, owed = rule.level(node)
        assert step.child == index
        if index is None:
            assert step.token == rejection.draw(owed, 0.3)


@pytest.mark.parametrize("branching", [[2], [2, 1], [2, 2]])
def test_expected_tokens_of_the_checks_are_the_mean_over_all_walks(branching: list[int]) -> None:
    q, p = markov(6, 3)
    walks = rule.all_rounds(q, p, 1, branching)
    mean = sum(one["weight"] * (1 + len((rule.walk(one["tree"]) or ([],))[0])) for one in walks)
    assert mean == pytest.approx(rule.expected_rule(q, p, 1, branching), abs=1e-12)


def test_the_law_of_the_best_path_is_that_of_the_library() -> None:
    """specdec's rule for whole trees, on one level of two children, enumerated by its own means."""
    for q, p in test_proof.pairs():
        if len(q) < 3:
            continue
        table_q = [np.array(q), np.broadcast_to(np.array(q), (len(q), len(q)))]
        law = exact.chain_distribution(
            table_q, [np.array(p)], lambda a, b, chance: trees.best_accepted_path(a, b, chance, [2])
        ).sum(axis=1)
        assert rule.best_law_rule(q, p) == pytest.approx(law.tolist(), abs=1e-12)


def test_no_right_decision_of_a_case_is_near_its_edge() -> None:
    rounds = [*test_tree.walks(), *test_tree.ends()]
    for one in rounds:
        assert all(rule.is_clear(node) for node, _ in rule.nodes_of(one.tree) if node["children"])
    assert all(rule.is_clear(node, rule.READINGS) for node in rule.sampled_rows())


def test_the_cases_hold_every_way_a_walk_can_end() -> None:
    ends = [(len(one.kept), bool(one.end[0]["children"])) for one in test_tree.walks()]
    assert {True, False} == {stops for _, stops in ends}
    assert {kept for kept, _ in ends} >= {0, 1, 2, 3}
    best = [rule.best_paths(one.tree)[0] != one.kept for one in test_tree.walks()]
    assert sum(best) >= 14
    assert (
        len({len(parents) for parents in map(test_rows.parents_rule, (t for t, _ in test_rows.trees()))}) > 4
    )


def test_the_task_s_tree_has_fourteen_nodes_and_costs_as_much_as_its_chains() -> None:
    assert test_compute.positions([2, 2, 2]) == 14
    names = BANK.names_of(BANK.solved())
    got = names["compare"](names["Q"], names["P"], names["LAST"], [2, 2, 2])
    close = names["compare"](names["Q"], names["CLOSE"], names["LAST"], [2, 2, 2])
    # what the last section of the notebook says
    assert got["tree"] > got["chain_equal_positions"] > got["chain_equal_passes"]
    assert close["chain_equal_positions"] > close["tree"] > close["chain_equal_passes"]


# -- both graders --------------------------------------------------------------------------------------------


@pytest.mark.sandbox
def test_both_graders_agree(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, out = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("out")
    handed_in = {
        "reference": BANK.solved(),
        "empty": BANK.released(),
        "m14": BANK.solved(**best_path()),
        "m15": BANK.solved(**WRONG["M15, siblings against the same q"][0]),
        "numpy": BANK.solved(**RIGHT["NumPy throughout"]),
    }
    for student, notebook in handed_in.items():
        BANK.hand_in(folder, student, notebook)
    graded = Graded(out, run_cli("grade", folder, "--out", out, "--exercise", "ex3"))
    scores = {student: (row["score"], row["nbgrader"]) for student, row in graded.rows.items()}
    assert scores == {
        "reference": (25, 25),
        "empty": (0, 0),
        "m14": (23, 23),
        "m15": (23, 23),
        "numpy": (25, 25),
    }
    assert all(row["flags"] == "" and row["pending"] == 0 for row in graded.rows.values())
    assert BANK.ideas["tree-best"]["sentence"] in graded.feedback("m14")
