"""Checks of tasks 1 and 2: the mask, the positions, the shift."""

from typing import Any, NamedTuple

import pytest

from autograder.ex5.rule import close, nothing, numbers, positions_rule, seeded, shift_rule, text_of
from autograder.student import Missed, Student


def batches(seed: int) -> list[list[int]]:
    """Lengths: one text, texts of one row, ragged ones, the longest first and last."""
    rng = seeded(seed)
    ragged = [[rng.randint(1, 6) for _ in range(rng.randint(2, 5))] for _ in range(4)]
    return [[1], [rng.randint(4, 6)], [1, 1, 1], [5, 1, 2], [2, 3, 6], *ragged]


def masks(student: Student, seed: int) -> list[tuple[list[int], int, list[list[bool]]]]:
    """(lengths, steps, the student's mask) of several batches."""
    asked = []
    for number, lengths in enumerate(batches(seed)):
        steps, rows = 1 + number % 4, sum(lengths)
        asked.append((lengths, steps, numbers(student.call("ttt_mask", lengths, steps), rows, steps * rows)))
    return asked


@pytest.mark.check("mask-causal", points=1)
def test_step_0_is_causal(student: Student) -> None:
    for lengths, _, mask in masks(student, 5101):
        text = text_of(lengths)
        for s, row in enumerate(mask):
            if any(bool(row[c]) != (c <= s) for c in range(len(text)) if text[c] == text[s]):
                raise Missed("mask-causal", f"{lengths}: row {s} is {row}")


@pytest.mark.check("mask-diagonal", points=1)
def test_a_later_step_is_diagonal(student: Student) -> None:
    for lengths, steps, mask in masks(student, 5102):
        text = text_of(lengths)
        rows = len(text)
        for k in range(1, steps):
            blocks = [
                (s, c, bool(mask[s][k * rows + c]))
                for s in range(rows)
                for c in range(rows)
                if text[c] == text[s]
            ]
            if all(seen == (c <= s) for s, c, seen in blocks) and any(s != c for s, c, _ in blocks):
                raise Missed("mask-later-causal", f"{lengths}, step {k}")
            if any(seen != (c == s) for s, c, seen in blocks):
                raise Missed("mask-diagonal", f"{lengths}, step {k}: {blocks}")


@pytest.mark.check("mask-texts", points=1)
def test_no_row_sees_another_text(student: Student) -> None:
    sees_something = False
    for lengths, steps, mask in masks(student, 5103):
        text = text_of(lengths)
        for s, row in enumerate(mask):
            sees_something = sees_something or any(row)
            for column in range(steps * len(text)):
                if row[column] and text[column % len(text)] != text[s]:
                    raise Missed("mask-texts", f"{lengths}: row {s} sees key {column}")
    if not sees_something:
        raise Missed("mask-texts", "nothing is seen at all")


@pytest.mark.check("positions", points=1)
def test_positions_begin_anew_in_every_text_and_move_with_the_step(student: Student) -> None:
    for lengths in batches(5201):
        for step in range(4):
            got = numbers(student.call("positions", lengths, step), sum(lengths))
            if got != positions_rule(lengths, step):
                raise Missed("positions", f"{lengths}, step {step}: {got}")


class Shifted(NamedTuple):
    """One question, the student's answer and the right one."""

    lengths: list[int]
    by: int
    values: list[Any]
    got: list[Any]
    right: list[Any]


def shifted(student: Student, seed: int) -> list[Shifted]:
    """Shifts of tokens, probabilities and bools, none of them zero."""
    rng, asked = seeded(seed), []
    for lengths in batches(seed):
        rows = sum(lengths)
        tokens = rng.sample(range(1, 90), rows)
        for values in (tokens, [[token + 0.5, token + 0.25] for token in tokens], [True] * rows):
            shape = (rows, 2) if isinstance(values[0], list) else (rows,)
            for by in range(5):
                got = numbers(student.call("asked_shift", values, lengths, by), *shape)
                asked.append(Shifted(lengths, by, values, got, shift_rule(values, lengths, by)))
    return asked


def is_kept(lengths: list[int], by: int) -> list[bool]:
    """Does row t + by belong to the text of row t?"""
    return [bool(here) for here in shift_rule([1] * sum(lengths), lengths, by)]


@pytest.mark.check("shift", points=1)
def test_row_t_is_what_was_at_t_plus_by(student: Student) -> None:
    for lengths, by, _, got, right in shifted(student, 5202):
        for t, kept in enumerate(is_kept(lengths, by)):
            if kept and not close(got[t], right[t]):
                raise Missed("shift", f"{lengths} by {by}: row {t} is {got[t]}")


@pytest.mark.check("shift-ends", points=1)
def test_nothing_comes_from_beyond_the_end_of_a_text(student: Student) -> None:
    """One that moves the other way has its zeros at the beginnings, and is not asked for others."""
    asked = shifted(student, 5203)
    if all(close(one.got, other_way(one)) for one in asked):
        return
    for lengths, by, _, got, right in asked:
        for t, kept in enumerate(is_kept(lengths, by)):
            if not kept and not close(got[t], right[t]):
                raise Missed("shift-ends", f"{lengths} by {by}: row {t} is {got[t]}")


def other_way(asked: Shifted) -> list[Any]:
    """Row t + by is row t of the values."""
    result = [nothing(row) for row in asked.values]
    for t, kept in enumerate(is_kept(asked.lengths, asked.by)):
        if kept:
            result[t + asked.by] = asked.values[t]
    return result
