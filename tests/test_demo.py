"""The demo: its numbers recomputed another way, its page at 80 columns, its limits."""

import copy
import io
import json
import resource
import subprocess
import sys

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from scipy import stats as reference

from specdec import demo
from specdec.theory.simulate import perturbed_draft, toy_verifier
from specdec.theory.stats import outside


@pytest.fixture(scope="module")
def result():
    return demo.run()


def page(result, **console):
    out = io.StringIO()
    demo.render(result, Console(file=out, **{"width": 80, **console}))
    return out.getvalue()


# -- the numbers -------------------------------------------------------------------------------------------


def test_the_result_is_plain_data(result):
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_the_rejection_rule_is_exact_and_every_wrong_rule_is_not(result):
    exact, *wrong = result["exact"]["rules"]
    assert exact["rule"] == "leviathan"
    assert result["exact_distance"] == exact["distance"] < 1e-12
    assert len(wrong) == 5
    assert min(rule["distance"] for rule in wrong) > 0.01


def test_the_chi_square_is_scipys_of_the_counts_it_shows(result):
    test = result["chi_square"]
    theirs = reference.chisquare(test["observed"], test["expected"])
    assert test["statistic"] == pytest.approx(theirs.statistic)
    assert test["p_value"] == pytest.approx(theirs.pvalue)
    assert test["df"] == 7
    assert test["critical_95"] == pytest.approx(reference.chi2.ppf(0.95, 7))
    assert test["samples"] == sum(test["observed"]) == 50_000
    np.testing.assert_allclose(test["expected"], 50_000 * toy_verifier(8)[0])


def test_the_sample_is_honest_and_the_wrong_rule_is_caught(result):
    test = result["chi_square"]
    assert outside(test["observed"], np.array(test["expected"]) / 50_000).size == 0
    assert test["correction_from_q"]["p_value"] < 1e-12


def test_about_one_batch_in_twenty_exceeds_the_critical_value():
    above = [
        demo.run(seed, samples=20_000)["chi_square"]["batches"]["above_critical_95"] for seed in range(5)
    ]
    assert outside([sum(above), 100 - sum(above)], [0.05, 0.95]).size == 0
    assert sum(above) > 0


def test_acceptance_falls_with_the_noise_and_is_the_overlap_of_p_and_q(result):
    rows, q = result["acceptance_by_draft_quality"], toy_verifier(8)
    assert [row["noise"] for row in rows] == sorted(row["noise"] for row in rows)
    assert (np.diff([row["alpha"] for row in rows]) < 0).all()
    assert (np.diff([row["tokens_per_call"] for row in rows]) < 0).all()
    assert rows[0]["alpha"] == 1.0
    assert rows[0]["tokens_per_call"] == 6.0
    for row in rows:
        overlap = 1 - np.abs(q[0] - perturbed_draft(q, row["noise"])[0]).sum() / 2
        assert row["first_draft_exact"] == pytest.approx(overlap)
        kept = round(row["first_draft"] * 50_000)
        assert outside([kept, 50_000 - kept], [min(overlap, 1.0), max(1 - overlap, 0.0)]).size == 0
        assert row["tokens_per_call_formula"] == pytest.approx(sum(row["alpha"] ** k for k in range(6)))


def test_the_tables_over_alpha_and_n_are_the_formulas(result):
    tokens, times = result["tokens_per_call"], result["wall_time"]
    for table in (tokens, times):
        assert np.shape(table["values"]) == (len(table["alpha"]), len(table["N"]))
    for i, alpha in enumerate(tokens["alpha"]):
        for j, n in enumerate(tokens["N"]):
            expected = sum(alpha**k for k in range(n + 1))
            assert tokens["values"][i][j] == pytest.approx(expected)
            assert times["values"][i][j] == pytest.approx((n * times["c"] + 1) / expected)


def test_the_optimum_of_each_alpha_is_found_and_the_edge_of_the_sweep_is_shown(result):
    for row in result["optimum"]:
        times = [(n * row["c"] + 1) / sum(row["alpha"] ** k for k in range(n + 1)) for n in range(200)]
        assert row["N"] == int(np.argmin(times))
        assert row["speedup"] == pytest.approx(1 / min(times))
        assert row["sweep"]["N"] == int(np.argmin(times[:11]))
    (edge,) = (row for row in result["optimum"] if row["alpha"] == 0.9)
    assert (edge["N"], edge["sweep"]["N"]) == (15, 10)
    assert (edge["speedup"], edge["sweep"]["speedup"]) == pytest.approx((5.092, 4.901), abs=5e-4)


def test_the_traced_ledger_adds_up_round_by_round(result):
    ledger, cached, tokens = result["ledger"], 0, 1
    assert ledger["cached_is_tokens_minus_one"]
    assert ledger["cache_matches_tokens"]
    assert ledger["verifier_calls"] == ledger["sequences"] * ledger["rounds"]
    assert ledger["tokens_per_call"] == pytest.approx(ledger["new_tokens"] / ledger["verifier_calls"])
    for row in ledger["trace"]:
        tokens += row["accepted"] + 1
        assert row["written"] == cached + 6
        cached = row["written"] - row["rolled_back"]
        assert row["rolled_back"] == 5 - row["accepted"]
        assert (row["cached"], row["tokens"]) == (cached, tokens)
        assert cached == tokens - 1


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    first, again, other = (demo.run(seed, samples=500) for seed in (3, 3, 4))
    assert first == again
    assert first["chi_square"]["observed"] != other["chi_square"]["observed"]
    assert first["exact"] != other["exact"]


# -- the page ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"samples": 1, "vocab": 2, "draft_length": 1},
        {"samples": 10_000, "vocab": 200, "draft_length": 16},
        {"samples": 1000, "vocab": 1000, "draft_length": 32, "seed": 2**32 - 1},
    ],
)
def test_the_page_fits_eighty_columns_without_cutting_a_cell(options):
    lines = page(demo.run(**options)).splitlines()
    assert max(cell_len(line) for line in lines) <= 80
    assert not any("…" in line for line in lines)


def test_the_page_does_not_grow_with_the_terminal(result):
    assert page(result, width=200) == page(result)


def test_the_page_is_plain_where_there_is_no_colour(result, monkeypatch):
    assert "\x1b" not in page(result)
    assert "\x1b[1;32m" in page(result, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;32m" not in page(result, force_terminal=True, color_system="standard")


def test_the_page_tells_the_test_and_what_it_is_worth(result):
    text, test = " ".join(page(result).split()), result["chi_square"]
    assert f"chi-square {test['statistic']:.2f}, 7 degrees of freedom, 95% critical value 14.07" in text
    assert f"p-value {test['p_value']:.3g}" in text
    assert "An honest run exceeds it once in twenty" in text
    assert "This run is below the 95% value." in text


def test_a_run_above_the_critical_value_is_called_that(result):
    unlucky = copy.deepcopy(result)
    unlucky["chi_square"]["statistic"] = 20.0
    assert "This run is above the 95% value." in " ".join(page(unlucky).split())


def test_a_ledger_that_does_not_hold_is_called_that(result):
    broken = copy.deepcopy(result)
    broken["ledger"]["cache_matches_tokens"] = False
    assert "It did not hold after all 50 rounds" in " ".join(page(broken).split())


def test_a_small_sample_is_warned_about(result):
    assert "take more samples" in page(demo.run(samples=100))
    assert "take more samples" not in page(result)


# -- limits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"samples": 0}, "samples must be a whole number from 1 to 1,000,000, got 0."),
        ({"samples": 10.5}, "samples must be a whole number from 1 to 1,000,000, got 10.5."),
        ({"vocab": 1}, "vocab must be a whole number from 2 to 1,000, got 1."),
        ({"draft_length": 0}, "draft length must be a whole number from 1 to 32, got 0."),
        ({"draft_length": True}, "draft length must be a whole number from 1 to 32, got True."),
        ({"seed": -1}, "seed must be a whole number from 0 to 4,294,967,295, got -1."),
    ],
)
def test_options_without_meaning_are_refused_in_one_sentence(options, sentence):
    with pytest.raises(ValueError, match="must be a whole number") as refusal:
        demo.run(**options)
    assert str(refusal.value) == sentence


def test_the_demo_needs_no_torch_and_takes_less_than_three_seconds():
    """A fresh interpreter where torch cannot be imported; processor time, so that neighbours do not count."""
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from rich.console import Console; from specdec import demo\n"
        "demo.render(demo.run(), Console())\n"
        "assert 'scipy.stats' not in sys.modules, 'half a second of imports for nothing'\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert "cached = tokens - 1" in done.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3
