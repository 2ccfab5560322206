"""Acceptance of a drafted chain, in tensors: which drafts the verifier keeps, and the token it adds.

Leviathan et al. 2023, algorithm 1 (who swap the letters: here q is the verifier, p the draft). Draft x at its
position is accepted with probability min(1, q(x) / p(x)); after the first rejection the correction is drawn
from the residual norm(max(0, q - p)); after full acceptance a bonus token is drawn from the last q. The
tokens that come out are distributed as q, whatever p was. A draft that proposes one token for certain has a
one-hot p: then the ratio is q(x) and the residual is q without x. Greedy is the limit in which q is one-hot
too.

Batched, vectorised over batch and vocabulary, of static shape, and never read by the host: the same code runs
for one row or ten thousand. The same rule for one position at a time, to be read first, is
specdec/theory/rejection.py.

Layout: B rows, N drafts, V tokens. `q [B, N + 1, V]`: row i is the verifier's distribution after i drafts. `p
[B, N, V]` or None for one-hot. `drafts [B, N]` int64. `coins [B, N + 1]` in [0, 1): one per draft, then the
last for the bonus or correction.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from specdec.sampling import Sampling, draw, probabilities


class Verdict(NamedTuple):
    """Per row: how many drafts are kept, and the bonus (all kept) or correction token that follows them."""

    accepted: Tensor  # [B] int64, 0..N
    token: Tensor  # [B] int64


def verify_chain(
    logits: Tensor, drafts: Tensor, sampling: Sampling, coins: Tensor, p: Tensor | None = None
) -> Verdict:
    """Verify one chain per row from the verifier's `logits [B, N + 1, V]`, by the rule for `sampling`.

    `p` must be what the drafts were sampled from, temperature, top-k and top-p included. At temperature 0
    neither the coins nor p matter. Raises ValueError when the shapes do not belong together.
    """
    check_shapes(logits, drafts, coins, p)
    if sampling.greedy:
        return accept_greedy(logits, drafts)
    return accept_chain(probabilities(logits, sampling), drafts, coins, p)


def accept_greedy(logits: Tensor, drafts: Tensor) -> Verdict:
    """Keep drafts as long as each is the verifier's most likely token; the next most likely token follows."""
    best = logits.argmax(-1)  # [B, N + 1]
    accepted = leading(drafts == best[:, :-1])
    return Verdict(accepted, at(best, accepted))


def accept_chain(q: Tensor, drafts: Tensor, coins: Tensor, p: Tensor | None = None) -> Verdict:
    """The exact sampling rule on distributions `q [B, N + 1, V]`, drafts of one-hot or full `p [B, N, V]`."""
    q_x = q[:, :-1].gather(-1, drafts.unsqueeze(-1)).squeeze(-1)  # [B, N]
    p_x = 1.0 if p is None else p.gather(-1, drafts.unsqueeze(-1)).squeeze(-1).double()
    # u < q(x) / p(x), strict and without the division: q(x) = 0 always rejects, also when the coin is 0.
    accepted = leading(coins[:, :-1] * p_x < q_x)
    weights = final_weights(q, drafts, accepted, p)
    return Verdict(accepted, draw(weights, coins[:, -1]))


def final_weights(q: Tensor, drafts: Tensor, accepted: Tensor, p: Tensor | None = None) -> Tensor:
    """What the bonus or correction is drawn from, `[B, V]`, not normalised: the last q, or the residual.

    Where rounding leaves no residual at all (q = p up to 1e-7, and yet a rejection), q itself.
    """
    n = drafts.shape[1]
    row = at(q, accepted)  # [B, V]
    if n == 0:
        return row
    rejected = accepted.clamp(max=n - 1)  # the index of the rejected draft; meaningless where none was
    if p is None:
        residual = row.scatter(-1, at(drafts, rejected).unsqueeze(-1), 0.0)
    else:
        residual = (row - at(p, rejected)).clamp(min=0.0)
    use_row = (accepted == n) | (residual.sum(-1) <= 0)
    return row.where(use_row.unsqueeze(-1), residual)


def leading(kept: Tensor) -> Tensor:
    """How many of `kept [B, N]` are true before the first false: `[B]`."""
    return kept.long().cumprod(-1).sum(-1)


def at(x: Tensor, index: Tensor) -> Tensor:
    """`x[b, index[b]]` for every row b: `[B, n, ...]`, `[B]` -> `[B, ...]`."""
    index = index.view(-1, *[1] * (x.dim() - 1)).expand(-1, 1, *x.shape[2:])
    return x.gather(1, index).squeeze(1)


def check_shapes(logits: Tensor, drafts: Tensor, coins: Tensor, p: Tensor | None) -> None:
    if drafts.dim() != 2 or logits.dim() != 3:
        raise ValueError(
            f"drafts must be [B, N] and logits [B, N + 1, V], but have shapes {list(drafts.shape)} and "
            f"{list(logits.shape)}"
        )
    batch, n = drafts.shape
    vocabulary = logits.shape[-1]
    for name, x, expected in (
        ("logits", logits, [batch, n + 1, vocabulary]),
        ("coins", coins, [batch, n + 1]),
        ("p", p, [batch, n, vocabulary]),
    ):
        if x is not None and list(x.shape) != expected:
            raise ValueError(
                f"{name} has shape {list(x.shape)}, but {n} drafts in {batch} rows over {vocabulary} tokens "
                f"need {expected}"
            )
