"""Checks of task 1: the rows of one verifier pass, their positions, and the mask.

Positions and mask may follow the student's own rows: another order costs the point of the rows and no other.
"""

import random
from functools import cache
from typing import Any

import pytest

from autograder.ex3.rule import Node, ask, grow, nodes_of, ragged, tables
from autograder.process import Died
from autograder.student import Blocked, Missed, NoAnswer, Student


@cache
def trees() -> list[tuple[Node, int]]:
    """(tree, cached): the tree of the task and others, some of them ragged."""
    rng = random.Random(301)
    result = []
    for branching in ([2, 2, 2], [3, 2], [1, 1, 1, 1], [2, 1, 2]):
        q, p = tables(rng, 5)
        result.append((grow(rng, q, p, rng.randrange(5), branching), rng.randint(1, 40)))
    return result + [(ragged(rng, 5, 3), rng.randint(1, 40)) for _ in range(4)]


def rows_of(student: Student, tree: Node, cached: int) -> dict[str, list[Any]]:
    value = ask(student, "flatten", tree, cached)
    if type(value) is not dict or not {"tokens", "parents", "positions"} <= set(value):
        raise Missed("shape", f"flatten returned {value!r:.200}")
    if not all(type(value[name]) is list for name in ("tokens", "parents", "positions")):
        raise Missed("shape", f"flatten returned {value!r:.200}")
    return value


def parents_rule(tree: Node) -> list[int]:
    return [parent for _, parent in nodes_of(tree)]


def is_parents(value: Any, size: int) -> bool:
    """Is this some order of a tree's rows, parents first? Then positions and mask may follow it."""
    return (
        type(value) is list
        and len(value) == size
        and all(type(x) is int for x in value)
        and value[0] == -1
        and all(0 <= parent < i for i, parent in enumerate(value) if i)
    )


def depths(parents: list[int]) -> list[int]:
    result: list[int] = []
    for parent in parents:
        result.append(result[parent] + 1 if result else 0)
    return result


def mask_rule(parents: list[int]) -> list[list[bool]]:
    """Row by row: what the parent sees, and the row itself."""
    rows: list[list[bool]] = []
    for i, parent in enumerate(parents):
        above = rows[parent] if i else [False] * len(parents)
        rows.append([seen or i == j for j, seen in enumerate(above)])
    return rows


@pytest.mark.check("rows", points=1)
def test_rows_are_numbered_level_by_level(student: Student) -> None:
    for tree, cached in trees():
        got = rows_of(student, tree, cached)
        tokens = [node["token"] for node, _ in nodes_of(tree)]
        if got["tokens"] != tokens or got["parents"] != parents_rule(tree):
            raise Missed(
                "rows", f"{got['tokens']} and {got['parents']} instead of {tokens}, {parents_rule(tree)}"
            )


@pytest.mark.check("positions", points=1)
def test_positions_count_depth_and_not_rows(student: Student) -> None:
    by_row = []
    for tree, cached in trees():
        rows, parents = rows_of(student, tree, cached), parents_rule(tree)
        orders = [parents] + ([rows["parents"]] if is_parents(rows["parents"], len(parents)) else [])
        if rows["positions"] not in [[cached + depth for depth in depths(order)] for order in orders]:
            by_row.append(rows["positions"] == list(range(cached, cached + len(parents))))
    if by_row:
        raise Missed("positions-row" if all(by_row) else "positions", f"{len(by_row)} trees are wrong")


@pytest.mark.check("mask", points=2)
def test_a_row_sees_itself_and_its_ancestors_alone(student: Student) -> None:
    for tree, cached in trees():
        parents = parents_rule(tree)
        mask = ask(student, "ancestor_mask", tree)
        size = len(parents)
        if type(mask) is not list or len(mask) != size:
            raise Missed("shape", f"ancestor_mask returned {mask!r:.200}")
        if not all(type(line) is list and len(line) == size for line in mask):
            raise Missed("shape", f"ancestor_mask returned {mask!r:.200}")
        if not all(value in (0, 1) for line in mask for value in line):
            raise Missed("shape", f"ancestor_mask returned {mask!r:.200}")
        seen = [[bool(value) for value in line] for line in mask]
        orders = [parents]
        own = own_parents(student, tree, cached)
        if is_parents(own, size):
            orders.append(own)
        if seen not in [mask_rule(order) for order in orders]:
            raise Missed(what_is_wrong(seen, mask_rule(orders[-1])), f"{seen} for the parents {orders[-1]}")


def own_parents(student: Student, tree: Node, cached: int) -> Any:
    try:
        return rows_of(student, tree, cached)["parents"]
    except (NoAnswer, Missed, Blocked, Died):
        return None


def what_is_wrong(seen: list[list[bool]], right: list[list[bool]]) -> str:
    """The idea behind a wrong mask."""
    if not all(line[i] for i, line in enumerate(seen)):
        return "mask-self"
    if all(b or not a for got, line in zip(right, seen, strict=True) for a, b in zip(got, line, strict=True)):
        return "mask-siblings"  # all that should be seen is seen, and more
    return "mask"
