"""Checks of tasks 4 and 5: the edge of a sweep, the true optimum, and the optimum under a measured V(n).

The optima are judged given the student's own time per token and own expected tokens. A time per token that
falls for ever has no optimum: then there is nothing to compare with, and the points are pending.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from autograder.ex2.rule import LIMIT, ask, costs, curves, explains, minimum, number, rates, same, tokens_rule
from autograder.student import Blocked, Missed, Student

CLEAR = 1e-4  # relative distance of the second best N, so that rounding decides nothing


# -- the sweep -----------------------------------------------------------------------------------------------


def sweeps(seed: int) -> list[tuple[list[int], list[float]]]:
    """Valleys with their bottom inside, at the first or at the last length; lengths do not start at 1."""
    rng = random.Random(seed)
    result = []
    for round_ in range(12):
        size = rng.randint(3, 9)
        lengths = sorted(rng.sample(range(2, 40), size))
        bottom = (0, size - 1, rng.randint(1, size - 2))[round_ % 3]
        times = [0.3 + abs(i - bottom) * rng.randint(4, 9) / 100 for i in range(size)]
        result.append((lengths, times))
    return result


@pytest.mark.check("edge", points=1)
def test_a_sweep_tells_its_best_length_and_whether_that_is_an_edge(student: Student) -> None:
    asked = [(*sweep, pair(student.call("best_of_sweep", *sweep), "best_of_sweep")) for sweep in sweeps(2401)]
    at = [times.index(min(times)) for _, times, _ in asked]
    if any(got[0] != lengths[i] for i, (lengths, _, got) in zip(at, asked, strict=True)):
        by_index = all(got[0] in (i, i + 1) for i, (_, _, got) in zip(at, asked, strict=True))
        raise Missed("sweep-index" if by_index else "sweep-best", f"{asked[0]}")
    for i, (lengths, _, got) in zip(at, asked, strict=True):
        if got[1] not in (True, False) or bool(got[1]) != (i in (0, len(lengths) - 1)):
            raise Missed("edge", f"{lengths}, best at {i}, gave {got}")


def pair(value: Any, name: str) -> list[Any]:
    if type(value) is not list or len(value) != 2:
        raise Missed("shape", f"{name} returned {value!r:.200}")
    return value


# -- the optimum ---------------------------------------------------------------------------------------------


def is_clear(alpha: float, c: float) -> bool:
    times = sorted((n * c + 1) / tokens_rule(alpha, n) for n in range(1, 300))
    return times[1] > times[0] * (1 + CLEAR)


def regimes(seed: int) -> list[tuple[float, float]]:
    """(alpha, c): the notebook's, short ones with clear optima, and two with optima near 60 and above 100."""
    rng = random.Random(seed)
    short = [case for case in zip(rates(rng, 20), costs(rng, 20), strict=True) if is_clear(*case)]
    long = [(rng.randint(960, 965) / 1000, 0.006), (rng.randint(980, 983) / 1000, 0.003)]
    return [(0.9, 0.04), *short[:7], *long]


@pytest.mark.check("optimum", points=1)
def test_the_optimum_is_searched_until_the_curve_turns(student: Student) -> None:
    cases = regimes(2402)
    readings = list(zip(*(curves(student, *case) for case in cases), strict=True))
    for curve in readings[1]:
        own = minimum(curve)
        if own and own[0] == LIMIT:  # asking would mean waiting for a search without an end
            raise Blocked("wall_time")
    after = ["expected_tokens", "wall_time"]
    asked = [(case, pair(ask(student, "optimum", *case, after=after), "optimum")) for case in cases]
    for _, got in asked:
        number(got[1])
    right = [
        reading
        for reading in readings
        if all(explains(curve, got[0]) for curve, (_, got) in zip(reading, asked, strict=True))
    ]
    if any(
        all(same(got[1], curve(got[0]) or 0.0) for curve, (_, got) in zip(reading, asked, strict=True))
        for reading in right
    ):
        return
    if right:
        raise Missed("optimum-time", f"{asked[0]}")
    for reading in readings[:2]:
        best = [minimum(curve) for curve in reading]
        if all(best) and on_the_edge([got[0] for _, got in asked], [one[0] for one in best if one]):
            raise Missed("optimum-edge", f"{asked}")
    raise Missed("optimum", f"{asked[0]}")


def on_the_edge(got: Sequence[Any], best: Sequence[int]) -> bool:
    """Are these the best lengths of a sweep that ends too early?"""
    end = max((n for n in got if type(n) is int), default=0)
    return list(got) == [min(n, end) for n in best]


# -- a measured V(n) -----------------------------------------------------------------------------------------


def measured(seed: int) -> list[tuple[float, float, list[float]]]:
    """(alpha, c, milliseconds) whose optimum is clear, and another one where V is read wrongly."""
    rng = random.Random(seed)
    found: list[tuple[float, float, list[float]]] = []
    while len(found) < 9:
        alpha, c, milliseconds = (
            rng.randint(60, 95) / 100,
            rng.randint(2, 10) / 100,
            [rng.randint(6, 30) * 1.0],
        )
        step = milliseconds[0] * rng.randint(1, 4) / 40
        jump = rng.randint(3, 7)
        for n in range(2, rng.randint(9, 13)):
            milliseconds.append(
                milliseconds[-1] + step * (rng.randint(4, 8) if n == jump else rng.randint(0, 2))
            )
        right = [
            (n * c + milliseconds[n] / milliseconds[0]) / tokens_rule(alpha, n) for n in lengths(milliseconds)
        ]
        others = [best_of(alpha, c, milliseconds, wrong) for wrong in WRONG.values()]
        apart = sum(other != right.index(min(right)) + 1 for other in others)
        if sorted(right)[1] > min(right) * (1 + CLEAR) and apart >= 2:
            found.append((alpha, c, milliseconds))
    return found + steep(rng)


def steep(rng: random.Random) -> list[tuple[float, float, list[float]]]:
    """Passes over two tokens that cost much more than over one: the best N is 1 though plain decoding is
    better; or it is long, because a pass is dear once and for all."""
    one = rng.randint(8, 12) * 1.0
    rising = [one * (1 + 2 * i) for i in range(6)]
    flat = [one, *(3 * one + i / 100 for i in range(12))]
    return [(rng.randint(30, 50) / 100, 0.1, rising), (rng.randint(88, 92) / 100, 0.25, flat)]


def lengths(milliseconds: Sequence[float]) -> range:
    """The draft lengths whose pass was measured: it reads one token more."""
    return range(1, len(milliseconds))


WRONG: dict[str, Callable[[Sequence[float], int], float]] = {
    "measured-shift": lambda ms, n: ms[n - 1] / ms[0],
    "measured-units": lambda ms, n: ms[n],
    "measured-ignored": lambda ms, n: 1.0,
}


def in_passes(milliseconds: Sequence[float]) -> Callable[[int], float]:
    """V(n), in units of V(1)."""
    return lambda n: milliseconds[n - 1] / milliseconds[0]


def best_of(alpha: float, c: float, ms: Sequence[float], cost: Any) -> int:
    return min(lengths(ms), key=lambda n: (n * c + cost(ms, n)) / tokens_rule(alpha, n))


@pytest.mark.check("measured", points=1)
def test_the_measured_cost_of_a_pass_moves_the_optimum(student: Student) -> None:
    cases = measured(2501)
    after = ["expected_tokens", "wall_time"]
    got = [ask(student, "best_with_cost", *case, after=after) for case in cases]
    readings = zip(*(curves(student, alpha, c, in_passes(ms)) for alpha, c, ms in cases), strict=True)
    for reading in readings:
        if all(explains(one, n, len(case[2]) - 1) for one, n, case in zip(reading, got, cases, strict=True)):
            return
    if not all(type(n) is int for n in got):
        raise Missed("shape", f"best_with_cost returned {got!r:.200}")
    for idea, wrong in WRONG.items():
        if got == [best_of(*case, wrong) for case in cases]:
            raise Missed(idea)
    raise Missed("measured", f"{cases[0]} gave {got[0]}")
