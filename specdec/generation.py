"""What decoding gives back: texts, rounds, and the statistics that come of them.

Everything here is plain numbers on the host, so it needs no torch, and JSON can hold all of it. A verifier
call is one round of the batch; the prefill of the prompts is not counted.

Words: tau is tokens emitted per verifier call, bonus or correction included. alpha at depth d is the share of
the walks that came to depth d and found children there whose child was accepted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

from specdec.errors import SpecdecError

STAGES = ("draft", "verify", "accept", "rollback")


class Try(NamedTuple):
    """One row of the walk that had children: how many, and which of them was accepted (from 0), or None."""

    offered: int
    taken: int | None


@dataclass(frozen=True)
class Round:
    """One round of one sequence: `proposed` draft tokens, `accepted` of them kept, and what came out."""

    proposed: int
    accepted: int
    emitted: list[int]  # the accepted drafts, then the bonus or correction token; cut where the text ends
    cached: int  # positions in the cache when the round was over
    tries: list[Try]  # from depth 0 on; the whole walk, also where the text ends before


@dataclass
class Text:
    """One text: the prompt and what was decoded."""

    prompt: list[int]
    tokens: list[int] = field(default_factory=list)  # new ones only, the end-of-sequence token included
    rounds: list[Round] = field(default_factory=list)
    reason: str | None = None  # why it ended: "eos", "stop" or "length"

    @property
    def ended(self) -> bool:
        """By an end-of-sequence token or a stop string, rather than by max_new_tokens."""
        return self.reason in ("eos", "stop")

    @property
    def tau(self) -> float:
        """Tokens emitted per verifier call; exactly 1 in plain decoding."""
        return len(self.tokens) / len(self.rounds) if self.rounds else 0.0


@dataclass
class Generation:
    """A decoded batch. What is said of one text (`tokens`, `rounds`, ...) needs a batch of one."""

    sequences: list[Text]
    prefill_seconds: float = 0.0
    round_seconds: list[float] = field(default_factory=list)
    stages: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(STAGES, 0.0)
    )  # seconds, all rounds

    @property
    def only(self) -> Text:
        """The text of a batch of one; raises SpecdecError for more."""
        if len(self.sequences) != 1:
            raise SpecdecError(
                f"{len(self.sequences)} texts were decoded: read them from `sequences`, one by one"
            )
        return self.sequences[0]

    @property
    def prompt(self) -> list[int]:
        return self.only.prompt

    @property
    def tokens(self) -> list[int]:
        return self.only.tokens

    @property
    def rounds(self) -> list[Round]:
        return self.only.rounds

    @property
    def ended(self) -> bool:
        return self.only.ended

    @property
    def verifier_calls(self) -> int:
        return len(self.round_seconds)

    @property
    def new_tokens(self) -> int:
        """Of all texts."""
        return sum(len(sequence.tokens) for sequence in self.sequences)

    @property
    def tau(self) -> float:
        """Tokens per verifier call and sequence that was still going."""
        rounds = sum(len(sequence.rounds) for sequence in self.sequences)
        return self.new_tokens / rounds if rounds else 0.0

    @property
    def seconds(self) -> float:
        """Time of all rounds, without the prefill."""
        return sum(self.round_seconds)

    @property
    def tokens_per_second(self) -> float:
        """New tokens of all texts per second of the rounds, without the prefill."""
        return self.new_tokens / self.seconds if self.round_seconds else 0.0

    def add(self, watch: Stopwatch) -> None:
        """Take one round's time in."""
        self.round_seconds.append(watch.seconds)
        for stage, seconds in watch.laps.items():
            self.stages[stage] += seconds

    @property
    def alpha_by_depth(self) -> list[float]:
        """Per depth, from that of the first drafted token on: the share of tries that accepted a child."""
        tries = [r.tries for sequence in self.sequences for r in sequence.rounds]
        shares = []
        for depth in range(max(map(len, tries), default=0)):
            here = [t[depth].taken is not None for t in tries if len(t) > depth]
            shares.append(sum(here) / len(here))
        return shares

    @property
    def acceptance_by_rank(self) -> list[float]:
        """Per rank among siblings, first child first: the share of those tried that were accepted.

        A child is tried when its elder siblings were rejected.
        """
        tries = [t for sequence in self.sequences for r in sequence.rounds for t in r.tries]
        shares = []
        for rank in range(max((t.offered for t in tries), default=0)):
            here = [
                t.taken == rank for t in tries if t.offered > rank and (t.taken is None or t.taken >= rank)
            ]
            shares.append(sum(here) / len(here) if here else 0.0)
        return shares


class Stopwatch:
    """Splits a round's time into its stages: each `lap` closes one.

    On a GPU a stage returns when its work is queued; the wait for it falls to the stage that reads.
    """

    def __init__(self) -> None:
        self.started = self.last = time.perf_counter()
        self.laps = dict.fromkeys(STAGES, 0.0)

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps[stage] += now - self.last
        self.last = now

    @property
    def seconds(self) -> float:
        """From the start to the last lap."""
        return self.last - self.started
