"""The matrix product of the forward pass, over every form that a weight matrix has.

    Tensor    fp32 or bf16, as read
    Blocked   bf16 in the block order of oneDNN, the library behind torch's products on a CPU
    Int4      4-bit codes in the order of torch's int4 kernel (int4.py)
    ByWidth   Int4 for a few rows, Blocked for more

`prepare` brings a matrix into its form when the model is loaded, `linear` multiplies. Matrices that read the
same input (q, k and v; gate and up) are prepared as one: a product of few rows costs little more than
reading the weights and starting the work, and that is then started once.

A product of a few rows should take as long as reading the matrix from memory. In the order of the file,
oneDNN moves every bf16 matrix into its own order first, at each product, which takes as long again; a
Blocked one has been moved beforehand. The numbers that come out are the same, bit for bit.

4-bit codes are read in a quarter of that time, but the kernel's arithmetic grows with every four rows, and
from five on the bf16 product is faster. So ByWidth holds both: a token's logits then come from codes and
fp32 sums when at most four rows are read at once, and else from weights rounded to bf16, exactly as in
precision bf16. These differ little more than passes of different width in bf16 do (benchmarks/LOG.md). 8-bit
codes, two digits each for the 4-bit kernel, gain nothing over bf16 even for one row, and become bf16.

Layout: x [..., in], matrices [out, in], result [..., out].
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from specdec.int4 import Codes, Int4, StoredCodes, pack, stack

NARROW = 4  # rows up to which the 4-bit kernel is faster than a bf16 product
OPERATORS = ("_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported")


@dataclass(frozen=True)
class Blocked:
    """A bf16 matrix in oneDNN's order. Made by `block`."""

    weight: Tensor  # opaque: only oneDNN's own product reads it

    def multiply(self, x: Tensor) -> Tensor:
        """x [..., in] bf16 -> x times the matrix transposed, [..., out] bf16."""
        return torch.ops.mkldnn._linear_pointwise.default(x, self.weight, None, "none", [], "")


@dataclass(frozen=True)
class ByWidth:
    """A matrix in two forms, each for the number of rows that it is faster for."""

    narrow: Int4
    wide: Blocked

    def multiply(self, x: Tensor) -> Tensor:
        """x [..., in] bf16 -> x times the matrix transposed, [..., out] bf16."""
        few = x.shape[:-1].numel() <= NARROW
        return self.narrow.multiply(x) if few else self.wide.multiply(x)


Matrix = Tensor | Blocked | Int4 | ByWidth


def prepare(parts: Sequence[Tensor | Codes | StoredCodes], dtype: torch.dtype) -> Matrix:
    """One matrix from parts with the same input, their rows one below the other.

    Raises SpecdecError when codes do not fit the 4-bit kernel.
    """
    parts = [part.read() if isinstance(part, StoredCodes) else part for part in parts]
    codes = [part for part in parts if isinstance(part, Codes)]
    if len(codes) == len(parts):
        together = stack(codes)
        wide = block(together.dequantise(dtype))
        if isinstance(wide, Tensor):
            return pack(together)
        return ByWidth(pack(together), wide) if together.bits == 4 else wide
    weights = [as_tensor(part, dtype) for part in parts]
    return block(weights[0] if len(weights) == 1 else torch.cat(weights))


def prepare_tied(table: Tensor | StoredCodes, embedding: Tensor) -> Matrix:
    """The output matrix that is the embedding's table: from its codes where they gain, else `embedding`."""
    if isinstance(table, Tensor):
        return block(embedding)
    codes = table.read()
    wide = block(embedding) if codes.bits == 8 else None
    return wide if isinstance(wide, Blocked) else prepare([codes], embedding.dtype)


def block(weight: Tensor) -> Tensor | Blocked:
    """The matrix in oneDNN's order, or as it is where that is not to be had: in fp32, on another device than
    a CPU, on a CPU or in a torch without oneDNN's bf16 products.
    """
    if weight.dtype != torch.bfloat16 or weight.device.type != "cpu" or not blocks_bf16():
        return weight
    return Blocked(torch.ops.mkldnn._reorder_linear_weight(weight, None))


def blocks_bf16() -> bool:
    """Whether this torch on this CPU can multiply bf16 matrices in oneDNN's order."""
    return (
        torch.backends.mkldnn.is_available()
        and all(hasattr(torch.ops.mkldnn, name) for name in OPERATORS)
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def as_tensor(weight: Tensor | Codes | StoredCodes, dtype: torch.dtype) -> Tensor:
    """The numbers of a weight, whatever its form."""
    weight = weight.read() if isinstance(weight, StoredCodes) else weight
    return weight.dequantise(dtype) if isinstance(weight, Codes) else weight.to(dtype)


def linear(x: Tensor, matrix: Matrix) -> Tensor:
    """x times the matrix transposed."""
    return F.linear(x, matrix) if isinstance(matrix, Tensor) else matrix.multiply(x)
