"""Checks of task 4: what goes into each call of the head, and how far the gradient comes.

The instrument `watched` notes the calls. Gradients are compared with differences of the student's own
unrolling, so whatever else is wrong in it costs nothing here.
"""

from typing import Any

import pytest

from autograder.ex5.rule import (
    Batch,
    Undefined,
    Weights,
    ask,
    close,
    finite,
    flat,
    mask_rule,
    numbers,
    own,
    own_shift,
    positions_rule,
    seeded,
    shift_rule,
    some_batch,
    some_weights,
)
from autograder.process import Died
from autograder.student import Blocked, Missed, NoAnswer, Student

EARLIER = ("ttt_mask", "positions", "shift")
STEP = 0.02  # of the differences, in units of a weight
Case = tuple[Weights, Batch, int]


def cases(seed: int) -> list[Case]:
    rng = seeded(seed)
    return [
        (some_weights(rng), some_batch(rng, lengths), steps)
        for lengths, steps in (([4, 1, 3], 3), ([2, 5], 2), ([3], 4), ([1, 2], 1))
    ]


def watch(student: Student, case: Case) -> dict[str, Any]:
    """The logits and the calls; Blocked by an earlier part whose answer the head cannot take."""
    weights, batch, steps = case
    try:
        told = ask(student, EARLIER, "watched", weights, batch, steps)
    except NoAnswer as error:
        if error.idea != "not-written":
            block_on_own_parts(student, batch["lengths"], steps)
        raise
    if not finite(told):
        block_on_own_parts(student, batch["lengths"], steps)
    if len(told["calls"]) != steps or len(told["logits"]) != steps:
        raise Missed(
            "unroll-calls", f"{len(told['calls'])} calls, {len(told['logits'])} logits for {steps} steps"
        )
    return told


def block_on_own_parts(student: Student, lengths: list[int], steps: int) -> None:
    rows = sum(lengths)
    try:
        mask = own(student, "ttt_mask", "ttt_mask", lengths, steps)
        seen = numbers(mask, rows, steps * rows)
        if not all(any(row[:rows]) for row in seen):  # the softmax of nothing
            raise Blocked("ttt_mask")
    except (Undefined, Missed):
        raise Blocked("ttt_mask") from None
    try:
        numbers(own(student, "positions", "positions", lengths, 0), rows)
    except (Undefined, Missed):
        raise Blocked("positions") from None
    try:
        own_shift(student)([1] * rows, lengths, 1)
    except Undefined:
        raise Blocked("shift") from None


def agrees(student: Student, part: str, got: Any, right: Any, name: str, *args: Any, cut: int = 0) -> bool:
    """Is this the rule's, or what the student's own part gives (its first `cut` columns)?"""
    if close(got, right):
        return True
    try:
        mine = student.call(name, *args)
        return close(got, [row[:cut] for row in mine] if cut else mine)
    except (NoAnswer, TypeError, ValueError):
        return False
    except Died:
        raise Blocked(part) from None


@pytest.mark.check("unroll-inputs", points=1)
def test_every_call_gets_the_tokens_positions_mask_and_past_of_its_step(student: Student) -> None:
    for case in cases(5401):
        weights, batch, steps = case
        lengths, rows = batch["lengths"], len(batch["tokens"])
        told = watch(student, case)
        for k, call in enumerate(told["calls"]):
            tokens, wide = shift_rule(batch["tokens"], lengths, k + 1), (k + 1) * rows
            if not agrees(
                student, "shift", call["tokens"], tokens, "asked_shift", batch["tokens"], lengths, k + 1
            ):
                raise Missed("unroll-tokens", f"step {k} of {batch}: {call['tokens']}")
            place = positions_rule(lengths, k)
            if not agrees(student, "positions", call["positions"], place, "positions", lengths, k):
                raise Missed("unroll-positions", f"step {k}: {call['positions']}")
            if len(call["mask"][0]) != wide:
                raise Missed("unroll-past", f"step {k}: {len(call['mask'][0])} keys for {rows} rows")
            mask = [row[:wide] for row in mask_rule(lengths, steps)]
            if not agrees(student, "ttt_mask", call["mask"], mask, "ttt_mask", lengths, steps, cut=wide):
                raise Missed("unroll-inputs", f"step {k}: {call['mask']}")
            scores = [
                [
                    sum(h * w[v] for h, w in zip(row, weights["logits"], strict=True))
                    for v in range(len(weights["logits"][0]))
                ]
                for row in call["after"]
            ]
            if not close(told["logits"][k], scores, 1e-3):
                raise Missed("unroll-inputs", f"step {k}: the logits are not head.logits of the hidden state")


@pytest.mark.check("unroll-feeding", points=1)
def test_the_hidden_state_is_the_heads_own_from_the_second_step_on(student: Student) -> None:
    for case in cases(5402):
        _, batch, _ = case
        calls = watch(student, case)["calls"]
        if not close(calls[0]["hidden"], batch["features"]):
            raise Missed("unroll-feeding", "step 0 does not get the features")
        for k, call in enumerate(calls[1:], 1):
            if close(call["hidden"], calls[k - 1]["after"]):
                continue
            true = [shift_rule(batch["features"], batch["lengths"], by) for by in (0, k)]
            teacher = any(close(call["hidden"], one) for one in true)
            raise Missed("unroll-teacher" if teacher else "unroll-feeding", f"step {k}")


@pytest.mark.check("unroll-gradient", points=1)
def test_the_gradient_of_the_last_step_reaches_all_others(student: Student) -> None:
    rng = seeded(5403)
    for lengths, steps in (([4, 2], 3), ([5, 3], 2)):
        weights, batch = some_weights(rng), some_batch(rng, lengths)
        pull = [[rng.gauss(0, 1) for _ in weights["logits"][0]] for _ in batch["tokens"]]
        watch(student, (weights, batch, steps))
        gradient = ask(student, EARLIER, "pulled", weights, batch, steps, pull)
        for name, matrix in weights.items():
            way = [[rng.gauss(0, 1) for _ in row] for row in matrix]
            size = dot(way, way) ** 0.5
            way = [[x / size for x in row] for row in way]
            ends = []
            for by in (-2 * STEP, -STEP, STEP, 2 * STEP):
                moved = [
                    [w + by * d for w, d in zip(*rows, strict=True)] for rows in zip(matrix, way, strict=True)
                ]
                told = student.call("watched", {**weights, name: moved}, batch, steps)
                ends.append(dot(pull, told["logits"][-1]))
            slope = (8 * (ends[2] - ends[1]) - (ends[3] - ends[0])) / (12 * STEP)  # exact to the fourth order
            told_slope = dot(gradient[name], way)
            if abs(told_slope - slope) > 0.01 + 0.01 * abs(slope):
                raise Missed("unroll-gradient", f"{name} of {lengths}: {told_slope}, by differences {slope}")


def dot(one: Any, other: Any) -> float:
    return sum(a * b for a, b in zip(flat(one), flat(other), strict=True))
