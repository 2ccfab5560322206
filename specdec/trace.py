"""A record of decoding, round by round, for pages and plots: what was drafted, what became of it, and why.

A trace is filled by `decode.generate(..., trace=Trace())`. Recording reads the device and sorts
distributions, so a traced run is slow; its times are those of the round without the recording. It holds plain
numbers, and JSON takes it out and in. Of each row's distributions the `top` most likely tokens are kept, the
tokens that the tree has there, and the mass of all others; whole vectors only on request, as arrays.

Layout: rows as in tree.py: row 0 is the newest token, row i + 1 node i. A law is one distribution over the
vocabulary, cut short: {"tokens": [...], "p": [...], "rest": mass}, by falling p.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from specdec.errors import SpecdecError
from specdec.files import write_json, write_whole
from specdec.generation import Round, Stopwatch, Text

if TYPE_CHECKING:
    from torch import Tensor

    from specdec.decode import Outcome
    from specdec.sampling import Sampling

TOP = 16  # most likely tokens kept of a distribution
VERSION = 1

Law = dict[str, Any]


def residual(q: Tensor, children: Sequence[int], p: Tensor | None) -> Tensor:
    """What is owed `[V]` when all of a row's children were rejected, normalised; q where nothing is left.

    q [V]; children: their tokens; p [V]: what they were drawn from, or None.
    """
    import torch

    from specdec.verify import owed_sampled, owed_top_k

    x = torch.tensor([list(children)], device=q.device)
    exists = torch.ones_like(x, dtype=torch.bool)
    owed = owed_top_k(q[None], x, exists) if p is None else owed_sampled(q[None], p[None], x, exists)
    owed = owed[0].double().clamp(min=0.0)
    return owed / owed.sum() if float(owed.sum()) > 0 else q


@dataclass
class TracedRound:
    """One round of one sequence."""

    sequence: int
    prefix: int  # tokens before the round, the newest included; `Trace.prefix` has them
    newest: int
    tokens: list[int]  # of the nodes
    parents: list[int]  # their parent rows; -1: an absent node
    coins: list[float]  # d * K + k: decides child k of the row at depth d of the walk; the last draws `token`
    branching: int  # K
    path: list[int]  # rows: 0, then the accepted nodes
    token: int  # the bonus or correction
    bonus: bool  # whether the walk ended at a leaf
    emitted: list[int]  # shorter than the path where the text ended inside it
    cached_before: int
    cached_after: int
    ms: dict[str, float]  # per stage
    q: list[Law]  # of each row: the verifier's distribution, temperature, top-k and top-p applied
    p: list[Law | None]  # of each row: what its children were drawn from; None where they were not sampled
    residual: list[Law | None]  # of each row with children: what is owed when all of them are rejected


@dataclass
class Trace:
    """Rounds in their order. With `full`, `arrays` holds whole vectors: "q/0" is [rows, V] of round 0."""

    top: int = TOP
    full: bool = False
    prompts: list[list[int]] = field(default_factory=list)
    rounds: list[TracedRound] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def prefix(self, i: int) -> list[int]:
        """The tokens of round i's sequence before that round, prompt included."""
        own = self.rounds[i].sequence
        text = list(self.prompts[own])
        for earlier in self.rounds[:i]:
            if earlier.sequence == own:
                text += earlier.emitted
        return text

    def record(
        self,
        outcome: Outcome,
        texts: Sequence[Text],
        rounds: Sequence[Round | None],
        sampling: Sampling,
        watch: Stopwatch,
    ) -> None:
        """Add one round of a batch, for every sequence that took part in it."""
        from specdec.sampling import probabilities

        self.prompts = [list(text.prompt) for text in texts]
        tree, verdict = outcome.growth.tree, outcome.verdict
        q = probabilities(outcome.found.logits, sampling)  # [B, m + 1, V]
        for b, round_ in enumerate(rounds):
            if round_ is None:
                continue
            parents, tokens = tree.parents[b].tolist(), tree.tokens[b].tolist()
            accepted = int(verdict.accepted[b])
            path = verdict.path[b, : accepted + 1].tolist()
            children = [[i for i, up in enumerate(parents, 1) if up == row] for row in range(tree.rows)]
            p = None if outcome.growth.p is None else outcome.growth.p[b]
            left: list[Tensor | None] = []
            for row, own in enumerate(children):
                drawn_from = None if p is None or not own else p[row]
                left.append(residual(q[b, row], [tokens[i - 1] for i in own], drawn_from) if own else None)
            before = round_.cached - len(round_.emitted)
            drawn = [[tokens[i - 1] for i in own] for own in children]
            self.rounds.append(
                TracedRound(
                    sequence=b,
                    prefix=before + 1,
                    newest=int(outcome.newest[b]),
                    tokens=tokens,
                    parents=parents,
                    coins=outcome.coins[b].tolist(),
                    branching=tree.branching,
                    path=path,
                    token=int(verdict.token[b]),
                    bonus=not children[path[-1]],
                    emitted=list(round_.emitted),
                    cached_before=before,
                    cached_after=round_.cached,
                    ms={stage: round(1000 * seconds, 4) for stage, seconds in watch.laps.items()},
                    q=[self._law(q[b, row], drawn[row]) for row in range(tree.rows)],
                    p=[
                        self._law(p[row], drawn[row]) if p is not None and children[row] else None
                        for row in range(tree.rows)
                    ],
                    residual=[
                        None if rest is None else self._law(rest, drawn[row]) for row, rest in enumerate(left)
                    ],
                )
            )
            if self.full:
                at = len(self.rounds) - 1
                self.arrays[f"q/{at}"] = q[b].cpu().numpy()
                if p is not None:
                    self.arrays[f"p/{at}"] = p.float().cpu().numpy()
                zero = q.new_zeros(q.shape[-1]).double()
                self.arrays[f"residual/{at}"] = np.stack(
                    [(zero if rest is None else rest).cpu().numpy() for rest in left]
                )

    def _law(self, weights: Tensor, always: Sequence[int]) -> Law:
        """The `top` most likely tokens and those of `always`, by falling p, and what the others have."""
        best = weights.topk(min(self.top, len(weights))).indices.tolist()
        tokens = sorted({*best, *always}, key=lambda token: -float(weights[token]))
        p = [float(weights[token]) for token in tokens]
        return {"tokens": tokens, "p": p, "rest": max(0.0, 1.0 - sum(p))}

    # -- JSON --------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """All but the arrays, as JSON can hold it."""
        return {
            "version": VERSION,
            "top": self.top,
            "prompts": self.prompts,
            "rounds": [asdict(round_) for round_ in self.rounds],
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Trace:
        """The trace that `to_json` gave; raises SpecdecError for anything else."""
        try:
            if data["version"] != VERSION:
                raise SpecdecError(
                    f"the trace has version {data['version']}, and {VERSION} is read here: record it again"
                )
            rounds = [TracedRound(**round_) for round_ in data["rounds"]]
            return Trace(top=data["top"], prompts=data["prompts"], rounds=rounds)
        except (KeyError, TypeError) as error:
            raise SpecdecError(f"this is not a trace as `Trace.save` writes it: {error}") from None

    def save(self, path: Path | str) -> None:
        """Write `path` (JSON), and the arrays beside it with the ending .npz; whole or not at all."""
        path = Path(path)
        if self.arrays:
            save = partial(np.savez_compressed, **self.arrays)  # type: ignore[arg-type]  # names are free
            write_whole(path.with_suffix(".npz"), save)
        write_json(path, self.to_json(), indent=None)

    @staticmethod
    def load(path: Path | str) -> Trace:
        """Read what `save` wrote, the arrays too if they are there. Raises SpecdecError, naming the file."""
        path = Path(path)
        try:
            trace = Trace.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise SpecdecError(f"cannot read a trace from {path}: {reason}") from None
        if (arrays := path.with_suffix(".npz")).is_file():
            with np.load(arrays) as stored:
                trace.arrays = {name: stored[name] for name in stored.files}
            trace.full = True
        return trace
