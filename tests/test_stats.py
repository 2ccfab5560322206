"""One-sample statistics against SciPy's reference implementations and exact binomial sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from specdec.theory.stats import (
    chi_square,
    chi_square_power,
    count_limits,
    limits_power,
    merge_small,
    outside,
    total_variation,
)

Q = np.array([0.4, 0.3, 0.2, 0.1])
WRONG = np.array([0.41, 0.3, 0.2, 0.09])


def test_total_variation_is_the_largest_gap_over_all_events():
    p, q = np.array([0.5, 0.2, 0.3]), np.array([0.1, 0.6, 0.3])
    events = [[bool(bits >> i & 1) for i in range(3)] for bits in range(8)]
    assert total_variation(p, q) == pytest.approx(max(p[e].sum() - q[e].sum() for e in map(np.array, events)))
    assert total_variation(np.outer(p, q), np.outer(p, q)) == 0.0


def test_total_variation_of_different_shapes_is_refused():
    with pytest.raises(ValueError, match="one shape"):
        total_variation([0.5, 0.5], [[0.5, 0.5]])


# -- chi-square --------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=30), st.integers(0, 2**32 - 1))
def test_chi_square_is_scipys_against_the_exact_expectation(weights, seed):
    q = np.array(weights) / sum(weights)
    counts = np.random.default_rng(seed).multinomial(5000, q)
    ours, theirs = chi_square(counts, q), reference.chisquare(counts, 5000 * q)
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-9, abs=1e-9)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-300)
    assert ours.df == len(weights) - 1
    assert ours.critical_95 == pytest.approx(reference.chi2.ppf(0.95, ours.df))
    assert ours.samples == 5000


def test_impossible_cells_do_not_count_as_degrees_of_freedom():
    assert chi_square([40, 60, 0], [0.5, 0.5, 0.0]).df == 1
    assert chi_square([40, 60, 0], [0.5, 0.5, 0.0]).statistic == pytest.approx(4.0)


def test_one_count_in_an_impossible_cell_makes_the_statistic_infinite():
    result = chi_square([50, 49, 1], [0.5, 0.5, 0.0])
    assert result.statistic == np.inf
    assert result.p_value == 0.0


def test_a_certain_token_leaves_nothing_to_test():
    assert chi_square([0, 9], [0.0, 1.0]) == (0.0, 0, 0.0, 1.0, 9)
    assert chi_square([1, 8], [0.0, 1.0]).p_value == 0.0


def test_pairs_are_tested_as_one_table():
    pairs = np.outer(Q, Q)
    counts = np.random.default_rng(0).multinomial(10_000, pairs.ravel()).reshape(4, 4)
    assert chi_square(counts, pairs) == chi_square(counts.ravel(), pairs.ravel())
    assert chi_square(counts, pairs).df == 15


def test_an_honest_sample_exceeds_the_critical_value_once_in_twenty():
    samples = np.random.default_rng(7).multinomial(50_000, Q, size=4000)
    alarms = sum(chi_square(c, Q).statistic > chi_square(c, Q).critical_95 for c in samples)
    assert reference.binomtest(alarms, 4000, 0.05).pvalue > 1e-6


def test_a_second_random_sample_taken_for_exact_raises_false_alarms_eightfold():
    """Two honest samples, df 7: half the statistic is chi-square, so the rate is P(chi2_7 > 14.067 / 2)."""
    rng, q = np.random.default_rng(1), np.full(8, 1 / 8)
    ours, theirs = rng.multinomial(20_000, q, size=2000), rng.multinomial(20_000, q, size=2000)
    alarms = sum(chi_square(a, b / 20_000).p_value < 0.05 for a, b in zip(ours, theirs, strict=True))
    expected = reference.chi2.sf(reference.chi2.ppf(0.95, 7) / 2, 7)
    assert expected == pytest.approx(0.425, abs=5e-4)
    assert alarms / 2000 == pytest.approx(expected, abs=0.05)


def test_chi_square_power_is_the_share_of_wrong_samples_that_are_noticed():
    samples = np.random.default_rng(3).multinomial(5000, WRONG, size=4000)
    noticed = np.mean([chi_square(c, Q).p_value < 0.05 for c in samples])
    power = chi_square_power(5000, Q, WRONG)
    assert 0.3 < power < 0.7
    assert noticed == pytest.approx(power, abs=0.03)
    assert chi_square_power(5000, Q, Q) == pytest.approx(0.05)
    assert chi_square_power(10**7, Q, WRONG) == pytest.approx(1.0)


def test_chi_square_power_where_the_wrong_distribution_does_the_impossible():
    assert chi_square_power(100, [0.5, 0.5, 0.0], [0.5, 0.49, 0.01]) == pytest.approx(1 - 0.99**100)


def test_small_cells_are_pooled_until_the_pool_expects_enough():
    q = np.array([0.5, 0.4, 0.055, 0.03, 0.015])
    counts = np.array([250, 200, 28, 15, 7])
    merged, law = merge_small(counts, q, least=20)
    assert merged.tolist() == [250, 200, 28, 22]  # 15 + 7.5 expected
    np.testing.assert_allclose(law, [0.5, 0.4, 0.055, 0.045])
    merged, law = merge_small(counts, q, least=26)
    assert merged.tolist() == [250, 200, 50]  # 22.5 is not enough: the next larger cell joins
    assert merge_small(counts, q, least=5)[0].tolist() == counts.tolist()


def test_pooling_does_not_hide_an_impossible_count():
    merged, law = merge_small([90, 5, 4, 1], [0.9, 0.06, 0.04, 0.0])
    assert merged.tolist() == [1, 99]
    assert chi_square(merged, law).statistic == np.inf


@pytest.mark.parametrize("bad", [[-1, 2], [0.5, 0.5], [0, 0], [float("nan"), 1]])
def test_what_is_not_a_count_is_refused(bad):
    with pytest.raises(ValueError, match="counts must be whole numbers"):
        chi_square(bad, [0.5, 0.5])


def test_counts_and_probabilities_of_different_shape_are_refused():
    with pytest.raises(ValueError, match=r"got \(3,\) and \(2,\)"):
        outside([1, 2, 3], [0.5, 0.5])


# -- exact binomial limits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [1, 7, 200])
@pytest.mark.parametrize("false_fail", [1e-6, 0.01, 0.3])
def test_limits_are_the_binomial_quantiles_of_each_cell(samples, false_fail):
    low, high, rate = count_limits(samples, Q, false_fail)
    tail = false_fail / 8
    assert rate == false_fail
    for cell, share in enumerate(Q):
        pmf = reference.binom.pmf(np.arange(samples + 1), samples, share)
        at_most, at_least = np.cumsum(pmf), np.cumsum(pmf[::-1])[::-1]
        assert low[cell] == np.flatnonzero(at_most > tail)[0]
        assert high[cell] == np.flatnonzero(at_least > tail)[-1]


def test_the_family_wise_false_fail_rate_is_kept_exactly():
    """Every sample of 12 draws from three tokens, weighted with its multinomial probability."""
    q, false_fail = [0.6, 0.3, 0.1], 0.05
    samples = [(a, b, 12 - a - b) for a in range(13) for b in range(13 - a)]
    rate = sum(reference.multinomial.pmf(c, 12, q) for c in samples if outside(c, q, false_fail).size)
    assert 0 < rate <= false_fail


def test_a_cell_with_few_expected_counts_is_still_judged_exactly():
    """0.25 counts expected: an honest count that chi-square calls one in 1e12 is within the exact limits."""
    q = np.array([1 - 5e-6, 5e-6])
    low, high, _ = count_limits(50_000, q)
    assert low[1] == 0
    assert reference.binom.sf(high - 1, 50_000, q)[1] > 2.5e-7 >= reference.binom.sf(high, 50_000, q)[1]
    assert chi_square([50_000 - high[1], high[1]], q).p_value < 1e-12
    assert outside([50_000 - high[1], high[1]], q).size == 0


def test_a_count_in_an_impossible_cell_is_always_outside():
    assert outside([50, 49, 1], [0.5, 0.5, 0.0]).tolist() == [2]
    assert outside([50, 50, 0], [0.5, 0.5, 0.0]).size == 0


def test_limits_power_is_that_of_the_most_telling_cell():
    low, high, _ = count_limits(20_000, Q)
    best = max(
        reference.binom.cdf(lo - 1, 20_000, w) + reference.binom.sf(hi, 20_000, w)
        for lo, hi, w in zip(low, high, WRONG, strict=True)
    )
    assert limits_power(20_000, Q, WRONG) == pytest.approx(best, rel=1e-6)
    samples = np.random.default_rng(5).multinomial(20_000, WRONG, size=1000)
    assert np.mean([outside(c, Q).size > 0 for c in samples]) >= best - 0.05
    assert limits_power(20_000, Q, Q) < 1e-6
    assert limits_power(1_000_000, Q, WRONG) == pytest.approx(1.0)


@pytest.mark.parametrize(("samples", "rate"), [(0, 1e-6), (10, 0.0), (10, 1.0)])
def test_limits_without_meaning_are_refused(samples, rate):
    with pytest.raises(ValueError, match="samples must be at least 1 and false_fail in"):
        count_limits(samples, Q, rate)
