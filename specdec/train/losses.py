"""What a draft is trained to: the verifier's distribution at the position that each row stands for.

All families learn from the verifier's softmax and not from the tokens of the text, restricted to the draft's
vocabulary. A row is left out where the verifier's own first choice is a token that the draft does not know:
there it can only be wrong. How much of what is left is right is `acceptance`: for a draft x drawn from p the
probability of being accepted is sum over x of min(p(x), q(x)), with q over the whole vocabulary.

Shifts are where training goes wrong unseen, so they are in one place. `Batch` counts by token: `mask[:, j]`
says whether token j belongs to an answer, `hidden[:, j]` is the state that predicts token j + 1. A row that
stands for token j (that is to say, predicts it) is trained towards the state j - 1, and counts if mask[:, j]
holds. `shifted` cuts tokens, states and mask for the same j, all at once.

Layout: B texts of up to T tokens, padded with mask False; hidden [B, T, H], logits [B, n, Vd].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS = 128  # of [.., Vd] that the loss takes at once: 2 MB in fp32 at 4,096 tokens


@dataclass(frozen=True)
class Batch:
    """Some texts with what the verifier made of them."""

    tokens: Tensor  # [B, T] int64
    mask: Tensor  # [B, T] bool: the token belongs to an answer
    taps: Tensor  # [B, T, K, H]: inputs of K layers
    hidden: Tensor  # [B, T, H]: the last hidden state after the final norm
    best: Tensor  # [B, T] int64: the verifier's first choice behind each token
    normaliser: Tensor  # [B, T]: logsumexp of its logits behind each token


class Laws(NamedTuple):
    """The verifier's distribution behind each token."""

    q: Tensor  # [B, T, Vd]: its softmax on the draft's vocabulary
    mass: Tensor  # [B, T]: what the whole softmax has there; q * mass is q over the whole vocabulary


@torch.no_grad()
def verifier_laws(batch: Batch, rows: Tensor) -> Laws:
    """From the hidden states; rows [Vd, H]: the verifier's output rows for the draft's vocabulary.

    In fp32 also under autocast: rounded logits would move the mass by several per cent.
    """
    with torch.autocast(rows.device.type, enabled=False):
        logits = F.linear(batch.hidden.float(), rows.float())
        total = logits.logsumexp(-1)
        mass = (total - batch.normaliser).exp().clamp(max=1.0)
        return Laws(logits.sub_(total.unsqueeze(-1)).exp_(), mass)


class Target(NamedTuple):
    """What the n rows that stand for a token of the text are to predict."""

    q: Tensor  # [B, n, Vd] and
    mass: Tensor  # [B, n]: as in `Laws`
    best: Tensor  # [B, n]: the verifier's first choice
    tokens: Tensor  # [B, n]: the text's
    counts: Tensor  # [B, n] bool: rows of answers
    learnable: Tensor  # [B, n] bool: of these, those whose first choice the draft knows


def shifted(batch: Batch, ahead: int, laws: Laws, known: Tensor) -> Target:
    """The targets of the rows that stand for tokens `ahead`, `ahead + 1`, ..., as many as the text has.

    known [V] bool: which tokens are in the draft's vocabulary.
    """
    states = slice(ahead - 1, batch.tokens.shape[1] - 1)
    here = slice(ahead, None)
    best, counts = batch.best[:, states], batch.mask[:, here]
    return Target(
        laws.q[:, states], laws.mass[:, states], best, batch.tokens[:, here], counts, counts & known[best]
    )


class CrossEntropy(torch.autograd.Function):
    """-(q * log_softmax(logits)).sum() over m rows [m, Vd]; row i of q is q[texts[i], places[i]], of sum 1.

    Autograd would take it apart into passes over [m, Vd] that cost more than the product which makes the
    logits. Here a few rows at a time, which stay in the cache, give their loss and at once their gradient.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, q: Tensor, texts: Tensor, places: Tensor) -> Tensor:
        gradient, loss = torch.empty_like(logits), logits.new_zeros((), dtype=torch.float32)
        parts = (x.split(ROWS) for x in (logits, gradient, texts, places))
        for some, into, text, place in zip(*parts, strict=True):
            logarithm, expected = some.float().log_softmax(-1), q[text, place]
            loss -= torch.dot(logarithm.flatten(), expected.flatten())
            into.copy_(logarithm.exp_().sub_(expected))
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad, None, None, None


def cross_entropy(logits: Tensor, target: Target) -> Tensor:
    """Sum over learnable rows of the cross-entropy against the verifier's softmax, a number.

    logits [m, Vd]: those of the m learnable rows alone, in their order.
    """
    texts, places = target.learnable.nonzero(as_tuple=True)
    return CrossEntropy.apply(logits, target.q, texts, places)


def regression(out: Tensor, features: Tensor, counts: Tensor) -> Tensor:
    """Sum over rows that count of the smooth-L1 distance, averaged over channels: EAGLE-1's feature loss."""
    return F.smooth_l1_loss(out[counts].float(), features[counts].float(), reduction="none").mean(-1).sum()


class Acceptance(NamedTuple):
    """Sums over rows of answers, to be divided by `rows`."""

    rows: Tensor
    sampled: Tensor  # of sum min(p, q): a token sampled from p is accepted, at temperature 1
    greedy: Tensor  # the draft's first choice is the verifier's


def acceptance(logits: Tensor, target: Target, vocabulary: Tensor) -> Acceptance:
    """How often drafts from `logits` [B, n, Vd] would be accepted. vocabulary [Vd]: their target ids."""
    p = logits.float().softmax(-1)
    overlap = torch.minimum(p, target.q * target.mass.unsqueeze(-1)).sum(-1)
    right = vocabulary[logits.argmax(-1)] == target.best
    counts = target.counts
    return Acceptance(counts.sum(), overlap[counts].sum(), right[counts].sum())
