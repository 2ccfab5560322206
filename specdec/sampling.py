"""From logits to the distribution that is sampled, and from a distribution to a token.

Temperature, top-k and top-p change the verifier's q (and a draft's p) *before* anything is verified: the
sequence that comes out is distributed as the changed q. Temperature 0 is the limit in which q puts everything
on its most likely token. Nothing here knows about drafts (verify.py) or models (verifier.py), and nothing
draws its own random numbers: whoever calls brings uniform coins, so that a test can choose them.

Layout: `logits [..., V]` and `weights [..., V]` with the vocabulary last; coins `[...]` in [0, 1).
torch is imported by the two functions that name it, so that a command can check its options without loading
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

SMALLEST_TEMPERATURE = 1e-30  # below it a 32-bit division overflows; the result is greedy long before
LARGEST_SEED = 2**63 - 1
BLOCK = 256
HALF_BITS = 15  # the bit pattern of a probability in float32 has 30 bits: that of 1.0 is 0x3F800000
HALVES = 1 << HALF_BITS


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen from the verifier's logits.

    temperature  0 is greedy; 1 is the model's own distribution.
    top_k        keep only the k most likely tokens; 0 keeps all.
    top_p        then keep the smallest set of most likely tokens with at least this mass; 1 keeps all.
    seed         of the generator that the coins come from.

    Raises ValueError for a value out of range, naming it.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(
                f"temperature is {self.temperature}, but must be a finite number of at least 0 (0 is greedy)"
            )
        if self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}, but must be at least 0 (0 keeps every token)")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}, but must lie in (0, 1] (1 keeps every token)")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise ValueError(f"seed is {self.seed}, but must be an integer from 0 to {LARGEST_SEED}")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


def best_token(scores: Tensor) -> Tensor:
    """The index of the largest of `scores [..., V]`, the first of equals.

    As argmax, which on a CPU takes ten times as long for a large vocabulary: maxima of blocks first, then
    inside one block.
    """
    if scores.shape[-1] % BLOCK:
        return scores.argmax(-1)
    blocks = scores.unflatten(-1, (-1, BLOCK))
    block = blocks.amax(-1).argmax(-1, keepdim=True)  # [..., 1]
    chosen = blocks.take_along_dim(block.unsqueeze(-1), dim=-2).squeeze(-2)  # [..., BLOCK]
    return (BLOCK * block).squeeze(-1) + chosen.argmax(-1)


def probabilities(logits: Tensor, sampling: Sampling) -> Tensor:
    """The distribution that is sampled, `[..., V]` float32, from `logits [..., V]` of any float type.

    Temperature first, then top-k, then top-p on what top-k left, renormalised; tokens that are cut get
    exactly 0. At temperature 0 the most likely token gets 1 (the first of equals).
    """
    logits = logits.float()
    if sampling.greedy:
        best = best_token(logits).unsqueeze(-1)
        return logits.new_zeros(logits.shape).scatter(-1, best, 1.0)
    # The largest logit goes to 0 before the division, so that a small temperature cannot overflow.
    scaled = (logits - logits.amax(-1, keepdim=True)) / max(sampling.temperature, SMALLEST_TEMPERATURE)
    vocabulary = logits.shape[-1]
    keep = min(sampling.top_k or vocabulary, vocabulary)
    if keep == vocabulary and sampling.top_p == 1:
        return scaled.softmax(-1)
    # Top-p looks only at what top-k left: topk over a few tokens costs a fiftieth of a full sort.
    top, ids = scaled.topk(keep) if keep < vocabulary else (scaled, None)
    q = top.softmax(-1)
    if sampling.top_p < 1:
        q = nucleus(q, sampling.top_p)
    return q if ids is None else q.new_zeros(logits.shape).scatter(-1, ids, q)


def nucleus(q: Tensor, top_p: float) -> Tensor:
    """The smallest set of most likely tokens with mass at least `top_p`, renormalised; `q [..., V]` float32.

    Tokens exactly as likely as the last one kept are kept too. That token's probability is found without
    sorting: non-negative floats are ordered as their bit patterns are, so a histogram over the upper half of
    the bits finds the upper half of the answer, and one over the lower half of the tokens there finds the
    rest. Mass is counted in units of 2^-40: sums of integers are the same in any order, on any device.
    """
    import torch

    bits = q.view(torch.int32)  # [..., V]
    # Clamped, here and below, for the sake of a q that is no number: it must not stop a round of others.
    upper = (bits >> HALF_BITS).clamp(0, HALVES - 1).long()
    lower = (bits & (HALVES - 1)).long()
    mass = (q * 2.0**40).long()
    total = mass.sum(-1, keepdim=True)
    droppable = total - (total.double() * top_p).ceil().long()  # of the least likely tokens
    nothing = mass.new_zeros(*q.shape[:-1], HALVES)
    per_upper = nothing.scatter_add(-1, upper, mass)
    up_to = per_upper.cumsum(-1)
    # The upper half whose tokens cannot all be dropped.
    first = torch.searchsorted(up_to, droppable, right=True).clamp(max=HALVES - 1)
    droppable = droppable - (up_to - per_upper).gather(-1, first)
    per_lower = nothing.scatter_add(-1, lower, mass * (upper == first))
    second = torch.searchsorted(per_lower.cumsum(-1), droppable, right=True)
    kept = (bits >= (first << HALF_BITS) + second) * q
    return kept / kept.sum(-1, keepdim=True)


def draw(weights: Tensor, coin: Tensor) -> Tensor:
    """One token per row by inverse CDF: `weights [..., V]` >= 0 of any positive sum, `coin [...]` in [0, 1).

    Returns `[...]` int64. A token of weight 0 never comes out, whatever the coin. Summed in float64: near 1 a
    float32 CDF moves in steps of 6e-8, too coarse for a tail of tokens that have less, and moves 4e-4 of the
    mass of a typical q.
    """
    import torch

    # A parallel running sum (GPU) may step back by one rounding; the running maximum over tokens of positive
    # weight keeps the CDF flat across tokens of weight 0, so that none of them can be the first to exceed the
    # target.
    cdf = weights.double().cumsum(-1).masked_fill(weights <= 0, 0.0).cummax(-1).values
    target = coin.to(cdf).unsqueeze(-1) * cdf[..., -1:]
    first_above = torch.searchsorted(cdf, target, right=True).squeeze(-1)
    return first_above.clamp(max=weights.shape[-1] - 1)
