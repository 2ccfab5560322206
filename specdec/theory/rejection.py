"""The rejection rule: how a cheap draft's tokens become exact samples of the verifier.

Everything here is a pure function of probabilities and of *coins*, uniform numbers in [0, 1) that the
caller brings, so one call is one reproducible event. Where the probabilities come from is not this module's
business: a toy table (`simulate.py`) or a language model (`specdec/verify.py` is this rule on tensors).

Letters: q is the verifier, p the draft. Leviathan et al. (2023, arXiv:2211.17192) use them the other way.
Layout: a distribution is float64 [V]; row i of q [N+1, V] and p [N, V] is conditioned on the first i drafts.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec.errors import SpecdecError

SUM_TOLERANCE = 1e-6  # float32 probabilities over a large vocabulary still pass


class ChainStep(NamedTuple):
    """What one verified chain emits: the accepted drafts, then one token more."""

    tokens: list[int]
    accepted: int
    kind: Literal["bonus", "correction"]


class ChildStep(NamedTuple):
    """What one verified tree node emits: child number `child` of its children, or a correction (None)."""

    token: int
    child: int | None


# -- one token ---------------------------------------------------------------------------------------------


def check_distribution(p: ArrayLike, name: str = "p") -> NDArray[np.float64]:
    """Return p as float64 [V]; ValueError unless it is one row, finite, non-negative and sums to 1."""
    try:
        row = np.asarray(p, dtype=np.float64)
    except (TypeError, ValueError):
        raise SpecdecError(f"{name} must be one row of probabilities [V], got {p!r}.") from None
    if row.ndim != 1 or row.size == 0:
        raise SpecdecError(f"{name} must be one row of probabilities [V], got shape {row.shape}.")
    if not np.isfinite(row).all():
        raise SpecdecError(f"{name} is NaN or infinite at token {np.argmin(np.isfinite(row))}.")
    if row.min() < 0:
        raise SpecdecError(f"{name} is negative at token {row.argmin()}: {row.min():.6g}.")
    if abs(row.sum() - 1) > SUM_TOLERANCE:
        raise SpecdecError(f"{name} sums to {row.sum():.8g}, not to 1: divide it by its sum first.")
    return row


def accept(q_x: float, p_x: float, u: float) -> bool:
    """Keep the drafted token x? True for a share min(1, q(x) / p(x)) of the coins u in [0, 1).

    The test is strict, u < q/p, so a token that the verifier never says (q_x = 0) is rejected by every coin,
    u = 0 included. Written as a product it needs no special case for p_x = 0. Leviathan et al., Algorithm 1.
    """
    for name, value in (("q_x", q_x), ("p_x", p_x)):
        if not 0 <= value <= 1 + SUM_TOLERANCE:
            raise SpecdecError(f"{name} must be a probability between 0 and 1, got {value}.")
    return bool(_coin(u) * p_x < q_x)


def acceptance_rate(q: ArrayLike, p: ArrayLike) -> float:
    """Probability that a token drafted from p [V] is accepted: sum_t min(p(t), q(t)) = 1 - TV(p, q).

    Leviathan et al., Theorem 3.5.
    """
    q, p = _pair(q, p)
    return float(np.minimum(q, p).sum())


def residual(q: ArrayLike, p: ArrayLike) -> NDArray[np.float64]:
    """The distribution [V] of the correction after a rejection: max(0, q - p), divided by its sum.

    Accepted drafts pay every token min(p, q); the residual is what q still owes. Where q = p nothing is owed
    and no draft is rejected: q itself is returned, so that the result is a distribution in every case.
    """
    q, p = _pair(q, p)
    owed = np.maximum(0.0, q - p)
    total = owed.sum()
    return owed / total if total > 0 else q.copy()


def draw(p: ArrayLike, u: float) -> int:
    """The token that the coin u in [0, 1) picks from p [V] by inverse CDF; never one of probability zero.

    It is the first token whose cumulative sum exceeds u. The sum grew there, so its own probability is
    positive; u is scaled by the last sum, which rounding may have left at 0.9999999.
    """
    cumulative = np.cumsum(check_distribution(p))
    return int(np.searchsorted(cumulative, _coin(u) * cumulative[-1], side="right"))


# -- one chain ---------------------------------------------------------------------------------------------


def verify_chain(
    q: ArrayLike, p: ArrayLike, drafts: Sequence[int], coins: Sequence[float], final_coin: float
) -> ChainStep:
    """Verify N drafted tokens. Emits 1 to N + 1 tokens that are distributed as the verifier's own.

    q [N+1, V] and p [N, V] are conditioned row by row on the drafts before; draft i was drawn from p[i] (a
    draft that picks its token without chance has a one-hot row). coins [N] decide the drafts. final_coin
    draws the last token: from the residual at the first rejection, where the walk stops, or from q[N] when
    every draft was kept. N = 0 is plain decoding. Leviathan et al., Algorithm 1.
    """
    q, p, drafts = _rows(q, "q"), _rows(p, "p"), list(drafts)
    n = len(drafts)
    if (len(q), len(p), len(coins)) != (n + 1, n, n):
        raise SpecdecError(
            f"{n} drafts need {n + 1} rows of q, {n} rows of p and {n} coins, "
            f"got {len(q)}, {len(p)} and {len(coins)}."
        )
    for i, x in enumerate(drafts):
        _check_drawn(x, p[i], f"draft {i}")
        if not accept(q[i][x], p[i][x], coins[i]):
            return ChainStep([*drafts[:i], draw(residual(q[i], p[i]), final_coin)], i, "correction")
    return ChainStep([*drafts, draw(q[n], final_coin)], n, "bonus")


# -- the children of one tree node -------------------------------------------------------------------------


def verify_children(
    q: ArrayLike, p: ArrayLike, children: Sequence[int], coins: Sequence[float], final_coin: float
) -> ChildStep:
    """Try k children of one tree node in turn; the emitted token is distributed as the verifier's q [V].

    p [k, V]: row i is the distribution that child i was really drawn from, given its earlier siblings. The
    two exact rules differ in nothing else: `without_replacement(p, children)` for sampled children,
    `one_hot(children, V)` for the draft's top k. Each rejection replaces q by the residual still owed, and
    when no child is left the token is drawn from that. SpecInfer (arXiv:2305.09781) has the rounds of
    rejection, Jeon et al. (arXiv:2402.14160) the sampling without replacement.
    """
    owed, p, children = check_distribution(q, "q"), _rows(p, "p"), list(children)
    k = len(children)
    if (len(p), len(coins)) != (k, k):
        raise SpecdecError(f"{k} children need {k} rows of p and {k} coins, got {len(p)} and {len(coins)}.")
    for i, x in enumerate(children):
        _check_drawn(x, p[i], f"child {i}")
        if accept(owed[x], p[i][x], coins[i]):
            return ChildStep(x, i)
        owed = residual(owed, p[i])
    return ChildStep(draw(owed, final_coin), None)


def without_replacement(p: ArrayLike, children: Sequence[int]) -> NDArray[np.float64]:
    """Rows [k, V] for children sampled from p [V] without replacement.

    Row i is p with the earlier siblings zeroed **and renormalised**. Left unnormalised, it is not what child
    i was drawn from, and the rule is no longer exact.
    """
    rest = check_distribution(p).copy()
    rows = np.empty((len(children), rest.size))
    for i, x in enumerate(children):
        _check_drawn(x, rest, f"child {i}")
        rows[i] = rest / rest.sum()
        rest[x] = 0.0
    return rows


def one_hot(children: Sequence[int], vocab: int) -> NDArray[np.float64]:
    """Rows [k, V] for children that were chosen without chance, such as the draft's k most likely tokens."""
    rows = np.zeros((len(children), vocab))
    for i, x in enumerate(children):
        if not 0 <= x < vocab:
            raise SpecdecError(f"child {i} is token {x}, outside the vocabulary 0..{vocab - 1}.")
        rows[i, x] = 1.0
    return rows


# -- checks ------------------------------------------------------------------------------------------------


def _coin(u: float) -> float:
    if not 0 <= u < 1:
        raise SpecdecError(f"a coin must lie in [0, 1), got {u}.")
    return u


def _pair(q: ArrayLike, p: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    q, p = check_distribution(q, "q"), check_distribution(p, "p")
    if q.size != p.size:
        raise SpecdecError(f"q and p must share one vocabulary, got {q.size} and {p.size} tokens.")
    return q, p


def _rows(rows: ArrayLike, name: str) -> list[NDArray[np.float64]]:
    if not isinstance(rows, Iterable):
        raise SpecdecError(f"{name} must hold one row of probabilities per position, got {rows!r}.")
    return [check_distribution(row, f"{name}[{i}]") for i, row in enumerate(rows)]


def _check_drawn(x: int, p: NDArray[np.float64], name: str) -> None:
    if not 0 <= x < p.size:
        raise SpecdecError(f"{name} is token {x}, outside the vocabulary 0..{p.size - 1}.")
    if p[x] == 0:
        raise SpecdecError(f"{name} is token {x}, which its p never proposes: pass the p it was drawn from.")
