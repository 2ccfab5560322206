"""Visible checks of exercise 1: they say in a sentence what is missing. Standard library only.

    check = Checks(globals())
    check("residual-positive")

A check prints one line when all is well; otherwise it raises NotYet, whose message is that sentence. A later part is
checked given your earlier parts: where your accept or your residual is wrong, a step that uses it correctly is right.
Lists and arrays are both welcome. The sentences live in ex1_ideas.json, next to this file. After you hand in, hidden
checks ask the same questions about other numbers.
"""

import contextlib
import json
import math
import sys
from pathlib import Path

IDEAS = json.loads((Path(__file__).parent / "ex1_ideas.json").read_text(encoding="utf-8"))

TOLERANCE = 1e-4  # float32 answers are welcome; a wrong rule is off by far more

# The worked examples of the notebook and two more: the newest token; N draft coins, N accept coins and the final coin;
# how many drafts are kept; the token after these.
REJECTED = (
    0,
    [0.30, 0.40, 0.50, 0.90, 0.30],
    1,
    1,
)  # sun, sun: the second one is rejected, cloud replaces it
REJECTED_FIRST = (0, [0.30, 0.40, 0.90, 0.50, 0.30], 0, 1)  # the same drafts: the first one is rejected
KEPT = (3, [0.30, 0.50, 0.60, 0.40, 0.52], 2, 2)  # cloud, rain: both are kept, then a bonus
UNLIKELY = (0, [0.75, 0.10, 0.00, 0.00, 0.50], 2, 0)  # drafts that are not the most likely ones: cloud, sun


class NotYet(Exception):
    """One sentence about what is missing. Jupyter shows the sentence alone, without a traceback."""

    def __init__(self, idea, detail=""):
        entry = IDEAS[idea]
        seen = f"{detail} " if detail else ""
        where = f"chapter {entry['page']}, {entry['section']}"
        super().__init__(f"Not yet ({entry['title']}): {seen}{entry['sentence']} Read again: {where}.")

    def _render_traceback_(self):
        return [str(self)]


class Checks:
    """Run the visible check of one idea on the functions and variables of a notebook."""

    def __init__(self, names):
        self.names = names

    def __call__(self, idea):
        try:
            with contextlib.redirect_stderr(sys.stdout):
                CHECKS[idea](self.names)
        except NotYet:
            raise
        except NotImplementedError:
            raise NotYet("not-written") from None
        except Exception as error:
            raise NotYet("raised", f"{type(error).__name__}: {error}.") from None
        print(f"ok: {IDEAS[idea]['title']}")


# -- task 1 and 2 ------------------------------------------------------------------------------------------------------


def check_accept(names):
    accept = find(names, "accept")
    for q_x, p_x, u, expected in [
        (0.5, 0.7, 0.71, True),
        (0.5, 0.7, 0.72, False),
        (0.3, 0.1, 0.99, True),
        (0.25, 0.5, 0.5, False),
        (0.0, 0.4, 0.0, False),
    ]:
        if bool(accept(q_x, p_x, u)) != expected:
            raise NotYet("accept", f"accept({q_x}, {p_x}, {u}) must be {expected}.")


def check_residual_positive(names):
    owed = vector(find(names, "residual")([0.5, 0.3, 0.15, 0.05], [0.7, 0.1, 0.1, 0.1]), 4)
    for token in (0, 3):
        if abs(owed[token]) > TOLERANCE:
            raise NotYet(
                "residual-positive",
                f"In the example, token {token} must get 0, yours gets {owed[token]:.3g}.",
            )
    if not (owed[1] > 0 and owed[2] > 0 and math.isclose(owed[1], 4 * owed[2], rel_tol=TOLERANCE)):
        raise NotYet("residual-positive", "In the example, token 1 must get four times as much as token 2.")


def check_residual_sums_to_one(names):
    q, p = [0.5, 0.25, 0.125, 0.125], [0.75, 0.125, 0.0625, 0.0625]
    owed = vector(find(names, "residual")(list(q), list(p)), 4)
    total = sum(max(0.0, value) for value in owed)
    if not math.isclose(total, 1.0, rel_tol=TOLERANCE):
        raise NotYet(
            "residual-sums-to-one", f"For q = {q} and p = {p} the positive entries sum to {total:.3g}."
        )


def check_residual_equal(names):
    q = [0.5, 0.25, 0.25]
    owed = vector(find(names, "residual")(list(q), list(q)), 3)
    if any(abs(got - want) > TOLERANCE for got, want in zip(owed, q)):
        raise NotYet("residual-equal")


# -- task 3 ------------------------------------------------------------------------------------------------------------


def check_step_drafts(names):
    tokens, _ = run_step(names, UNLIKELY)
    if not any(tokens[:kept] == drafts[:kept] for drafts, kept, _ in readings(names, UNLIKELY)):
        raise NotYet("step-drafts", f"With {UNLIKELY[1]} after token 0 the drafts are [1, 0].")


def check_step_stops(names):
    for example in (REJECTED, REJECTED_FIRST):
        tokens, _ = run_step(names, example)
        for drafts, kept, _ in readings(names, example):
            # after full acceptance the bonus is the business of another check
            lengths = (kept + 1,) if kept < len(drafts) else (kept, kept + 1)
            if tokens[:kept] == drafts[:kept] and len(tokens) in lengths:
                break
        else:
            raise NotYet(
                "step-stops", f"With the coins {example[1]} after token {example[0]} you emit {tokens}."
            )


def check_step_correction(names):
    tokens, _ = run_step(names, REJECTED)
    for drafts, kept, before in readings(names, REJECTED):
        if kept == len(drafts) and tokens[:kept] == drafts:
            return
        if kept < len(drafts) and set(tokens[kept : kept + 1]) & corrections(names, before, kept):
            return
    raise NotYet("step-correction", "Look at the first example.")


def check_step_bonus(names):
    tokens, _ = run_step(names, KEPT)
    for drafts, kept, _ in readings(names, KEPT):
        if kept < len(drafts) or tokens[kept:] == [KEPT[3]]:
            return
    raise NotYet("step-bonus" if len(tokens) < 3 else "step-bonus-row", "Look at the second example.")


def check_step_reasons(names):
    for example in (REJECTED, KEPT):
        tokens, reasons = run_step(names, example)
        if not any(
            consistent(reasons, tokens, kept, len(drafts)) for drafts, kept, _ in readings(names, example)
        ):
            raise NotYet("step-reasons", f"In an example your reasons are {reasons}.")


def consistent(reasons, tokens, kept, n):
    """Do the reasons describe a step that kept `kept` of n drafts and emitted these tokens?"""
    if not isinstance(reasons, list) or len(reasons) != n + 1 or reasons[:kept] != ["accepted"] * kept:
        return False
    last, rest = reasons[kept], reasons[kept + 1 :]
    fits = last == ("bonus" if kept == n else "correction") or (
        last == "not reached" and len(tokens) == kept == n
    )
    return fits and all(
        (word == "not reached") == (kept + 1 + i >= len(tokens)) for i, word in enumerate(rest)
    )


def readings(names, example):
    """How a right step goes in an example, given your accept and given the rule: drafts, number kept, last row."""
    last, coins, right, _ = example
    q, p, draw = names["Q"], names["P"], names["draw"]
    n = len(coins) // 2
    rows = [last]
    for u in coins[:n]:
        rows.append(draw(p[rows[-1]], u))
    drafts = rows[1:]
    yours = right
    with contextlib.suppress(Exception):  # where your accept gives no answer, the rule alone decides
        keeps = [names["accept"](q[t][x], p[t][x], u) for t, x, u in zip(rows, drafts, coins[n:])]
        yours = next((i for i, keep in enumerate(keeps) if not keep), n)
    return [(drafts, kept, rows[kept]) for kept in (yours, right)]


def corrections(names, before, kept):
    """The tokens that a right step may emit in place of the rejected draft of the first example.

    The right one if the right draft was rejected, and what can be read off your own residual, even off a wrong one.
    """
    u, draw = REJECTED[1][-1], names["draw"]
    allowed = {REJECTED[3]} if kept == REJECTED[2] else set()
    with contextlib.suppress(Exception):
        yours = vector(names["residual"](list(names["Q"][before]), list(names["P"][before])), len(names["Q"]))
        clamped = [max(0.0, value) for value in yours]
        total = sum(clamped) or 1.0
        allowed |= {draw(weights, u) for weights in (yours, clamped, [value / total for value in clamped])}
    return allowed


# -- task 4 and 5 ------------------------------------------------------------------------------------------------------


def check_chi_statistic(names):
    statistic, _, _ = test_result(names, [30, 50, 20], [0.25, 0.5, 0.25])
    if not math.isclose(statistic, 2.0, rel_tol=TOLERANCE):
        raise NotYet("chi-statistic", f"In the example the statistic is 2.0, yours is {statistic:.4g}.")


def check_chi_df(names):
    _, df, _ = test_result(names, [30, 50, 20], [0.25, 0.5, 0.25])
    if df != 2:
        raise NotYet("chi-df", f"In the example df is 2, yours is {df:g}.")


def check_chi_verdict(names):
    for counts in ([30, 50, 20], [60, 30, 10]):
        statistic, df, verdict = test_result(names, counts, [0.25, 0.5, 0.25])
        if verdict != (statistic <= names["critical_95"](df)):
            raise NotYet("chi-verdict", f"For the counts {counts} your verdict is {verdict}.")


def check_run_counts(names):
    q, p, last = names["Q"], names["P"], names["LAST"]
    rows = names["coin_rows"](40, draft_length=1, seed=7)
    first, pairs = [0] * len(q), [[0] * len(q) for _ in q]
    for row in rows:
        tokens = list(names["speculative_step"](q, p, last, row[:3])[0])
        if len(tokens) == 1:
            tokens += names["speculative_step"](q, p, tokens[0], row[3:])[0]
        first[tokens[0]] += 1
        pairs[tokens[0]][tokens[1]] += 1
    got_first, got_pairs = (listed(value) for value in find(names, "count_tokens")(q, p, last, rows))
    if got_first != first:
        raise NotYet(
            "run-counts",
            f"40 rows of coins and your own step give the first tokens {first}, not {got_first}.",
        )
    if got_pairs != pairs:
        raise NotYet("run-counts", "The first tokens are right, the pairs are not.")


def check_run_report(names):
    report = find(names, "report")
    first, pairs = listed(find(names, "first_counts")), listed(find(names, "pair_counts"))
    if not isinstance(report, dict) or {"samples", "first", "pairs", "conclusion"} - set(report):
        raise NotYet("shape", "report must be a dict with samples, first, pairs and conclusion.")
    if report["samples"] != 50_000 or sum(first) != 50_000 or [sum(row) for row in pairs] != first:
        raise NotYet(
            "run-report", "There must be 50,000 samples, and the pairs must add up to the first tokens."
        )
    verdicts = []
    for key in ("first", "pairs"):
        statistic, df, verdict = listed(report[key])
        if bool(verdict) != (statistic <= names["critical_95"](df)):
            raise NotYet("run-report", f"report[{key!r}] contradicts itself.")
        verdicts.append(bool(verdict))
    if report["conclusion"] != ("consistent" if all(verdicts) else "not consistent"):
        raise NotYet("run-report", "The conclusion does not follow from the two verdicts.")


# -- reading answers ---------------------------------------------------------------------------------------------------


def find(names, name):
    if names.get(name) is None:
        raise NotYet("not-written", f"`{name}` is missing.")
    return names[name]


def listed(value):
    """Arrays, tuples and lists as nested lists."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return [listed(item) for item in value] if isinstance(value, (list, tuple)) else value


def vector(value, length):
    values = listed(value)
    if not isinstance(values, list) or len(values) != length:
        raise NotYet("shape", f"A list of {length} numbers is needed, not {value!r}.")
    return [float(item) for item in values]


def run_step(names, example):
    """Your step on the toy model: (tokens, reasons)."""
    result = find(names, "speculative_step")(names["Q"], names["P"], example[0], list(example[1]))
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise NotYet("shape", "speculative_step must return two things: tokens and reasons.")
    tokens, reasons = (listed(item) for item in result)
    if not isinstance(tokens, list):
        raise NotYet("shape", "The tokens must be a list of whole numbers.")
    return tokens, reasons


def test_result(names, counts, q):
    result = listed(find(names, "chi_square")(list(counts), list(q)))
    if not isinstance(result, list) or len(result) != 3:
        raise NotYet("shape", "chi_square must return three things: statistic, df and verdict.")
    return float(result[0]), result[1], bool(result[2])


CHECKS = {
    "accept": check_accept,
    "residual-positive": check_residual_positive,
    "residual-sums-to-one": check_residual_sums_to_one,
    "residual-equal": check_residual_equal,
    "step-drafts": check_step_drafts,
    "step-stops": check_step_stops,
    "step-correction": check_step_correction,
    "step-bonus": check_step_bonus,
    "step-reasons": check_step_reasons,
    "chi-statistic": check_chi_statistic,
    "chi-df": check_chi_df,
    "chi-verdict": check_chi_verdict,
    "run-counts": check_run_counts,
    "run-report": check_run_report,
}
