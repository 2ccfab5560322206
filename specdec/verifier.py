"""The verifier: a Llama-family language model whose distribution must come out.

One forward pass over n new tokens gives the logits after each of them. What speculative decoding needs is
passed in: a KV cache with what came before, which of the new tokens descends from which (from that follow
their positions, which nodes of a tree share, and the mask that says which slots each may look at), and taps
that hand out hidden states for a draft to read. Sampling, acceptance and rollback are left to others, and so
is text: there are only token ids here.

Layout: tokens [B, n], hidden states [B, n, H], queries [B, heads, n, head], keys and values [B, kv_heads, S,
head], where S = cached slots + n new ones. Sources: Touvron et al. 2023 (Llama), Ainslie et al. 2023
(grouped-query attention), Su et al. 2021 (rotary embedding).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from specdec import weights
from specdec.bench import usable_cores
from specdec.checkpoint import LlamaConfig, State, check_state, load_folder, load_gguf, load_gguf_codes
from specdec.errors import SpecdecError
from specdec.finite import first_fault
from specdec.int4 import StoredCodes
from specdec.kv_cache import Cache, KVCache
from specdec.linear import Matrix, as_tensor, linear, prepare, prepare_tied
from specdec.slots import chain_ancestors

# precision -> what activations and the KV cache are in
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "int4": torch.bfloat16}


@dataclass(frozen=True)
class Pass:
    """What one forward pass gives back."""

    logits: Tensor  # [B, n, V] fp32; only the rows from `logits_from` on
    hidden: Tensor  # [B, n, H] after the final norm: what the output matrix reads
    taps: dict[int, Tensor]  # layer -> its input [B, n, H]; Hugging Face calls it hidden_states[layer]

    @cached_property
    def finite(self) -> Tensor:
        """Whether all logits are finite, a bool on the device: a NaN or an infinity makes their sum one."""
        return self.logits.sum().isfinite()


@dataclass(frozen=True)
class Norm:
    """Root-mean-square norm of a vector, in a form that takes few operations. Made by `norm_of`."""

    weight: Tensor  # [H] fp32, times sqrt(H)
    floor: Tensor  # a number: sqrt(eps * H)

    def scale(self, x: Tensor) -> Tensor:
        """`rms_norm` of x [..., H], in fp32 whatever x is.

        With the root of H taken out of both, the root mean square is the length of x, and hypot adds eps.
        """
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        return torch.div(x, torch.hypot(norm, self.floor)).mul_(self.weight).to(x.dtype)


@dataclass(frozen=True)
class Layer:
    """Weights of one transformer layer; matrices are [out, in]."""

    attention_norm: Norm  # of H
    qkv: Matrix  # [(heads + 2 * kv_heads) * head, H]
    o: Matrix  # [H, heads * head]
    mlp_norm: Norm  # of H
    gate_up: Matrix  # [2 * intermediate, H]
    down: Matrix  # [H, intermediate]


def norm_of(weight: Tensor, eps: float) -> Norm:
    """`rms_norm` by `weight` [H] as a Norm."""
    size = len(weight)
    return Norm(weight.float() * math.sqrt(size), torch.tensor(math.sqrt(eps * size), device=weight.device))


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Scale each vector to a root mean square of 1, in fp32 whatever x is, then by `weight` [H]. x: [...,
    H].
    """
    x32 = x.float()
    return weight * (x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


def rope_tables(config: LlamaConfig) -> tuple[Tensor, Tensor]:
    """cos and sin of the rotation of each channel at each position: two fp32 tensors [context_length, head].

    Channel i and channel i + head/2 form a pair and turn by the same angle, position * base^(-2i / head).
    """
    frequency = config.rope_base ** -(
        torch.arange(0, config.head_size, 2, dtype=torch.float32) / config.head_size
    )
    if scaling := config.rope_scaling:
        # Pairs that turn less than `low_freq_factor` times within the original context are slowed down by
        # `factor`, those that turn more than `high_freq_factor` times are left alone, and between them it is
        # interpolated.
        turns = scaling.original_context * frequency / (2 * math.pi)
        low, high = scaling.low_freq_factor, scaling.high_freq_factor
        keep = ((turns - low) / (high - low)).clamp(0, 1)
        frequency = keep * frequency + (1 - keep) * frequency / scaling.factor
    angles = torch.outer(
        torch.arange(config.context_length, dtype=torch.float32), frequency
    )  # [context, head/2]
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding: turn each channel pair. x: [B, heads, n, head], cos and sin: [B, 1, n, head]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`rotate` in fewer operations. x, cos and sin: [B, n, heads, 2, head/2], sin negative for the first of
    each pair.
    """
    return torch.addcmul(x * cos, x.flip(3), sin)


def attention_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """mask [B, n, S] -> what is added to the attention scores: 0 or -inf, [B, 1, n, S]."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -math.inf)[:, None]


def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Grouped-query attention. q: [B, heads, n, head], k and v: [B, kv_heads, S, head] -> [B, n, heads *
    head]. bias None: every row sees every slot.
    """
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=True)
    return mixed.transpose(1, 2).flatten(2)


class Verifier:
    """A Llama-family model in plain torch. Build it with `load` or `from_state`."""

    def __init__(self, config: LlamaConfig, state: State, precision: str) -> None:
        """Takes the tensors out of `state` one by one, so that no weight is in memory twice."""
        self.config = config
        self.precision = precision
        self.checksum: str | None = None  # sha256 of the file it was read from, where that is known
        self.dtype = _dtype(precision)

        def matrix(*names: str) -> Matrix:
            return prepare([state.pop(f"{name}.weight") for name in names], self.dtype)

        def norm(name: str) -> Norm:
            return norm_of(as_tensor(state.pop(f"{name}.weight"), self.dtype), config.norm_eps)

        # The largest first, while there is most room for what making them takes.
        table = state.pop("model.embed_tokens.weight")
        self.embedding = as_tensor(table, self.dtype)  # [V, H]
        self.output = prepare_tied(table, self.embedding) if config.tied else matrix("lm_head")  # [V, H]
        self.final_norm = norm("model.norm")
        self.layers = []
        for i in range(config.layers):
            at = f"model.layers.{i}"
            self.layers.append(
                Layer(
                    attention_norm=norm(f"{at}.input_layernorm"),
                    qkv=matrix(*(f"{at}.self_attn.{part}_proj" for part in "qkv")),
                    o=matrix(f"{at}.self_attn.o_proj"),
                    mlp_norm=norm(f"{at}.post_attention_layernorm"),
                    gate_up=matrix(f"{at}.mlp.gate_proj", f"{at}.mlp.up_proj"),
                    down=matrix(f"{at}.mlp.down_proj"),
                )
            )
        cos, sin = (table.view(len(table), 2, -1) for table in rope_tables(config))
        signed = torch.stack((-sin[:, 0], sin[:, 1]), dim=1)
        self.cos, self.sin = cos.to(self.embedding), signed.to(self.embedding)  # [context, 2, head/2]
        self._steps = torch.arange(config.context_length, device=self.embedding.device)

    @classmethod
    def load(cls, path: Path | str | None = None, precision: str = "fp32") -> Self:
        """Read a GGUF file or a checkpoint folder in Hugging Face layout; None is the fetched SmolLM2.

        precision: "fp32"; "bf16"; or "int4", the codes of a Q4_1 GGUF file and activations in bf16 (see
        int4.py). Raises MissingWeights when the weights were never fetched, SpecdecError when the file or
        folder is not one this forward pass can run.
        """
        # Threads beyond the cores wait for each other at every matrix product: in a container with a few of
        # the cores of a large machine, a pass would take ten times as long.
        if torch.get_num_threads() > (cores := usable_cores()):
            torch.set_num_threads(cores)
        dtype = _dtype(precision)
        checksum = weights.SHA256 if path is None else None
        path = weights.ensure() if path is None else Path(path)
        if precision == "int4":
            config, state = load_gguf_codes(path)
        else:
            config, state = load_folder(path, dtype) if path.is_dir() else load_gguf(path, dtype)
        verifier = cls(config, state, precision)
        verifier.checksum = checksum
        return verifier

    @classmethod
    def from_state(
        cls, config: LlamaConfig, state: Mapping[str, Tensor | StoredCodes], precision: str = "fp32"
    ) -> Self:
        """Build from tensors under Hugging Face names; raises SpecdecError when one is missing or
        misshapen, or the precision is int4, whose codes only a file has.
        """
        if precision == "int4":
            raise SpecdecError("precision int4 takes its codes from a GGUF file: use Verifier.load")
        check_state(config, state, "the given state")
        return cls(config, dict(state), precision)

    def new_cache(self, batch: int = 1, capacity: int | None = None, spare: int = 0) -> KVCache:
        """An empty cache of this verifier's shape and precision; capacity None is the whole context."""
        return KVCache(self.config, batch, capacity, self.dtype, self.embedding.device, spare)

    def output_rows(self, tokens: Tensor) -> Tensor:
        """The rows of the output matrix for some tokens `[n]`: `[n, H]`, in the type of the activations.

        Raises SpecdecError where the output matrix is kept in a form that has no rows.
        """
        if self.config.tied:
            return self.embedding[tokens]
        if not isinstance(self.output, Tensor):
            raise SpecdecError(
                f"this head reads the verifier's output matrix, which precision {self.precision} keeps in "
                "another form: use fp32"
            )
        return self.output[tokens]

    @torch.no_grad()
    def forward(
        self,
        tokens: Tensor,
        cache: Cache | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        taps: tuple[int, ...] = (),
        logits_from: int = 0,
        ancestors: Tensor | None = None,
        wait: bool = False,
        span: int | None = None,
        check: bool = True,
    ) -> Pass:
        """One pass over new tokens [B, n].

        cache        what came before. The n new ones are added, or wait for `cache.accept`. None: nothing
                     came before, and nothing is kept.
        positions    [B, n], place of each token in its sequence. None: behind the cached ones by its depth.
        mask         [B, n, S] bool, True where a new token may look at a slot; S and the order of the slots
                     are the cache's. None: the cached ones and the ancestors.
        taps         layers whose input to hand out, from 0 to layers - 1.
        logits_from  first of the n rows to compute logits for; -1 is the last alone, enough for a prefill.
        ancestors    [B, n, n] bool: which of the new tokens each descends from, itself included, as in
                     `DraftTree.ancestors`. Such rows always wait. None: a chain.
        wait         the rows of a chain wait as well.
        span         how many cached slots to attend over, see `KVCache.start`.
        check        look at the values. False: the host reads nothing, and whether the logits are finite is
                     for the caller to ask (`Pass.finite`, then specdec/finite.py).

        Raises SpecdecError, before anything is written, when a shape, id, position or layer is out of range
        or the cache is too short, and before anything counts as cached, when logits are NaN or infinite.
        """
        self._check_shapes(tokens, cache, positions, mask, taps, logits_from, ancestors, span)
        if check:
            self._check_values(tokens, positions, mask)
        batch, n = tokens.shape
        if cache is not None:
            cache.start(n, wait or ancestors is not None, span)
        config = self.config
        heads = (config.heads, config.kv_heads, config.kv_heads)
        cos, sin = self._rotations(n, cache, positions, ancestors)  # [B or 1, n, all heads, 2, head/2]
        bias = self._bias(n, cache, mask, ancestors, span)  # [B or 1, 1, n, S]

        x = self.embedding[tokens]  # [B, n, H]
        tapped: dict[int, Tensor] = {}
        for i, layer in enumerate(self.layers):
            if i in taps:
                tapped[i] = x

            normed = layer.attention_norm.scale(x)
            qkv = linear(normed, layer.qkv).view(batch, n, -1, 2, config.head_size // 2)
            turned = turn(qkv, cos, sin).view(batch, n, -1, config.head_size).transpose(1, 2)
            q, k, v = turned.split_with_sizes(heads, dim=1)  # [B, *, n, head]
            if cache is not None:
                k, v = cache.write(i, k, v)  # [B, kv_heads, S, head]
            x = linear(attention(q, k, v, bias), layer.o).add_(x)

            normed = layer.mlp_norm.scale(x)
            gate, up = linear(normed, layer.gate_up).chunk(2, dim=-1)  # [B, n, intermediate]
            x = linear(F.silu(gate).mul_(up), layer.down).add_(x)

        hidden = self.final_norm.scale(x)
        # Contiguous: with strides between the sequences torch would copy the output matrix for each of them.
        logits = linear(hidden[:, logits_from:].contiguous(), self.output).float()
        found = Pass(logits, hidden, tapped)
        if check and not found.finite:
            options = {"positions": positions, "mask": mask, "ancestors": ancestors, "span": span}
            raise SpecdecError(first_fault(self, tokens, cache, **options))
        if cache is not None:
            cache.finish()
        return found

    def _rotations(
        self,
        n: int,
        cache: Cache | None,
        positions: Tensor | None,
        ancestors: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """cos and sin for each new token and each head of q, k and v, [B or 1, n, heads, 2, head/2].

        v does not turn: its angle is 0. To turn it by that costs less than to take it apart from q and k.
        """
        at = 0 if cache is None else cache.ledger.at
        if positions is None and at is not None and ancestors is None:
            cos, sin = self.cos[None, at : at + n], self.sin[None, at : at + n]
        else:
            if positions is None:
                cached = 0 if cache is None else cache.ledger.cached[:, None]
                depths = self._steps[:n] if ancestors is None else ancestors.sum(-1) - 1
                # Clamped for the sake of a sequence that has ended at the end of the context.
                positions = (cached + depths).clamp(max=self.config.context_length - 1)
            cos, sin = self.cos[positions], self.sin[positions]
        turning, still = self.config.heads + self.config.kv_heads, self.config.kv_heads
        shape = cos.shape[:2]
        cos, sin = (x[:, :, None].expand(*shape, turning, *x.shape[2:]) for x in (cos, sin))
        none = cos.new_zeros(*shape, still, *cos.shape[3:])
        return torch.cat((cos, none + 1), dim=2), torch.cat((sin, none), dim=2)

    def _bias(
        self,
        n: int,
        cache: Cache | None,
        mask: Tensor | None,
        ancestors: Tensor | None,
        span: int | None,
    ) -> Tensor | None:
        """What attention adds to its scores, see `attention_bias`; None for one row that sees every slot."""
        if mask is None:
            at = 0 if cache is None else cache.ledger.at
            if n == 1 and at is not None and span in (None, at):
                return None
            if cache is not None:
                mask = cache.mask(ancestors)
            else:
                mask = chain_ancestors(n, self.embedding.device) if ancestors is None else ancestors
        return attention_bias(mask, self.dtype)

    def _check_shapes(
        self,
        tokens: Tensor,
        cache: Cache | None,
        positions: Tensor | None,
        mask: Tensor | None,
        taps: tuple[int, ...],
        logits_from: int,
        ancestors: Tensor | None,
        span: int | None,
    ) -> None:
        """Raise SpecdecError where these arguments cannot be run, whatever the values in the tensors."""
        if tokens.dim() != 2 or tokens.dtype != torch.int64 or 0 in tokens.shape:
            raise SpecdecError(
                f"tokens must be int64 [B, n], not empty, got {tokens.dtype} {list(tokens.shape)}"
            )
        batch, n = tokens.shape
        if cache is not None and (cache.batch != batch or cache.keys.dtype != self.dtype):
            raise SpecdecError(
                f"the cache is for {cache.batch} sequences in {cache.keys.dtype}, "
                f"but the pass has {batch} in {self.dtype}"
            )
        if cache is None and positions is None and n > self.config.context_length:
            raise SpecdecError(self._outside(n - 1))
        if positions is not None and positions.shape != tokens.shape:
            raise SpecdecError(f"positions must be [B, n] = {[batch, n]}, got {list(positions.shape)}")
        slots = n if cache is None else n + (cache.ledger.bound if span is None else span)
        for name, x, shape in (("mask", mask, "S"), ("ancestors", ancestors, "n")):
            expected = [batch, n, slots if shape == "S" else n]
            if x is not None and (list(x.shape) != expected or x.dtype != torch.bool):
                raise SpecdecError(
                    f"{name} must be bool [B, n, {shape}] = {expected}, got {x.dtype} {list(x.shape)}"
                )
        if wrong := [layer for layer in taps if not 0 <= layer < self.config.layers]:
            raise SpecdecError(f"taps must be layers from 0 to {self.config.layers - 1}, got {wrong[0]}")
        if not -n <= logits_from < n:
            raise SpecdecError(
                f"logits_from must be from {-n} to {n - 1} for {n} new tokens, got {logits_from}"
            )

    def _check_values(self, tokens: Tensor, positions: Tensor | None, mask: Tensor | None) -> None:
        """Read the tensors and raise SpecdecError where a value is out of range."""
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= self.config.vocab_size:
            raise SpecdecError(
                f"token ids must be from 0 to {self.config.vocab_size - 1}, got {low if low < 0 else high}"
            )
        if positions is not None:
            low, high = int(positions.min()), int(positions.max())
            if low < 0 or high >= self.config.context_length:
                raise SpecdecError(self._outside(low if low < 0 else high))
        if mask is not None and not bool(mask.any(-1).all()):
            raise SpecdecError(
                "mask has a row without any True: each new token must see at least one slot, itself"
            )

    def _outside(self, position: int) -> str:
        return (
            f"position {position} is outside the verifier's context of {self.config.context_length} tokens: "
            "use a shorter prompt or fewer new tokens"
        )


def _dtype(precision: str) -> torch.dtype:
    if precision not in PRECISIONS:
        raise SpecdecError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    return PRECISIONS[precision]
