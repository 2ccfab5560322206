"""Checks of tasks 1 and 2: accept and residual, alone."""

import random

import pytest

from autograder.ex1.rule import accept_rule, coin, numbers, residual_rule, row
from autograder.student import Missed, NoAnswer, Student

TOLERANCE = 1e-5  # float32 answers pass; every wrong rule is off by more than 1/64


@pytest.mark.check("accept", points=2)
def test_accept_keeps_a_share_of_q_over_p(student: Student) -> None:
    rng = random.Random(101)
    triples = [(rng.randint(1, 40) / 64, rng.randint(1, 40) / 64, coin(rng)) for _ in range(60)]
    edges = [
        (0.0, 0.25, 0.0),
        (0.0, 0.5, coin(rng)),
        (0.25, 0.5, 0.5),
        (0.125, 0.5, 0.25),
        (0.5, 0.5, 511 / 512),
    ]
    got = [decision(student, *triple) for triple in triples]
    on_edge = [decision(student, *triple) for triple in edges]
    if all(value is None for value in got):
        student.call("accept", *triples[0])  # raises what each of them raised
        raise Missed("shape", "accept returns neither True nor False")
    expected = [accept_rule(*triple) for triple in triples]
    if got != expected:
        named = {
            "accept-inverted": [u < p_x / q_x for q_x, p_x, u in triples],
            "accept-ignores-draft": [u < q_x for q_x, _, u in triples],
        }
        raise Missed(next((idea for idea, wrong in named.items() if got == wrong), "accept"))
    if on_edge != [accept_rule(*triple) for triple in edges]:
        raise Missed("accept-strict", f"{edges} gave {on_edge}")


def decision(student: Student, q_x: float, p_x: float, u: float) -> bool | None:
    try:
        value = student.call("accept", q_x, p_x, u)
    except NoAnswer:
        return None
    return bool(value) if value in (True, False) else None


def row_pairs(seed: int) -> list[tuple[list[float], list[float]]]:
    """Pairs of rows over 2 to 7 tokens; in some of them a token has probability 0 under q or under p."""
    rng = random.Random(seed)
    pairs: list[tuple[list[float], list[float]]] = []
    for size in (2, 3, 4, 5, 6, 7, 3, 4, 5, 6):
        q, p = row(rng, size), row(rng, size)
        if len(pairs) % 3 == 2:
            q[0], q[1] = q[0] + q[1], 0.0
            p[-2], p[-1] = 0.0, p[-2] + p[-1]
        if q != p:
            pairs.append((q, p))
    return pairs


@pytest.mark.check("residual-positive", points=2)
def test_residual_is_what_q_has_more_of(student: Student) -> None:
    answers = [(q, p, numbers(student.call("residual", q, p), len(q))) for q, p in row_pairs(102)]
    wrong = [(q, p, got) for q, p, got in answers if not proportional(got, residual_rule(q, p))]
    if wrong:
        swapped = all(proportional(got, residual_rule(p, q)) for q, p, got in answers)
        raise Missed("residual-sign" if swapped else "residual-positive", f"{wrong[0]}")


def proportional(got: list[float], expected: list[float]) -> bool:
    """Is got a positive multiple of expected? A missing normalisation costs the points of another check."""
    total = sum(value for value in got if value > 0)
    return total > 0 and all(abs(a / total - b) < TOLERANCE for a, b in zip(got, expected, strict=True))


@pytest.mark.check("residual-sums-to-one", points=1)
def test_residual_is_a_distribution(student: Student) -> None:
    for q, p in row_pairs(103):
        got = numbers(student.call("residual", q, p), len(q))
        # negative entries cost the points of another check
        if abs(sum(value for value in got if value > 0) - 1) > TOLERANCE:
            raise Missed("residual-sums-to-one", f"{q}, {p} gave {got}")


@pytest.mark.check("residual-equal", points=1)
def test_residual_of_equal_rows_is_q(student: Student) -> None:
    for q, _ in row_pairs(104):
        got = numbers(student.call("residual", q, q), len(q))
        if any(abs(a - b) > TOLERANCE for a, b in zip(got, q, strict=True)):
            raise Missed("residual-equal", f"{q} gave {got}")
