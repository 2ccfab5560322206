"""The matrix product of the forward pass, over every form that a weight matrix has.

    Tensor   fp32 or bf16, as read
    Int4     4-bit codes in the order of torch's int4 kernel (int4.py)

`prepare` brings a matrix into its form when the model is loaded, `linear` multiplies. Matrices that read the
same input (q, k and v; gate and up) are prepared as one: a product of few rows costs little more than
reading the weights and starting the work, and that is then started once.

Layout: x [..., in], matrices [out, in], result [..., out].
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from specdec.int4 import Codes, Int4, pack, stack

Matrix = Tensor | Int4


def prepare(parts: Sequence[Tensor | Codes], dtype: torch.dtype) -> Matrix:
    """One matrix from parts with the same input, their rows one below the other.

    Raises SpecdecError when codes do not fit the 4-bit kernel.
    """
    codes = [part for part in parts if isinstance(part, Codes)]
    if len(codes) == len(parts):
        return pack(stack(codes))
    weights = [as_tensor(part, dtype) for part in parts]
    return weights[0] if len(weights) == 1 else torch.cat(weights)


def as_tensor(weight: Tensor | Codes, dtype: torch.dtype) -> Tensor:
    """The numbers of a weight, whatever its form."""
    return (weight.dequantise() if isinstance(weight, Codes) else weight).to(dtype)


def linear(x: Tensor, matrix: Matrix) -> Tensor:
    """x times the matrix transposed."""
    return matrix.multiply(x) if isinstance(matrix, Int4) else F.linear(x, matrix)
