"""Checks of task 5: the counting, given the student's own step, and the report of the 50,000 steps.

The report is judged on agreement with the student's own counts and own chi_square, never on being below the
95% value, which an honest run exceeds once in twenty. That the counts come from the student's own step is
tested with exact hypergeometric tails: a true statement fails with a probability of at most 1e-6.
"""

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.special import gammaln

from autograder.ex1.rule import coin, row
from autograder.ex1.test_chi_square import critical_95, statistic_rule
from autograder.process import Died
from autograder.student import Blocked, Missed, NoAnswer, Student

# The toy model of the notebook's locked cell; a test holds the two together.
LAST = 0
Q = [[0.50, 0.30, 0.15, 0.05], [0.30, 0.25, 0.35, 0.10], [0.15, 0.35, 0.40, 0.10], [0.10, 0.40, 0.20, 0.30]]
P = [[0.70, 0.10, 0.10, 0.10], [0.20, 0.20, 0.50, 0.10], [0.05, 0.20, 0.70, 0.05], [0.10, 0.60, 0.20, 0.10]]
STEPS = 50_000
AGAIN = 2_000  # runs that the check itself asks for
FALSE_FAIL = 1e-6


@pytest.mark.check("run-counts", points=1)
def test_first_tokens_and_pairs_are_counted(student: Student) -> None:
    rng = random.Random(401)
    for size, n in ((3, 1), (5, 1), (4, 2)):
        q, p = ([row(rng, size) for _ in range(size)] for _ in range(2))
        last, rows = rng.randrange(size), [[coin(rng) for _ in range(2 * (2 * n + 1))] for _ in range(25)]
        first, pairs = [0] * size, [[0] * size for _ in range(size)]
        for line in rows:
            half = len(line) // 2
            tokens = own_tokens(student, q, p, last, line[:half])
            if len(tokens) == 1:
                tokens += own_tokens(student, q, p, tokens[0], line[half:])
            first[tokens[0]] += 1
            pairs[tokens[0]][tokens[1]] += 1
        got = student.call("count_tokens", q, p, last, rows)
        if got != [first, pairs]:
            raise Missed("run-counts", f"got {got!r:.200}, expected {[first, pairs]}")


def own_tokens(
    student: Student, q: list[list[float]], p: list[list[float]], last: int, coins: list[float]
) -> list[int]:
    """What the student's own step emits; Blocked if that is not a list of tokens."""
    try:
        answer = student.call("speculative_step", q, p, last, coins)
    except NoAnswer as error:
        if error.idea == "not-written":
            student.call(
                "count_tokens", q, p, last, [coins * 2]
            )  # not written either: its own points are lost
        raise Blocked("speculative_step") from None
    except Died:
        raise Blocked("speculative_step") from None
    tokens = answer[0] if type(answer) is list and answer else None
    if type(tokens) is not list or not tokens or not all(type(x) is int and 0 <= x < len(q) for x in tokens):
        raise Blocked("speculative_step")
    return list(tokens)


@pytest.mark.check("run-report", points=1)
def test_the_report_repeats_the_own_run(student: Student) -> None:
    report = student.get("report")
    if type(report) is not dict or not {"samples", "first", "pairs", "conclusion"} <= set(report):
        raise Missed("shape", f"report is {report!r:.200}")
    if all(value is None for value in report.values()):
        raise NoAnswer("not-written", "None", "", [])
    first, pairs = student.get("first_counts"), student.get("pair_counts")
    size = len(Q)
    if not (is_counts(first, size) and type(pairs) is list and len(pairs) == size):
        raise Missed("shape", f"first_counts is {first!r:.80}")
    if not all(is_counts(line, size) for line in pairs):
        raise Missed("shape", f"pair_counts is {pairs!r:.80}")
    if report["samples"] != STEPS or sum(first) != STEPS or [sum(line) for line in pairs] != first:
        raise Missed("run-report", "the counts are not those of 50,000 runs")

    flat = [count for line in pairs for count in line]
    check_own_law(student, first, flat)
    law = [Q[LAST][a] * Q[a][b] for a in range(size) for b in range(size)]
    verdicts = [
        check_result(student, report["first"], first, Q[LAST]),
        check_result(student, report["pairs"], flat, law),
    ]
    if report["conclusion"] != ("consistent" if all(verdicts) else "not consistent"):
        raise Missed("run-report", f"the conclusion is {report['conclusion']!r:.80} after {verdicts}")


def is_counts(value: Any, size: int) -> bool:
    return (
        type(value) is list and len(value) == size and all(type(x) in (int, float) and x >= 0 for x in value)
    )


def check_result(student: Student, told: Any, counts: list[int], q: list[float]) -> bool:
    """The verdict of a line of the report that is what the student's own chi_square (or a right one) says."""
    if type(told) is not list or len(told) != 3 or not all(type(x) in (int, float) for x in told[:2]):
        raise Missed("shape", f"a result in the report is {told!r:.200}")
    statistic, df, verdict = told
    if bool(verdict) != (statistic <= critical_95(max(df, 1))):
        raise Missed("run-report", f"{told} contradicts itself")
    known: list[tuple[float, float]] = [(statistic_rule(counts, q), len(q) - 1)]
    try:
        own = [student.call("chi_square", counts, q) for _ in range(2)]
    except (NoAnswer, Died):
        own = []
    own = [one for one in own if type(one) is list and len(one) == 3 and type(one[0]) in (int, float)]
    if len(own) == 2 and own[0][0] != own[1][0]:
        return bool(
            verdict
        )  # their chi_square draws a second sample: nothing to repeat, and its own points are lost
    known += [(one[0], one[1]) for one in own]
    if not any(math.isclose(statistic, s, rel_tol=1e-3, abs_tol=1e-3) and df == d for s, d in known):
        raise Missed("run-report", f"{told} is not what chi_square gives, {known}")
    return bool(verdict)


def check_own_law(student: Student, first: list[int], flat: list[int]) -> None:
    """Could these counts have come from the student's own count_tokens? Asked with coins of our own."""
    rng = random.Random(402)
    rows = [[coin(rng) for _ in range(6)] for _ in range(AGAIN)]
    try:
        answer = student.call("count_tokens", Q, P, LAST, rows)
        again_first, again_pairs = answer
        again = [*again_first, *(count for line in again_pairs for count in line)]
    except (NoAnswer, Died, TypeError, ValueError):
        return  # the points of the counting are lost elsewhere
    if len(again) != len(first) + len(flat) or sum(again_first) != AGAIN or sum(again) != 2 * AGAIN:
        return
    if same_law([*first, *flat], again, STEPS, AGAIN) < FALSE_FAIL:
        raise Missed("run-report", "the counts are not those of the student's own step")


def same_law(counts: Sequence[float], again: Sequence[float], n: int, m: int) -> float:
    """A bound on the probability of counts this different, if n and m samples have one law.

    Given their sum in a cell, the counts of the smaller sample are hypergeometric: exact, two tails per cell,
    and the union over all cells (Bonferroni).
    """
    small = np.asarray(again, dtype=np.int64)
    both = np.asarray(counts, dtype=np.int64) + small
    worst = min(min(hypergeometric_tails(k, total, m, n)) for k, total in zip(small, both, strict=True))
    return min(1.0, 2 * len(small) * worst)


def hypergeometric_tails(k: int, marked: int, m: int, n: int) -> tuple[float, float]:
    """P(X <= k) and P(X >= k), X the marked ones among m drawn from n + m of which `marked` are marked."""
    x = np.arange(max(0, marked - n), min(m, marked) + 1)
    log = log_choose(marked, x) + log_choose(n + m - marked, m - x) - log_choose(n + m, m)
    mass = np.exp(log)
    return float(mass[x <= k].sum()), float(mass[x >= k].sum())


def log_choose(n: ArrayLike, k: ArrayLike) -> Any:
    n, k = np.asarray(n, dtype=float), np.asarray(k, dtype=float)
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
