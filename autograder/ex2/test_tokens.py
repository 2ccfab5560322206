"""Checks of task 1: the expected tokens per verifier call."""

import math
import random

import pytest

from autograder.ex2.rule import number, numbers, rates, same, tokens_rule
from autograder.process import Died
from autograder.student import Missed, NoAnswer, Student

NEAR = 1e-5  # how near to an end a formula is asked for its limit there
LOOSE = 1e-2  # what the distance to that end may change, and more


@pytest.mark.check("tokens-formula", points=2)
def test_a_call_emits_one_plus_alpha_plus_its_powers(student: Student) -> None:
    rng = random.Random(2101)
    pairs = [(alpha, rng.randint(1, 12)) for alpha in rates(rng, 24)] + [(0.9, 10), (0.5, 1)]
    got = [number(student.call("expected_tokens", alpha, n)) for alpha, n in pairs]
    if all(same(value, tokens_rule(*pair)) for value, pair in zip(got, pairs, strict=True)):
        return
    named = {
        "tokens-bonus": (
            lambda alpha, n: tokens_rule(alpha, n) - 1,
            lambda alpha, n: tokens_rule(alpha, n - 1),
        ),
        "tokens-chain": (lambda alpha, n: 1 + n * alpha, lambda alpha, n: n * alpha),
    }
    for idea, wrong in named.items():
        if any(all(same(v, rule(*pair)) for v, pair in zip(got, pairs, strict=True)) for rule in wrong):
            raise Missed(idea)
    raise Missed("tokens-formula", f"{pairs[0]} gave {got[0]}")


@pytest.mark.check("tokens-ends", points=1)
def test_alpha_0_and_1_have_an_answer(student: Student) -> None:
    """The right one, or the limit of the own formula, whose error costs the points of another check."""
    rng = random.Random(2102)
    for n in [1, *(rng.randint(2, 12) for _ in range(5))]:
        for end, near in ((0.0, NEAR), (1.0, 1 - NEAR)):
            try:
                got = student.call("expected_tokens", end, n)
            except NoAnswer as error:
                if error.idea == "raised":
                    raise Missed("tokens-ends", f"alpha = {end}, N = {n} raised {error}") from None
                raise
            if type(got) is float and not math.isfinite(got):
                raise Missed("tokens-ends", f"alpha = {end}, N = {n} gave {got}")
            got = number(got)
            if not same(got, tokens_rule(end, n)) and not follows(student, got, near, n):
                raise Missed("tokens-ends", f"alpha = {end}, N = {n} gave {got}")


def follows(student: Student, got: float, near: float, n: int) -> bool:
    """Is this the limit of the own formula?"""
    try:
        own = number(student.call("expected_tokens", near, n))
    except (NoAnswer, Missed, Died):
        return False
    return abs(got - own) < LOOSE


@pytest.mark.check("tokens-lists", points=1)
def test_lists_give_lists_and_two_lists_a_table(student: Student) -> None:
    rng = random.Random(2103)
    for rows, columns in ((3, 4), (3, 3), (1, 2), (4, 1)):
        alphas = rates(rng, rows)
        lengths = [rng.randint(1, 9) for _ in range(columns)]
        own = [[number(student.call("expected_tokens", alpha, n)) for n in lengths] for alpha in alphas]
        over_n = student.call("expected_tokens", alphas[0], lengths)
        over_alpha = student.call("expected_tokens", alphas, lengths[0])
        table = student.call("expected_tokens", alphas, lengths)
        if not (
            agrees(over_n, own[0])
            and agrees(over_alpha, [line[0] for line in own])
            and type(table) is list
            and len(table) == rows
            and all(agrees(line, expected) for line, expected in zip(table, own, strict=True))
        ):
            raise Missed("tokens-lists", f"{alphas}, {lengths} gave {table!r:.200}")


def agrees(got: object, expected: list[float]) -> bool:
    try:
        values = numbers(got, len(expected))
    except Missed:
        return False
    return all(same(a, b) for a, b in zip(values, expected, strict=True))
