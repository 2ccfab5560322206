"""The one transformer layer of a feature head, and what it is made of; for drafting and for training alike.

It is a Llama layer, except that what its attention reads and what its residual stream carries are handed in
apart: EAGLE-1 and EAGLE-3 make them in different ways (eagle1.py, eagle3.py). The matrices are plain
parameters with the names of the public checkpoints, so that a head is loaded and saved as it is, and trained
by autograd. Rotation, normalisation and attention are the verifier's own functions.

Layout: rows [B, n, H], queries [B, heads, n, head], keys and values [B, kv_heads, n, head].
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specdec.checkpoint import LlamaConfig
from specdec.verifier import rms_norm, rotate


@dataclass(frozen=True)
class HeadConfig:
    """Sizes of a head's layer. All but `intermediate` are as a rule the verifier's."""

    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_size: int
    rope_base: float
    norm_eps: float
    context_length: int

    @staticmethod
    def like(config: LlamaConfig, intermediate: int | None = None) -> HeadConfig:
        """The sizes of one of the verifier's own layers."""
        return HeadConfig(
            hidden=config.hidden,
            intermediate=intermediate or config.intermediate,
            heads=config.heads,
            kv_heads=config.kv_heads,
            head_size=config.head_size,
            rope_base=config.rope_base,
            norm_eps=config.norm_eps,
            context_length=config.context_length,
        )

    def llama(self, layers: int = 1) -> LlamaConfig:
        """The shape of a cache for such layers."""
        return LlamaConfig(
            vocab_size=1,
            hidden=self.hidden,
            intermediate=self.intermediate,
            layers=layers,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_size=self.head_size,
            context_length=self.context_length,
            rope_base=self.rope_base,
            norm_eps=self.norm_eps,
            tied=True,
        )


class Norm(nn.Module):
    """Root-mean-square normalisation with a learned scale [H]."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)


class Attention(nn.Module):
    """The four matrices of grouped-query attention over inputs of size `width`."""

    def __init__(self, config: HeadConfig, width: int) -> None:
        super().__init__()
        wide, narrow = config.heads * config.head_size, config.kv_heads * config.head_size
        self.head_size = config.head_size
        self.q_proj = nn.Linear(width, wide, bias=False)
        self.k_proj = nn.Linear(width, narrow, bias=False)
        self.v_proj = nn.Linear(width, narrow, bias=False)
        self.o_proj = nn.Linear(wide, config.hidden, bias=False)

    def split(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of rows `x [B, n, width]` at the rotations [B or 1, 1, n, head]."""
        q, k, v = (
            project(x).unflatten(-1, (-1, self.head_size)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        cos, sin = cos.to(q.dtype), sin.to(q.dtype)  # under autocast, queries are bf16 and tables are not
        return rotate(q, cos, sin), rotate(k, cos, sin), v


class MLP(nn.Module):
    """The gated feed-forward block."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention over inputs of size `width`, then the feed-forward block, on a residual stream [.., H]."""

    def __init__(self, config: HeadConfig, width: int) -> None:
        super().__init__()
        self.self_attn = Attention(config, width)
        self.post_attention_layernorm = Norm(config.hidden, config.norm_eps)
        self.mlp = MLP(config)

    def finish(self, residual: Tensor, mixed: Tensor) -> Tensor:
        """The layer's output, from its residual stream and what attention mixed `[B, n, heads * head]`."""
        x = residual + self.self_attn.o_proj(mixed)
        return x + self.mlp(self.post_attention_layernorm(x))
