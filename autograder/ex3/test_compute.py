"""Checks of tasks 4 and 5: means over rounds, expected tokens, and two chains of equal compute."""

import math
import random
from functools import cache
from typing import Any

import pytest

from autograder.ex3.rule import (
    TOLERANCE,
    Row,
    all_rounds,
    ask,
    expected_rule,
    leaf_paths,
    near,
    number,
    rounds,
    row,
    some,
    tables,
    vector,
    verdict_of,
    walk,
)
from autograder.ex3.test_tree import counts
from autograder.process import Died
from autograder.student import Blocked, Missed, NoAnswer, Student

Rounds = list[dict[str, Any]]
LINES = ("tree", "chain_equal_positions", "chain_equal_passes")


@cache
def samples() -> list[Rounds]:
    """Weighted rounds of the tree of the task, and every walk of two smaller trees, whose means are exact."""
    rng = random.Random(331)
    few = some(rounds(332, [[2, 2, 2]]), 10, lambda one: True)
    cuts = sorted(rng.sample(range(1, 64), 9))
    weights = [(b - a) / 64 for a, b in zip([0, *cuts], [*cuts, 64], strict=True)]
    result = [[{"tree": o.tree, "final": o.final, "weight": w} for o, w in zip(few, weights, strict=True)]]
    for branching in ([2], [2, 1]):
        q, p = tables(rng, 3)
        result.append(all_rounds(q, p, rng.randrange(3), branching))
    return result


def means_of(student: Student, sample: Rounds) -> dict[str, Any]:
    try:
        value = ask(student, "measure", sample)
    except NoAnswer as error:
        if error.idea != "not-written" and own_verdicts(student, sample) is None:
            raise Blocked("verify_tree") from None
        raise
    if type(value) is not dict or not {"alpha", "tokens_per_call"} <= set(value):
        raise Missed("shape", f"measure returned {value!r:.200}")
    return value


def own_verdicts(student: Student, sample: Rounds) -> list[tuple[int, list[int]]] | None:
    """(tokens emitted, accepted per leaf) of the student's own verify_tree; None where it gives no answer."""
    result = []
    for one in sample:
        try:
            tokens, per_leaf = verdict_of(student.call("verify_tree", one["tree"], one["final"]))
            leaves = vector(per_leaf, len(leaf_paths(one["tree"])))
        except (NoAnswer, Missed):
            return None
        except Died:
            raise Blocked("verify_tree") from None
        result.append((len(tokens), [round(x) for x in leaves]))
    return result


def right_verdicts(sample: Rounds) -> list[tuple[int, list[int]]]:
    result = []
    for one in sample:
        kept = (walk(one["tree"]) or ([], one["tree"], []))[0]
        result.append((len(kept) + 1, counts(one["tree"], kept)))
    return result


def alpha_of(sample: Rounds, verdicts: list[tuple[int, list[int]]]) -> Row:
    """The weight of the rounds in which a leaf's whole path was accepted, leaf by leaf."""
    depth = [len(path) for path in leaf_paths(sample[0]["tree"])]
    return [
        sum(one["weight"] for one, (_, leaves) in zip(sample, verdicts, strict=True) if leaves[i] == depth[i])
        for i in range(len(depth))
    ]


def tokens_of(sample: Rounds, verdicts: list[tuple[int, list[int]]]) -> float:
    return sum(one["weight"] * tokens for one, (tokens, _) in zip(sample, verdicts, strict=True))


@pytest.mark.check("alpha-leaves", points=1)
def test_alpha_is_the_share_of_rounds_that_accept_a_whole_path(student: Student) -> None:
    got = [
        vector(means_of(student, sample)["alpha"], len(leaf_paths(sample[0]["tree"]))) for sample in samples()
    ]
    if all(near(alpha, alpha_of(s, right_verdicts(s))) for alpha, s in zip(got, samples(), strict=True)):
        return
    own = [own_verdicts(student, sample) for sample in samples()]
    if all(v and near(alpha, alpha_of(s, v)) for alpha, s, v in zip(got, samples(), own, strict=True)):
        return
    raise Missed("alpha-leaves", f"{got}")


@pytest.mark.check("tokens-per-call", points=1)
def test_tokens_per_call_is_the_mean_of_what_was_emitted(student: Student) -> None:
    got = [number(means_of(student, sample)["tokens_per_call"]) for sample in samples()]
    right = [tokens_of(sample, right_verdicts(sample)) for sample in samples()]
    if near(got, right):
        return
    own = [own_verdicts(student, sample) for sample in samples()]
    if all(v and near([x], [tokens_of(s, v)]) for x, s, v in zip(got, samples(), own, strict=True)):
        return
    short = near([x + 1 for x in got], right)
    raise Missed("tokens-accepted" if short else "tokens-per-call", f"{got} instead of {right}")


# -- expected tokens, and equal compute ----------------------------------------------------------------------


@cache
def models() -> list[tuple[list[Row], list[Row], int, list[int]]]:
    """(q, p, last, branching): trees of one to three children a node, and chains; the first is the task's.

    In one row of each q and p are equal: nothing is rejected there.
    """
    rng = random.Random(333)
    result = []
    for branching in ([2, 2, 2], [3, 2], [2], [1, 2], [1] * 14, [1, 1, 1]):
        size = rng.randint(4, 5)
        q, p = ([row(rng, size) for _ in range(size)] for _ in range(2))
        p[0] = list(q[0])
        result.append((q, p, rng.randrange(size), branching))
    return result


def same(got: float, expected: float) -> bool:
    return math.isclose(got, expected, rel_tol=TOLERANCE)


@pytest.mark.check("expected-tokens", points=2)
def test_expected_tokens_adds_up_every_walk(student: Student) -> None:
    got = [(number(ask(student, "expected_tokens", *model)), expected_rule(*model)) for model in models()]
    if not all(same(x, right) for x, right in got):
        short = all(same(x + 1, right) for x, right in got)
        chains = all(same(x, right) for (x, right), (*_, k) in zip(got, models(), strict=True) if max(k) == 1)
        raise Missed(
            "expected-bonus" if short else "expected-tree" if chains else "expected-tokens", f"{got}"
        )


def positions(branching: list[int]) -> int:
    """Nodes of the tree: what the verifier reads beside the newest token."""
    return sum(math.prod(branching[: i + 1]) for i in range(len(branching)))


def comparisons(student: Student) -> list[tuple[tuple[Any, ...], dict[str, float]]]:
    result = []
    for q, p, last, branching in models()[:4]:
        try:
            value = ask(student, "compare", q, p, last, branching)
        except NoAnswer as error:
            if error.idea != "not-written" and own_expected(student, q, p, last, branching) is None:
                raise Blocked("expected_tokens") from None
            raise
        if type(value) is not dict or not set(LINES) <= set(value):
            raise Missed("shape", f"compare returned {value!r:.200}")
        result.append(((q, p, last, branching), {name: number(value[name]) for name in LINES}))
    return result


def own_expected(
    student: Student, q: list[Row], p: list[Row], last: int, branching: list[int]
) -> float | None:
    try:
        return number(student.call("expected_tokens", q, p, last, branching))
    except (NoAnswer, Missed):
        return None
    except Died:
        raise Blocked("expected_tokens") from None


def judge(student: Student, name: str, length: Any, idea: str) -> None:
    """Is this line that of a chain of the right length, by the rule or by the own expected tokens?"""
    asked = comparisons(student)
    found: list[list[bool]] = []
    for expected in (lambda *model: expected_rule(*model), lambda *model: own_expected(student, *model)):
        right = []
        for (q, p, last, branching), got in asked:
            chain, tree = expected(q, p, last, [1] * length(branching)), expected(q, p, last, branching)
            right.append(
                chain is not None and tree is not None and same(got[name], chain) and same(got["tree"], tree)
            )
        if all(right):
            return
        found.append(right)
    raise Missed(idea, f"{name}: {found}")


@pytest.mark.check("equal-positions", points=1)
def test_the_chain_of_equal_positions_has_as_many_drafts_as_the_tree_has_nodes(student: Student) -> None:
    judge(student, "chain_equal_positions", positions, "equal-positions")


@pytest.mark.check("equal-passes", points=1)
def test_the_chain_of_equal_passes_is_as_long_as_the_tree_is_deep(student: Student) -> None:
    judge(student, "chain_equal_passes", len, "equal-passes")
