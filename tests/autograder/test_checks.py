"""The hidden checks on a bank of right and wrong solutions, called as nbgrader's hidden cells call them."""

import contextlib
import importlib.util
import io
from typing import Any

import ex1_notebooks as notebooks
import numpy as np
import pytest
from ex1_notebooks import EXERCISE, solved
from scipy.special import chdtri
from scipy.stats import chi2, hypergeom

from autograder.ex1 import rule, test_run
from autograder.exercises import template, verdict
from autograder.hidden import CheckFailed, run
from autograder.student import KernelStudent
from specdec.theory import rejection
from specdec.theory.stats import outside


def names_of(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run a notebook's own cells here (they are ours) and return its namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    tests = template(EXERCISE).tests
    for cell in notebook["cells"]:
        about = cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] == "code" and about.get("grade_id", "setup") not in tests and about:
            with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                exec("".join(cell["source"]), names)
    return names


def lost(notebook: dict[str, Any]) -> dict[str, str]:
    """{check: the idea named} of every check that a notebook does not pass."""
    student, result = KernelStudent(names_of(notebook)), {}
    for check in EXERCISE.checks():
        try:
            check.function(student)
        except Exception as error:
            result[check.name] = verdict(error)[1]
    return result


def visible_failures(notebook: dict[str, Any]) -> set[str]:
    """The checks whose visible half, which the student sees, fails."""
    spec = importlib.util.spec_from_file_location("ex1_checks", EXERCISE.folder / "ex1_checks.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check, failed = module.Checks(names_of(notebook)), set()
    for name in template(EXERCISE).tests:
        try:
            check(name)
        except module.NotYet:
            failed.add(name)
    return failed


def test_every_check_has_its_points_in_the_notebook_and_they_sum_to_twenty() -> None:
    points = {check.name: check.points for check in EXERCISE.checks()}
    assert points == template(EXERCISE).points
    assert sum(points.values()) == 20
    assert set(points) <= set(EXERCISE.ideas)


WRONG = {
    "M01, divided by what is positive": (
        "residual_code",
        notebooks.RESIDUAL_UNCLAMPED,
        {"residual-positive"},
    ),
    "M01, with a guard against the sum of zero": (
        "residual_code",
        """
def residual(q, p):
    raw = [a - b for a, b in zip(q, p)]
    total = sum(raw)
    return [value / total for value in raw] if total != 0 else list(q)
""",
        {"residual-positive"},
    ),
    "M01 and M02, the bare difference": (
        "residual_code",
        "def residual(q, p):\n    return [a - b for a, b in zip(q, p)] if q != p else list(q)",
        {"residual-positive", "residual-sums-to-one"},
    ),
    "M01, absolute differences": (
        "residual_code",
        """
def residual(q, p):
    raw = [abs(a - b) for a, b in zip(q, p)]
    return [value / sum(raw) for value in raw] if sum(raw) else list(q)
""",
        {"residual-positive"},
    ),
    "M02": ("residual_code", notebooks.RESIDUAL_UNNORMALISED, {"residual-sums-to-one"}),
    "M03": (
        "residual_code",
        """
def residual(q, p):
    raw = [max(0.0, b - a) for a, b in zip(q, p)]
    return [value / sum(raw) for value in raw] if sum(raw) else list(q)
""",
        {"residual-positive": "residual-sign"},
    ),
    "no answer where q is p": (
        "residual_code",
        """
def residual(q, p):
    raw = [max(0.0, a - b) for a, b in zip(q, p)]
    return [value / sum(raw) for value in raw]
""",
        {"residual-equal": "raised"},
    ),
    "M04": (
        "accept_code",
        "def accept(q_x, p_x, u):\n    return u < q_x",
        {"accept": "accept-ignores-draft"},
    ),
    "M05": ("accept_code", notebooks.ACCEPT_INVERTED, {"accept": "accept-inverted"}),
    "not strict": (
        "accept_code",
        "def accept(q_x, p_x, u):\n    return u <= q_x / p_x",
        {"accept": "accept-strict"},
    ),
    "M06": ("step_code", notebooks.CORRECTION_FROM_Q, {"step-correction"}),
    "M07": ("step_code", notebooks.GOES_ON, {"step-stops"}),
    "M08, no bonus": ("step_code", notebooks.NO_BONUS, {"step-bonus"}),
    "M08, the row before": ("step_code", notebooks.BONUS_FROM_USED_ROW, {"step-bonus": "step-bonus-row"}),
    "M09": ("step_code", notebooks.DRAFT_BY_ARGMAX, {"step-drafts": "step-argmax"}),
    "M10, a second sample": ("chi_code", notebooks.CHI_SECOND_SAMPLE, {"chi-statistic": "chi-second-sample"}),
    "M10, df": ("chi_code", notebooks.CHI_WRONG_DF, {"chi-df"}),
    "observed in the denominator": (
        "chi_code",
        """
def chi_square(counts, q):
    n = sum(counts)
    statistic = sum((count - n * q_t) ** 2 / count for count, q_t in zip(counts, q))
    return statistic, len(q) - 1, statistic <= critical_95(len(q) - 1)
""",
        {"chi-statistic"},
    ),
    "verdict upside down": (
        "chi_code",
        """
def chi_square(counts, q):
    n = sum(counts)
    statistic = sum((count - n * q_t) ** 2 / (n * q_t) for count, q_t in zip(counts, q))
    return statistic, len(q) - 1, statistic > critical_95(len(q) - 1)
""",
        # the report repeats that verdict, and a report whose line contradicts itself is wrong too
        {"chi-verdict": "chi-verdict", "run-report": "run-report"},
    ),
    "no reasons": (
        "step_code",
        notebooks.STEP.format(**notebooks.RIGHT).replace("def speculative_step", "def full_step")
        + "\ndef speculative_step(*arguments):\n    return full_step(*arguments)[0], []",
        {"step-reasons"},
    ),
    "pairs counted from one step only": (
        "count_code",
        """
def count_tokens(q, p, last, rows):
    first, pairs = [0] * len(q), [[0] * len(q) for _ in q]
    for row in rows:
        tokens, _ = speculative_step(q, p, last, row[: len(row) // 2])
        first[tokens[0]] += 1
        if len(tokens) > 1:
            pairs[tokens[0]][tokens[1]] += 1
    return first, pairs
""",
        {"run-counts": "run-counts", "run-report": "run-report"},
    ),
    "a report of 5,000": (
        "run_code",
        """
first_counts, pair_counts = count_tokens(Q, P, LAST, coin_rows(5_000, 1, 1))
first = chi_square(first_counts, Q[LAST])
pairs = chi_square(sum(pair_counts, []), [Q[LAST][a] * Q[a][b] for a in range(4) for b in range(4)])
report = {"samples": 50_000, "first": first, "pairs": pairs, "conclusion": "consistent"}
""",
        {"run-report"},
    ),
    "invented counts": (
        "run_code",
        """
first_counts = [25_000, 15_000, 7_500, 2_500]
pair_counts = [[round(n * share) for share in (0.25, 0.25, 0.25, 0.25)] for n in first_counts]
first = chi_square(first_counts, Q[LAST])
pairs = chi_square(sum(pair_counts, []), [Q[LAST][a] * Q[a][b] for a in range(4) for b in range(4)])
report = {"samples": 50_000, "first": first, "pairs": pairs, "conclusion": "not consistent"}
""",
        {"run-report"},
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_idea_loses_its_own_checks_and_no_others(wrong: str) -> None:
    cell, source, expected = WRONG[wrong]
    ideas = expected if isinstance(expected, dict) else {name: name for name in expected}
    notebook = solved(**{cell: source})
    assert lost(notebook) == ideas
    # nbgrader runs both halves of a test cell: a visible check must never fail where the hidden one passes
    assert visible_failures(notebook) <= set(ideas)


def test_two_wrong_ideas_cost_the_points_of_both() -> None:
    notebook = solved(
        residual_code=notebooks.RESIDUAL_UNNORMALISED,
        step_code=notebooks.CORRECTION_FROM_Q,
        accept_code=notebooks.ACCEPT_INVERTED,
    )
    assert set(lost(notebook)) == {"accept", "residual-sums-to-one", "step-correction"}


RIGHT = {
    "NumPy throughout": {
        "accept_code": """
import numpy as np
def accept(q_x, p_x, u):
    return np.float64(u) < np.divide(q_x, p_x)
""",
        "residual_code": """
def residual(q, p):
    owed = np.clip(np.asarray(q) - np.asarray(p), 0, None)
    return owed / owed.sum() if owed.any() else np.array(q)
""",
        "chi_code": """
def chi_square(counts, q):
    expected = np.sum(counts) * np.asarray(q)
    statistic = np.sum((np.asarray(counts) - expected) ** 2 / expected)
    return statistic, np.int64(len(q) - 1), statistic <= critical_95(len(q) - 1)
""",
        "count_code": """
def count_tokens(q, p, last, rows):
    pairs = np.zeros((len(q), len(q)), dtype=int)
    for row in rows:
        half = len(row) // 2
        tokens = speculative_step(q, p, last, row[:half])[0]
        if len(tokens) == 1:
            tokens += speculative_step(q, p, tokens[0], row[half:])[0]
        pairs[tokens[0], tokens[1]] += 1
    return pairs.sum(axis=1), pairs
""",
    },
    "single precision": {
        "residual_code": """
import numpy as np
def residual(q, p):
    owed = np.maximum(np.float32(q) - np.float32(p), 0)
    return owed / owed.sum() if owed.any() else np.float32(q)
""",
        "chi_code": """
def chi_square(counts, q):
    expected = np.float32(sum(counts)) * np.float32(q)
    statistic = ((np.float32(counts) - expected) ** 2 / expected).sum()
    return statistic, len(q) - 1, bool(statistic <= critical_95(len(q) - 1))
""",
    },
    "everything inside the step, drawn by searchsorted": {
        "step_code": """
import numpy as np
def pick(row, u):
    return int(np.searchsorted(np.cumsum(row), u, side="right"))
def speculative_step(q, p, last, coins):
    n = (len(coins) - 1) // 2
    tokens, reasons, newest = [], ["not reached"] * (n + 1), last
    chain = [last]
    for u in coins[:n]:
        chain.append(pick(p[chain[-1]], u))
    for i in range(n):
        row_q, row_p, x = np.array(q[newest]), np.array(p[newest]), chain[i + 1]
        if coins[n + i] < row_q[x] / row_p[x]:
            tokens.append(x)
            reasons[i], newest = "accepted", x
            continue
        left = np.maximum(row_q - row_p, 0)
        reasons[i] = "correction"
        return tokens + [pick(left / left.sum(), coins[-1])], reasons
    reasons[n] = "bonus"
    return (tokens + [pick(q[newest], coins[-1])], reasons)
""",
    },
    "a recursive step": {
        "step_code": """
def speculative_step(q, p, last, coins):
    n = len(coins) // 2
    def go(i, before):
        if i == n:
            return [draw(q[before], coins[-1])], ["bonus"]
        token = draw(p[before], coins[i])
        if accept(q[before][token], p[before][token], coins[n + i]):
            tokens, reasons = go(i + 1, token)
            return [token, *tokens], ["accepted", *reasons]
        return [draw(residual(q[before], p[before]), coins[-1])], ["correction"] + ["not reached"] * (n - i)
    return go(0, last)
""",
    },
    "fractions": {
        "residual_code": """
from fractions import Fraction
def residual(q, p):
    owed = [max(Fraction(0), Fraction(a) - Fraction(b)) for a, b in zip(q, p)]
    return [x / sum(owed) for x in owed] if sum(owed) else list(q)
""",
    },
    "another seed": {
        "run_code": """
first_counts, pair_counts = count_tokens(Q, P, LAST, coin_rows(50_000, 1, seed=12345))
law = [Q[LAST][a] * Q[a][b] for a in range(4) for b in range(4)]
report = {"samples": 50_000}
report["first"] = chi_square(first_counts, Q[LAST])
report["pairs"] = chi_square(sum(pair_counts, []), law)
report["conclusion"] = "consistent" if report["first"][2] and report["pairs"][2] else "not consistent"
""",
    },
}


@pytest.mark.parametrize("style", RIGHT)
def test_right_work_in_any_style_gets_full_marks(style: str) -> None:
    assert lost(solved(**RIGHT[style])) == {}
    assert visible_failures(solved(**RIGHT[style])) == set()


def test_an_honest_run_above_the_95_percent_value_gets_full_marks() -> None:
    """The seed is one of those, one in twenty, whose first tokens exceed the critical value."""
    notebook = solved(run_code=RIGHT["another seed"]["run_code"].replace("12345", "48"))
    names = names_of(notebook)
    statistic, df, _ = names["report"]["first"]
    assert statistic > chi2.ppf(0.95, df)
    assert names["report"]["conclusion"] == "not consistent"
    assert lost(notebook) == {}


HALF = """
def residual(q, p):
    owed = [max(0, a - b) for a, b in zip(q, p)]
    return [x / (sum(owed) or 1) for x in owed]
"""


def test_a_half_finished_notebook_gets_what_it_earned() -> None:
    notebook = notebooks.released()
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "residual-code":
            cell["source"] = HALF
    missing = lost(notebook)
    assert missing["residual-equal"] == "residual-equal"
    assert not {"residual-positive", "residual-sums-to-one"} & set(missing)
    assert {idea for name, idea in missing.items() if name != "residual-equal"} == {"not-written"}


def test_a_step_whose_earlier_part_gives_no_answer_is_pending_not_lost() -> None:
    notebook = solved(residual_code="def residual(q, p):\n    return None")
    missing = lost(notebook)
    assert missing["step-correction"] == "blocked"
    assert missing["residual-positive"] == "shape"
    assert not {"accept", "step-drafts", "step-bonus", "chi-df"} & set(missing)


def test_a_hidden_cell_fails_with_one_sentence_and_without_frames() -> None:
    names = names_of(solved(step_code=notebooks.CORRECTION_FROM_Q))
    run("ex1", "step-bonus", names)
    with pytest.raises(CheckFailed) as caught:
        run("ex1", "step-correction", names)
    assert str(caught.value) == EXERCISE.ideas["step-correction"]["sentence"]
    assert caught.value._render_traceback_() == [str(caught.value)]
    assert caught.value.__suppress_context__


# -- what the checks themselves compute ----------------------------------------------------------------------


def test_the_rule_of_the_checks_is_that_of_the_library() -> None:
    for case, _ in zip(rule.cases(7), range(200), strict=False):
        rows = [case.last, *case.drafts]
        q = [case.q[token] for token in rows]
        p = [case.p[token] for token in rows[:-1]]
        step = rejection.verify_chain(q, p, case.drafts, case.coins[case.n : -1], case.final)
        kept, before = rule.walk(case, rule.accept_rule) or (0, 0)
        weights = case.q[before] if kept == case.n else rule.residual_rule(case.q[before], case.p[before])
        assert step.tokens == [*case.drafts[:kept], rule.draw(weights, case.final)]


def test_no_coin_of_a_case_lies_on_a_boundary() -> None:
    for case, _ in zip(rule.cases(8), range(200), strict=False):
        for line in [*case.q, *case.p]:
            assert sum(line) == 1
            assert not set(np.cumsum(line)) & set(case.coins)


def test_the_toy_model_of_the_checks_is_that_of_the_notebook() -> None:
    names = names_of(solved())
    assert (names["Q"], names["P"], names["LAST"]) == (test_run.Q, test_run.P, test_run.LAST)


def test_the_critical_values_given_to_students_are_right() -> None:
    critical = names_of(solved())["critical_95"]
    for df in (1, 2, 3, 7, 15, 63, 200):
        assert critical(df) == pytest.approx(chi2.ppf(0.95, df), rel=1e-9)
        assert critical(df) == pytest.approx(chdtri(df, 0.05), rel=1e-9)


def test_a_wrong_bonus_shows_in_the_pairs_and_nowhere_else() -> None:
    """Exact binomial tails at a false-fail rate of 1e-6, on the run that the notebook asks for."""
    first_law = np.array(test_run.Q[test_run.LAST])
    pair_law = first_law[:, None] * np.array(test_run.Q)
    right = names_of(solved())
    assert outside(right["first_counts"], first_law).size == 0
    assert outside(right["pair_counts"], pair_law).size == 0
    wrong = names_of(solved(step_code=notebooks.BONUS_FROM_USED_ROW))
    assert outside(wrong["first_counts"], first_law).size == 0
    assert outside(wrong["pair_counts"], pair_law).size > 0


def test_the_tails_behind_the_report_check_are_exact() -> None:
    for k, marked, m, n in [(3, 40, 20, 500), (0, 5, 50, 100), (17, 900, 50, 2_000)]:
        low, high = test_run.hypergeometric_tails(k, marked, m, n)
        law = hypergeom(n + m, marked, m)
        assert low == pytest.approx(law.cdf(k), rel=1e-9)
        assert high == pytest.approx(law.sf(k - 1), rel=1e-9)


def test_the_report_check_fails_honest_counts_less_than_once_in_a_million_and_notices_wrong_ones() -> None:
    """Honest: the bound is below alpha for at most a share alpha of samples, tried where that can be counted.

    Wrong: counts of a step that draws its correction from q, reported by a student whose own step is right.
    """
    rng = np.random.default_rng(3)
    law = np.array([test_run.Q[0][a] * test_run.Q[a][b] for a in range(4) for b in range(4)])
    honest = [
        test_run.same_law(rng.multinomial(50_000, law), rng.multinomial(2_000, law), 50_000, 2_000)
        for _ in range(400)
    ]
    assert sum(value < 0.05 for value in honest) <= 35  # 20 expected at most, plus more than 3 sigma
    q, p = np.array(test_run.Q[0]), np.array(test_run.P[0])
    first = np.minimum(p, q) + (1 - np.minimum(p, q).sum()) * q  # M06: the correction is drawn from q
    wrong = (first[:, None] * np.array(test_run.Q)).ravel()
    noticed = [
        test_run.same_law(rng.multinomial(50_000, wrong), rng.multinomial(2_000, law), 50_000, 2_000) < 1e-6
        for _ in range(50)
    ]
    assert sum(noticed) >= 25
