"""The ledger of a KV cache: how many positions of each sequence are valid, and what they cost to compute.

A pass over n rows either keeps them all (a prefill) or leaves them waiting until acceptance says which stay.
The two quantities that matter then are `cached`, the number of positions whose K and V are valid, and the
work: every row that a pass computed is kept once or discarded once, so computed = kept + discarded, and what
is kept is what is cached. Rolling back is nothing but a smaller `cached`; where K and V lie is
kv_cache.py's business.

The lengths live on the device, because acceptance decides there how far they move. The host has a copy
between rounds and an upper bound, `bound`, at any time: enough to reserve room and to fix shapes without
reading the device. Asking for `lengths` when the host's copy is out of date reads the device once.

A sequence that has ended stays in its batch with its length frozen: its rows are computed with the others,
and nothing of them is kept.

Layout: B sequences; `cached [B]` and `discarded [B]` int64.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from specdec.errors import SpecdecError


class Work(NamedTuple):
    """Verifier positions per sequence, as lists of B numbers: computed = kept + discarded."""

    computed: list[int]
    kept: list[int]
    discarded: list[int]


class Ledger:
    """Lengths and work of `batch` sequences of up to `capacity` tokens."""

    def __init__(self, batch: int, capacity: int, device: torch.device | str = "cpu") -> None:
        self.batch = batch
        self.capacity = capacity
        self.bound = 0  # no sequence that still runs is longer
        self.waiting = 0  # rows of the last pass that acceptance has yet to decide on
        self.cached = torch.zeros(batch, dtype=torch.int64, device=device)
        self.discarded = torch.zeros(batch, dtype=torch.int64, device=device)
        self._computed = 0
        self._known: list[int] | None = [0] * batch
        self._before_accept: list[int] | None = None
        self._accepted_from = 0  # rows that the last accept could choose from
        self._ended = [False] * batch
        self._running = torch.ones(batch, dtype=torch.int64, device=device)

    @property
    def lengths(self) -> list[int]:
        """Cached positions per sequence. Reads the device if acceptance has moved them since."""
        if self._known is None:
            self._set_known(self.cached.tolist())
        return list(self._known)  # type: ignore[arg-type]  # set in the line above

    @property
    def length(self) -> int:
        """Cached positions of every sequence; raises SpecdecError where the sequences differ."""
        lengths = self.lengths
        if len(set(lengths)) > 1:
            raise SpecdecError(
                f"the sequences have different lengths {lengths}: read `lengths`, not `length`"
            )
        return lengths[0]

    @property
    def at(self) -> int | None:
        """The length of all sequences, if the host knows it without reading and they are equally long."""
        if self._known is None or any(length != self._known[0] for length in self._known):
            return None
        return self._known[0]

    @property
    def work(self) -> Work:
        """What the passes have computed so far, and what became of it. Reads the device."""
        discarded = self.discarded.tolist()
        undecided = self._computed - self.waiting
        return Work([undecided] * self.batch, [undecided - d for d in discarded], discarded)

    # -- a pass ------------------------------------------------------------------------------------------

    def check_room(self, n: int) -> None:
        """Raise SpecdecError unless a pass over n rows can follow. Nothing has been written then."""
        if self.waiting:
            raise SpecdecError(
                f"the last pass left {self.waiting} rows waiting: call `accept` (with counts of 0 to keep "
                "none of them) before the next pass"
            )
        if all(self._ended):
            raise SpecdecError(f"all {self.batch} sequences have ended: there is nothing to compute")
        if self.bound + n <= self.capacity:
            return
        lengths = self.lengths  # where the host's copy was out of date, the bound may have been too high
        if self.bound + n > self.capacity:
            running = [-1 if e else length for length, e in zip(lengths, self._ended, strict=True)]
            which = "" if self.batch == 1 else f" in sequence {running.index(self.bound)}"
            raise SpecdecError(
                f"the cache holds {self.bound} of {self.capacity} tokens{which} and {n} more do not fit: "
                "use a shorter prompt, fewer new tokens or a larger capacity"
            )

    def keep(self, n: int) -> None:
        """A pass over n rows is over, and all of them stay."""
        self._computed += n
        if any(self._ended):
            self.cached += n * self._running
            self.discarded += n - n * self._running
        else:
            self.cached += n
        if self._known is not None:
            self._known = [k if e else k + n for k, e in zip(self._known, self._ended, strict=True)]
        self.bound += n

    def wait(self, n: int) -> None:
        """A pass over n rows is over, and `accept` will say how many stay."""
        self._computed += n
        self.waiting = n

    def accept(self, counts: Tensor, most: int) -> None:
        """The first `counts [B]` rows of a path of `most` stay, the other waiting rows are discarded.

        Not read by the host: it learns the lengths by `settle`, or when it asks for them. Raises
        SpecdecError when no pass is waiting, or on shapes.
        """
        if not self.waiting:
            raise SpecdecError("there is nothing to accept: run a pass with `wait=True` or over a tree first")
        if tuple(counts.shape) != (self.batch,) or not 1 <= most <= self.waiting:
            raise SpecdecError(
                f"accept needs counts [{self.batch}] and a path of 1 to {self.waiting} rows, got counts "
                f"{list(counts.shape)} and {most} rows"
            )
        kept = counts * self._running if any(self._ended) else counts
        self.cached += kept
        self.discarded += self.waiting - kept
        self._before_accept, self._known = self._known, None
        self._accepted_from, self.waiting = most, 0
        self.bound += most

    def reopen(self, n: int) -> None:
        """The last `n` rows that were kept wait again, so that `accept` can choose among them.

        For a draft: it reads its own tree level by level, each level kept, and learns afterwards which path
        the verifier took. Not read by the host. Raises SpecdecError while a pass waits, or when n is below 1.
        """
        if self.waiting or n < 1:
            raise SpecdecError(
                f"{n} rows cannot be reopened while {self.waiting} rows wait: call `accept` first, and "
                "reopen at least 1"
            )
        gone = n * self._running
        self.cached -= gone
        self.discarded -= n - gone
        self._computed -= n
        self.bound -= n
        if self._known is not None:
            self._known = [k if e else k - n for k, e in zip(self._known, self._ended, strict=True)]
        self.wait(n)

    def tell(self, lengths: Sequence[int]) -> None:
        """Tell the host the lengths that it can work out itself, so that they need not be read."""
        if len(lengths) != self.batch:
            raise SpecdecError(
                f"tell needs one length for each of {self.batch} sequences, got {len(lengths)}"
            )
        self._set_known(list(lengths))

    def settle(self, counts: Sequence[int]) -> None:
        """Tell the host what the last `accept` got, so that the lengths need not be read from the device.

        Raises SpecdecError when the counts cannot be those.
        """
        if len(counts) != self.batch or any(not 0 <= c <= self._accepted_from for c in counts):
            raise SpecdecError(
                f"the last accept could keep 0 to {self._accepted_from} rows of {self.batch} sequences, got "
                f"counts {list(counts)}"
            )
        if self._known is None and self._before_accept is not None:
            old = zip(self._before_accept, counts, self._ended, strict=True)
            self._set_known([length if ended else length + count for length, count, ended in old])

    # -- between passes ----------------------------------------------------------------------------------

    def rollback(self, lengths: int | Sequence[int]) -> None:
        """Forget everything from position `lengths` on (one int for all sequences, or one per sequence).

        Waiting rows are discarded. Raises SpecdecError when a length is negative or beyond what is cached;
        nothing has changed then.
        """
        old = self.lengths
        new = [lengths] * self.batch if isinstance(lengths, int) else list(lengths)
        if len(new) != self.batch:
            raise SpecdecError(
                f"rollback needs one length for each of {self.batch} sequences, got {len(new)}"
            )
        for b, (to, had) in enumerate(zip(new, old, strict=True)):
            if not 0 <= to <= had:
                raise SpecdecError(f"sequence {b} has {had} cached tokens and cannot be rolled back to {to}")
        if new != old:
            self.discarded += self.cached
            self.cached.copy_(torch.tensor(new))
            self.discarded -= self.cached
            self._set_known(new)
        self.discarded += self.waiting
        self.waiting = 0

    def end(self, sequence: int) -> None:
        """Freeze the length of one sequence: it no longer needs room, and no later row of it is kept."""
        if not 0 <= sequence < self.batch:
            raise SpecdecError(f"the cache holds sequences 0 to {self.batch - 1}, got {sequence}")
        self._ended[sequence] = True
        self._running[sequence] = 0
        if self._known is not None:
            self._set_known(self._known)

    def _set_known(self, lengths: list[int]) -> None:
        self._known = lengths
        running = [k for k, ended in zip(lengths, self._ended, strict=True) if not ended]
        self.bound = max(running, default=0)
