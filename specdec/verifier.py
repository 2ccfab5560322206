"""The verifier: a Llama-family language model whose distribution must come out.

One forward pass over n new tokens gives the logits after each of them. Everything that speculative decoding needs is
passed in: a KV cache holding what came before, the positions of the new tokens (nodes of a tree share positions), a mask
that says which slots each new token may look at, and taps that hand out hidden states for a draft to read.
It leaves sampling, acceptance and rollback to others, and knows nothing about text.

Layout: tokens [B, n], hidden states [B, n, H], queries [B, heads, n, head], keys and values [B, kv_heads, S, head]
where S = cached slots + n new ones.
Source: Touvron et al. 2023 (Llama), with grouped-query attention (Ainslie et al. 2023).
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from specdec import weights
from specdec.checkpoint import LlamaConfig, State, load_gguf
from specdec.errors import SpecdecError
from specdec.kv_cache import KVCache

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Pass:
    """What one forward pass gives back."""

    logits: Tensor  # [B, n, V], fp32; fewer rows when `logits_from` cut them
    hidden: Tensor  # [B, n, H], after the final norm: what the output matrix reads
    taps: dict[int, Tensor]  # layer -> its input [B, n, H]; Hugging Face calls it hidden_states[layer]


@dataclass(frozen=True)
class Layer:
    """Weights of one transformer layer, each [out, in]."""

    attention_norm: Tensor  # [H]
    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    mlp_norm: Tensor  # [H]
    gate: Tensor
    up: Tensor
    down: Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Scale each vector to root mean square 1, in fp32, then by `weight`. x: [..., H]."""
    x32 = x.float()
    return weight * (x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def rope_tables(config: LlamaConfig) -> tuple[Tensor, Tensor]:
    """cos and sin of every rotation angle, [context, head] each, the second half repeating the first."""
    half = torch.arange(0, config.head_size, 2, dtype=torch.float32)
    frequency = config.rope_base ** -(half / config.head_size)  # [head/2]
    angles = torch.outer(torch.arange(config.context_length, dtype=torch.float32), frequency)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding. x: [B, heads, n, head], cos and sin: [B, 1, n, head]. Channel i turns with i + head/2."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def causal_mask(lengths: list[int], n: int, device: torch.device | None = None) -> Tensor:
    """mask [B, n, S]: new token i of sequence b sees slots 0 .. lengths[b] + i. S = max(lengths) + n."""
    slots = torch.arange(max(lengths) + n, device=device)
    last = torch.tensor(lengths, device=device)[:, None] + torch.arange(n, device=device)  # [B, n]
    return slots <= last[:, :, None]


class Verifier:
    """A Llama-family model in plain torch."""

    def __init__(self, config: LlamaConfig, state: State, precision: str = "fp32") -> None:
        if precision not in PRECISIONS:
            raise SpecdecError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
        self.config = config
        self.precision = precision
        self.dtype = PRECISIONS[precision]
        state = {name: tensor.to(self.dtype) for name, tensor in state.items()}
        self.embedding = state["model.embed_tokens.weight"]  # [V, H]
        self.output = state.get("lm_head.weight", self.embedding)  # [V, H]
        self.final_norm = state["model.norm.weight"]
        self.layers = []
        for i in range(config.layers):
            part = f"model.layers.{i}."
            self.layers.append(
                Layer(
                    attention_norm=state[part + "input_layernorm.weight"],
                    q=state[part + "self_attn.q_proj.weight"],
                    k=state[part + "self_attn.k_proj.weight"],
                    v=state[part + "self_attn.v_proj.weight"],
                    o=state[part + "self_attn.o_proj.weight"],
                    mlp_norm=state[part + "post_attention_layernorm.weight"],
                    gate=state[part + "mlp.gate_proj.weight"],
                    up=state[part + "mlp.up_proj.weight"],
                    down=state[part + "mlp.down_proj.weight"],
                )
            )
        self.cos, self.sin = (table.to(self.dtype) for table in rope_tables(config))

    @classmethod
    def load(cls, path: Path | str | None = None, precision: str = "fp32") -> "Verifier":
        """Read a GGUF file (default: the fetched SmolLM2-135M-Instruct)."""
        path = weights.ensure() if path is None else Path(path)
        return cls(*load_gguf(path), precision)

    @classmethod
    def from_state(cls, config: LlamaConfig, state: State, precision: str = "fp32") -> "Verifier":
        """Build from tensors under Hugging Face names."""
        return cls(config, state, precision)

    def new_cache(self, batch: int = 1, capacity: int | None = None) -> KVCache:
        """An empty cache of this verifier's shape and precision."""
        return KVCache(self.config, batch, capacity, self.dtype, self.embedding.device)

    @torch.no_grad()
    def forward(
        self,
        tokens: Tensor,
        cache: KVCache | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        taps: tuple[int, ...] = (),
        logits_from: int = 0,
    ) -> Pass:
        """One pass over new tokens. tokens: [B, n] int64.

        cache      what came before; the new keys and values are appended to it. None: nothing came before.
        positions  [B, n] int64, place of each token in its sequence. None: behind the cached ones, in order.
        mask       [B, n, S] bool, True where a new token may look at a slot; S = cached slots + n. None: causal.
        taps       layers whose input to return, in 0 .. layers (the last is the output of the last layer).
        logits_from  first of the n rows to compute logits for; -1 for the last row alone (a prefill).
        """
        batch, n = tokens.shape
        lengths = [0] * batch if cache is None else cache.lengths
        if cache is not None:
            cache.check_room(n)
        if positions is None:
            positions = torch.tensor(lengths)[:, None] + torch.arange(n)
        if mask is None:
            mask = causal_mask(lengths, n)
        mask = mask[:, None]  # [B, 1, n, S]: the same for every head
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]  # [B, 1, n, head]

        x = self.embedding[tokens]  # [B, n, H]
        tapped: dict[int, Tensor] = {}
        for i, layer in enumerate(self.layers):
            if i in taps:
                tapped[i] = x
            x = x + self._attention(
                i, layer, rms_norm(x, layer.attention_norm, self.config.norm_eps), cos, sin, mask, cache
            )
            normed = rms_norm(x, layer.mlp_norm, self.config.norm_eps)
            gated = F.silu(F.linear(normed, layer.gate)) * F.linear(normed, layer.up)
            x = x + F.linear(gated, layer.down)
        if cache is not None:
            cache.advance(n)
        hidden = rms_norm(x, self.final_norm, self.config.norm_eps)
        logits = F.linear(hidden[:, logits_from:], self.output).float()
        return Pass(logits, hidden, tapped)

    def _attention(self, index, layer, x, cos, sin, mask, cache):
        batch, n, _ = x.shape
        shape = (batch, n, -1, self.config.head_size)
        q = rotate(F.linear(x, layer.q).view(shape).transpose(1, 2), cos, sin)  # [B, heads, n, head]
        k = rotate(F.linear(x, layer.k).view(shape).transpose(1, 2), cos, sin)  # [B, kv_heads, n, head]
        v = F.linear(x, layer.v).view(shape).transpose(1, 2)
        if cache is not None:
            k, v = cache.append(index, k, v)  # [B, kv_heads, S, head]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return F.linear(mixed.transpose(1, 2).reshape(batch, n, -1), layer.o)
