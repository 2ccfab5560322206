"""Reading a Llama-family model from disk: a GGUF file, or a folder in Hugging Face layout.

Both readers return the same pair: a LlamaConfig, and a dict of tensors under Hugging Face names
(`model.layers.3.self_attn.q_proj.weight`), each [out, in], fp32 unless asked otherwise. Names and shapes are
checked here, so that verifier.py may trust them. This module knows nothing about how the numbers are used,
nor how the file came to this machine (weights.py).

Sources: the GGUF specification (ggml-org/ggml, docs/gguf.md); `config.json` of Hugging Face Llama models.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from specdec.errors import SpecdecError
from specdec.int4 import READERS, Codes, StoredCodes

State = dict[str, Tensor | StoredCodes]


@dataclass(frozen=True)
class RopeScaling:
    """How Llama 3.1 and later stretch the slow rotations to a longer context (`rope_type: llama3`)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int  # tokens


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama-family model, in the words of this library."""

    vocab_size: int  # V
    hidden: int  # H, width of the residual stream
    intermediate: int  # width inside the feed-forward block
    layers: int
    heads: int  # query heads
    kv_heads: int  # key and value heads; each serves heads / kv_heads query heads
    head_size: int
    context_length: int  # the longest sequence, in tokens
    rope_base: float
    norm_eps: float
    tied: bool  # the output matrix is the embedding
    rope_scaling: RopeScaling | None = None


def expected_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor that such a model consists of."""
    h, q, kv = config.hidden, config.heads * config.head_size, config.kv_heads * config.head_size
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config.vocab_size, h),
        "model.norm.weight": (h,),
    }
    for i in range(config.layers):
        layer = f"model.layers.{i}."
        shapes |= {
            layer + "input_layernorm.weight": (h,),
            layer + "self_attn.q_proj.weight": (q, h),
            layer + "self_attn.k_proj.weight": (kv, h),
            layer + "self_attn.v_proj.weight": (kv, h),
            layer + "self_attn.o_proj.weight": (h, q),
            layer + "post_attention_layernorm.weight": (h,),
            layer + "mlp.gate_proj.weight": (config.intermediate, h),
            layer + "mlp.up_proj.weight": (config.intermediate, h),
            layer + "mlp.down_proj.weight": (h, config.intermediate),
        }
    if not config.tied:
        shapes["lm_head.weight"] = (config.vocab_size, h)
    return shapes


def check_state(config: LlamaConfig, state: Mapping[str, Tensor | StoredCodes], source: str) -> None:
    """Raise SpecdecError unless `state` has exactly the tensors of `config`; the error names `source`."""
    if config.heads % config.kv_heads or config.head_size % 2:
        raise SpecdecError(
            f"{source} has {config.heads} query heads and {config.kv_heads} key-value heads of size "
            f"{config.head_size}: the first must be a multiple of the second, and the size even"
        )
    shapes = expected_shapes(config)
    for name, shape in shapes.items():
        if name not in state:
            raise SpecdecError(f"{source} lacks the tensor {name} of shape {list(shape)}")
        if tuple(state[name].shape) != shape:
            found = list(state[name].shape)
            raise SpecdecError(
                f"{source} has {name} of shape {found}, expected {list(shape)} from its configuration"
            )
    if extra := sorted(state.keys() - shapes.keys()):
        raise SpecdecError(
            f"{source} has {len(extra)} tensors that a Llama model without biases has not, such as {extra[0]}"
        )


# --- GGUF ---------------------------------------------------------------------------------------------------

GGUF_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
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


class PlainReader(GGUFReader):
    """GGUFReader, 2.5 times faster on a vocabulary of 49,152 tokens.

    The reader slices its memory map once per token and per merge, and a slice of np.memmap costs far more
    than one of np.ndarray. Handing it the same memory as a plain array is enough.
    """

    @property
    def data(self) -> Any:
        return self._plain

    @data.setter
    def data(self, mapped: np.ndarray) -> None:
        self._plain = mapped.view(np.ndarray)


def open_gguf(path: Path) -> tuple[dict[str, Any], GGUFReader]:
    """Metadata (key -> value, arrays as lists) and the reader, whose tensors are still quantised and on disk.

    Raises SpecdecError when there is no such file or it is no GGUF file.
    """
    try:
        reader = PlainReader(path)
        return {key: field.contents() for key, field in reader.fields.items()}, reader
    except OSError as error:
        raise SpecdecError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, IndexError, KeyError) as error:
        raise SpecdecError(f"{path} is not a readable GGUF file: {error}") from error


def load_gguf(path: Path, dtype: torch.dtype = torch.float32) -> tuple[LlamaConfig, State]:
    """Read and dequantise a GGUF file of architecture `llama`.

    Raises SpecdecError when it is no readable GGUF or of another architecture, or a tensor does not fit.
    """
    config, reader = _gguf_config(path)
    state: State = {}
    for tensor in reader.tensors:
        weight = torch.tensor(dequantize(tensor.data, tensor.tensor_type))
        name = _hugging_face_name(tensor.name)
        if heads := _reordered(name, config):
            weight = unpermute(weight, heads)
        state[name] = weight.to(dtype)
    check_state(config, state, str(path))
    return config, state


def load_gguf_codes(path: Path) -> tuple[LlamaConfig, State]:
    """Read a GGUF file of architecture `llama`, its matrices as the codes that the file holds, each when it
    is asked for.

    Raises SpecdecError as `load_gguf`, and when a matrix is in a form that the 4-bit kernel cannot take.
    """
    if path.is_dir():
        raise SpecdecError(
            f"precision int4 takes its codes from a GGUF file, and {path} is a folder: use bf16"
        )
    config, reader = _gguf_config(path)
    state: State = {}
    for tensor in reader.tensors:
        name = _hugging_face_name(tensor.name)
        kind = tensor.tensor_type.name
        if tensor.data.ndim < 2:
            state[name] = torch.tensor(dequantize(tensor.data, tensor.tensor_type))
        elif kind not in READERS:
            raise SpecdecError(
                f"precision int4 reads codes of {' and '.join(READERS)}, but {path} has {tensor.name} in "
                f"{kind}: use precision bf16"
            )
        else:
            shape = torch.Size(reversed(tensor.shape.tolist()))  # GGUF counts dimensions from the innermost
            place = (path, int(tensor.data_offset), int(tensor.n_bytes))
            state[name] = StoredCodes(
                shape, partial(_codes, *place, shape[0], kind, _reordered(name, config))
            )
    check_state(config, state, str(path))
    return config, state


def _codes(path: Path, offset: int, size: int, rows: int, kind: str, heads: int) -> Codes:
    """The codes of one tensor of the file, its rows in the order of Hugging Face.

    Read and not mapped: the pages of a map would count as this process's memory until all is loaded.
    """
    data = torch.from_numpy(np.fromfile(path, np.uint8, size, offset=offset))
    codes = READERS[kind](data.view(rows, -1))
    return codes.rows(partial(unpermute, heads=heads)) if heads else codes


def _gguf_config(path: Path) -> tuple[LlamaConfig, GGUFReader]:
    """The sizes of the model in a GGUF file, and the reader of its tensors."""
    meta, reader = open_gguf(path)
    if meta.get("general.architecture") != "llama":
        raise SpecdecError(f"{path} has architecture {meta.get('general.architecture')!r}, expected 'llama'")
    try:
        heads = meta["llama.attention.head_count"]
        config = LlamaConfig(
            vocab_size=meta.get("llama.vocab_size") or len(meta["tokenizer.ggml.tokens"]),
            hidden=meta["llama.embedding_length"],
            intermediate=meta["llama.feed_forward_length"],
            layers=meta["llama.block_count"],
            heads=heads,
            kv_heads=meta.get("llama.attention.head_count_kv", heads),
            head_size=meta.get("llama.rope.dimension_count", meta["llama.embedding_length"] // heads),
            context_length=meta["llama.context_length"],
            rope_base=meta.get("llama.rope.freq_base", 10_000.0),
            norm_eps=meta["llama.attention.layer_norm_rms_epsilon"],
            tied=all(tensor.name != "output.weight" for tensor in reader.tensors),
        )
    except KeyError as error:
        raise SpecdecError(f"{path} lacks the metadata key {error.args[0]}") from error
    return config, reader


def _reordered(name: str, config: LlamaConfig) -> int:
    """The number of heads of a matrix whose rows llama.cpp reorders, see `unpermute`; 0 for the others."""
    if name.endswith("q_proj.weight"):
        return config.heads
    return config.kv_heads if name.endswith("k_proj.weight") else 0


def _hugging_face_name(name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`; an unknown name stays as it is."""
    *block, part, kind = name.split(".")
    layer = f"model.layers.{block[1]}." if len(block) == 2 and block[0] == "blk" else ""
    return f"{layer}{GGUF_NAMES[part]}.{kind}" if part in GGUF_NAMES else name


def unpermute(weight: Tensor, heads: int) -> Tensor:
    """Undo llama.cpp's reordering of query and key rows. weight: [heads * head, in], returned likewise.

    A rotary embedding turns pairs of channels. Hugging Face pairs channel i of a head with channel i +
    head/2, llama.cpp pairs neighbours 2i and 2i + 1, and its converter moves the rows of these two matrices
    accordingly. The forward pass here follows Hugging Face, so the rows move back: within each head, even
    rows to the first half, odd to the second.
    """
    rows, columns = weight.shape
    pairs = weight.view(heads, rows // heads // 2, 2, columns)  # [heads, head/2, member of the pair, in]
    return pairs.transpose(1, 2).reshape(rows, columns)


# --- Hugging Face folder ------------------------------------------------------------------------------------


def load_folder(folder: Path, dtype: torch.dtype = torch.float32) -> tuple[LlamaConfig, State]:
    """Read `config.json` and the safetensors (one file, or shards with an index) of a Llama-family
    checkpoint.

    Raises SpecdecError when a file is missing or unreadable, the model is of another family or uses something
    the forward pass does not have (biases, another activation or rope type), or a tensor is missing or of
    another shape.
    """
    config = read_config(folder)
    index = folder / "model.safetensors.index.json"
    if index.exists():
        shards = sorted(set(read_json(index).get("weight_map", {}).values()))
    else:
        shards = ["model.safetensors"]
    stored: dict[str, Tensor] = {}
    for shard in shards:
        try:
            stored |= load_file(folder / shard)
        except FileNotFoundError as error:
            raise SpecdecError(
                f"{folder} lacks the weights file {shard} (safetensors is the format read here)"
            ) from error
        except (OSError, SafetensorError) as error:
            raise SpecdecError(f"{folder / shard} is not a readable safetensors file: {error}") from error
    # Some checkpoints also store what follows from the configuration.
    state: State = {
        name: t.to(dtype) for name, t in stored.items() if not name.endswith("rotary_emb.inv_freq")
    }
    if config.tied:
        state.pop("lm_head.weight", None)
    check_state(config, state, str(folder))
    return config, state


def read_config(folder: Path) -> LlamaConfig:
    """`config.json` -> LlamaConfig; missing values are those of Hugging Face's own LlamaConfig."""
    path = folder / "config.json"
    raw = read_json(path)
    if raw.get("model_type") != "llama":
        raise SpecdecError(f"{path} has model_type {raw.get('model_type')!r}, expected 'llama'")
    if raw.get("hidden_act", "silu") != "silu":
        raise SpecdecError(f"{path} has hidden_act {raw['hidden_act']!r}, expected 'silu'")
    # Up to transformers 4 the base stood beside an optional `rope_scaling`; since 5 both are in
    # `rope_parameters`.
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    try:
        return LlamaConfig(
            vocab_size=raw["vocab_size"],
            hidden=raw["hidden_size"],
            intermediate=raw["intermediate_size"],
            layers=raw["num_hidden_layers"],
            heads=raw["num_attention_heads"],
            kv_heads=raw.get("num_key_value_heads") or raw["num_attention_heads"],
            head_size=raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"],
            context_length=raw.get("max_position_embeddings", 2048),
            rope_base=rope.get("rope_theta") or raw.get("rope_theta", 10_000.0),
            norm_eps=raw.get("rms_norm_eps", 1e-6),
            tied=raw.get("tie_word_embeddings", False),
            rope_scaling=_rope_scaling(rope, path),
        )
    except KeyError as error:
        raise SpecdecError(f"{path} lacks the key {error.args[0]!r}") from error


def _rope_scaling(rope: dict[str, Any], path: Path) -> RopeScaling | None:
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return None
    if kind != "llama3":
        raise SpecdecError(f"{path} has rope type {kind!r}, expected 'default' or 'llama3'")
    return RopeScaling(
        factor=rope["factor"],
        low_freq_factor=rope["low_freq_factor"],
        high_freq_factor=rope["high_freq_factor"],
        original_context=rope["original_max_position_embeddings"],
    )


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file of a checkpoint folder; raises SpecdecError when missing or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SpecdecError(
            f"{path.parent} lacks {path.name}, expected a checkpoint folder in Hugging Face layout"
        ) from error
    except (OSError, ValueError) as error:
        raise SpecdecError(f"{path} is not a readable JSON file: {error}") from error
