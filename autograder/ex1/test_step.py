"""Checks of task 3: one speculative step, given the student's own accept and residual (see rule.py)."""

from itertools import islice

import pytest

from autograder.ex1.rule import Asked, Case, cases, drawn_from, judge, own_residual, residual_rule
from autograder.ex1.rule import draw as draw_rule
from autograder.student import Missed, Student

POOL = 80


def pool(seed: int, any_draft: bool = False) -> list[Case]:
    return list(islice(cases(seed, any_draft), POOL))


def rejects(case: Case, kept: int, before: int) -> bool:
    return kept < case.n


@pytest.mark.check("step-drafts", points=1)
def test_drafts_are_drawn_from_p(student: Student) -> None:
    asked = judge(
        student,
        pool(201, any_draft=True),
        fits=lambda case, kept, before: kept == case.n and case.drafts != favourites(case),
        holds=lambda one: one.tokens[: one.kept] == one.case.drafts,
    )
    if asked:
        by_argmax = all(one.tokens[: one.case.n] == favourites(one.case) for one in asked)
        raise Missed("step-argmax" if by_argmax else "step-drafts", f"{asked[0]}")


def favourites(case: Case) -> list[int]:
    """The drafts of a draft that ignores its coins."""
    tokens, token = [], case.last
    for _ in range(case.n):
        token = case.p[token].index(max(case.p[token]))
        tokens.append(token)
    return tokens


@pytest.mark.check("step-stops", points=2)
def test_a_step_ends_at_its_first_rejection(student: Student) -> None:
    def holds(one: Asked) -> bool:
        return one.tokens[: one.kept] == one.case.drafts[: one.kept] and len(one.tokens) == one.kept + 1

    asked = judge(student, pool(202), rejects, holds)
    if asked:
        raise Missed("step-stops", f"{asked[0]}")


@pytest.mark.check("step-correction", points=2)
def test_the_correction_is_drawn_from_the_residual(student: Student) -> None:
    residuals: dict[tuple[tuple[float, ...], tuple[float, ...]], list[float] | None] = {}

    def own(q: list[float], p: list[float]) -> list[float] | None:
        key = (tuple(q), tuple(p))
        if key not in residuals:
            residuals[key] = own_residual(student, q, p)
        return residuals[key]

    def allowed(case: Case, before: int) -> set[int]:
        q, p = case.q[before], case.p[before]
        return drawn_from(residual_rule(q, p), case.final) | drawn_from(own(q, p), case.final)

    def tells(case: Case, kept: int, before: int) -> bool:
        """Can this case tell a correction from the residual apart from one drawn from q?"""
        if not rejects(case, kept, before):
            return False
        q, p = case.q[before], case.p[before]
        # a residual that is q itself cannot be told from q: a step that draws from it does what it should
        return draw_rule(q, case.final) not in allowed(case, before) or own(q, p) == q

    def holds(one: Asked) -> bool:
        return (
            set(one.tokens[one.kept : one.kept + 1]) <= allowed(one.case, one.before)
            and len(one.tokens) > one.kept
        )

    asked = judge(student, pool(203), tells, holds)
    if asked:
        raise Missed("step-correction", f"{asked[0]}")


@pytest.mark.check("step-bonus", points=2)
def test_full_acceptance_earns_a_bonus(student: Student) -> None:
    def tells(case: Case, kept: int, before: int) -> bool:
        """Is the bonus of this case another token than any row that has already served would give?"""
        used = [case.last, *case.drafts[:-1]]
        bonus = draw_rule(case.q[before], case.final)
        return kept == case.n and bonus not in {draw_rule(case.q[token], case.final) for token in used}

    def holds(one: Asked) -> bool:
        return one.tokens[one.kept :] == [draw_rule(one.rows[0], one.case.final)]

    asked = judge(student, pool(204), tells, holds)
    if asked:
        missing = all(len(one.tokens) <= one.kept for one in asked)
        raise Missed("step-bonus" if missing else "step-bonus-row", f"{asked[0]}")


@pytest.mark.check("step-reasons", points=1)
def test_every_position_has_its_reason(student: Student) -> None:
    for fits in (rejects, lambda case, kept, before: kept == case.n):
        asked = judge(student, pool(205), fits, holds=reasons_fit)
        if asked:
            raise Missed("step-reasons", f"{asked[0]}")


def reasons_fit(one: Asked) -> bool:
    """Do the reasons describe the tokens that this very step emitted?

    Where a step goes on after a rejection or leaves out its bonus, the points of these are lost elsewhere;
    here a position counts as reached if it holds a token.
    """
    n, kept, reasons = one.case.n, one.kept, one.reasons
    if type(reasons) is not list or len(reasons) != n + 1 or reasons[:kept] != ["accepted"] * kept:
        return False
    no_bonus = kept == n == len(one.tokens)
    if reasons[kept] not in (
        ["bonus", "not reached"] if no_bonus else ["bonus"] if kept == n else ["correction"]
    ):
        return False
    return all((reasons[i] == "not reached") == (i >= len(one.tokens)) for i in range(kept + 1, n + 1))
