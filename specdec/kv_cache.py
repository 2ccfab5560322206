"""The key-value cache: what the verifier has already computed, kept per layer and sequence.

A verifier pass over n new tokens reads the keys and values of everything before them and leaves its own
behind. Rolling back rejected tokens is then only a smaller length: the stale entries stay where they are, are
never read, and are overwritten by the next pass. The cache knows nothing about tokens, positions or
acceptance; positions are rotated into the keys before they arrive here.

Layout: keys and values are [layers, B, kv_heads, capacity, head]. Slot s of sequence b is valid while
s < lengths[b]. The lengths may differ, as they do after a batched round in which one sequence accepts more.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from specdec.checkpoint import LlamaConfig
from specdec.errors import SpecdecError


class KVCache:
    """Preallocated keys and values for `batch` sequences of up to `capacity` tokens, by default the context.

    Raises SpecdecError when batch or capacity is below 1, or capacity is beyond the verifier's context.
    """

    def __init__(
        self,
        config: LlamaConfig,
        batch: int = 1,
        capacity: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        capacity = config.context_length if capacity is None else capacity
        if batch < 1:
            raise SpecdecError(f"a cache needs a batch of at least 1, got {batch}")
        if not 1 <= capacity <= config.context_length:
            raise SpecdecError(
                f"cache capacity must be from 1 to the context length {config.context_length}, got {capacity}"
            )
        shape = (config.layers, batch, config.kv_heads, capacity, config.head_size)
        # Zeros, not garbage: a masked slot is multiplied by weight 0, and 0 * NaN would still be NaN.
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.capacity = capacity
        self.lengths = [0] * batch

    @property
    def batch(self) -> int:
        """Number of sequences B."""
        return self.keys.shape[1]

    @property
    def length(self) -> int:
        """Cached positions of every sequence; raises SpecdecError where the sequences differ."""
        if len(set(self.lengths)) > 1:
            raise SpecdecError(
                f"the sequences have different lengths {self.lengths}: read `lengths`, not `length`"
            )
        return self.lengths[0]

    def check_room(self, n: int) -> None:
        """Raise SpecdecError unless n more tokens fit into every sequence. Nothing is written."""
        longest = max(self.lengths)
        if longest + n > self.capacity:
            raise SpecdecError(
                f"the cache holds {longest} of {self.capacity} tokens and {n} more do not fit: "
                "use a shorter prompt, fewer new tokens or a larger capacity"
            )

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write one layer's new keys and values behind each sequence's valid ones, without counting them yet.

        keys, values: [B, kv_heads, n, head]. Returns both for all slots in use, [B, kv_heads, S, head] with
        S = max(lengths) + n: views into the cache, not copies. `advance` counts the tokens once every layer
        has written.
        """
        n = keys.shape[2]
        self.check_room(n)
        if len(set(self.lengths)) == 1:
            at = self.lengths[0]
            self.keys[layer, :, :, at : at + n] = keys
            self.values[layer, :, :, at : at + n] = values
        else:
            for b, at in enumerate(self.lengths):
                self.keys[layer, b, :, at : at + n] = keys[b]
                self.values[layer, b, :, at : at + n] = values[b]
        used = max(self.lengths) + n
        return self.keys[layer, :, :, :used], self.values[layer, :, :, :used]

    def advance(self, n: int) -> None:
        """Count n tokens that every layer has appended as valid, in every sequence."""
        self.check_room(n)
        self.lengths = [length + n for length in self.lengths]

    def rollback(self, lengths: int | Sequence[int]) -> None:
        """Forget everything from position `lengths` on (one int for all sequences, or one per sequence).

        Raises SpecdecError when a length is negative or beyond what is cached; nothing has changed then.
        """
        wanted = [lengths] * self.batch if isinstance(lengths, int) else list(lengths)
        if len(wanted) != self.batch:
            raise SpecdecError(
                f"rollback needs one length for each of {self.batch} sequences, got {len(wanted)}"
            )
        for b, (new, old) in enumerate(zip(wanted, self.lengths, strict=True)):
            if not 0 <= new <= old:
                raise SpecdecError(f"sequence {b} has {old} cached tokens and cannot be rolled back to {new}")
        self.lengths = wanted
