"""Checks of task 2: the time per token and its two shares, given the student's own expected tokens."""

import random
from collections.abc import Callable

import pytest

from autograder.ex2.rule import (
    SHARES,
    ask,
    costs,
    numbers,
    own_tokens,
    rates,
    same,
    shares_of,
    shares_rule,
    tokens_rule,
)
from autograder.student import Missed, Student

Case = tuple[float, int, float]
Wrong = Callable[[float, int, float], float]  # tokens, N, c -> a share


def answered(student: Student, seed: int) -> list[tuple[Case, dict[str, float], list[float]]]:
    """(case, the student's shares, the expected tokens by the rule and by the student's own function)."""
    rng = random.Random(seed)
    result = []
    for alpha, c in zip(rates(rng, 16), costs(rng, 16), strict=True):
        n = rng.randint(2, 12)
        got = shares_of(ask(student, "wall_time", alpha, n, c, after=["expected_tokens"]))
        tokens = [tokens_rule(alpha, n)]
        own = own_tokens(student, alpha, n)
        result.append(((alpha, n, c), got, tokens if own is None else [*tokens, own]))
    return result


def holds(asked: list[tuple[Case, dict[str, float], list[float]]], share: str, rule: Wrong) -> bool:
    """Does this rule explain a share of every answer, with the right tokens or with the student's own?"""
    readings = min(len(tokens) for _, _, tokens in asked)
    return any(
        all(same(got[share], rule(tokens[reading], n, c)) for (_, n, c), got, tokens in asked)
        for reading in range(readings)
    )


@pytest.mark.check("time-draft", points=1)
def test_n_draft_passes_are_shared_by_the_tokens_of_a_call(student: Student) -> None:
    asked = answered(student, 2201)
    if holds(asked, "draft", lambda tokens, n, c: shares_rule(tokens, n, c)["draft"]):
        return
    per_token: list[Wrong] = [lambda tokens, n, c: c, lambda tokens, n, c: n * c]
    if any(holds(asked, "draft", rule) for rule in per_token):
        raise Missed("time-draft-token")
    raise Missed("time-draft", f"{asked[0]}")


@pytest.mark.check("time-verifier", points=1)
def test_the_verifiers_own_pass_is_in_the_time(student: Student) -> None:
    asked = answered(student, 2202)
    if holds(asked, "verifier", lambda tokens, n, c: shares_rule(tokens, n, c)["verifier"]):
        if all(same(got["total"], got["draft"] + got["verifier"]) for _, got, _ in asked):
            return
        raise Missed("time-total", f"{asked[0]}")
    if holds(asked, "verifier", lambda tokens, n, c: (n + 1) / tokens):
        raise Missed("time-verifier-each")
    raise Missed("time-verifier", f"{asked[0]}")


@pytest.mark.check("time-lists", points=1)
def test_a_list_of_lengths_gives_lists(student: Student) -> None:
    rng = random.Random(2203)
    for alpha, c in zip(rates(rng, 3), costs(rng, 3), strict=True):
        lengths = [rng.randint(2, 12) for _ in range(rng.randint(2, 6))]
        alone = [
            shares_of(ask(student, "wall_time", alpha, n, c, after=["expected_tokens"])) for n in lengths
        ]
        got = ask(student, "wall_time", alpha, lengths, c, after=["expected_tokens"])
        if type(got) is not dict or not set(SHARES) <= set(got):
            raise Missed("time-lists", f"{lengths} gave {got!r:.200}")
        for share in SHARES:
            try:
                values = numbers(got[share], len(lengths))
            except Missed:
                raise Missed("time-lists", f"{lengths} gave {got!r:.200}") from None
            if not all(same(a, one[share]) for a, one in zip(values, alone, strict=True)):
                raise Missed("time-lists", f"{lengths} gave {got!r:.200}")
