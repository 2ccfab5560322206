"""Two key-value caches with rollback: what the verifier has already computed, per layer and sequence.

A verifier pass over n rows reads the keys and values of everything before them and leaves its own behind. In
speculative decoding only the rows on the accepted path may stay. There are two places to put them meanwhile:

    KVCache         logical length. The rows are written behind the valid ones of their sequence, as if all
                    were accepted. Rejecting them is a smaller length: the stale entries are never read, and
                    the next pass overwrites them. The accepted path of a tree is first moved together.

                        cached . . . . | 0 1 2 3 4 5      path 0 2 5:      cached . . . . 0 2 5

    ScratchKVCache  The rows are written beside the cache, and acceptance copies the path into it. Nothing
                    that is not accepted ever touches the cache; the price is a copy in every round.

                        0 1 2 3 4 5 | cached . . . .      path 0 2 5:      cached . . . . 0 2 5

Serving engines chose differently. vLLM takes the first way: it lowers the request's `num_computed_tokens`
by the rejected drafts, and their slots in its pages are used again (vllm/v1/core/sched/scheduler.py,
`update_from_output`). TensorRT-LLM moves the accepted entries of a tree together in place and then rewinds
the length (tensorrt_llm/_torch/pyexecutor/resource_manager.py, `_update_kv_cache_draft_token_location` and
`rewind_kv_cache`). SGLang allocates a slot for every row, frees the slots of the rejected ones, and maps the
sequence to those that stay (python/sglang/srt/speculative/eagle_info.py, `EagleVerifyInput.verify`).

Both classes answer to the same calls. The verifier drives a pass: `start`, `mask`, `write` per layer,
`finish`. The loop calls `accept` after a pass whose rows wait, and `rollback` when a stop condition takes
tokens back. A draft reads its own tree in several passes, and calls `reopen` to have all its rows wait.
Lengths, room and the account of the work are in `ledger` (specdec/ledger.py), addressing is in
specdec/slots.py.

Layout: keys and values are [layers, B, kv_heads, capacity, head]. Slot s of sequence b is valid while
s < cached[b]. Positions are rotated into the keys before they arrive here. `spare` slots more than the tokens
of the text let a whole tree be written behind it, also near the end of the context. Behind the last slot is
one more that takes what a sequence that has ended would write beyond its capacity.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from specdec.checkpoint import LlamaConfig
from specdec.errors import SpecdecError
from specdec.ledger import Ledger
from specdec.slots import (
    allocate,
    chain_ancestors,
    mask_behind,
    mask_beside,
    place_behind,
    put,
    slots_behind,
    span_of,
    take,
    write_rows,
)

SCRATCH_ROWS = 64  # the newest token and a tree of 63 nodes


def check_path(path: Tensor | None, ledger: Ledger) -> int:
    """How many of the waiting rows a path can keep; raises SpecdecError when it is not [B, D + 1]."""
    if path is None:
        return ledger.waiting
    if path.dim() != 2 or path.shape[0] != ledger.batch:
        raise SpecdecError(f"path must be [B, D + 1] with B = {ledger.batch}, got {list(path.shape)}")
    return path.shape[1]


class KVCache:
    """Logical length: preallocated keys and values of `batch` sequences of up to `capacity` tokens.

    capacity None is the context; `spare` slots are added to it. Raises SpecdecError when batch or capacity is
    below 1, the capacity is beyond the verifier's context, or memory does not suffice.
    """

    def __init__(
        self,
        config: LlamaConfig,
        batch: int = 1,
        capacity: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        spare: int = 0,
    ) -> None:
        self.batch = batch
        capacity = config.context_length if capacity is None else capacity
        self._keys, self._values = allocate(config, batch, capacity, spare + 1, dtype, device)
        self.capacity = capacity + spare
        self.keys, self.values = (s[..., : self.capacity, :] for s in (self._keys, self._values))
        self.ledger = Ledger(batch, self.capacity, device)

    def start(self, n: int, wait: bool = False, span: int | None = None) -> None:
        """Reserve room for a pass over n rows, which stay unless they `wait` for `accept`.

        span: how many cached slots to attend over, at least the longest sequence. None: as few as the host
        knows to suffice. A fixed span gives every pass the same shapes. Raises SpecdecError, before anything
        is written, when the rows do not fit or the last pass still waits.
        """
        self.ledger.check_room(n)
        self._n, self._wait, self._span = n, wait, span_of(self.ledger, n, span)
        self._where = place_behind(self.ledger, n)

    def mask(self, ancestors: Tensor | None = None) -> Tensor:
        """Which slots each row sees, [B, n, S] bool, or [1, n, S] where that is the same for all sequences.

        ancestors: [B, n, n] bool, self included; None: a chain.
        """
        if ancestors is None:
            ancestors = chain_ancestors(self._n, self.keys.device)
        return mask_behind(self._where, self.ledger.cached, ancestors, self._span)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the rows of one layer, each [B, kv_heads, n, head], and return all that they attend over.

        Returns views of the cache and not copies, each [B, kv_heads, S, head] with S = span + n.
        """
        write_rows(self._keys[layer], self._where, keys)
        write_rows(self._values[layer], self._where, values)
        used = self._span + self._n
        return self._keys[layer, :, :, :used], self._values[layer, :, :, :used]

    def finish(self) -> None:
        """All layers have written: from here on the rows are cached, or wait."""
        if self._wait:
            self.ledger.wait(self._n)
        else:
            self.ledger.keep(self._n)

    def accept(self, path: Tensor | None, counts: Tensor) -> None:
        """Keep the first counts[b] rows of each path of the waiting pass, and forget the other rows.

        path    [B, D + 1] rows of the pass, each behind its ancestors: what a verdict calls `path`; what
                stands in it from counts[b] on does not matter. None: the rows in their order, as in a
                chain; nothing is moved then.
        counts  [B] int64, from 0 to D + 1. 0 forgets the whole pass.

        Neither is read by the host. Raises SpecdecError when no pass is waiting or the shapes do not fit.
        """
        before = self.ledger.cached.clone()
        self.ledger.accept(counts, check_path(path, self.ledger))
        if path is not None and path.shape[1] > 1:
            # Row 0 is in its place already.
            source = (before[:, None] + path[:, 1:]).clamp(max=self.capacity)
            target = slots_behind(before + 1, path.shape[1] - 1, self.capacity)
            for store in (self._keys, self._values):
                put(store, target, take(store, source))

    def reopen(self, n: int) -> None:
        """The last n rows of every sequence wait again, see `Ledger.reopen`."""
        self.ledger.reopen(n)

    def rollback(self, lengths: int | Sequence[int]) -> None:
        """Forget everything from position `lengths` on, see `Ledger.rollback`."""
        self.ledger.rollback(lengths)

    @property
    def lengths(self) -> list[int]:
        """Cached positions per sequence."""
        return self.ledger.lengths

    @property
    def length(self) -> int:
        """Cached positions of every sequence; raises SpecdecError where the sequences differ."""
        return self.ledger.length


class ScratchKVCache:
    """Scratch: like KVCache, but rows that wait are written beside the cache, and acceptance copies them.

    scratch is the most rows that a waiting pass can have. Its slots stand before those of the cache, with the
    rows pushed to their end, so that rows and cache are one view and not a copy per layer.
    """

    def __init__(
        self,
        config: LlamaConfig,
        batch: int = 1,
        capacity: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        scratch: int = SCRATCH_ROWS,
        spare: int = 0,
    ) -> None:
        if scratch < 1:
            raise SpecdecError(f"the scratch must have room for at least 1 row, got {scratch}")
        self.batch, self.scratch = batch, scratch
        capacity = config.context_length if capacity is None else capacity
        self._keys, self._values = allocate(config, batch, capacity, scratch + spare + 1, dtype, device)
        self.capacity = capacity + spare
        # The cache proper, and the same with the slot behind its last.
        self._cached_keys, self._cached_values = (s[..., scratch:, :] for s in (self._keys, self._values))
        self.keys, self.values = (
            s[..., : self.capacity, :] for s in (self._cached_keys, self._cached_values)
        )
        self.ledger = Ledger(batch, self.capacity, device)

    def start(self, n: int, wait: bool = False, span: int | None = None) -> None:
        """As `KVCache.start`; raises SpecdecError also when more rows would wait than the scratch holds."""
        self.ledger.check_room(n)
        if wait and n > self.scratch:
            raise SpecdecError(
                f"the scratch has room for {self.scratch} rows and {n} would wait in it: use a smaller tree "
                "or a larger scratch"
            )
        self._n, self._wait, self._span = n, wait, span_of(self.ledger, n, span)
        self._where = place_behind(self.ledger, n)

    def mask(self, ancestors: Tensor | None = None) -> Tensor:
        """As `KVCache.mask`, but the slots of rows that wait come first: S = n + span."""
        if ancestors is None:
            ancestors = chain_ancestors(self._n, self.keys.device)
        if self._wait:
            return mask_beside(self.ledger.cached, ancestors, self._span)
        return mask_behind(self._where, self.ledger.cached, ancestors, self._span)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """As `KVCache.write`."""
        if self._wait:
            first, end = self.scratch - self._n, self.scratch + self._span
            self._keys[layer, :, :, first : self.scratch] = keys
            self._values[layer, :, :, first : self.scratch] = values
            return self._keys[layer, :, :, first:end], self._values[layer, :, :, first:end]
        write_rows(self._cached_keys[layer], self._where, keys)
        write_rows(self._cached_values[layer], self._where, values)
        used = self._span + self._n
        return self._cached_keys[layer, :, :, :used], self._cached_values[layer, :, :, :used]

    def finish(self) -> None:
        """As `KVCache.finish`."""
        if self._wait:
            self.ledger.wait(self._n)
        else:
            self.ledger.keep(self._n)

    def accept(self, path: Tensor | None, counts: Tensor) -> None:
        """As `KVCache.accept`, but every kept row is copied, those of a chain too."""
        at, before, n = self.ledger.at, self.ledger.cached.clone(), self.ledger.waiting
        most = check_path(path, self.ledger)
        self.ledger.accept(counts, most)
        first = self.scratch - n
        target = slots_behind(before, most, self.capacity)
        for waiting, cached in ((self._keys, self._cached_keys), (self._values, self._cached_values)):
            if path is not None:
                put(cached, target, take(waiting, first + path))
            elif at is not None:
                cached[..., at : at + n, :] = waiting[..., first : self.scratch, :]
            else:
                put(cached, target, waiting[..., first : self.scratch, :].transpose(-3, -2))

    def reopen(self, n: int) -> None:
        """As `KVCache.reopen`, but the rows are copied back into the scratch, whose room they must fit."""
        if n > self.scratch:
            raise SpecdecError(
                f"the scratch has room for {self.scratch} rows and {n} would wait in it: use a smaller tree "
                "or a larger scratch"
            )
        self.ledger.reopen(n)
        source = slots_behind(self.ledger.cached, n, self.capacity)
        for waiting, cached in ((self._keys, self._cached_keys), (self._values, self._cached_values)):
            waiting[..., self.scratch - n : self.scratch, :] = take(cached, source).transpose(-3, -2)

    def rollback(self, lengths: int | Sequence[int]) -> None:
        """Forget everything from position `lengths` on, see `Ledger.rollback`."""
        self.ledger.rollback(lengths)

    @property
    def lengths(self) -> list[int]:
        """Cached positions per sequence."""
        return self.ledger.lengths

    @property
    def length(self) -> int:
        """Cached positions of every sequence; raises SpecdecError where the sequences differ."""
        return self.ledger.length


Cache = KVCache | ScratchKVCache
