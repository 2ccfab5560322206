"""What right answers about N are, given a student's own earlier parts.

A time per token uses the expected tokens, and an optimum uses the time. Where an earlier part is wrong, a
later one that uses it correctly is still right, and one that has the right formula written out inside itself
is right as well. So every later part is judged against *readings*: the rule, or the student's own parts,
asked as black boxes through `Student`. It is right if one reading explains all of its answers.

Time is counted in verifier passes over one token. The model is Leviathan et al. (2023), Section 3: E = 1 +
alpha + ... + alpha^N tokens per call, and (N c + V(N+1)) / E per token.
"""

import math
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from autograder.process import Died
from autograder.student import Blocked, Missed, NoAnswer, Student

PARTS = ("expected_tokens", "wall_time", "best_of_sweep", "optimum", "best_with_cost")
SHARES = ("draft", "verifier", "total")
TOLERANCE = 1e-4  # relative; single precision passes, and every wrong idea is off by more than 1% somewhere
FLAT = 1e-5  # relative; two lengths that are this close at the bottom of a curve are equally good
LIMIT = 800  # lengths at which a curve that still falls is taken to have no minimum
BEHIND = 60  # lengths without a new minimum after which a curve has turned

Curve = Callable[[int], float | None]  # N -> time per token


# -- the rule ------------------------------------------------------------------------------------------------


def tokens_rule(alpha: float, n: int) -> float:
    """1 + alpha + ... + alpha^n."""
    return sum(alpha**k for k in range(n + 1))


def shares_rule(tokens: float, n: int, c: float) -> dict[str, float]:
    """The time per token of a draft length, in two shares, given the expected tokens."""
    return {"draft": n * c / tokens, "verifier": 1 / tokens, "total": (n * c + 1) / tokens}


def same(got: float, expected: float, tolerance: float = TOLERANCE) -> bool:
    return math.isclose(got, expected, rel_tol=tolerance, abs_tol=1e-9)


# -- cases ---------------------------------------------------------------------------------------------------


def rates(rng: random.Random, count: int) -> list[float]:
    """Acceptance rates between 0.1 and 0.94, in steps of 0.01."""
    return [rng.randint(10, 94) / 100 for _ in range(count)]


def costs(rng: random.Random, count: int) -> list[float]:
    """Draft costs between 0.02 and 0.3."""
    return [rng.randint(4, 60) / 200 for _ in range(count)]


# -- asking --------------------------------------------------------------------------------------------------


def ask(student: Student, name: str, *args: Any, after: Sequence[str] = ()) -> Any:
    """The student's answer. Blocked if the code stumbled over one of the earlier parts `after`."""
    try:
        return student.call(name, *args)
    except NoAnswer as error:
        inside = [one for one in error.where if one in PARTS]
        if inside and inside[-1] != name:
            raise Blocked(inside[-1]) from None
        if error.idea != "not-written":
            for part in after:
                if not answers(student, part):
                    raise Blocked(part) from None
        raise


def answers(student: Student, part: str) -> bool:
    """Does an earlier part give an answer of the right form at all?"""
    if part == "expected_tokens":
        return own_tokens(student, 0.5, 2) is not None
    return own_shares(student, 0.5, 2, 0.1) is not None


def own_tokens(student: Student, alpha: float, n: int) -> float | None:
    """The student's expected tokens; None where that is no positive number."""
    try:
        value = number(student.call("expected_tokens", alpha, n))
    except (NoAnswer, Missed):
        return None
    except Died:
        raise Blocked("expected_tokens") from None
    return value if value > 0 else None


def own_shares(student: Student, alpha: float, n: int, c: float) -> dict[str, float] | None:
    """The student's wall_time; None where that is no dict of three numbers."""
    try:
        return shares_of(student.call("wall_time", alpha, n, c))
    except (NoAnswer, Missed):
        return None
    except Died:
        raise Blocked("wall_time") from None


def shares_of(value: Any) -> dict[str, float]:
    """The three numbers of a time per token, or Missed("shape")."""
    if type(value) is not dict or not set(SHARES) <= set(value):
        raise Missed("shape", f"wall_time returned {value!r:.200}")
    return {name: number(value[name]) for name in SHARES}


def number(value: Any) -> float:
    """A finite number, or Missed("shape")."""
    if type(value) not in (int, float) or not abs(value) < 1e300:
        raise Missed("shape", f"a number expected, got {value!r:.200}")
    return float(value)


def numbers(value: Any, length: int) -> list[float]:
    """A list of so many finite numbers, or Missed("shape")."""
    if type(value) is not list or len(value) != length:
        raise Missed("shape", f"{length} numbers expected, got {value!r:.200}")
    return [number(one) for one in value]


# -- curves of time over N -----------------------------------------------------------------------------------


def curves(
    student: Student, alpha: float, c: float, cost: Callable[[int], float] = lambda n: 1.0
) -> list[Curve]:
    """Time per token over N: by the rule, by the student's own time, by the student's own tokens.

    `cost` is V(n), of a pass over n tokens.
    """

    def by_rule(n: int) -> float:
        return (n * c + cost(n + 1)) / tokens_rule(alpha, n)

    def by_own_time(n: int) -> float | None:
        own = own_shares(student, alpha, n, c)
        if own is None:
            return None
        return own["total"] + (cost(n + 1) - 1) * own["verifier"]

    def by_own_tokens(n: int) -> float | None:
        own = own_tokens(student, alpha, n)
        return None if own is None else (n * c + cost(n + 1)) / own

    return [cache(by_rule), cache(by_own_time), cache(by_own_tokens)]


def minimum(curve: Curve, longest: int = LIMIT) -> tuple[int, float] | None:
    """The least time over N = 1..longest, and its N; None where the curve has no number.

    Without `longest` the search ends where the curve has turned; N = LIMIT then says that it has not.
    """
    best: tuple[int, float] | None = None
    for n in range(1, longest + 1):
        value = curve(n)
        if value is None:
            return None
        if best is None or value < best[1]:
            best = n, value
        elif longest == LIMIT and n > best[0] + BEHIND:
            break
    return best


def explains(curve: Curve, n: Any, longest: int = LIMIT) -> bool:
    """Is n a draft length with the least time on this curve, but for rounding?"""
    best = minimum(curve, longest)
    if best is None or type(n) is not int or not 1 <= n <= longest:
        return False
    value = curve(n)
    return value is not None and value <= best[1] + FLAT * abs(best[1])
