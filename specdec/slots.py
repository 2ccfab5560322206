"""Slots of a KV cache: allocating them, and addressing those that belong to each sequence's newest rows.

A store is [..., B, kv_heads, slots, head]. Sequence b has its valid entries in the slots below cached[b], and
the n rows of a pass go to, or come from, slots that differ per sequence. So the address of a row is a pair
(sequence, slot), and reading and writing go through index tensors `slots [B, n]`: never a loop over the
batch, never a number that the host would have to read. Where the host does know that all sequences have the
same length, as one alone always has, a slice does the same for less. Which rows go where is kv_cache.py's
choice.
"""

import torch
from torch import Tensor

from specdec.checkpoint import LlamaConfig
from specdec.errors import SpecdecError
from specdec.ledger import Ledger


def allocate(
    config: LlamaConfig,
    batch: int,
    capacity: int,
    spare: int,
    dtype: torch.dtype,
    device: torch.device | str,
) -> tuple[Tensor, Tensor]:
    """Keys and values, each [layers, B, kv_heads, capacity + spare, head], all zero.

    Raises SpecdecError, naming the numbers, when such a cache makes no sense or does not fit into memory.
    """
    if batch < 1:
        raise SpecdecError(f"a cache needs a batch of at least 1, got {batch}")
    if not 1 <= capacity <= config.context_length:
        raise SpecdecError(
            f"cache capacity must be from 1 to the context length {config.context_length}, got {capacity}"
        )
    shape = (config.layers, batch, config.kv_heads, capacity + spare, config.head_size)
    try:
        # Zeros, not garbage: a masked slot is multiplied by weight 0, and 0 * NaN would still be NaN.
        return (
            torch.zeros(shape, dtype=dtype, device=device),
            torch.zeros(shape, dtype=dtype, device=device),
        )
    except RuntimeError as error:
        size = 2 * dtype.itemsize * config.layers * batch * config.kv_heads * capacity * config.head_size
        raise SpecdecError(
            f"a cache for {batch} sequences of {capacity} tokens takes {size / 1e9:,.1f} GB, more than there "
            "is: use a smaller batch or capacity"
        ) from error


# -- addresses -----------------------------------------------------------------------------------------------


def slots_behind(cached: Tensor, n: int, last: int) -> Tensor:
    """`[B, n]`: the n slots from cached [B] on, none beyond `last`."""
    return (cached[:, None] + torch.arange(n, device=cached.device)).clamp(max=last)


def take(store: Tensor, slots: Tensor) -> Tensor:
    """Copy slots [B, n] of store [..., B, kv_heads, slots, head] -> [..., B, n, kv_heads, head]."""
    sequence = torch.arange(slots.shape[0], device=slots.device)[:, None]
    return store.transpose(-3, -2)[..., sequence, slots, :, :]


def put(store: Tensor, slots: Tensor, rows: Tensor) -> None:
    """Write rows [..., B, n, kv_heads, head] into slots [B, n] of store [..., B, kv_heads, slots, head].

    By indexing and not by `scatter_`, which took a hundred times as long for bfloat16 on a CPU.
    """
    sequence = torch.arange(slots.shape[0], device=slots.device)[:, None]
    store.transpose(-3, -2)[..., sequence, slots, :, :] = rows


def place_behind(ledger: Ledger, n: int) -> int | Tensor:
    """Where the n next rows go: the first slot, if it is known to be the same for all, or slots [B, n]."""
    if ledger.at is not None:
        return ledger.at
    return slots_behind(ledger.cached, n, ledger.capacity)


def write_rows(store: Tensor, where: int | Tensor, rows: Tensor) -> None:
    """Write rows [B, kv_heads, n, head] of one layer to the place that `place_behind` found."""
    if isinstance(where, int):
        store[:, :, where : where + rows.shape[2]] = rows
    else:
        put(store, where, rows.transpose(1, 2))


def span_of(ledger: Ledger, n: int, span: int | None) -> int:
    """How many cached slots a pass over n rows attends over: `span`, or as many as a sequence may have.

    Raises SpecdecError when `span` is less than that, or leaves no room for the rows.
    """
    if span is None:
        return ledger.bound
    if not ledger.bound <= span <= ledger.capacity - n:
        raise SpecdecError(
            f"span must be from {ledger.bound}, the longest sequence, to {ledger.capacity - n}, the capacity "
            f"less {n} new rows, got {span}"
        )
    return span


# -- masks ---------------------------------------------------------------------------------------------------


def chain_ancestors(n: int, device: torch.device | str = "cpu") -> Tensor:
    """`[1, n, n]` bool: which rows each row of a chain sees, those before it and itself."""
    return torch.ones(1, n, n, dtype=torch.bool, device=device).tril()


def tree_mask(cached: Tensor, ancestors: Tensor, span: int) -> Tensor:
    """mask [B, n, span + n] bool: row i of sequence b sees the slots below cached[b], and its ancestors'.

    cached: [B], none above span. ancestors: [B or 1, n, n] bool, self included. The rows lie in the n slots
    from cached[b] on. With cached = 2, span = 3, and a newest token with two children:

        1 1 1 . . .
        1 1 1 1 . .
        1 1 1 . 1 .
    """
    batch, n = cached.shape[0], ancestors.shape[1]
    row = torch.arange(span + n, device=cached.device) - cached[:, None]  # [B, S]: which row is in each slot
    of_row = row.clamp(0, n - 1)[:, None].expand(batch, n, span + n)
    seen = ancestors.expand(batch, n, n).gather(2, of_row) & (row < n)[:, None]
    return seen | (row < 0)[:, None]


def mask_behind(where: int | Tensor, cached: Tensor, ancestors: Tensor, span: int) -> Tensor:
    """`tree_mask`, or the same for less where all sequences are known to fill the span: [1 or B, n, S]."""
    if isinstance(where, int) and where == span:
        return torch.nn.functional.pad(ancestors, (span, 0), value=True)
    return tree_mask(cached, ancestors, span)


def mask_beside(cached: Tensor, ancestors: Tensor, span: int) -> Tensor:
    """The mask of rows that lie before the cache and not behind it: [B, n, n + span].

    As in `tree_mask`, with cached = 2 and span = 3:

        1 . . 1 1 .
        1 1 . 1 1 .
        1 . 1 1 1 .
    """
    batch, n = cached.shape[0], ancestors.shape[1]
    prefix = torch.arange(span, device=cached.device) < cached[:, None]  # [B, span]
    return torch.cat((ancestors.expand(batch, n, n), prefix[:, None].expand(batch, n, span)), dim=2)
