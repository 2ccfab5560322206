"""Is a greedy speculative output the plain one? Token for token, up to near-ties, which are listed.

A verifier pass over nine tokens and nine passes over one token add the same numbers in another order, so
their logits differ by up to about 1e-4. Where the two best logits are closer than that, both tokens are the
most likely one, and either may come out. So equality is asked up to the first position where plain decoding's
two best logits differ by less than 1e-3; where the outputs part there, the rest is compared with plain
decoding restarted behind that position.

The plain decoding here is a loop of its own, one token per pass, and shares nothing with decode.py but the
verifier. Layout: tokens are plain lists of token ids; a position counts new tokens from 0.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import torch

from specdec.verifier import Verifier

NEAR_TIE = 1e-3  # difference of the two best logits, fp32


@dataclass(frozen=True)
class NearTie:
    """A position where plain decoding's two best logits differ by less than the tolerance."""

    position: int
    gap: float
    best: int  # the most likely token
    second: int
    emitted: int  # what the output under test has there


@dataclass
class Comparison:
    """Equal but for near-ties when `first_difference` is None."""

    tokens: int  # length of the output under test
    near_ties: list[NearTie] = field(default_factory=list)
    first_difference: int | None = None

    @property
    def identical(self) -> bool:
        return self.first_difference is None

    @property
    def parted(self) -> list[NearTie]:
        """The near-ties at which the two outputs chose differently."""
        return [tie for tie in self.near_ties if tie.emitted != tie.best]


def compare_with_plain(
    verifier: Verifier,
    prompt: list[int],
    tokens: list[int],
    max_new_tokens: int,
    eos_ids: Collection[int] = (),
    tolerance: float = NEAR_TIE,
) -> Comparison:
    """Compare `tokens`, a greedy output of at most `max_new_tokens` after `prompt`, with plain decoding.

    An output that ends too early or too late differs at the position where it does.
    """
    comparison = Comparison(len(tokens))
    start = 0
    while start < max_new_tokens:
        plain = plain_greedy(verifier, prompt + tokens[:start], max_new_tokens - start, eos_ids)
        parted = None
        for position, (gap, best, second) in enumerate(plain, start):
            emitted = tokens[position] if position < len(tokens) else -1
            if gap < tolerance:
                comparison.near_ties.append(NearTie(position, gap, best, second, emitted))
            if emitted != best:
                if gap >= tolerance or emitted != second:
                    comparison.first_difference = position
                    return comparison
                parted = position
                break
        if parted is None:
            if start + len(plain) != len(tokens):
                comparison.first_difference = start + len(plain)
            return comparison
        if tokens[parted] in eos_ids:
            if parted + 1 != len(tokens):
                comparison.first_difference = parted + 1
            return comparison
        start = parted + 1
    return comparison


@torch.no_grad()
def plain_greedy(
    verifier: Verifier, prompt: list[int], max_new_tokens: int, eos_ids: Collection[int] = ()
) -> list[tuple[float, int, int]]:
    """Greedy decoding, one pass per token: per new token the gap of the two best logits, best and second.

    The best is the token that was taken; ends behind the first of `eos_ids`.
    """
    cache = verifier.new_cache(capacity=len(prompt) + max_new_tokens)
    steps: list[tuple[float, int, int]] = []
    new = prompt
    while len(steps) < max_new_tokens:
        logits = verifier.forward(torch.tensor([new]), cache, logits_from=-1).logits[0, -1]
        (top, runner_up), (best, second) = (x.tolist() for x in logits.topk(2))
        steps.append((top - runner_up, best, second))
        if best in eos_ids:
            break
        new = [best]
    return steps


@torch.no_grad()
def agreement(verifier: Verifier, prompt: list[int], tokens: list[int]) -> float:
    """Share of `tokens` that plain decoding picks too, one token per pass, led along this same text.

    Meant for bf16, whose rounding turns so many near-ties that comparing whole outputs says little.
    """
    cache = verifier.new_cache(capacity=len(prompt) + len(tokens))
    picked = 0
    new = prompt
    for token in tokens:
        logits = verifier.forward(torch.tensor([new]), cache, logits_from=-1).logits[0, -1]
        picked += int(logits.argmax()) == token
        new = [token]
    return picked / len(tokens)
