"""Does a sample look like q? Distances, tests against the exact q, and how often each test errs.

All tests are one-sample: counts are compared with probabilities that are known exactly. A second random
sample taken for exact doubles the variance, and a nominal 5% alarm then rings about 40% of the time.

Two tests for two uses. `chi_square` gives a p-value; an honest sample exceeds its 95% value once in twenty,
and it can be trusted where every expected count is 20 or more (`merge_small`). `outside` gives a verdict that
is almost never wrong about an honest sample: exact binomial tails, one pair per cell, that share one
false-fail rate (Bonferroni) and hold for any expected count. Each has a power: how surely it notices a named
wrong distribution.

`scipy.special` instead of `scipy.stats`: the same functions at a quarter of the import time.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, chdtrc, chdtri, chndtr

from specdec.errors import SpecdecError
from specdec.theory.rejection import check_distribution


class ChiSquare(NamedTuple):
    """A one-sample chi-square test; `statistic > critical_95` happens to one honest sample in twenty."""

    statistic: float
    df: int
    critical_95: float
    p_value: float
    samples: int


class Limits(NamedTuple):
    """Lowest and highest honest counts [V]; at most a share `false_fail` of honest samples leaves them."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    false_fail: float


def total_variation(p: ArrayLike, q: ArrayLike) -> float:
    """Half the summed absolute difference: the largest gap in probability that any event can show.

    Any shape, as long as both have the same (a joint distribution of two tokens is [V, V]).
    """
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    if p.shape != q.shape:
        raise SpecdecError(f"two distributions of one shape are needed, got {p.shape} and {q.shape}.")
    return float(np.abs(p - q).sum() / 2)


# -- chi-square --------------------------------------------------------------------------------------------


def chi_square(counts: ArrayLike, q: ArrayLike) -> ChiSquare:
    """Pearson's test of counts [V] against the exact q [V]: sum of (count - n q)^2 / (n q).

    Degrees of freedom: the cells with q > 0, minus one. A count in a cell with q = 0 cannot happen under q,
    so it makes the statistic infinite. Counts and q may have any shape if it is the same (pairs are [V, V]).
    """
    counts, q = _counts(counts, q)
    n, possible = int(counts.sum()), q > 0
    expected = n * q[possible]
    statistic = float(((counts[possible] - expected) ** 2 / expected).sum())
    if counts[~possible].any():
        statistic = float("inf")
    df = int(possible.sum()) - 1
    if df == 0:  # only one token is possible: nothing to test but that it is the one
        return ChiSquare(statistic, 0, 0.0, 0.0 if statistic == np.inf else 1.0, n)
    return ChiSquare(statistic, df, float(chdtri(df, 0.05)), float(chdtrc(df, statistic)), n)


def chi_square_power(samples: int, q: ArrayLike, alternative: ArrayLike, level: float = 0.05) -> float:
    """Probability that the chi-square test at this level notices samples drawn from `alternative`, not q.

    Noncentral chi-square with noncentrality n * sum of (alternative - q)^2 / q: an approximation, good where
    the expected counts are large. Where q = 0, one sample is enough, and their probability is returned.
    """
    other, q = _laws(alternative, q)
    possible = q > 0
    impossible_share = float(other[~possible].sum())
    if impossible_share > 0:
        return 1.0 - (1.0 - impossible_share) ** samples
    df = int(possible.sum()) - 1
    shift = samples * float(((other[possible] - q[possible]) ** 2 / q[possible]).sum())
    return 1.0 - float(chndtr(chdtri(df, level), df, shift)) if df else 0.0


def merge_small(
    counts: ArrayLike, q: ArrayLike, least: float = 20.0
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pool the cells that expect fewer than `least` counts, and more if need be, into one last cell.

    In small cells the chi-square tail is not the true one: at a nominal 1e-6 it can be ten times off. What is
    pooled depends on q and the number of samples, never on the counts; impossible cells stay on their own.
    """
    counts, q = _counts(counts, q)
    possible = [i for i in np.argsort(q, kind="stable") if q[i] > 0]
    expected = counts.sum() * q[possible]
    pooled = int(np.searchsorted(expected, least))
    while 0 < pooled < len(possible) and expected[:pooled].sum() < least:
        pooled += 1
    if pooled == 0:
        return counts, q
    small, kept = possible[:pooled], np.setdiff1d(np.arange(q.size), possible[:pooled])
    return np.append(counts[kept], counts[small].sum()), np.append(q[kept], q[small].sum())


# -- exact binomial limits ---------------------------------------------------------------------------------


def count_limits(samples: int, q: ArrayLike, false_fail: float = 1e-6) -> Limits:
    """What each of the V counts of an honest sample stays within, but for `false_fail` of all samples.

    Each count alone is Binomial(samples, q(t)). Its two tails get false_fail / 2V each, and the union bound
    adds them up to at most false_fail: no independence, no approximation.
    """
    q = np.clip(check_distribution(np.ravel(q), "q"), 0.0, 1.0)
    if samples < 1 or not 0 < false_fail < 1:
        raise SpecdecError(
            f"samples must be at least 1 and false_fail in (0, 1), got {samples}, {false_fail}."
        )
    tail = false_fail / (2 * q.size)
    # "k or more" under q is "n - k or fewer" misses under 1 - q, so one search serves both ends
    return Limits(_lowest(samples, q, tail), samples - _lowest(samples, 1 - q, tail), false_fail)


def outside(counts: ArrayLike, q: ArrayLike, false_fail: float = 1e-6) -> NDArray[np.int64]:
    """The cells that rule q out, as indices of the flattened counts; none for an honest sample.

    "None" fails for at most a share `false_fail` of honest samples.
    """
    counts, q = _counts(counts, q)
    limits = count_limits(int(counts.sum()), q, false_fail)
    return np.flatnonzero((counts < limits.low) | (counts > limits.high))


def limits_power(samples: int, q: ArrayLike, alternative: ArrayLike, false_fail: float = 1e-6) -> float:
    """Lower bound on the probability that `outside` notices samples of `alternative`: its best cell's."""
    other, q = _laws(alternative, q)
    low, high, _ = count_limits(samples, q, false_fail)
    below = np.where(low > 0, bdtr(np.maximum(low - 1, 0), samples, other), 0.0)
    above = np.where(high < samples, bdtr(np.maximum(samples - high - 1, 0), samples, 1 - other), 0.0)
    return float(np.max(below + above))


def _lowest(samples: int, q: NDArray[np.float64], tail: float) -> NDArray[np.int64]:
    """Per cell the smallest k with P(Binomial(samples, q) <= k) > tail, by bisection."""
    low, high = np.zeros(q.shape, dtype=np.int64), np.full(q.shape, samples, dtype=np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        enough = bdtr(middle, samples, q) > tail
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return low


# -- checks ------------------------------------------------------------------------------------------------


def _counts(counts: ArrayLike, q: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    values, q = _one_shape(counts, q)
    if not (np.isfinite(values) & (values >= 0) & (values == np.round(values))).all() or values.sum() < 1:
        raise SpecdecError("counts must be whole numbers of at least 0, and at least one sample.")
    return values.astype(np.int64), q


def _laws(alternative: ArrayLike, q: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values, q = _one_shape(alternative, q)
    return np.clip(check_distribution(values, "alternative"), 0.0, 1.0), q


def _one_shape(values: ArrayLike, q: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if np.shape(values) != np.shape(q):
        raise SpecdecError(f"one value per cell of q is needed, got {np.shape(values)} and {np.shape(q)}.")
    return np.ravel(np.asarray(values, dtype=np.float64)), check_distribution(np.ravel(q), "q")
