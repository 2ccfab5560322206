"""Reading a Llama-family model from disk: a GGUF file, or a folder in Hugging Face layout.

Both readers return the same pair: a LlamaConfig, and a dict of fp32 tensors under Hugging Face names
(`model.layers.3.self_attn.q_proj.weight`), each [out, in]. This module knows nothing about how the numbers are used
(verifier.py) or how the file came here (weights.py).

Sources: the GGUF specification (ggml-org/ggml, docs/gguf.md) and the `config.json` of Hugging Face Llama models.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader, dequantize
from safetensors import SafetensorError, safe_open
from torch import Tensor

from specdec.errors import SpecdecError

State = dict[str, Tensor]


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama-family model, in the words of this library."""

    vocab_size: int
    hidden: int  # H, width of the residual stream
    intermediate: int  # width inside the feed-forward layer
    layers: int
    heads: int  # query heads
    kv_heads: int  # key and value heads; each serves heads / kv_heads query heads
    head_size: int
    context_length: int  # the longest sequence, in tokens
    rope_base: float
    norm_eps: float
    tied: bool  # the output matrix is the embedding


def expected_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor such a model consists of."""
    h, kv = config.hidden, config.kv_heads * config.head_size
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config.vocab_size, h),
        "model.norm.weight": (h,),
    }
    for i in range(config.layers):
        layer = f"model.layers.{i}."
        shapes |= {
            layer + "input_layernorm.weight": (h,),
            layer + "self_attn.q_proj.weight": (config.heads * config.head_size, h),
            layer + "self_attn.k_proj.weight": (kv, h),
            layer + "self_attn.v_proj.weight": (kv, h),
            layer + "self_attn.o_proj.weight": (h, config.heads * config.head_size),
            layer + "post_attention_layernorm.weight": (h,),
            layer + "mlp.gate_proj.weight": (config.intermediate, h),
            layer + "mlp.up_proj.weight": (config.intermediate, h),
            layer + "mlp.down_proj.weight": (h, config.intermediate),
        }
    if not config.tied:
        shapes["lm_head.weight"] = (config.vocab_size, h)
    return shapes


# GGUF name -> Hugging Face name, for the parts of one layer.
GGUF_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
GGUF_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def load_gguf(path: Path) -> tuple[LlamaConfig, State]:
    """Read and dequantise a GGUF file of architecture `llama` to fp32.

    Raises SpecdecError when the file is no readable GGUF, is of another architecture or lacks a tensor.
    """
    reader = GGUFReader(path)
    meta = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("tokenizer")}
    names = {tensor.name for tensor in reader.tensors}
    heads = meta["llama.attention.head_count"]
    config = LlamaConfig(
        vocab_size=meta["llama.vocab_size"],
        hidden=meta["llama.embedding_length"],
        intermediate=meta["llama.feed_forward_length"],
        layers=meta["llama.block_count"],
        heads=heads,
        kv_heads=meta.get("llama.attention.head_count_kv", heads),
        head_size=meta.get("llama.rope.dimension_count", meta["llama.embedding_length"] // heads),
        context_length=meta["llama.context_length"],
        rope_base=meta.get("llama.rope.freq_base", 10_000.0),
        norm_eps=meta["llama.attention.layer_norm_rms_epsilon"],
        tied="output.weight" not in names,
    )
    state: State = {}
    for tensor in reader.tensors:
        stem = tensor.name.removesuffix(".weight")
        if stem.startswith("blk."):
            _, index, part = stem.split(".", 2)
            name = f"model.layers.{index}.{GGUF_LAYER_NAMES[part]}.weight"
        else:
            name = GGUF_NAMES[stem] + ".weight"
        weight = torch.tensor(dequantize(tensor.data, tensor.tensor_type))
        if stem.endswith("attn_q"):
            weight = unpermute(weight, config.heads)
        elif stem.endswith("attn_k"):
            weight = unpermute(weight, config.kv_heads)
        state[name] = weight
    return config, state


def unpermute(weight: Tensor, heads: int) -> Tensor:
    """Undo llama.cpp's reordering of the query and key rows. weight: [heads * head, in], returned likewise.

    A rotary embedding turns pairs of channels. Hugging Face pairs channel i of a head with channel i + head/2,
    llama.cpp pairs neighbours 2i and 2i + 1, and its converter moves the rows accordingly. The verifier here follows
    Hugging Face, so the rows go back: within each head, even rows to the first half and odd rows to the second.
    """
    rows, columns = weight.shape
    pairs = weight.view(heads, rows // heads // 2, 2, columns)  # [heads, head/2, pair member, in]
    return pairs.transpose(1, 2).reshape(rows, columns)
