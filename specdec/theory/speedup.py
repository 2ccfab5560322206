"""How much faster: tokens per verifier call, time per token, and the draft length that is best.

The model behind the formulas: every draft is accepted with the same probability alpha, independently, as long
as all before it were (Leviathan et al. 2023, arXiv:2211.17192, Section 3). Time is counted in verifier passes
over one token, so plain decoding takes 1 per token. alpha, N and c may be numbers or arrays that broadcast.

What verification costs is a parameter. V = None is the textbook: a pass over N + 1 tokens costs as much as a
pass over one. Otherwise V is a function n -> cost in units of V(1), such as `measured_cost` makes from
milliseconds; measuring them is left to `specdec/bench.py`.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec.errors import SpecdecError

Cost: TypeAlias = Callable[[int], float]
SEARCH_LIMIT = 4096


def expected_tokens(alpha: ArrayLike, N: ArrayLike) -> NDArray[np.float64]:
    """Tokens emitted per verifier call, bonus or correction included: (1 - alpha^(N+1)) / (1 - alpha).

    It is the sum of alpha^k over k = 0..N, so N + 1 at alpha = 1. Leviathan et al., Equation 1.
    """
    alpha, n = _alpha(alpha), _length(N)
    miss = 1.0 - alpha
    with np.errstate(divide="ignore", invalid="ignore"):
        # expm1 and log1p keep every digit where alpha is close to 1 and the plain formula cancels
        tokens = -np.expm1((n + 1) * np.log1p(-miss)) / miss
    return np.where(miss == 0, n + 1, tokens)[()]


def wall_time(alpha: ArrayLike, N: ArrayLike, c: ArrayLike, V: Cost | None = None) -> NDArray[np.float64]:
    """Time per emitted token, in verifier passes over one token: (N c + V(N+1)) / expected tokens.

    c is the cost of one draft pass in the same unit. N = 0 is plain decoding and takes 1. With V = None it is
    the inverse of Leviathan et al., Theorem 3.8.
    """
    n, c = _length(N), np.asarray(c, dtype=np.float64)
    if not (np.isfinite(c) & (c >= 0)).all():
        raise SpecdecError(f"c, the cost of a draft pass, must be a number of at least 0, got {c}.")
    verify = 1.0 if V is None else np.vectorize(V, otypes=[np.float64])(n + 1)
    return ((n * c + verify) / expected_tokens(alpha, n))[()]


def speedup(alpha: ArrayLike, N: ArrayLike, c: ArrayLike, V: Cost | None = None) -> NDArray[np.float64]:
    """How many times faster than plain decoding: 1 / wall_time. Leviathan et al., Theorem 3.8."""
    return 1.0 / wall_time(alpha, N, c, V)


def operations(alpha: ArrayLike, N: ArrayLike, c_hat: ArrayLike = 0.0) -> NDArray[np.float64]:
    """Arithmetic per token, relative to plain decoding: (N c_hat + N + 1) / expected tokens.

    c_hat is the draft's arithmetic per token over the verifier's. Speculation saves time, never arithmetic:
    rejected drafts were verified for nothing. Leviathan et al., Theorem 3.11.
    """
    n = _length(N)
    return ((n * np.asarray(c_hat, dtype=np.float64) + n + 1) / expected_tokens(alpha, n))[()]


def optimal_n(alpha: float, c: float, V: Cost | None = None, max_n: int | None = None) -> int:
    """The draft length with the least wall time; 0 when speculation does not pay.

    With max_n, the best of 0..max_n; an answer equal to max_n lies on the edge, and the optimum may lie
    beyond. Without it the answer is the optimum, or a ValueError where no length is best because drafts are
    free or perfect. A measured V ends at the widest measured pass, so it needs max_n.
    """
    if max_n is None and V is not None:
        raise SpecdecError("with a measured V, pass max_n: at most the widest measured pass minus one.")
    lengths = np.arange(int(_length(SEARCH_LIMIT if max_n is None else max_n)) + 1)
    best = int(np.argmin(wall_time(float(alpha), lengths, float(c), V)))
    if max_n is None and (c == 0 < alpha or best == SEARCH_LIMIT):
        raise SpecdecError(
            f"at alpha = {alpha} and c = {c} longer drafts are better up to N = {SEARCH_LIMIT}: "
            "no such draft is built, so pass max_n."
        )
    return best


def measured_cost(widths: Sequence[int], milliseconds: Sequence[float]) -> Cost:
    """V(n) in units of V(1), linear between the measured pass widths; asking beyond the widest is an error.

    widths [M] rising from 1 (new tokens per pass); milliseconds [M] per pass.
    """
    x, y = np.asarray(widths), np.asarray(milliseconds, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1 or x[:1].tolist() != [1] or (np.diff(x) <= 0).any():
        raise SpecdecError("widths must rise from 1, with one time per width.")
    if not (np.isfinite(y) & (y > 0)).all():
        raise SpecdecError(f"times must be positive milliseconds, got {y}.")

    def cost(n: int) -> float:
        if not 1 <= n <= x[-1]:
            raise SpecdecError(f"V({n}) was not measured: widths go from 1 to {x[-1]}.")
        return float(np.interp(n, x, y) / y[0])

    return cost


def _alpha(alpha: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(alpha, dtype=np.float64)
    if not ((array >= 0) & (array <= 1)).all():
        raise SpecdecError(f"alpha must be a probability between 0 and 1, got {alpha!r}.")
    return array


def _length(N: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(N)
    if not np.issubdtype(array.dtype, np.integer) or (array < 0).any():
        raise SpecdecError(f"the draft length N must be a whole number of at least 0, got {N!r}.")
    return array.astype(np.int64)
