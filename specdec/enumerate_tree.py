"""The exact output distribution of the tensor code, on small vocabularies: every box of coins, added up.

`grow` and `verify_tree` compare coins with thresholds and do nothing else that is random. So the unit cube of
their coins falls into boxes, one interval per coin, on which what comes out is constant. A reference in
NumPy, which is theory/rejection.py for many states at once, says where the boxes should lie. The tensor code
is then run near two opposite corners of each, and *its* answer is counted, with the volume of the box. What
is not one box to the tensor code has corners that disagree, and that volume is reported as `torn`. So the
reference cannot make a wrong rule look right: it decides where to look, not what is seen.

`whole` enumerates all coins, those of nodes that no walk visits too. Without it, boxes are split only by
coins of the visited path, the others stay whole intervals, and trees of any size cost what their paths cost.

A step emits a varying number of tokens. Each outcome is completed by the verifier's own continuation to
D + 1 tokens, and their joint distribution must be the verifier's (theory/exact.py says why that is enough).

Layout: R worlds at once, each a verifier and a draft that depend on the whole prefix. A prefix is a node of a
V-ary heap: world r's empty prefix is node r, and after node i token t leads to node V * i + t + R. A table is
`[nodes, V]`. S states or boxes, m tree nodes, depth D, K children per row; coins: growth's, then verify's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specdec.grow import Growth, grow
from specdec.policy import Policy, Rule, Static
from specdec.sampling import Sampling, probabilities
from specdec.tree import DraftTree
from specdec.verify import Verdict, verify_tree

Array = NDArray[Any]
State = dict[str, Array]

MARGIN = 1e-9  # how near to an edge the tensor code is looked at
CHUNK = 150_000  # boxes per run


@dataclass(frozen=True)
class World:
    """R random pairs of verifier and draft as float32 logits, `[nodes, V]`, up to depth D, and a sampling."""

    q: Tensor
    p: Tensor
    count: int
    sampling: Sampling

    @property
    def vocabulary(self) -> int:
        return self.q.shape[1]

    def nodes(self, tree: DraftTree, roots: Tensor) -> Tensor:
        """The heap node of each tree row, `[S, m + 1]`; meaningless for absent rows."""
        rows = [roots]
        for token, parent in zip(tree.tokens.T, tree.parents.clamp(min=0).T, strict=True):
            above = torch.stack(rows, 1).gather(1, parent.unsqueeze(1)).squeeze(1)
            rows.append(above * self.vocabulary + token + self.count)
        return torch.stack(rows, 1)


def random_world(
    count: int, vocabulary: int, depth: int, seed: int, sampling: Sampling, spread: float = 1.5
) -> World:
    """Normal logits of standard deviation `spread` after every prefix of up to `depth` tokens."""
    generator = torch.Generator().manual_seed(seed)
    nodes = count * sum(vocabulary**d for d in range(depth + 1))
    q, p = (torch.randn(nodes, vocabulary, generator=generator) * spread for _ in range(2))
    return World(q, p, count, sampling)


@dataclass(frozen=True)
class Enumeration:
    """What came out of R worlds, and what should have."""

    joint: Array  # [R, V^(D + 1)]
    target: Array  # [R, V^(D + 1)]
    boxes: int
    volume: Array  # [R]: of all boxes; 1 if they fill the cube
    torn: float  # volume of boxes whose corners disagree, largest of the worlds

    @property
    def distances(self) -> Array:
        """Total variation per world, `[R]`."""
        return np.abs(self.joint - self.target).sum(-1) / 2

    @property
    def distance(self) -> float:
        """The largest total variation of the worlds, torn boxes counted as wrong."""
        return float(self.distances.max()) + self.torn


def enumerate_tree(
    world: World,
    policy: Policy,
    whole: bool = False,
    verified: Rule | None = None,
    prune: Callable[[Growth], DraftTree] = lambda growth: growth.tree,
    verify: Callable[..., Verdict] = verify_tree,
    both_corners: bool = True,
) -> Enumeration:
    """Enumerate one round of `policy` in every world; each must know prefixes of policy.depth tokens.

    verified  the rule that the verifier applies; by default the policy's own.
    prune     what becomes of a grown tree before it is verified; of sampled ones it needs `whole`.
    verify    an implementation of `verify_tree`.

    Without `both_corners` each box is looked at once, at a corner picked at random (seed 0): half the time,
    and a box that is torn shows in the distance.
    """
    rng = np.random.default_rng(0)
    code = TensorCode(world, policy, verified or policy.rule, prune, verify)
    depth, vocabulary, count = policy.depth, world.vocabulary, world.count
    mass = [np.zeros(count * vocabulary**n) for n in range(depth + 2)]  # of outcomes with exactly n tokens
    boxes, volume, torn = 0, np.zeros(count), np.zeros(count)
    for box in Reference(code, whole).boxes():
        low, high = box["low"][:, :-1], box["high"][:, :-1]
        margin = np.minimum(MARGIN, (high - low) / 4)
        low, high = low + margin, high - margin
        if both_corners:
            answer, other = code.emitted(box["root"], low), code.emitted(box["root"], high)
        else:
            answer = other = code.emitted(box["root"], np.where(rng.random(low.shape) < 0.5, low, high))
        boxes += len(answer)
        volume += np.bincount(box["root"], box["volume"], count)
        torn += np.bincount(box["root"], box["volume"] * (answer != other).any(1), count)
        prefix, length = box["root"], (answer >= 0).sum(1)
        for n in range(1, depth + 2):
            prefix = prefix * vocabulary + answer[:, n - 1]
            ends = length == n
            mass[n] += np.bincount(prefix[ends], box["volume"][ends], len(mass[n]))
    q = exact_probabilities(world.q.numpy(), world.sampling)
    joint, target, first = np.zeros(count), np.ones(count), 0
    for n in range(depth + 1):
        rows = q[first : first + len(joint)]
        first += len(joint)
        joint, target = (joint[:, None] * rows).ravel() + mass[n + 1], (target[:, None] * rows).ravel()
    shape = (count, -1)
    return Enumeration(joint.reshape(shape), target.reshape(shape), boxes, volume, float(torn.max()))


def exact_probabilities(logits: Array, sampling: Sampling) -> Array:
    """Temperature, top-k and top-p in float64, by sorting, `[..., V]`: shares nothing with sampling.py."""
    scaled = logits.astype(np.float64) / sampling.temperature
    order = np.argsort(-scaled, axis=-1, kind="stable")
    weights = np.take_along_axis(np.exp(scaled - scaled.max(-1, keepdims=True)), order, -1)
    weights[..., sampling.top_k or weights.shape[-1] :] = 0.0
    weights /= weights.sum(-1, keepdims=True)
    if sampling.top_p < 1:
        weights[weights.cumsum(-1) - weights >= sampling.top_p] = 0.0
    q = np.zeros_like(weights)
    np.put_along_axis(q, order, weights / weights.sum(-1, keepdims=True), -1)
    return q


# -- the tensor code -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorCode:
    """One round of `grow` and `verify_tree`, as a function of its coins: `[S, growth's + verify's]`."""

    world: World
    policy: Policy
    verified: Rule
    prune: Callable[[Growth], DraftTree]
    verify: Callable[..., Verdict]

    @cached_property
    def p(self) -> Tensor:
        return probabilities(self.world.p, self.world.sampling)

    def grown(self, roots: Array, coins: Array) -> Growth:
        root = torch.from_numpy(roots)

        def step(fed: DraftTree, new: int) -> Tensor:
            return self.p[self.world.nodes(fed, root)[:, -new:]]

        own = torch.from_numpy(coins[:, : self.policy.coins]) if self.policy.coins else None
        return grow(self.policy, self.p[root], step, own)

    def emitted(self, roots: Array, coins: Array) -> Array:
        """The emitted tokens `[S, D + 1]`, then -1."""
        growth = self.grown(roots, coins)
        tree = self.prune(growth)
        nodes = self.world.nodes(tree, torch.from_numpy(roots))
        p = None
        if self.verified == "sampled":
            p = self.p[nodes] if growth.p is None else growth.p
        own = torch.from_numpy(coins[:, self.policy.coins :])
        return self.verify(self.world.q[nodes], tree, self.world.sampling, own, p).emitted.numpy()


# -- the reference -------------------------------------------------------------------------------------------


def split(state: State, coin: Array, law: Array) -> tuple[State, Array]:
    """Split every state by what its coin number `coin [S]` decides, with `law [S, answers]`, and the answers.

    Impossible answers make no states. The law need not be normalised.
    """
    edge = law.cumsum(1) / law.sum(1, keepdims=True)
    old, answer = np.nonzero(law)
    parts = {name: x[old] for name, x in state.items()}
    rows, column, high = np.arange(len(old)), coin[old], edge[old, answer]
    low = np.where(answer > 0, edge[old, answer - 1], 0.0)
    parts["low"][rows, column], parts["high"][rows, column] = low, high
    parts["volume"] *= high - low
    return parts, answer


class Reference:
    """Says where the boxes lie. A state is a dict of arrays, S first; each of its rows is one box so far.

    low, high  [S, coins + 1]: the box. The last column is for decisions that are none
    volume     [S]
    root       [S]: the world, and its empty prefix
    node       [S, m + 1]: heap node of each tree row; -1 where it is absent or not known yet
    token      [S, m + 1]: the token of each tree row
    children   [S, m + 1, K]: as in tree.py; of sampled trees those that there may be, until all are known
    """

    def __init__(self, code: TensorCode, whole: bool) -> None:
        self.code, self.whole = code, whole
        self.sampled = code.policy.coins > 0
        # the tensor code's own float32 values, so that edges are where it has them, up to 1e-16
        self.q = probabilities(code.world.q, code.world.sampling).double().numpy()
        self.p = code.p.double().numpy()
        for rows in (self.q, self.p):
            rows /= rows.sum(1, keepdims=True)
        roots = np.arange(code.world.count)
        self.tree = code.grown(roots, np.full((len(roots), code.policy.coins), 0.5)).tree
        self.first_coin = code.policy.coins  # of verification
        self.coins = self.first_coin + self.tree.depth * self.tree.branching + 1

    def boxes(self) -> Iterator[State]:
        """Yield boxes, some at a time, that together fill the cube of all coins of every world."""
        state, size = self.start(), CHUNK
        if self.whole:
            size = max(1, CHUNK // (self.code.world.vocabulary * self.tree.rows))
            for row, k in np.argwhere(state["children"].any(0)) if self.sampled else ():
                state = self.grow_child(state | {"at": np.full(len(state["root"]), row)}, k)
            tree = self.code.prune(self.code.grown(state["root"], (state["low"] + state["high"]) / 2))
            state["node"] = np.where(tree.present.numpy(), state["node"], -1)
            state["children"] = tree.children.numpy().astype(np.int16)
        for first in range(0, len(state["root"]), size):
            yield self.walk({name: x[first : first + size] for name, x in state.items()})

    def start(self) -> State:
        roots = np.arange(self.code.world.count)
        node = self.code.world.nodes(self.tree, torch.from_numpy(roots)).numpy()
        shape = self.tree
        if isinstance(self.code.policy, Static) and self.sampled:
            node[:, 1:] = -1
            parents = torch.tensor(self.code.policy.parents, dtype=torch.long).expand(len(roots), -1)
            shape = DraftTree(torch.zeros_like(parents), parents, self.tree.depth, self.tree.branching)
        return {
            "low": np.zeros((len(roots), self.coins + 1)),
            "high": np.ones((len(roots), self.coins + 1)),
            "volume": np.ones(len(roots)),
            "root": roots,
            "node": np.where(self.tree.present.numpy(), node, -1),
            "token": self.tree.by_row().numpy(),
            "children": shape.children.numpy().astype(np.int16),
            "ready": np.ones(len(roots), dtype=bool),  # a child of row `at` is to be looked at
        }

    def grow_child(self, state: State, k: int) -> State:
        """Split by the token of child k of row `at`: drawn from p without its earlier siblings."""
        rows = np.arange(len(state["at"]))
        siblings = state["children"][rows, state["at"]]
        child, above = siblings[:, k], state["node"][rows, state["at"]]
        rest = self.p[above]
        for sibling in siblings[:, :k].T:
            known = state["node"][rows, sibling] >= 0
            rest[rows[known], state["token"][rows, sibling][known]] = 0.0
        child = np.where(state["ready"] & (above >= 0) & rest.any(1), child, 0)
        rest[child == 0] = np.eye(1, rest.shape[1])
        state, token = split(state | {"child": child, "above": above}, child - 1, rest)
        new, child = state["child"] > 0, state["child"][state["child"] > 0]
        state["token"][new, child] = token[new]
        state["node"][new, child] = (
            state["above"] * self.code.world.vocabulary + token + self.code.world.count
        )[new]
        return state

    def walk(self, state: State) -> State:
        """Split by all coins of the walk: one for each child that is tried, one for the last token."""
        size = len(state["root"])
        state = state | {
            "at": np.zeros(size, dtype=int),
            "going": np.ones(size, dtype=bool),
            "owed": np.zeros((size, self.code.world.vocabulary)),
        }
        for depth in range(self.tree.depth):
            here = state["node"][np.arange(len(state["at"])), state["at"]]
            going = state["going"][:, None]
            state["owed"] = np.where(going, self.q[here], state["owed"])
            state |= {"rest": self.p[here], "ready": state["going"], "next": state["at"]}
            for k in range(self.tree.branching):
                if self.sampled and not self.whole:
                    state = self.grow_child(state, k)
                state = self.try_child(state, self.first_coin + depth * self.tree.branching + k, k)
            state["going"] = state["going"] & ~state["ready"]
            state["at"] = state["next"]
        here = state["node"][np.arange(len(state["at"])), state["at"]]
        law = np.where(state["going"][:, None], self.q[here], state["owed"])
        return split(state, np.full(len(law), self.coins - 1), law)[0]

    def try_child(self, state: State, coin: int, k: int) -> State:
        """Split by whether child k of row `at` is accepted; where it is, the row is no longer `ready`."""
        rows = np.arange(len(state["at"]))
        child = state["children"][rows, state["at"], k]
        x, owed = state["token"][rows, child], state["owed"]
        tried = state["ready"] & (child > 0) & (state["node"][rows, child] >= 0)
        if self.code.verified == "sampled":
            proposal = state["rest"] / np.where(tried, state["rest"].sum(1), 1.0)[:, None]
        else:
            proposal = np.eye(owed.shape[1])[x]
        share = np.minimum(1.0, owed[rows, x] / np.where(tried, proposal[rows, x], 1.0)) * tried
        residual = np.maximum(0.0, owed - proposal)
        total = residual.sum(1, keepdims=True)
        residual = np.where(total > 0, residual, owed) / np.where(total > 0, total, 1.0)
        rest = state["rest"].copy()
        rest[rows, x] = 0.0
        more = {"child": child, "tried": tried, "residual": residual, "less": rest}
        state, rejected = split(
            state | more, np.where(tried, coin, -1), np.stack([share, 1.0 - share], axis=1)
        )
        accepted, refused = rejected == 0, (state["tried"] & (rejected == 1))[:, None]
        state["next"] = np.where(accepted, state["child"], state["next"])
        state["ready"] = state["ready"] & ~accepted
        state["owed"] = np.where(refused, state["residual"], state["owed"])
        state["rest"] = np.where(refused, state["less"], state["rest"])
        return state
