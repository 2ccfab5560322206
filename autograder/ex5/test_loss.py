"""Checks of task 3. The loss is linear in the -log p of every row and token: so it is taken apart.

Logits that are 0 but for one entry tell which share of the loss this row has, and which target. Each idea is
asked on its own: targets where there are rows, rows whatever their targets, and the shares of texts and of
steps on long texts with one target everywhere, where it hardly matters which rows count.
"""

import math
import random
from collections.abc import Callable
from functools import partial

import pytest

from autograder.ex5.rule import (
    DECAY,
    Batch,
    Shift,
    ask,
    close,
    flat_logits,
    judge,
    loss_of,
    number_or_nan,
    seeded,
    shifts,
    softmax,
)
from autograder.student import Missed, Student

V = 3
BUMP = 3.0
SHIFT = math.log(math.exp(BUMP) + V - 1) - math.log(V)  # what one bump adds to every -log p of its row


def value(student: Student, logits: list, batch: Batch) -> float:
    told = ask(student, ["shift"], "asked_loss", logits, batch["probs"], batch["counted"], batch["lengths"])
    return number_or_nan(told["value"])


def a_batch(rng: random.Random, lengths: list[int], counted: Callable[[int], bool]) -> Batch:
    rows = sum(lengths)
    probs = [softmax([rng.gauss(0, 1.5) for _ in range(V)]) for _ in range(rows)]
    return {"probs": probs, "counted": [counted(t) for t in range(rows)], "lengths": lengths}


def taken_apart(student: Student, batch: Batch, steps: int) -> list[list[list[float]]]:
    """[steps, S, V]: share of each row in the loss times its target."""
    rows = sum(batch["lengths"])
    logits = flat_logits(steps, rows, V)
    base = value(student, logits, batch)
    result: list[list[list[float]]] = []
    for step in logits:
        result.append([])
        for row in step:
            drops = []
            for v in range(V):
                row[v] = BUMP
                drops.append(base - value(student, logits, batch))
                row[v] = 0.0
            share = sum(drops) / (BUMP - V * SHIFT)
            result[-1].append([(drop + SHIFT * share) / BUMP for drop in drops])
    return result


def small(seed: int) -> list[tuple[Batch, int]]:
    """(batch, steps): the first text counts from its second token on, so that every step has rows."""
    rng = seeded(seed)
    return [
        (a_batch(rng, [5, 1, 3], lambda t: t in (1, 3, 4, 7)), 3),
        (a_batch(rng, [2, 6], lambda t: t >= 4), 2),
    ]


# -- targets and rows ----------------------------------------------------------------------------------------


@pytest.mark.check("loss-targets", points=1)
def test_the_target_is_the_distribution_k_plus_1_rows_further_on(student: Student) -> None:
    for batch, steps in small(5301):
        told = taken_apart(student, batch, steps)
        shares = [[sum(target) for target in step] for step in told]
        if not any(share > 1e-4 for step in shares for share in step):
            raise Missed("loss-targets", "the loss does not depend on the logits")

        def holds(shift: Shift, hard: bool = False, batch: Batch = batch, told: list = told) -> bool:
            for k, step in enumerate(told):
                right = shift(batch["probs"], batch["lengths"], k + 1)
                for got, target in zip(step, right, strict=True):
                    weight = sum(got)
                    if weight > 1e-4 and sum(target):
                        best = [float(q == max(target)) for q in target]
                        if not close([x / weight for x in got], best if hard else target, 0.02):
                            return False
            return True

        if judge(partial(holds, shift) for shift in shifts(student)):
            continue
        if holds(next(shifts(student)), hard=True):
            raise Missed("loss-hard")
        raise Missed("loss-targets", f"{batch}: {told}")
    batch, steps = small(5302)[0]
    logits = flat_logits(steps, sum(batch["lengths"]), V)
    told = ask(student, ["shift"], "asked_loss", logits, batch["probs"], batch["counted"], batch["lengths"])
    if told["differentiable"] is not True:
        raise Missed("loss-gradient")


@pytest.mark.check("loss-mask", points=1)
def test_the_rows_that_count_move_with_the_targets(student: Student) -> None:
    for batch, steps in small(5303):
        told = taken_apart(student, batch, steps)
        counting = [[sum(target) > 1e-4 for target in step] for step in told]

        def holds(shift: Shift, batch: Batch = batch, counting: list = counting) -> bool:
            return all(
                [bool(row) for row in shift(batch["counted"], batch["lengths"], k + 1)] == step
                for k, step in enumerate(counting)
                if any(step)  # a step that is left out altogether is a matter of its weight
            )

        if not judge(partial(holds, shift) for shift in shifts(student)):
            raise Missed("loss-mask", f"{batch}: {counting}")
    # A text that has ended: its row has no target, so it costs nothing, but it must not be divided by either.
    last = a_batch(seeded(5304), [4], lambda t: t >= 2)
    if close(value(student, flat_logits(1, 4, V), last), math.log(V) * 2 / 3, 0.01):
        raise Missed("loss-mask", "a row whose text has ended counts")


# -- shares --------------------------------------------------------------------------------------------------


def long_texts(lengths: list[int], counted: Callable[[int], bool] = lambda t: True) -> Batch:
    """One target everywhere."""
    rows = sum(lengths)
    return {
        "probs": [[1.0, 0.0, 0.0]] * rows,
        "counted": [counted(t) for t in range(rows)],
        "lengths": lengths,
    }


def logits_with(steps: int, rows: int, bumped: Callable[[int, int], bool]) -> list:
    """Scores of 0, but 3 for the target in some rows of some steps."""
    return [[[BUMP * bumped(k, t), 0.0, 0.0] for t in range(rows)] for k in range(steps)]


def is_step(one: int, k: int, t: int) -> bool:
    return k == one


@pytest.mark.check("loss-tokens", points=1)
def test_a_steps_loss_is_the_mean_over_all_rows_that_count(student: Student) -> None:
    texts = long_texts([300, 100])
    base, first, both = (
        value(student, logits_with(1, 400, bumped), texts)
        for bumped in (lambda k, t: False, lambda k, t: t < 300, lambda k, t: True)
    )
    if both == base or not math.isfinite(base):
        raise Missed("loss-tokens", f"{base}, {first}, {both}")
    if not abs((base - first) / (base - both) - 0.75) < 0.02:
        raise Missed("loss-texts" if abs((base - first) / (base - both) - 0.5) < 0.02 else "loss-tokens")
    half = value(student, logits_with(1, 400, lambda k, t: False), long_texts([400], lambda t: t % 2 == 0))
    less = value(student, logits_with(1, 200, lambda k, t: False), long_texts([200]))
    if not (close(half / base, 1.0, 0.03) and close(less / base, 1.0, 0.03)):
        raise Missed(
            "loss-tokens", f"{base} for all rows, {half} for half of them, {less} for a shorter text"
        )


@pytest.mark.check("loss-weights", points=1)
def test_steps_are_weighted_and_divided_by_the_weights(student: Student) -> None:
    steps, rows = 3, 200
    texts = long_texts([rows])
    base = value(student, logits_with(steps, rows, lambda k, t: False), texts)
    shares = [
        base - value(student, logits_with(steps, rows, partial(is_step, one)), texts) for one in range(steps)
    ]
    total = sum(shares)
    if not math.isfinite(total) or total <= 0:
        raise Missed("loss-weights", f"{base}, {shares}")
    right = [DECAY**k / (1 + DECAY + DECAY**2) for k in range(steps)]
    if not close([share / total for share in shares], right, 0.02):
        raise Missed("loss-weights", f"{shares}")
    alone = value(student, logits_with(1, rows, lambda k, t: False), texts)
    if not close(base / alone, 1.0, 0.05):
        raise Missed("loss-normalised", f"{base} for three steps, {alone} for one")
    short = long_texts([3])
    begun, ended = (value(student, flat_logits(k, 3, V), short) for k in (1, 5))
    # A sum over rows, or a division by all of them, halves the second step: that is named elsewhere.
    if not any(close(ended, right, 0.01) for right in (begun, begun * 1.4 / 1.8, *with_ended_rows(5, 3))):
        raise Missed("loss-empty", f"{ended} with empty steps, {begun} without")
    exact(student)


def with_ended_rows(steps: int, rows: int) -> list[float]:
    """The loss of a text whose rows cost log V each, if rows that have ended count too: a matter of the mask.

    Either all rows count in every step, or those that count in step 0.
    """
    total = sum(DECAY**k for k in range(steps))
    return [
        math.log(V) / total * sum(DECAY**k * max(0, min(n, rows - 1 - k)) / n for k in range(steps))
        for n in (rows, rows - 1)
    ]


def exact(student: Student) -> None:
    """Where all ideas seem right: a mean over the rows of all steps at once differs on short texts alone."""
    rng = seeded(5305)
    for batch, steps in small(5306):
        logits = [
            [[rng.gauss(0, 1) for _ in range(V)] for _ in range(sum(batch["lengths"]))] for _ in range(steps)
        ]
        got = value(student, logits, batch)

        def holds(shift: Shift, batch: Batch = batch, logits: list = logits, got: float = got) -> bool:
            return close(got, loss_of(logits, batch, shift))

        if judge(partial(holds, shift) for shift in shifts(student)):
            continue
        for test in (
            test_the_target_is_the_distribution_k_plus_1_rows_further_on,
            test_the_rows_that_count_move_with_the_targets,
            test_a_steps_loss_is_the_mean_over_all_rows_that_count,
        ):
            try:
                test(student)
            except Missed:
                return  # it is named there
        raise Missed("loss-weights", f"{batch} gave {got}")
