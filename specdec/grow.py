"""A draft tree grown from the draft's probabilities, by a policy (policy.py).

The draft is a function `step`. The rows that it has been given so far form a tree of their own, `fed`: row 0
is the newest token, whose p comes before everything (`root_p`), and only nodes that get children are fed.
`step(fed, new)` returns p for the last `new` rows, `[B, new, V]`. A draft with a cache writes one entry per
fed row, with the positions and the ancestor mask of `fed`; `Growth.fed` says afterwards which they were.

Layout: as in tree.py; rows are numbered level by level, siblings in the order in which they were drawn, or by
falling p. Static shapes, no host reads. Coins in [0, 1), float64, one per node, for sampled children only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from specdec.errors import SpecdecError
from specdec.parents import ABSENT
from specdec.policy import Dynamic, Policy, Static
from specdec.sampling import draw
from specdec.tree import DraftTree

Step = Callable[[DraftTree, int], Tensor]


class Growth(NamedTuple):
    """A grown tree, and what verifier and draft need to know about where it came from."""

    tree: DraftTree
    p: Tensor | None  # [B, R, V]: what the children of rows 0..R-1 were drawn from; None for top-k
    fed: Tensor  # [B, m + 1]: the row of the `fed` tree that each row was, or -1 if the draft never read it


def grow(
    policy: Policy,
    root_p: Tensor,
    step: Step,
    coins: Tensor | None = None,
    vocabulary: Vocabulary | None = None,
) -> Growth:
    """Grow one tree per sequence from `root_p [B, V]`, the draft's p after the newest token.

    coins       `[B, policy.coins]`: node i is drawn by coin i. None where children are not sampled.
    vocabulary  for a draft that knows only some tokens: then its p are `[B, ..., Vd]`. The tree holds the
                verifier's tokens, and so does the p that is returned.

    Raises SpecdecError when shapes do not belong together.
    """
    if root_p.dim() != 2:
        raise SpecdecError(f"root_p must be [B, V], but has shape {list(root_p.shape)}")
    names = None if vocabulary is None else vocabulary.tokens
    if isinstance(policy, Dynamic):
        return _grow_dynamic(policy, root_p, step, names)
    if policy.rule == "sampled" and policy.nodes > 0:
        expected, got = [root_p.shape[0], policy.coins], None if coins is None else list(coins.shape)
        if got != expected:
            raise SpecdecError(f"{policy.nodes} sampled nodes need coins of shape {expected}, got {got}")
    growth = _grow_static(policy, root_p, step, coins, names)
    if vocabulary is None or growth.p is None:
        return growth
    return growth._replace(p=vocabulary.spread(growth.p))


class Vocabulary(NamedTuple):
    """The tokens that a draft knows, `tokens [Vd]`, of the verifier's `size`."""

    tokens: Tensor
    size: int

    def spread(self, p: Tensor) -> Tensor:
        """`p [..., Vd]` over all of the verifier's tokens, `[..., size]`: 0 for those that are unknown."""
        whole = p.new_zeros(*p.shape[:-1], self.size)
        whole[..., self.tokens] = p
        return whole


def sample_children(p: Tensor, coins: Tensor) -> tuple[Tensor, Tensor]:
    """Draw k tokens without replacement from each `p [..., V]`: tokens and whether they exist, `[..., k]`.

    One coin `[..., k]` per token: inverse CDF on what the earlier draws left of p. There are only as many
    tokens as p has of positive probability.
    """
    tokens, exists = [], []
    for coin in coins.unbind(-1):
        exists.append(p.amax(-1) > 0)
        tokens.append(draw(p, coin))
        p = p.scatter(-1, tokens[-1].unsqueeze(-1), 0.0)
    return torch.stack(tokens, -1), torch.stack(exists, -1)


def most_likely(p: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k most likely tokens of each `p [..., V]`, by falling p, and whether they exist (k <= V)."""
    tokens = p.topk(min(k, p.shape[-1])).indices
    tokens = torch.nn.functional.pad(tokens, (0, k - tokens.shape[-1]))
    exists = torch.arange(k, device=p.device) < p.shape[-1]
    return tokens, exists.expand(tokens.shape)


def _grow_static(
    policy: Static, root_p: Tensor, step: Step, coins: Tensor | None, names: Tensor | None
) -> Growth:
    batch, vocabulary = root_p.shape
    device = root_p.device
    tokens = torch.zeros(batch, 0, dtype=torch.long, device=device)
    parents = tokens
    fed: list[int] = []  # rows that the draft has read, in the order in which it did
    p: list[Tensor] = []
    for depth, level in enumerate(policy.levels):
        n, width = len(level.above), level.width
        fed += level.above
        if depth == 0:
            p.append(root_p.unsqueeze(1))
        else:
            p.append(_ask(step, _fed_tree(tokens, parents, fed, depth, policy.branching), n, vocabulary))
        slots = _index(level.slots, device)
        if policy.rule == "sampled":
            assert coins is not None
            coin = dict(zip(level.slots, (row - 1 for row in level.rows), strict=True))
            spread = _index(tuple(coin.get(slot, 0) for slot in range(n * width)), device)
            x, exists = sample_children(p[-1], coins[:, spread].view(batch, n, width))
        else:
            x, exists = most_likely(p[-1], width)
        x = x if names is None else names[x]
        up = _index(tuple(policy.parents[row - 1] for row in level.rows), device).expand(batch, -1)
        parent_exists = torch.nn.functional.pad(parents != ABSENT, (1, 0), value=True).gather(1, up)
        exists = exists.flatten(1)[:, slots] & parent_exists
        tokens = torch.cat([tokens, x.flatten(1)[:, slots].where(exists, 0)], dim=1)
        parents = torch.cat([parents, up.where(exists, ABSENT)], dim=1)
    tree = DraftTree(tokens, parents, policy.depth, policy.branching)
    order = {row: i for i, row in enumerate(fed or [0])}
    fed_row = _index(tuple(order.get(row, -1) for row in range(policy.nodes + 1)), device).expand(batch, -1)
    if policy.rule == "top-k" or not p:
        return Growth(tree, None, fed_row)
    by_row = torch.cat(
        p, dim=1
    )  # in the order of `fed`; leaves in between get any row, they have no children
    if fed != list(range(len(fed))):
        by_row = by_row[:, _index(tuple(order.get(row, 0) for row in range(max(fed) + 1)), device)]
    return Growth(tree, by_row, fed_row)


def _fed_tree(tokens: Tensor, parents: Tensor, fed: list[int], depth: int, branching: int) -> DraftTree:
    """The tree of the rows `fed` (row 0 first) among those grown so far, numbered in that order."""
    order = {row: i for i, row in enumerate(fed)}
    rename = _index(tuple(order.get(row, 0) for row in range(tokens.shape[1] + 1)), tokens.device)
    nodes = _index(tuple(row - 1 for row in fed[1:]), tokens.device)
    up = parents[:, nodes]
    return DraftTree(tokens[:, nodes], rename[up.clamp(min=0)].where(up != ABSENT, ABSENT), depth, branching)


def _grow_dynamic(policy: Dynamic, root_p: Tensor, step: Step, names: Tensor | None) -> Growth:
    """Candidates are numbered from 1 in the order in which they are found, so 0 can stand for row 0."""
    batch, vocabulary = root_p.shape
    device, k = root_p.device, min(policy.top_k, vocabulary)
    top, x = root_p.topk(k)
    x = x if names is None else names[x]
    tokens, values = [x], [_log(top)]  # of the candidates, level by level
    parents = [torch.zeros_like(x)]
    beam = torch.arange(1, k + 1, device=device).expand(batch, k)  # the candidates that are fed next
    beam_x, beam_value, beam_up = x, values[0], torch.zeros_like(x)
    fed_x, fed_up, fed_candidates = [], [], []
    for depth in range(1, policy.depth):
        fed_x.append(beam_x)
        fed_up.append(beam_up)
        fed_candidates.append(beam)
        fed = DraftTree(torch.cat(fed_x, 1), torch.cat(fed_up, 1), depth, k)
        top, x = _ask(step, fed, k, vocabulary).topk(k)  # [B, k, k]
        x = x if names is None else names[x]
        value = beam_value.unsqueeze(-1) + _log(top)
        tokens.append(x.flatten(1))
        values.append(value.flatten(1))
        parents.append(beam.repeat_interleave(k, dim=1))
        best = _best(values[-1], k)  # [B, k], of the k * k candidates just found
        first_found, first_fed = 1 + k + (depth - 1) * k * k, 1 + (depth - 1) * k
        beam, beam_up = first_found + best, first_fed + best // k
        beam_x, beam_value = tokens[-1].gather(1, best), values[-1].gather(1, best)

    found = torch.cat(values, 1)
    # A node's value is at most its parent's, and of equals the first found wins: with a node its ancestors
    # are among the best. Back in the order in which they were found, parents stand before their children.
    kept = _best(found, min(policy.total, found.shape[1])).sort(-1).values  # [B, m]
    m = kept.shape[1]
    row = torch.zeros(batch, found.shape[1] + 1, dtype=torch.long, device=device)
    row = row.scatter(1, kept + 1, torch.arange(1, m + 1, device=device).expand(batch, m))
    up = torch.cat(parents, 1).gather(1, kept)
    tree = DraftTree(torch.cat(tokens, 1).gather(1, kept), row.gather(1, up), min(policy.depth, m), min(k, m))
    fed_row = torch.full_like(row, -1)
    fed_row[:, 0] = 0
    if fed_candidates:
        order = torch.arange(1, k * len(fed_candidates) + 1, device=device).expand(batch, -1)
        fed_row = fed_row.scatter(1, torch.cat(fed_candidates, 1), order)
    return Growth(tree, None, fed_row.gather(1, torch.nn.functional.pad(kept + 1, (1, 0))))


def _best(values: Tensor, k: int) -> Tensor:
    """Indices of the k largest of `values [B, n]`, largest first, of equals the first."""
    return values.sort(dim=-1, descending=True, stable=True).indices[:, :k]


def _log(p: Tensor) -> Tensor:
    """log p, never above 0 and never NaN: a child's value must not exceed its parent's."""
    return p.log().nan_to_num(nan=-torch.inf, neginf=-torch.inf).clamp(max=0.0)


def _ask(step: Step, fed: DraftTree, new: int, vocabulary: int) -> Tensor:
    p = step(fed, new)
    expected = [fed.tokens.shape[0], new, vocabulary]
    if list(p.shape) != expected:
        raise SpecdecError(
            f"the draft's step returned p of shape {list(p.shape)}, but was asked for {expected}"
        )
    return p


@lru_cache(maxsize=1024)
def _index(values: tuple[int, ...], device: torch.device) -> Tensor:
    """A constant index tensor, brought to the device once: a copy in every round would hold up a GPU."""
    return torch.tensor(values, dtype=torch.long, device=device)
