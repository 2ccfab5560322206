"""Which tree a draft grows: chain(N), static([2, 2, 2]), dynamic(depth, top_k, total).

A policy fixes the rule by which children are chosen, and with it the rule by which the verifier judges them
(verify.py has both):

    sampled  children are sampled from p without replacement; the tree's shape is fixed beforehand
    top-k    children are the most likely tokens, chosen without chance

What may shape a tree is the draft's p, never the value of a token that was sampled: a node that is kept
because of what it turned out to be was drawn from something else than p. So `dynamic`, which compares nodes,
exists with top-k only, whose verification takes any tree as given. At temperature 0 every tree is exact and
top-k is the better choice: `for_sampling`.

How a tree is grown by a policy is grow.py; this module holds no tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from specdec.errors import SpecdecError
from specdec.parents import ABSENT, check_parents, depths_of
from specdec.sampling import Sampling

Rule = Literal["sampled", "top-k"]

RULES = ("sampled", "top-k")


class Level(NamedTuple):
    """How one level of a static tree hangs from that above: slot j * width + i is child i of above[j]."""

    above: tuple[int, ...]  # the rows that get children
    rows: tuple[int, ...]  # the new rows
    width: int  # the most children that one of the rows above gets
    slots: tuple[int, ...]  # of the new rows


@dataclass(frozen=True)
class Static:
    """A tree whose shape is fixed before anything is known: the parent row of each node, level by level."""

    parents: tuple[int, ...]
    rule: Rule = "sampled"

    @property
    def nodes(self) -> int:
        """m."""
        return len(self.parents)

    @property
    def coins(self) -> int:
        """How many coins `grow` needs per sequence."""
        return self.nodes if self.rule == "sampled" else 0

    @property
    def depth(self) -> int:
        """D."""
        return len(self.levels)

    @property
    def branching(self) -> int:
        """K."""
        return max((level.width for level in self.levels), default=0)

    @property
    def reads(self) -> int:
        """How many rows of its tree a draft model reads, row 0 included: those that have children."""
        return len({0, *self.parents})

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """From the root on: D levels."""
        depths = depths_of(self.parents)
        return tuple(
            self._level([row for row, d in enumerate(depths) if d == depth])
            for depth in range(1, max(depths) + 1)
        )

    def _level(self, rows: list[int]) -> Level:
        parents = [self.parents[row - 1] for row in rows]
        above = sorted(set(parents))
        width = max(map(parents.count, above))
        slots = [above.index(row) * width + parents[:i].count(row) for i, row in enumerate(parents)]
        return Level(tuple(above), tuple(rows), width, tuple(slots))

    def up_to(self, depth: int) -> Static:
        """The levels down to `depth`, for the last rounds, where fewer tokens are wanted or fit."""
        kept = sum(len(level.rows) for level in self.levels[:depth])
        return replace(self, parents=self.parents[:kept])

    def for_sampling(self, sampling: Sampling) -> Static:
        """This shape with the better rule: at temperature 0 p is one token, and has no second child."""
        return replace(self, rule="top-k") if sampling.greedy else self


@dataclass(frozen=True)
class Dynamic:
    """EAGLE-2's tree (Li et al. 2024, arXiv:2406.16858, section 4): grown where the draft is confident.

    A node's value is the product of p along its path. At each depth the `top_k` most valuable nodes get their
    `top_k` most likely children; of all nodes seen, the `total` most valuable form the tree.
    """

    depth: int
    top_k: int
    total: int
    rule: Rule = "top-k"

    def __post_init__(self) -> None:
        if self.rule != "top-k":
            raise SpecdecError(
                "a dynamic tree keeps nodes by their probability, which is exact with the rule 'top-k' only, "
                f"got {self.rule!r}: use 'top-k', or a static tree for sampled children"
            )
        for name, value in (("depth", self.depth), ("top_k", self.top_k), ("total", self.total)):
            if value < 1:
                raise SpecdecError(f"{name} of a dynamic tree is {value}, but must be at least 1")

    @property
    def nodes(self) -> int:
        """m, where the vocabulary is not smaller than top_k."""
        return min(self.total, self.top_k + (self.depth - 1) * self.top_k**2)

    @property
    def branching(self) -> int:
        """K, where the vocabulary is not smaller than top_k."""
        return min(self.top_k, self.nodes)

    @property
    def coins(self) -> int:
        return 0

    @property
    def reads(self) -> int:
        """How many rows of its search a draft model reads, row 0 included."""
        return 1 + (self.depth - 1) * self.top_k

    def up_to(self, depth: int) -> Policy:
        """A tree no deeper than `depth`, for the last rounds; of depth 0 an empty one."""
        return replace(self, depth=min(depth, self.depth)) if depth > 0 else Static((), "top-k")

    def for_sampling(self, sampling: Sampling) -> Dynamic:
        return self


Policy = Static | Dynamic


def chain(n: int, rule: Rule = "sampled") -> Static:
    """N drafts in a row; N = 0 is plain decoding."""
    if n < 0:
        raise SpecdecError(f"a chain has at least 0 drafts, got {n}")
    return static(parents=list(range(n)), rule=rule)


def static(
    branching: Sequence[int] | None = None,
    parents: Sequence[int] | None = None,
    rule: Rule = "sampled",
) -> Static:
    """A fixed shape: children per node at each depth ([2, 2, 2]: 2 + 4 + 8 nodes), or each node's parent row.

    Parents in any order that puts them before their children; rows are renumbered level by level. Raises
    SpecdecError for cycles and forward parents, for a branching below 1 and for an unknown rule.
    """
    if rule not in RULES:
        raise SpecdecError(f"the rule of a tree is 'sampled' or 'top-k', got {rule!r}")
    if (branching is None) == (parents is None):
        raise SpecdecError("a static tree is given by its branching or by its parents: give one of the two")
    if branching is not None:
        return Static(tuple(_branched(branching)), rule)
    assert parents is not None
    if ABSENT in parents:
        raise SpecdecError(f"row {list(parents).index(ABSENT) + 1} of the policy has no parent: leave it out")
    check_parents(parents, "the policy")
    depths = depths_of(parents)
    order = sorted(range(len(depths)), key=lambda row: depths[row])  # stable: siblings keep their order
    new = {row: i for i, row in enumerate(order)}
    return Static(tuple(new[parents[row - 1]] for row in order[1:]), rule)


def dynamic(depth: int, top_k: int, total: int, rule: Rule = "top-k") -> Dynamic:
    """The best `total` nodes of a search that keeps `top_k` per depth; another rule is refused."""
    return Dynamic(depth, top_k, total, rule)


def _branched(branching: Sequence[int]) -> list[int]:
    parents: list[int] = []
    level = [0]
    for k in branching:
        if k < 1:
            raise SpecdecError(
                f"every level of a tree needs at least 1 child per node, got {list(branching)}"
            )
        first = len(parents) + 1
        parents += [row for row in level for _ in range(k)]
        level = list(range(first, len(parents) + 1))
    return parents
