"""Checks of task 3: the walk down a whole tree, given the student's own choose_child (see rule.py)."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from autograder.ex3.rule import (
    Decide,
    Node,
    Round,
    Row,
    Student,
    ask_round,
    at,
    best_paths,
    draw,
    first_drawn,
    leaf_paths,
    level,
    own_choice,
    residual_rule,
    rounds,
    some,
    walk,
)
from autograder.student import Blocked, Missed

SHAPES = ([2, 2, 2], [2, 2, 2], [3, 2], [2, 1, 2], [1, 1, 1])
Verdict = tuple[list[Any], Any]


@cache
def walks() -> list[Round]:
    """Trees of every end, most of which tell a walk from a choice among independently accepted paths."""
    differ = some(rounds(321, SHAPES), 14, lambda one: best_paths(one.tree)[0] != one.kept)
    return differ + some(rounds(322, SHAPES), 8, lambda one: True)


@cache
def ends() -> list[Round]:
    """Trees in which the best of the accepted paths is the walk, so that the last token can be judged alone.

    Half of them end early, and their last token is not that of q or of the residual of q and p.
    """

    def agrees(one: Round) -> bool:
        return best_paths(one.tree)[0] == one.kept

    def corrected(one: Round) -> bool:
        node, owed = one.end
        others = [node["q"]] + [residual_rule(node["q"], node["p"])] * (len(node["children"]) > 1)
        told = draw(owed, one.final) not in {draw(other, one.final) for other in others}
        return bool(node["children"]) and told and agrees(one)

    def bonus(one: Round) -> bool:
        node, above = one.end[0], at(one.tree, one.kept[:-1]) or one.tree
        told = draw(above["q"], one.final) != draw(node["q"], one.final)
        return not node["children"] and told and agrees(one)

    shapes = [shape for shape in SHAPES if shape != [1, 1, 1]]
    return some(rounds(323, shapes), 6, corrected) + some(rounds(324, SHAPES), 6, bonus)


def readings(student: Student) -> list[Decide]:
    return [level, own_choice(student)]


def fits(tokens: Sequence[Any], kept: Sequence[int], tree: Node) -> bool:
    """Are the tokens what was kept and one more? A bonus may be missing: it has its own point."""
    if list(tokens) == list(kept) and not (at(tree, kept) or tree)["children"]:
        return True
    return list(tokens[:-1]) == list(kept) and len(tokens) == len(kept) + 1


@pytest.mark.check("tree-walk", points=2)
def test_the_walk_goes_down_one_accepted_child_at_a_time(student: Student) -> None:
    answers = [ask_round(student, one) for one in walks()]
    for decide in readings(student):
        paths = [walk(one.tree, decide) for one in walks()]
        if any(path is None for path in paths):
            raise Blocked("choose_child")
        if all(
            path and fits(tokens, path[0], one.tree)
            for one, path, (tokens, _) in zip(walks(), paths, answers, strict=True)
        ):
            return
    best = all(
        any(fits(tokens, path, one.tree) for path in best_paths(one.tree))
        for one, (tokens, _) in zip(walks(), answers, strict=True)
    )
    raise Missed("tree-best" if best else "tree-walk", f"{answers}")


def stops(student: Student) -> list[tuple[Round, list[Any], Node]]:
    """The rounds of `ends`, the tokens that the student emitted, and the node where the student stopped."""
    result = []
    for one in ends():
        tokens, _ = ask_round(student, one)
        end = one.end[0]
        # without a bonus the last token is that of the leaf
        node = end if tokens == one.kept and not end["children"] else at(one.tree, tokens[:-1])
        if node is not None:
            result.append((one, tokens, node))
    return result


@pytest.mark.check("tree-correction", points=1)
def test_a_walk_that_stops_early_draws_from_what_is_owed_there(student: Student) -> None:
    judged = [(one, tokens, node) for one, tokens, node in stops(student) if node["children"]]
    if not judged:
        raise Missed("tree-correction", "no walk stopped early")
    for decide in readings(student):
        owed = [decide(node) for _, _, node in judged]
        if all(
            answer and tokens and {tokens[-1]} <= first_drawn(answer[1], one.final)
            for (one, tokens, _), answer in zip(judged, owed, strict=True)
        ):
            return
        if any(answer is None for answer in owed):
            raise Blocked("choose_child")
    from_q = all(tokens[-1:] == [draw(node["q"], one.final)] for one, tokens, node in judged)
    raise Missed("tree-correction-q" if from_q else "tree-correction", f"{judged[0]}")


@pytest.mark.check("tree-bonus", points=1)
def test_a_leaf_that_is_reached_earns_a_bonus(student: Student) -> None:
    judged = [(one, tokens, node) for one, tokens, node in stops(student) if not node["children"]]
    if not judged:
        raise Missed("tree-bonus", "no walk reached a leaf")
    own = own_choice(student)

    def allowed(one: Round, node: Node, decide: Decide) -> set[int]:
        answer: tuple[int | None, Row] | None = (None, node["q"]) if decide is level else decide(node)
        return first_drawn(answer[1], one.final) if answer and node["q"] else set()

    for decide in (level, own):
        if all(
            at(one.tree, tokens[:-1]) is node and {tokens[-1]} <= allowed(one, node, decide)
            for one, tokens, node in judged
        ):
            return
    missing = all(at(one.tree, tokens) is node for one, tokens, node in judged)
    raise Missed("tree-bonus" if missing else "tree-bonus-row", f"{judged[0]}")


@pytest.mark.check("tree-leaves", points=1)
def test_every_leaf_has_its_count_of_accepted_tokens(student: Student) -> None:
    for one in walks():
        tokens, per_leaf = ask_round(student, one)
        kept = [tokens[:-1], one.kept] + ([tokens] if at(one.tree, tokens) else [])
        if per_leaf not in [counts(one.tree, path) for path in kept]:
            raise Missed("tree-leaves", f"{per_leaf} for the tokens {tokens} of {leaf_paths(one.tree)}")


def counts(tree: Node, kept: Sequence[Any]) -> list[int]:
    """For every leaf, left to right, how many drafted tokens of its path were accepted."""
    result = []
    for path in leaf_paths(tree):
        same = [a == b for a, b in zip(path, kept, strict=False)]
        result.append(([*same, False]).index(False))
    return result
