"""4-bit weights: the file's own codes, multiplied by torch's int4 kernel for CPUs.

A quantised GGUF file stores each row of a matrix in groups of 32 numbers. A group has a scale (and in Q4_1 a
minimum) and a small integer code per number:

    Q4_1   w = code * scale + minimum    code from 0 to 15
    Q8_0   w = code * scale              code from -128 to 127

The kernel, `_weight_int4pack_mm_for_cpu`, wants w = (code - 8) * scale + zero with the same groups of 32. So
the codes of Q4_1 go over unchanged, and zero = minimum + 8 * scale. A code of Q8_0 is two digits to the base
16, code = 16 * high + low: the matrix [high | low] of twice the width times the input twice is the product,
exactly, and one kernel serves both kinds. What is lost is only that scale and zero are rounded to bf16, the
one type of scales and activations for which the kernel is fast: a weight moves by at most 2^-8 of
|code - 8| * scale plus 2^-8 of |zero|, and one of Q8_0 by 2^-8 of itself. On a text of 288 tokens the logits
of SmolLM2 move by 0.10 on average, its most likely token stays the same at 95% of the positions, and q moves
by 0.0015 nats: as much as in bf16 (0.10, 95%, 0.0012), for rounding the activations is most of it.

The kernel needs no AVX-512. It has a path for AVX-512, one for AVX2, and a plain one for everything else that
gives the same numbers slowly. It works in fp32 inside, row by row: a token's product is bit
for bit the same whichever rows stand beside it. It takes four rows at a time, so 4 cost hardly more than 1,
but from 5 on it is slower than a bf16 product of weights laid out for that: linear.py then takes those.

Layout: matrices [out, in], `in` a multiple of 32, `out` of 16; scale and zero [out, in / 32].
Sources: ggml-org/ggml, ggml-common.h (`block_q4_1`, `block_q8_0`); pytorch, aten/src/ATen/native/cpu/
int4mm_kernel.cpp.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from specdec.errors import SpecdecError

GROUP = 32  # numbers that share a scale, in the file as in the kernel
ROW_BLOCK = 16  # the kernel refuses a number of rows that is not a multiple of it
PACK_ROWS = 4096  # rows packed or dequantised at once: codes pass through numbers of 32 bits


@dataclass(frozen=True)
class Codes:
    """A matrix as the file has it: w = code * scale + zero, the codes signed."""

    bits: int  # 4: codes from -8 to 7; 8: from -128 to 127
    codes: Tensor  # [out, in] int8
    scale: Tensor  # [out, in / 32] fp32
    zero: Tensor  # [out, in / 32] fp32

    @property
    def shape(self) -> torch.Size:
        return self.codes.shape

    def rows(self, move: Callable[[Tensor], Tensor]) -> "Codes":
        """The matrix with its rows moved as `move` moves those of a tensor."""
        return Codes(self.bits, move(self.codes), move(self.scale), move(self.zero))

    def dequantise(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The weights, [out, in], computed in fp32; some rows at a time, so that few are ever held so."""
        weights = torch.empty(self.shape, dtype=dtype)
        parts = (x.split(PACK_ROWS) for x in (self.codes, self.scale, self.zero))
        for rows, codes, scale, zero in zip(weights.split(PACK_ROWS), *parts, strict=True):
            groups = codes.float().view(*scale.shape, GROUP)
            rows.copy_(groups.mul_(scale[..., None]).add_(zero[..., None]).view(codes.shape))
        return weights


@dataclass(frozen=True)
class StoredCodes:
    """A matrix that is still in its file; `read` brings it. So not all of them are ever held as codes."""

    shape: torch.Size
    read: Callable[[], Codes]


def read_q4_1(data: Tensor) -> Codes:
    """Blocks of Q4_1, [out, in / 32 * 20] uint8: fp16 scale, fp16 minimum, then 16 bytes of two codes each.

    The low halves of the bytes are the first 16 numbers of the group, the high halves the other 16.
    """
    blocks = data.view(len(data), -1, 20)
    scale, least = blocks[..., :4].contiguous().view(torch.float16).float().unbind(-1)
    pairs = blocks[..., 4:]
    codes = torch.cat((pairs & 15, pairs >> 4), dim=-1).to(torch.int8) - 8
    return Codes(4, codes.view(len(data), -1), scale, least + 8 * scale)


def read_q8_0(data: Tensor) -> Codes:
    """Blocks of Q8_0, [out, in / 32 * 34] uint8: fp16 scale, then 32 signed bytes."""
    blocks = data.view(len(data), -1, 34)
    scale = blocks[..., :2].contiguous().view(torch.float16).float()[..., 0]
    codes = blocks[..., 2:].contiguous().view(torch.int8)
    return Codes(8, codes.view(len(data), -1), scale, torch.zeros_like(scale))


READERS = {"Q4_1": read_q4_1, "Q8_0": read_q8_0}  # by the name of the GGUF type


def stack(parts: list[Codes]) -> Codes:
    """Matrices of the same input as one, their rows one below the other: one product instead of several."""
    if len({part.bits for part in parts}) > 1:
        raise SpecdecError(
            "precision int4 multiplies q, k and v, and gate and up, as one matrix each, but the file mixes "
            "4-bit and 8-bit codes in one of them: use precision bf16"
        )
    return Codes(
        parts[0].bits,
        torch.cat([part.codes for part in parts]),
        torch.cat([part.scale for part in parts]),
        torch.cat([part.zero for part in parts]),
    )


@dataclass(frozen=True)
class Int4:
    """A matrix ready for the kernel. Made by `pack`."""

    packed: Tensor  # uint8, in an order that depends on the processor; two codes a byte
    grid: Tensor  # [digits * in / 32, out, 2] bf16: scale and zero
    digits: int  # 1, or 2 where an 8-bit code is two 4-bit ones

    def multiply(self, x: Tensor) -> Tensor:
        """x [..., in] bf16 -> x times the matrix transposed, [..., out] bf16."""
        rows = x.reshape(-1, x.shape[-1])
        if self.digits == 2:
            rows = torch.cat((rows, rows), dim=-1)
        product = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.packed, GROUP, self.grid)
        return product.view(*x.shape[:-1], -1)


def pack(matrix: Codes) -> Int4:
    """Bring codes into the kernel's form.

    Raises SpecdecError when the number of rows is not a multiple of 16 or torch lacks the kernel.
    """
    if len(matrix.codes) % ROW_BLOCK:
        raise SpecdecError(
            f"precision int4 needs matrices whose number of rows is a multiple of {ROW_BLOCK}, got "
            f"{list(matrix.shape)}: use precision bf16"
        )
    if not hasattr(torch.ops.aten, "_weight_int4pack_mm_for_cpu"):
        raise SpecdecError(f"torch {torch.__version__} has no 4-bit kernel for CPUs: install 2.6 or newer")
    codes, scale, zero = matrix.codes, matrix.scale, matrix.zero
    if matrix.bits == 8:
        # code = 16 * high + low, with `high` from -8 to 7 and `low` from 0 to 15, which the kernel takes less
        # 8. The powers of two change no digit of the scale, so both halves are rounded alike.
        codes = torch.cat((codes >> 4, (codes & 15) - 8), dim=-1)
        scale, zero = torch.cat((16 * scale, scale), dim=-1), torch.cat((zero, 8 * scale), dim=-1)
    packed = [torch._convert_weight_to_int4pack_for_cpu(part.int() + 8, 1) for part in codes.split(PACK_ROWS)]
    grid = torch.stack((scale, zero), dim=-1).transpose(0, 1).bfloat16().contiguous()
    return Int4(torch.cat(packed), grid, matrix.bits // 4)
