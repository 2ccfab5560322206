"""The training-time test: a head goes on from its own output, at every position of a text at once.

In drafting a head reads a true feature once and its own outputs from then on. Training that shows it true
features only does not prepare it for that. So it is run K times over the whole text. At step 0 row i reads
the verifier's feature of position i and the token i + 1; at step k its own output of step k - 1 at row i and
the token i + 1 + k. Tokens are the text's at every step, features are the head's own: a drafted chain that
happens to be right, begun at every position.

What row i of step k would see in drafting: the true rows 0..i, and of its own chain the rows of steps 1..k,
which are at its own index. So attention is causal over the keys of step 0 and diagonal over those of each
later step. For three positions and two steps:

    step 0   100 | ...            step 1   100 | 100
             110 | ...                     110 | 010
             111 | ...                     111 | 001

The diagonal blocks are one number per row, so nothing of size K n x K n is ever made. A query at step k sits
at position i + k. Source: Li et al. 2025 (arXiv:2503.01840), section 3.2.

Layout: B texts, n rows (the text has n + 1 tokens), H; tokens [B, n + K], of which row i of step k reads
number i + k: the text's tokens from the second on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import Tensor

from specdec.drafts.features import Head
from specdec.drafts.layer import HeadConfig
from specdec.verifier import rope_tables


def unroll(head: Head, embedding: Tensor, tokens: Tensor, features: Tensor, steps: int) -> Iterator[Tensor]:
    """Yield the head's output [B, n, H] at each of `steps` steps.

    embedding  the verifier's table [V, H].
    tokens     [B, n + steps - 1] int64: row i of step k reads tokens[:, i + k]; what stands beyond the text
               does not matter, its rows are to be masked in the loss.
    features   [B, n, H]: the verifier's, fused, of the position before each row's token at step 0.
    """
    config, n = head.config, features.shape[1]
    keys: list[Tensor] = []  # per step, [B, kv_heads, n, head]
    values: list[Tensor] = []
    feature = features
    cos, sin = (table.to(features.dtype) for table in rotations(config, features.device))
    for k in range(steps):
        embedded = embedding[tokens[:, k : n + k]].to(features.dtype)
        attended, residual = head.enter(embedded, feature)
        q, key, value = head.layer.self_attn.split(attended, cos[k : n + k], sin[k : n + k])
        keys.append(key)
        values.append(value)
        feature = head.layer.finish(residual, attend(q, keys, values))
        yield feature


def attend(q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Attention of the newest step's queries: causal over the first keys, diagonal over each of the others.

    q [B, heads, n, head], keys and values [B, kv_heads, n, head] per step -> [B, n, heads * head].
    """
    batch, heads, n, size = q.shape
    grouped = q.reshape(batch, keys[0].shape[1], -1, n, size)  # [B, kv_heads, group, n, head]
    first = grouped @ keys[0].unsqueeze(2).transpose(-1, -2)  # [B, kv_heads, group, n, n]
    first = first.masked_fill(~causal(n, q.device), -torch.inf)
    own = [(grouped * key.unsqueeze(2)).sum(-1, keepdim=True) for key in keys[1:]]
    weights = (torch.cat((first, *own), dim=-1).float() * size**-0.5).softmax(-1).to(q.dtype)
    mixed = weights[..., :n] @ values[0].unsqueeze(2)
    for k, value in enumerate(values[1:]):
        mixed = mixed + weights[..., n + k : n + k + 1] * value.unsqueeze(2)
    return mixed.reshape(batch, heads, n, size).transpose(1, 2).reshape(batch, n, heads * size)


@lru_cache(maxsize=8)
def rotations(config: HeadConfig, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin of every position, [context, head] fp32."""
    cos, sin = rope_tables(config.llama())
    return cos.to(device), sin.to(device)


@lru_cache(maxsize=32)
def causal(n: int, device: torch.device) -> Tensor:
    """[n, n] bool."""
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()
