"""Checks of task 5: whole simulations, given the student's own parts (see rule.py)."""

import random
from typing import Any

import pytest

from autograder.ex4.rule import (
    Case,
    Outcome,
    any_batch,
    cache_of,
    judge,
    rows_of,
    two_sequences,
    valid,
)
from autograder.student import Missed, Student


def ask(student: Student, case: Case) -> Outcome:
    """The student's cache and sequences."""
    value = student.call("simulate", case.prompts, case.rounds)
    return outcome_of(value, len(case.prompts))


def outcome_of(value: Any, batch: int) -> Outcome:
    if type(value) is not list or len(value) != 2 or type(value[1]) is not list:
        raise Missed("shape", f"simulate returned {value!r:.200}")
    return Outcome(cache_of(value[0], batch), value[1])


def watched(student: Student, case: Case) -> Outcome:
    """The same, with the rows of each pass as the toy verifier has noted them."""
    told = student.call("watched", case.prompts, case.rounds)
    if type(told) is not dict or not {"result", "passes"} <= set(told) or type(told["passes"]) is not list:
        raise Missed("shape", f"watched returned {told!r:.200}")
    batch = len(case.prompts)
    outcome = outcome_of(told["result"], batch)
    outcome.passes = [rows_of(rows, batch) for rows in told["passes"]]
    return outcome


@pytest.mark.check("two-lengths", points=1)
def test_two_sequences_have_lengths_of_their_own(student: Student) -> None:
    rng = random.Random(4501)
    cases = [two_sequences(rng, rounds) for rounds in (1, 1, 2, 3)]

    def holds(got: Outcome, expected: Outcome) -> bool:
        return got.cache["length"] == expected.cache["length"]

    wrong = judge(student, cases, lambda case: ask(student, case), holds)
    if wrong:
        raise Missed("two-lengths", wrong)


@pytest.mark.check("two-contents", points=1)
def test_the_contents_are_those_of_a_fresh_pass(student: Student) -> None:
    rng = random.Random(4502)
    cases = [two_sequences(rng, rounds) for rounds in (1, 2, 3)]
    wrong = judge(student, cases, lambda case: ask(student, case), same_contents)
    if wrong:
        raise Missed("two-contents", wrong)


def same_contents(got: Outcome, expected: Outcome) -> bool:
    """Up to the shorter of the two lengths: these are the business of another check, if they are near."""
    ours, theirs = valid(expected.cache), valid(got.cache)
    return all(
        2 * len(b) >= len(a) and a[: len(b)] == b[: len(a)]
        for name in ours
        for a, b in zip(ours[name], theirs[name], strict=True)
    )


@pytest.mark.check("simulate-any", points=2)
def test_any_batch_and_any_acceptance(student: Student) -> None:
    rng = random.Random(4503)
    cases = [any_batch(rng) for _ in range(8)]
    wrong = judge(student, cases, lambda case: ask(student, case), holds=everything)
    if wrong:
        raise Missed("simulate-any", wrong)


def everything(got: Outcome, expected: Outcome) -> bool:
    return (
        got.sequences == expected.sequences
        and valid(got.cache) == valid(expected.cache)
        and all(got.cache[name] == expected.cache[name] for name in ("length", "computed", "discarded"))
    )


@pytest.mark.check("simulate-work", points=1)
def test_one_call_per_round_and_nothing_computed_twice(student: Student) -> None:
    rng = random.Random(4504)
    cases = [two_sequences(rng, 3), *(any_batch(rng) for _ in range(3))]
    wrong = judge(
        student,
        cases,
        lambda case: watched(student, case),
        holds=lambda got, expected: got.work == expected.work,
    )
    if wrong:
        calls = any(len(watched(student, case).passes) > len(case.rounds) for case in cases)
        raise Missed("simulate-calls" if calls else "simulate-work", wrong)
