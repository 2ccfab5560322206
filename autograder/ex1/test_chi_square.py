"""Checks of task 4: the one-sample chi-square. Statistic, df and verdict have points of their own."""

import math
import random
from typing import Any

import pytest
from scipy.special import chdtri

from autograder.ex1.rule import row
from autograder.student import Missed, Student

TOLERANCE = (
    1e-3  # float32 passes; dividing by the counts instead is off by more than 1/20 in every sample here
)


def samples(seed: int) -> list[tuple[list[int], list[float]]]:
    """Counts over 2 to 12 tokens: some as expected, some far off, never near the critical value."""
    rng = random.Random(seed)
    result = []
    for size in (2, 3, 5, 8, 12):
        q = row(rng, size)
        expected = [round(64 * 40 * value) for value in q]
        far = [count + (12 if i % 2 else 1) * 40 for i, count in enumerate(reversed(expected))]
        near = list(expected)
        near[0], near[-1] = near[0] + 1, near[-1] - 1
        result += [(near, q), (far, q)]
    return result


def ask(student: Student, counts: list[int], q: list[float]) -> list[Any]:
    value = student.call("chi_square", counts, q)
    if type(value) is not list or len(value) != 3:
        raise Missed("shape", f"chi_square returned {value!r:.200}")
    return value


def statistic_rule(counts: list[int], q: list[float]) -> float:
    """Pearson's statistic: the sum of (count - n q)^2 / (n q)."""
    n = sum(counts)
    return sum((count - n * share) ** 2 / (n * share) for count, share in zip(counts, q, strict=True))


def critical_95(df: float) -> float:
    return float(chdtri(df, 0.05))


@pytest.mark.check("chi-statistic", points=2)
def test_the_statistic_compares_counts_with_exact_expectations(student: Student) -> None:
    for counts, q in samples(301):
        got = ask(student, counts, q)[0]
        if type(got) not in (int, float):
            raise Missed("shape", f"the statistic is {got!r:.200}")
        if not math.isclose(got, statistic_rule(counts, q), rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            steady = ask(student, counts, q)[0] == got
            raise Missed("chi-statistic" if steady else "chi-second-sample", f"{counts}, {q} gave {got}")


@pytest.mark.check("chi-df", points=1)
def test_df_is_one_less_than_the_tokens(student: Student) -> None:
    for counts, q in samples(302):
        got = ask(student, counts, q)[1]
        if got != len(q) - 1:
            raise Missed("chi-df", f"{len(q)} tokens gave {got}")


@pytest.mark.check("chi-verdict", points=1)
def test_the_verdict_follows_from_the_own_statistic(student: Student) -> None:
    for counts, q in samples(303):
        statistic, df, verdict = ask(student, counts, q)
        if type(statistic) not in (int, float) or type(df) not in (int, float):
            raise Missed("shape", f"statistic and df are {statistic!r:.80} and {df!r:.80}")
        # a wrong df costs its own point: a verdict may follow from it, or from the right one
        right = {statistic <= critical_95(value) for value in (max(df, 1), len(q) - 1)}
        if verdict not in (True, False) or bool(verdict) not in right:
            raise Missed("chi-verdict", f"{counts}, {q} gave {verdict!r:.80}")
