"""What the decoding loop asks of a draft, and the draft that proposes nothing.

A `Draft` is a model or a method, without state; `start` opens a `Session` for one batch of texts, which holds
the state: a cache, features, the texts themselves. The calls of a session, in their order:

    read      once per chunk of the prompts, which the verifier has just read
    rollback  the prompts have these lengths; what was padded is forgotten
    then, in every round:
    propose   a tree for every sequence
    accept    what the verifier kept of it: tensors, on the device, not to be read
    settle    the same, read by the host

`propose` and `accept` are the device's part of a round: static shapes, and nothing is read by the host. A
draft that works on the host alone (a lookup in the text) does its work in `settle` and `propose`.

Layout: as in tree.py and verify.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from specdec.grow import Growth
from specdec.policy import Policy, chain
from specdec.sampling import Sampling
from specdec.tree import DraftTree

if TYPE_CHECKING:
    from specdec.verifier import Pass, Verifier
    from specdec.verify import Verdict


class Draft(Protocol):
    """A proposer, which reads the inputs of the verifier's layers `taps`.

    `samples`: whether it can draw children by chance; one that cannot has a one-hot p, whatever rule the
    policy names.
    """

    name: str
    policy: Policy  # the default
    taps: tuple[int, ...]
    samples: bool

    def start(
        self,
        verifier: Verifier,
        prompts: Sequence[Sequence[int]],
        capacity: int,
        policy: Policy,
        sampling: Sampling,
    ) -> Session:
        """Open a session for these prompts, of texts of up to `capacity` tokens.

        Raises SpecdecError when the draft does not fit the verifier, or a text does not fit the draft.
        """
        ...


class Session(Protocol):
    """A draft's state for one batch."""

    def read(self, tokens: Tensor, found: Pass) -> None:
        """A chunk of the prompts `[B, n]`, and the verifier's pass over it. Shorter prompts are padded."""
        ...

    def rollback(self, lengths: Sequence[int]) -> None:
        """The prompts without their newest tokens have these lengths."""
        ...

    def propose(self, policy: Policy, newest: Tensor, coins: Tensor | None) -> Growth:
        """Grow one tree per sequence behind its newest token `[B]`. coins: `[B, policy.coins]`."""
        ...

    def accept(self, growth: Growth, verdict: Verdict, found: Pass) -> Tensor:
        """The verdict on that tree, and the verifier's pass over its rows.

        Returns one number per sequence, `[B]` int64, that `settle` wants to know: the host reads it along
        with the verdict.
        """
        ...

    def settle(self, emitted: Sequence[Sequence[int]], going: Sequence[bool], told: Sequence[int]) -> None:
        """What each sequence emitted, nothing if it had ended before; whether it goes on; those numbers."""
        ...


class NoDraft:
    """Proposes nothing: with it the loop is plain decoding."""

    name = "plain"
    policy: Policy = chain(0, "top-k")
    taps: tuple[int, ...] = ()
    samples = False

    def start(
        self,
        verifier: Verifier,
        prompts: Sequence[Sequence[int]],
        capacity: int,
        policy: Policy,
        sampling: Sampling,
    ) -> NoDraft:
        return self

    def read(self, tokens: Tensor, found: Pass) -> None:
        pass

    def rollback(self, lengths: Sequence[int]) -> None:
        pass

    def propose(self, policy: Policy, newest: Tensor, coins: Tensor | None) -> Growth:
        tree = DraftTree.chain(newest.new_zeros(len(newest), 0))
        return Growth(tree, None, torch.zeros_like(newest).unsqueeze(1))

    def accept(self, growth: Growth, verdict: Verdict, found: Pass) -> Tensor:
        return verdict.accepted

    def settle(self, emitted: Sequence[Sequence[int]], going: Sequence[bool], told: Sequence[int]) -> None:
        pass
