"""Acceptance over a draft tree, in tensors: the path that the verifier keeps, and the token it adds.

The walk starts at row 0. At each row its children are tried in turn; the first that is accepted is the next
row, and where none is, the walk ends with a correction. Reaching a leaf ends it with a bonus. A rejected
child changes what is owed to the rest. Let q' be what is owed, q at first, and p_i the distribution that
child i was drawn from:

    accept x with probability min(1, q'(x) / p_i(x)); else q' <- norm(max(0, q' - p_i))

and a row without an accepted child draws from the last q'. The tokens that come out are distributed as q.
There are two rules because children come to be in two ways:

    sampled  without replacement from p: p_i is p with the earlier siblings zeroed and renormalised
    top-k    chosen without chance: p_i is one-hot; accept with q'(x), else zero x in q' and renormalise

The second takes its children as given, so it is exact for any tree, whatever grew it; of children that were
sampled the first accepts more. SpecInfer (arXiv:2305.09781) has the rounds of rejection, Jeon et al.
(arXiv:2402.14160) sampling without replacement. Greedy is the limit of both: follow the verifier's most
likely token as long as a child has it. With one child per row this is Leviathan's rule for a chain; that, one
row at a time and to be read first, is specdec/theory/rejection.py.

Vectorised over the batch, of static shape, and never read by the host. Only the rows that a walk visits are
turned into distributions, at most D + 1 of m + 1. What is owed is kept in float64: it is a difference.

Layout: B sequences, m nodes, V tokens, depth D, K children per row. `logits [B, m + 1, V]` as the verifier
gives them for the rows of the tree. `coins [B, D * K + 1]` in [0, 1), float64: number d * K + k decides child
k of the row at depth d of the walk, and the last draws the bonus or correction; for a chain that is one per
draft and the last. `p [B, R, V]`, row by row as the logits, or None for top-k children; trees that are
numbered level by level may leave out the last rows, from the first on that no child follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from specdec.errors import SpecdecError
from specdec.sampling import Sampling, best_token, draw, probabilities
from specdec.tree import DraftTree

SUM_TOLERANCE = 1e-3  # what the sum of p may be off; bfloat16 probabilities still pass


class Verdict(NamedTuple):
    """What one round keeps of each sequence's tree. Nothing here has been read by the host."""

    path: Tensor  # [B, D + 1] rows: row 0, the accepted nodes, then the last of these repeated
    accepted: Tensor  # [B], 0..D: how many nodes
    token: Tensor  # [B]: the bonus or correction
    emitted: Tensor  # [B, D + 1]: the accepted nodes' tokens, `token`, then -1
    bad_logits: Tensor  # [B]: depth of the first row of the path with NaN or infinite logits, or -1
    bad_p: Tensor  # [B]: depth of the first row whose children were not drawn from a distribution, or -1


def verify_tree(
    logits: Tensor, tree: DraftTree, sampling: Sampling, coins: Tensor, p: Tensor | None = None
) -> Verdict:
    """Verify one tree per sequence by the rule for `sampling`; with p by (a), without by (b).

    p must be what the children were drawn from, temperature, top-k and top-p included. At temperature 0
    neither the coins nor p matter. The tree must be one that `DraftTree.check` accepts. Values are not
    looked at here: read the verdict's `bad_logits` and `bad_p` with the tokens and call `raise_faults`.
    Raises SpecdecError when the shapes do not belong together.
    """
    check_shapes(logits, tree, coins, p)
    tokens, children = tree.by_row(), tree.children
    row = torch.zeros_like(tokens[:, 0])
    accepted = torch.zeros_like(row)
    going = row == 0  # [B]: the walk has not ended
    path, bad_logits, bad_p = [row], [], []
    finite = logits.sum(-1).isfinite()  # [B, m + 1]
    best = best_token(logits) if sampling.greedy else row  # [B, m + 1]
    for coin in coins[:, :-1].split(tree.branching, dim=1) if tree.depth else ():
        options = row_of(children, row)  # [B, K] rows
        exists = options > 0
        x = tokens.gather(1, options)
        bad_logits.append(~row_of(finite, row))
        if sampling.greedy:
            kept = (x == row_of(best, row).unsqueeze(-1)) & exists
        elif p is None:
            kept = keep_top_k(probabilities(row_of(logits, row), sampling), x, exists, coin)
        else:
            p_row = row_of(p, row.clamp(max=p.shape[1] - 1))
            bad_p.append(not_drawn_from(p_row, x, exists))
            kept = keep_sampled(probabilities(row_of(logits, row), sampling), p_row, x, exists, coin)
        going = going & kept.any(-1)
        first = options.gather(1, kept.int().argmax(-1, keepdim=True)).squeeze(-1)
        row = first.where(going, row)
        accepted = accepted + going
        path.append(row)

    bad_logits.append(~row_of(finite, row))
    if sampling.greedy:
        token = row_of(best, row)
    else:
        # The walk ends at a row whose children, if it has any, were all rejected.
        options = row_of(children, row)
        q, x, exists = probabilities(row_of(logits, row), sampling), tokens.gather(1, options), options > 0
        if p is None:
            owed = owed_top_k(q, x, exists)
        else:
            owed = owed_sampled(q, row_of(p, row.clamp(max=p.shape[1] - 1)), x, exists)
        # Where rounding left nothing (q = p up to 1e-16, and yet a rejection), q itself.
        token = draw(owed.where(owed.amax(-1, keepdim=True) > 0, q), coins[:, -1])
    rows = torch.stack(path, dim=1)
    emitted = emitted_tokens(tokens, rows, accepted, token)
    return Verdict(rows, accepted, token, emitted, first_depth(bad_logits, row), first_depth(bad_p, row))


# -- rule (b): children chosen without chance ----------------------------------------------------------------


def keep_top_k(q: Tensor, x: Tensor, exists: Tensor, coins: Tensor) -> Tensor:
    """Which of the children `x [B, K]` would be kept if they were tried, `[B, K]` bool.

    Child i is kept with probability q(x_i) over what its earlier siblings left of q, so all children of a
    row are decided at once.
    """
    q_x = q.gather(-1, x).where(exists, 0.0)  # [B, K]
    before = q_x.double().cumsum(-1) - q_x
    left = (q.sum(-1, keepdim=True, dtype=torch.float64) - before).clamp(min=0.0)
    return coins * left < q_x


def owed_top_k(q: Tensor, x: Tensor, exists: Tensor) -> Tensor:
    """What is owed when all children were rejected, `[B, V]`, not normalised: q without them."""
    return q.scatter_add(-1, x, -q.gather(-1, x).where(exists, 0.0))


# -- rule (a): children sampled without replacement ----------------------------------------------------------


def keep_sampled(q: Tensor, p: Tensor, x: Tensor, exists: Tensor, coins: Tensor) -> Tensor:
    """Which of the children `x [B, K]`, drawn from `p [B, V]`, would be kept if they were tried, `[B, K]`."""
    kept = []
    for i, (owed, s, rest, r) in zip(range(x.shape[1]), rounds(q, p, x, exists), strict=False):
        owed_x, rest_x = owed.gather(-1, x[:, i : i + 1]), rest.gather(-1, x[:, i : i + 1])
        # u < (owed(x) / s) / (rest(x) / r), strict and without the divisions
        kept.append(coins[:, i : i + 1] * rest_x * s < owed_x * r)
    return torch.cat(kept, dim=-1) & exists


def owed_sampled(q: Tensor, p: Tensor, x: Tensor, exists: Tensor) -> Tensor:
    """What is owed when all children were rejected, `[B, V]`, not normalised."""
    *_, (owed, _, _, _) = rounds(q, p, x, exists)
    return owed


def rounds(
    q: Tensor, p: Tensor, x: Tensor, exists: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Before each child, and once more behind the last: what is owed, its sum, what is left of p, its sum.

    Neither is normalised. In float64, because what is owed is a difference, and a difference of that again.
    """
    owed, rest = q.double(), p.double()
    s, r = owed.sum(-1, keepdim=True), rest.sum(-1, keepdim=True)
    yield owed, s, rest, r
    for i in range(x.shape[1]):
        share = (s / r).where(exists[:, i : i + 1], 0.0)  # a child that does not exist changes nothing
        owed = torch.addcmul(owed, rest, share, value=-1).clamp(min=0.0)
        rest = rest.scatter(-1, x[:, i : i + 1], 0.0)
        s, r = owed.sum(-1, keepdim=True), rest.sum(-1, keepdim=True)
        yield owed, s, rest, r


def not_drawn_from(p: Tensor, x: Tensor, exists: Tensor) -> Tensor:
    """Where `p [B, V]` cannot be what the children were drawn from, `[B]`: no distribution, or lacks one."""
    good = ((p.sum(-1) - 1).abs() <= SUM_TOLERANCE) & (p.amin(-1) >= 0)
    return (exists.any(-1) & ~good) | ((p.gather(-1, x) <= 0) & exists).any(-1)


# -- what comes of it ----------------------------------------------------------------------------------------


def row_of(x: Tensor, row: Tensor) -> Tensor:
    """`x[b, row[b]]` for every b: `[B, n, ...]`, `[B]` -> `[B, ...]`. Faster than gather."""
    first = torch.arange(x.shape[0], device=x.device) * x.shape[1]
    return x.flatten(0, 1).index_select(0, first + row)


def emitted_tokens(tokens: Tensor, path: Tensor, accepted: Tensor, token: Tensor) -> Tensor:
    """`[B, D + 1]`: the tokens of the accepted nodes, then `token [B]`, then -1."""
    place = torch.arange(path.shape[1], device=path.device)
    drafts = torch.nn.functional.pad(tokens.gather(1, path[:, 1:]), (0, 1))
    last = accepted.unsqueeze(-1)
    return torch.where(place < last, drafts, torch.where(place == last, token.unsqueeze(-1), -1))


def first_depth(faults: list[Tensor], like: Tensor) -> Tensor:
    """The first depth `[B]` with a fault, `faults[depth] [B]`, or -1."""
    if not faults:
        return torch.full_like(like, -1)
    found = torch.stack(faults, dim=1)
    return torch.where(found.any(-1), found.int().argmax(-1), -1)


def raise_faults(bad_logits: Sequence[int], bad_p: Sequence[int], cached: Sequence[int]) -> None:
    """Raise SpecdecError if a round went through logits or a p that are none, naming sequence and position.

    The verdict's fields, read by the host, and how many tokens of each sequence were cached before the
    round: the logits at position n are those that choose the token behind the n-th (counted from 0).
    """
    for b, (logits_depth, p_depth, before) in enumerate(zip(bad_logits, bad_p, cached, strict=True)):
        if logits_depth >= 0:
            raise SpecdecError(
                f"the verifier's logits at position {before + logits_depth} of sequence {b} are NaN or "
                "infinite: check the weights and the precision, nothing after this position can be trusted"
            )
        if p_depth >= 0:
            raise SpecdecError(
                f"the draft's p at position {before + p_depth} of sequence {b} is not what its children can "
                "be drawn from (non-negative, sum 1, no child of probability 0): pass the p that was sampled "
                "from, or none for children that were not sampled"
            )


def check_shapes(logits: Tensor, tree: DraftTree, coins: Tensor, p: Tensor | None) -> None:
    if logits.dim() != 3 or tree.tokens.dim() != 2:
        raise SpecdecError(
            f"logits must be [B, m + 1, V] and a tree's tokens [B, m], but have shapes {list(logits.shape)} "
            f"and {list(tree.tokens.shape)}"
        )
    batch, m = tree.tokens.shape
    vocabulary = logits.shape[-1]
    for name, x, expected in (
        ("logits", logits, [batch, m + 1, vocabulary]),
        ("coins", coins, [batch, tree.depth * tree.branching + 1]),
        ("p", p, [batch, p.shape[1] if p is not None and 0 < p.shape[1] <= m + 1 else m + 1, vocabulary]),
    ):
        if x is not None and list(x.shape) != expected:
            raise SpecdecError(
                f"{name} has shape {list(x.shape)}, but {batch} trees of {m} nodes, depth {tree.depth} and "
                f"branching {tree.branching} over {vocabulary} tokens need {expected}"
            )
