"""Expected tokens, wall time and optimal draft length against the paper's tables and against enumeration."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from specdec.theory.speedup import (
    expected_tokens,
    measured_cost,
    operations,
    optimal_n,
    speedup,
    wall_time,
)

VECTORS = json.loads((Path(__file__).parent / "data" / "vectors.json").read_text(encoding="utf-8"))
EXPECTED = VECTORS["expected_tokens"]
TABLE_1 = VECTORS["leviathan_table1"]["rows"]
TABLES_2_4 = [
    pytest.param(float(block.rpartition("_c")[2]), *row[:3], id=f"{block}-{task}")
    for block, rows in VECTORS["leviathan_tables_2_4"].items()
    if block != "source"
    for task, row in rows.items()
]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("n", range(6))
def test_expected_tokens_is_the_mean_over_every_pattern_of_acceptances(alpha, n):
    mean = 0.0
    for kept in itertools.product([True, False], repeat=n):
        share = np.prod([alpha if k else 1 - alpha for k in kept])
        mean += share * (len(list(itertools.takewhile(bool, kept))) + 1)
    assert expected_tokens(alpha, n) == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-13])
def test_expected_tokens_keeps_its_digits_close_to_alpha_one(gap):
    alpha = 1 - gap
    assert expected_tokens(alpha, 50) == pytest.approx(sum(alpha**k for k in range(51)), rel=1e-12)


def test_expected_tokens_broadcasts_over_arrays():
    table = expected_tokens(np.array([[0.6], [1.0]]), [1, 5])
    np.testing.assert_allclose(table, [[1.6, 2.38336], [2, 6]])


@pytest.mark.parametrize(("alpha", "tokens"), EXPECTED["tokens_at_N5"].items())
def test_tokens_at_n_5_are_the_published_ones(alpha, tokens):
    assert expected_tokens(float(alpha), 5) == pytest.approx(tokens, abs=5e-6)


@pytest.mark.parametrize("row", TABLE_1, ids=lambda row: f"{row['alpha']}-{row['gamma']}")
def test_leviathan_table_1(row):
    """Two printed digits: half of the last one is the tolerance."""
    assert speedup(row["alpha"], row["gamma"], c=0) == pytest.approx(row["speed"], abs=0.005)
    assert operations(row["alpha"], row["gamma"]) == pytest.approx(row["operations"], abs=0.005)


@pytest.mark.parametrize(("c", "gamma", "alpha", "expected"), TABLES_2_4)
def test_leviathan_tables_2_and_4_expected_speedup(c, gamma, alpha, expected):
    """Printed digits stand for an interval: alpha +- 0.005, c +- 0.005, speedup +- 0.05. The formula must map
    some point of the first two into the third. Without the rounding of c one row of twelve would not fit."""
    lowest = speedup(alpha - 0.005, gamma, c + 0.005)
    highest = speedup(alpha + 0.005, gamma, c - 0.005)
    assert lowest <= expected + 0.05
    assert highest >= expected - 0.05


@pytest.mark.parametrize("row", EXPECTED["optimum"], ids=lambda row: f"{row['alpha']}-{row['c']}")
def test_the_optimum_is_the_published_one(row):
    assert optimal_n(row["alpha"], row["c"]) == row["N"]
    assert speedup(row["alpha"], row["N"], row["c"]) == pytest.approx(row["speedup"], abs=5e-8)


def test_the_sweep_to_ten_is_the_published_one():
    sweep = EXPECTED["sweep_alpha0.9_c0.04"]
    times = wall_time(0.9, np.array([int(n) for n in sweep]), 0.04)
    np.testing.assert_allclose(times, list(sweep.values()), rtol=0, atol=5e-6)


def test_a_sweep_that_ends_too_early_puts_the_minimum_on_its_edge():
    assert optimal_n(0.9, 0.04, max_n=10) == 10
    assert speedup(0.9, 10, 0.04) == pytest.approx(4.901, abs=5e-4)
    assert optimal_n(0.9, 0.04) == 15
    assert speedup(0.9, 15, 0.04) == pytest.approx(5.092, abs=5e-4)


def test_plain_decoding_is_best_where_drafts_cost_as_much_as_they_save():
    assert optimal_n(0.5, 1.0) == 0
    assert optimal_n(0.0, 0.0) == 0
    assert speedup(0.7, 0, 0.3) == 1.0


@pytest.mark.parametrize(("alpha", "c"), [(0.9, 0.0), (1.0, 0.5)])
def test_free_or_perfect_drafts_have_no_best_length(alpha, c):
    with pytest.raises(ValueError, match="pass max_n"):
        optimal_n(alpha, c)
    assert optimal_n(alpha, c, max_n=12) == 12


def test_verification_that_is_not_free_shortens_the_best_draft():
    def cost(n):
        return 1 + 0.1 * (n - 1)

    assert wall_time(0.9, 3, 0.04, V=cost) == pytest.approx((3 * 0.04 + 1.3) / (1 + 0.9 + 0.81 + 0.729))
    times = [(n * 0.04 + cost(n + 1)) / sum(0.9**k for k in range(n + 1)) for n in range(33)]
    best = optimal_n(0.9, 0.04, V=cost, max_n=32)
    assert best == times.index(min(times))
    assert 0 < best < 15


def test_a_constant_measured_cost_is_the_textbook():
    flat = measured_cost([1, 64], [30.0, 30.0])
    assert optimal_n(0.8, 0.05, V=flat, max_n=63) == 8


def test_a_measured_cost_is_in_units_of_one_token_and_linear_between_widths():
    cost = measured_cost([1, 8, 16], [30.0, 37.0, 44.0])
    assert cost(1) == 1.0
    assert cost(8) == pytest.approx(37 / 30)
    assert cost(12) == pytest.approx(40.5 / 30)


def test_a_measured_cost_is_not_extrapolated():
    cost = measured_cost([1, 8], [30.0, 37.0])
    with pytest.raises(ValueError, match=r"V\(9\) was not measured: widths go from 1 to 8"):
        wall_time(0.8, 8, 0.05, V=cost)
    with pytest.raises(ValueError, match="with a measured V, pass max_n"):
        optimal_n(0.8, 0.05, V=cost)


@pytest.mark.parametrize(("widths", "times"), [([2, 4], [1, 2]), ([1, 1], [1, 2]), ([1, 2], [1]), ([], [])])
def test_widths_that_do_not_rise_from_one_are_refused(widths, times):
    with pytest.raises(ValueError, match="widths must rise from 1"):
        measured_cost(widths, times)


def test_times_that_are_not_positive_are_refused():
    with pytest.raises(ValueError, match="positive milliseconds"):
        measured_cost([1, 2], [1.0, float("nan")])


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: expected_tokens(1.1, 3), "alpha must be a probability"),
        (lambda: expected_tokens(float("nan"), 3), "alpha must be a probability"),
        (lambda: expected_tokens(0.5, -1), "draft length N must be a whole number"),
        (lambda: expected_tokens(0.5, 2.5), "draft length N must be a whole number"),
        (lambda: wall_time(0.5, 2, -0.1), "c, the cost of a draft pass"),
        (lambda: optimal_n(0.5, 0.1, max_n=-1), "draft length N must be a whole number"),
    ],
)
def test_numbers_without_meaning_are_refused(call, reason):
    with pytest.raises(ValueError, match=reason):
        call()
