"""The decoding loop: draft, verify, accept, roll back.

`speculative_step` is one round, read top to bottom; `generate` repeats it until the text ends. Plain decoding
is the same loop without a draft, so that a comparison compares only speculation. A draft is anything with
`propose(tokens, n) -> list of at most n tokens`. Text, terminals and prompts' templates are the caller's
business.

The ledger: the newest token has not been through the verifier, so `cached == len(tokens) - 1` before and
after every round. A round feeds that token and n drafts (cached grows by n + 1), and then takes the rejected
ones back.

Layout: one sequence; tokens are plain lists of token ids, logits [1, n + 1, V].
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

import torch

from specdec.drafts.ngram import DRAFT_LENGTH
from specdec.errors import SpecdecError
from specdec.kv_cache import KVCache
from specdec.sampling import Sampling
from specdec.verifier import Verifier
from specdec.verify import verify_chain

PREFILL_CHUNK = 512  # prompt tokens per prefill pass: bounds the memory that attention needs


class Draft(Protocol):
    """What the loop asks of a draft whose proposal is certain (a one-hot p)."""

    def propose(self, tokens: list[int], n: int) -> list[int]: ...


@dataclass(frozen=True)
class Round:
    """One round: `proposed` drafts, of which the first `accepted` were kept, and the tokens it emitted."""

    proposed: int
    accepted: int
    emitted: list[
        int
    ]  # the accepted drafts, then the bonus or correction token; cut behind an end of sequence
    cached: int  # positions in the cache when the round was over
    seconds: float


@dataclass
class Generation:
    """What `generate` gives back. A verifier call is one round; the prefill of the prompt is not counted."""

    prompt: list[int]
    tokens: list[int] = field(default_factory=list)  # new tokens only, the end-of-sequence token included
    rounds: list[Round] = field(default_factory=list)
    prefill_seconds: float = 0.0
    ended: bool = False  # by an end-of-sequence token, rather than by max_new_tokens

    @property
    def verifier_calls(self) -> int:
        return len(self.rounds)

    @property
    def tau(self) -> float:
        """Tokens emitted per verifier call, bonus or correction included; exactly 1 in plain decoding."""
        return len(self.tokens) / len(self.rounds) if self.rounds else 0.0

    @property
    def seconds(self) -> float:
        """Time of all rounds, without the prefill."""
        return sum(r.seconds for r in self.rounds)

    @property
    def tokens_per_second(self) -> float:
        """New tokens per second of the rounds, without the prefill."""
        return len(self.tokens) / self.seconds if self.rounds else 0.0


def generate(
    verifier: Verifier,
    prompt: list[int],
    draft: Draft | None = None,
    draft_length: int = DRAFT_LENGTH,
    sampling: Sampling | None = None,
    max_new_tokens: int = 128,
    eos_ids: Collection[int] = (),
    on_tokens: Callable[[list[int], int], None] | None = None,
) -> Generation:
    """Continue `prompt` (token ids) by at most `max_new_tokens`, up to and including the first of `eos_ids`.

    draft         None: plain decoding, one token per verifier call.
    draft_length  N, the most drafts per round. A round never drafts beyond `max_new_tokens`.
    sampling      default: greedy.
    on_tokens     called after each round with the tokens it emitted; the second number says how many of
                  them, from the first, were drafts.

    Same seed, same device, same result. Raises SpecdecError when the prompt is empty, holds a token that the
    verifier does not have, or does not fit into the context together with `max_new_tokens`, and when a length
    is below 1.
    """
    check_request(verifier, prompt, draft_length, max_new_tokens)
    sampling = sampling or Sampling()
    generator = torch.Generator().manual_seed(sampling.seed)
    cache = verifier.new_cache(capacity=len(prompt) + max_new_tokens)
    generation = Generation(prompt=list(prompt))
    tokens = list(prompt)

    start = time.perf_counter()
    prefill(verifier, cache, tokens)
    generation.prefill_seconds = time.perf_counter() - start

    while not generation.ended and len(generation.tokens) < max_new_tokens:
        # A round emits one token more than it drafts.
        room = min(draft_length, max_new_tokens - len(generation.tokens) - 1)
        start = time.perf_counter()
        proposed, accepted, emitted = speculative_step(
            verifier, cache, tokens, draft, room, sampling, generator
        )
        emitted, generation.ended = cut(emitted, eos_ids)
        tokens += emitted
        cache.rollback(len(tokens) - 1)  # changes something only where an end of sequence cut the path
        seconds = time.perf_counter() - start
        accepted = min(accepted, len(emitted))
        generation.tokens += emitted
        generation.rounds.append(Round(proposed, accepted, emitted, cache.length, seconds))
        if on_tokens is not None:
            on_tokens(emitted, accepted)
    return generation


def speculative_step(
    verifier: Verifier,
    cache: KVCache,
    tokens: list[int],
    draft: Draft | None,
    n: int,
    sampling: Sampling,
    generator: torch.Generator,
) -> tuple[int, int, list[int]]:
    """One round: how many tokens were drafted, how many accepted, and the tokens emitted (accepted + 1).

    Before: the cache holds all of `tokens` but the newest. After: all of `tokens` and of the emitted but the
    newest.
    """
    drafts = draft.propose(tokens, n)[:n] if draft is not None and n > 0 else []
    logits = verifier.forward(torch.tensor([[tokens[-1], *drafts]]), cache).logits  # [1, n + 1, V]
    coins = torch.rand(1, len(drafts) + 1, dtype=torch.float64, generator=generator)
    verdict = verify_chain(logits, torch.tensor([drafts], dtype=torch.long), sampling, coins)
    accepted, token = int(verdict.accepted), int(verdict.token)
    cache.rollback(len(tokens) + accepted)
    return len(drafts), accepted, [*drafts[:accepted], token]


def prefill(verifier: Verifier, cache: KVCache, tokens: list[int]) -> None:
    """Bring all of `tokens` but the newest into the empty cache."""
    for start in range(0, len(tokens) - 1, PREFILL_CHUNK):
        chunk = tokens[start : min(start + PREFILL_CHUNK, len(tokens) - 1)]
        verifier.forward(torch.tensor([chunk]), cache, logits_from=-1)


def cut(emitted: list[int], eos_ids: Collection[int]) -> tuple[list[int], bool]:
    """`emitted` up to and including the first of `eos_ids`, and whether there is one."""
    for i, token in enumerate(emitted):
        if token in eos_ids:
            return emitted[: i + 1], True
    return emitted, False


def check_request(verifier: Verifier, prompt: list[int], draft_length: int, max_new_tokens: int) -> None:
    """Raise SpecdecError, naming the numbers, unless this can be decoded."""
    context, vocabulary = verifier.config.context_length, verifier.config.vocab_size
    if draft_length < 1:
        raise SpecdecError(f"draft_length is {draft_length}, but must be at least 1")
    if max_new_tokens < 1:
        raise SpecdecError(f"max_new_tokens is {max_new_tokens}, but must be at least 1")
    if not prompt:
        raise SpecdecError("the prompt has no tokens, but the verifier needs at least one to continue")
    for place, token in enumerate(prompt):
        if not 0 <= token < vocabulary:
            raise SpecdecError(
                f"token {token} at place {place} of the prompt is not in the vocabulary of "
                f"{vocabulary} tokens"
            )
    if len(prompt) >= context:
        raise SpecdecError(
            f"the prompt has {len(prompt)} tokens, but the verifier's context holds {context}, new tokens "
            "included: shorten the prompt"
        )
    if len(prompt) + max_new_tokens > context:
        raise SpecdecError(
            f"the prompt's {len(prompt)} tokens and {max_new_tokens} new ones exceed the verifier's context "
            f"of {context}: ask for at most {context - len(prompt)} new tokens or shorten the prompt"
        )


def warm_up(verifier: Verifier, draft_length: int = DRAFT_LENGTH) -> None:
    """Two passes whose results are dropped: the first round is not to pay for torch's start."""
    for n in (draft_length + 1, 1):
        verifier.forward(torch.zeros(1, n, dtype=torch.long))
