"""Checks of task 3: the sweep over N = 1..10, read from a plot or from a table.

The notebook's locked function `plotted` turns Axes into plain numbers and words: all that leaves the sandbox.
"""

import re
from typing import Any

import pytest

from autograder.ex2.rule import Curve, curves
from autograder.student import Missed, NoAnswer, Student

ALPHA, C, LENGTHS = 0.9, 0.04, range(1, 11)
ROUNDED = 6e-4  # a table may be rounded to three decimals; a wrong curve is off by more than 0.005 somewhere


def drawn(student: Student) -> tuple[list[dict[float, float]], list[tuple[str, str]]]:
    """The curves, each as {x: y}, and the pairs of labels."""
    answer = student.call("plotted")
    if type(answer) is not dict or not {"curves", "labels"} <= set(answer):
        raise Missed("shape", f"plotted returned {answer!r:.200}")
    if not answer["labels"]:
        raise NoAnswer("not-written", "None", "", [])
    found = [points(curve) for curve in answer["curves"] if type(curve) is list and len(curve) == 2]
    return found, [(str(x), str(y)) for x, y in answer["labels"]]


def points(curve: list[Any]) -> dict[float, float]:
    """{x: y} of one curve; {} if these are not numbers."""
    try:
        return {float(x): float(y) for x, y in zip(*curve, strict=True)}
    except (TypeError, ValueError):
        return {}


def shows(curve: dict[float, float], times: Curve) -> bool:
    """Has the curve a point for each N, at the height that `times` says?"""
    for n in LENGTHS:
        expected = times(n)
        if n not in curve or expected is None or not abs(curve[n] - expected) <= ROUNDED:
            return False
    return True


@pytest.mark.check("sweep-values", points=1)
def test_the_sweep_shows_the_time_per_token_of_ten_lengths(student: Student) -> None:
    found, _ = drawn(student)
    readings = curves(student, ALPHA, C)
    if any(shows(curve, times) for curve in found for times in readings):
        return
    inverted = [{x: 1 / y for x, y in curve.items() if y} for curve in found]
    if any(shows(curve, times) for curve in inverted for times in readings):
        raise Missed("sweep-speedup")
    raise Missed("sweep-values", f"{found!r:.300}")


@pytest.mark.check("sweep-labels", points=1)
def test_the_axes_say_what_they_show_and_in_which_unit(student: Student) -> None:
    _, labels = drawn(student)
    named = [
        (x, y) for x, y in labels if re.search(r"\bN\b|draft|length", x, re.I) and re.search("time", y, re.I)
    ]
    if not named:
        raise Missed("sweep-labels", f"{labels!r:.300}")
    if not any(re.search(r"pass|call|plain|relative", y, re.I) for _, y in named):
        raise Missed("sweep-units", f"{labels!r:.300}")
