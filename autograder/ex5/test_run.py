"""Checks of task 5: training and measuring, each on what the student's own earlier parts give."""

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from autograder.ex5.rule import (
    VOCABULARY,
    Batch,
    Undefined,
    Weights,
    adam,
    ask,
    close,
    finite,
    flat,
    flat_logits,
    judge,
    numbers,
    own,
    rates_of,
    seeded,
    shift_rule,
    shifts,
    softmax,
    some_batch,
    some_weights,
)
from autograder.student import Blocked, Missed, NoAnswer, Student

BEFORE_TRAIN = ("ttt_mask", "positions", "shift", "multi_step_loss", "unroll")
RATE = 0.02


def some_batches(rng: random.Random, count: int) -> list[Batch]:
    return [some_batch(rng, [5, *(rng.randint(1, 4) for _ in range(2))]) for _ in range(count)]


def asked(student: Student, name: str, earlier: tuple[str, ...], *args: Any) -> Any:
    """Ask; what raises or is not finite because an earlier part is so is blocked by that part."""
    try:
        value = ask(student, earlier, name, *args)
    except NoAnswer as error:
        if error.idea != "not-written":
            block_on_own_parts(student, earlier)
        raise
    if not finite(value):
        block_on_own_parts(student, earlier)
    return value


def block_on_own_parts(student: Student, earlier: tuple[str, ...]) -> None:
    weights, batch = some_weights(seeded(5500)), some_batch(seeded(5501), [5, 2])
    for part, instrument in (("unroll", "watched"), ("multi_step_loss", "slope")):
        try:
            if part in earlier:
                own(student, part, instrument, weights, batch, 3)
        except Undefined:
            raise Blocked(part) from None


# -- train ---------------------------------------------------------------------------------------------------


def slopes(student: Student, batches: list[Batch], steps: int) -> Any:
    """The gradients that the student's own unrolling and loss give."""

    def gradients(now: Weights, update: int) -> Weights:
        told = own(student, "multi_step_loss", "slope", now, batches[update], steps)
        return told["gradient"]

    return gradients


def same_run(got: Weights, right: Weights, start: Weights) -> bool:
    """Within 2% of the way that the run has gone: Adam makes much of the noise in small gradients."""
    off = sum((a - b) ** 2 for a, b in zip(flat(got), flat(right), strict=True)) ** 0.5
    way = sum((a - b) ** 2 for a, b in zip(flat(right), flat(start), strict=True)) ** 0.5
    return off <= 0.02 * way + 1e-6


def is_like(got: Any, weights: Weights) -> Weights:
    if type(got) is not dict or set(got) != set(weights):
        raise Missed("shape", "the weights of a head expected")
    return {name: numbers(got[name], len(w), len(w[0])) for name, w in weights.items()}


@pytest.mark.check("train", points=1)
def test_training_is_one_update_of_adam_for_each_batch(student: Student) -> None:
    rng = seeded(5502)
    for count, steps in ((3, 3), (2, 1)):
        weights, batches = some_weights(rng), some_batches(rng, count)
        got = is_like(asked(student, "trained", BEFORE_TRAIN, weights, batches, steps, RATE), weights)

        def mine(
            steps: int = steps, weights: Weights = weights, batches: list = batches, got: Weights = got
        ) -> bool:
            return same_run(got, adam(weights, slopes(student, batches, steps), len(batches), RATE), weights)

        def rule(
            steps: int = steps, weights: Weights = weights, batches: list = batches, got: Weights = got
        ) -> bool:
            from autograder.ex5 import reference

            return same_run(got, reference.trained(weights, batches, steps, RATE), weights)

        if judge(iter((mine, rule))):
            continue
        if steps > 1 and judge(iter([partial(mine, steps=1)])):
            raise Missed("train-steps")
        raise Missed("train", f"{count} batches, {steps} steps")


# -- acceptance ----------------------------------------------------------------------------------------------

BEFORE_RATES = ("ttt_mask", "positions", "shift", "unroll")


def rates(student: Student, weights: Weights, batch: Batch, depth: int) -> list[float]:
    return numbers(asked(student, "measured", BEFORE_RATES, weights, batch, depth), depth)


def logits_of(student: Student, weights: Weights, batch: Batch, depth: int) -> Iterator[Any]:
    """By the student's own unrolling, and by the rule."""
    yield lambda: own(student, "unroll", "watched", weights, batch, depth)["logits"]

    def rule() -> Any:
        from autograder.ex5 import reference

        return reference.unrolled(weights, batch, depth)

    yield rule


def all_rows(values: list[Any], lengths: list[int], by: int) -> list[Any]:
    """A shift that lets every row count."""
    return [True] * len(values) if type(values[0]) is bool else shift_rule(values, lengths, by)


@pytest.mark.check("acceptance", points=1)
def test_the_rate_is_the_mean_overlap_of_the_rows_that_count(student: Student) -> None:
    rng = seeded(5503)
    for lengths in ([4, 3, 6], [7, 2]):
        weights, batch = some_weights(rng), some_batch(rng, lengths)
        got = rates(student, weights, batch, 1)

        def explains(logits: Any, shift: Any, batch: Batch = batch, got: list = got) -> bool:
            return close(got, rates_of(logits(), batch, shift), 1e-3)

        if not judge(
            partial(explains, logits, shift)
            for logits in logits_of(student, weights, batch, 1)
            for shift in shifts(student)
        ):
            every = judge(
                partial(explains, logits, all_rows) for logits in logits_of(student, weights, batch, 1)
            )
            raise Missed("acceptance-rows" if every else "acceptance", f"depth 1: {got}")
    # Later depths, with a head that knows nothing: p is flat whatever it read, and one row counts in each.
    for depth, place in ((3, 4), (4, 5)):  # far from both ends
        weights, batch = some_weights(rng), some_batch(rng, [11, 3])
        weights["logits"] = [[0.0] * VOCABULARY for _ in weights["logits"]]
        batch["counted"] = [t == place for t in range(14)]
        for t, q in enumerate(batch["probs"][:-1]):
            batch["tokens"][t + 1] = q.index(min(q))  # less than 1 / V: no chain is lost on the way
        got = rates(student, weights, batch, depth)

        def holds(shift: Any, depth: int = depth, batch: Batch = batch, got: list = got) -> bool:
            return close(got, rates_of(flat_logits(depth, 14), batch, shift), 1e-3)

        if not judge(partial(holds, shift) for shift in shifts(student)):
            raise Missed("acceptance-targets", f"{depth} depths, place {place}: {got}")


@pytest.mark.check("acceptance-alive", points=1)
def test_later_rates_are_those_of_the_chains_that_got_that_far(student: Student) -> None:
    rng = seeded(5504)
    wrong, plain = [], True
    for lengths, depth in (([6, 4, 5], 3), ([5, 7], 4)):
        weights, batch = some_weights(rng), some_batch(rng, lengths)
        weights["logits"] = [[3 * w for w in row] for row in weights["logits"]]
        for t, q in enumerate(batch["probs"][:-1]):
            batch["tokens"][t + 1] = rng.choices(range(VOCABULARY), q)[0]
        got = rates(student, weights, batch, depth)

        def explains(reading: Any, got: list = got) -> bool:
            return close(got, reading(), 1e-3)

        if not judge(
            partial(explains, reading) for reading in alive_readings(student, weights, batch, depth)
        ):
            wrong.append(f"{lengths}, {depth} depths: {got}")
        plain = plain and judge(
            partial(explains, reading) for reading in plain_means(student, weights, batch, depth)
        )
    if wrong:
        raise Missed("acceptance-plain" if plain else "acceptance-alive", "; ".join(wrong))


def alive_readings(student: Student, weights: Weights, batch: Batch, depth: int) -> Iterator[Any]:
    """Right weights on what the student takes for the rows, for the targets and for the overlap."""
    lengths, total = batch["lengths"], len(batch["tokens"])
    kept = [shift_rule([True] * total, lengths, k + 1) for k in range(depth)]
    others = (lambda k: [True] * total, lambda k: batch["counted"], lambda k: kept[k])

    def standing(values: list[Any], lengths: list[int], by: int) -> list[Any]:
        """Targets that stay where they are at the first depth."""
        return shift_rule(values, lengths, 1 if values is batch["probs"] else by)

    for logits in logits_of(student, weights, batch, depth):
        for shift in (*shifts(student), standing):
            yield lambda logits=logits, shift=shift: rates_of(logits(), batch, shift)
        for rows_at in others:
            yield lambda logits=logits, rows_at=rows_at: rates_of(logits(), batch, rows_at=rows_at)
    yield lambda: with_own_overlaps(student, weights, batch, depth)


def with_own_overlaps(student: Student, weights: Weights, batch: Batch, depth: int) -> list[float]:
    """The overlap of each row is what the student measures where it is the only one that counts."""
    lengths, logits = batch["lengths"], own(student, "unroll", "watched", weights, batch, depth)["logits"]
    result = []
    for k in range(depth):
        rows, measured = shift_rule(batch["counted"], lengths, k + 1), [0.0] * len(batch["tokens"])
        for t, counts in enumerate(rows):
            if counts:
                alone = {**batch, "counted": [place == t + k + 1 for place in range(len(rows))]}
                try:
                    measured[t] = student.call("measured", weights, alone, k + 1)[k]
                except (NoAnswer, TypeError, IndexError):
                    raise Undefined("acceptance") from None
        alive = alive_before(logits, batch, k)
        total = sum(a for a, counts in zip(alive, rows, strict=True) if counts)
        result.append(
            sum(a * o for a, o, counts in zip(alive, measured, rows, strict=True) if counts) / total
        )
    return result


def alive_before(logits: list, batch: Batch, k: int) -> list[float]:
    """[S]: how probably each row's chain got to step k."""
    lengths, alive = batch["lengths"], [1.0] * len(batch["tokens"])
    for step in range(k):
        q, x = shift_rule(batch["probs"], lengths, step + 1), shift_rule(batch["tokens"], lengths, step + 2)
        for t in range(len(alive)):
            p = softmax(logits[step][t])[int(x[t])]
            alive[t] *= min(1.0, p / max(q[t][int(x[t])], 1e-9))
    return alive


def plain_means(student: Student, weights: Weights, batch: Batch, depth: int) -> Iterator[Any]:
    """The mean overlap of each depth over all rows, whether they got there or not."""
    for shift in shifts(student):
        yield lambda shift=shift: rates_of(
            own(student, "unroll", "watched", weights, batch, depth)["logits"], batch, shift, weighted=False
        )


# -- compare -------------------------------------------------------------------------------------------------


@pytest.mark.check("compare", points=1)
def test_two_heads_that_start_alike_are_trained_and_measured(student: Student) -> None:
    rng = seeded(5505)
    steps = 3
    weights, batches = some_weights(rng), some_batches(rng, 4)
    held_out = some_batch(rng, [6, 5, 4])
    earlier = (*BEFORE_TRAIN, "train", "acceptance")
    told = asked(student, "compared", earlier, weights, batches, held_out, steps, RATE)
    if type(told) is not dict or set(told) != {"without", "with"}:
        raise Missed("shape", f"a dict with two entries expected, got {told!r:.100}")
    got = {name: numbers(told[name], steps) for name in ("without", "with")}

    def mine() -> bool:
        right = {}
        for name, k in (("without", 1), ("with", steps)):
            head = own(student, "train", "trained", weights, batches, k, RATE)
            right[name] = own(student, "acceptance", "measured", head, held_out, steps)
        return all(close(got[name], right[name], 2e-3) for name in right)

    def rule() -> bool:
        from autograder.ex5 import reference

        heads = {"without": 1, "with": steps}
        return all(
            close(
                got[name],
                reference.measured(reference.trained(weights, batches, k, RATE), held_out, steps),
                2e-3,
            )
            for name, k in heads.items()
        )

    if not judge(iter((mine, rule))):
        raise Missed("compare", f"{got}")
