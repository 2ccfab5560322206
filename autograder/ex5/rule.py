"""What right parts of a training-time test give, in plain Python, and how a student's parts are asked.

A later part calls the ones before it. So its answer is compared with *readings*: each earlier part as the
student's own function gives it, asked as a black box, or by the rule. One of them must explain the answer.
Own parts are asked through the instruments of the notebook (asked_loss, watched, slope, ...), which turn
lists into tensors and say what went into the head. So nothing here needs torch but the readings of a part
with everything written out inside itself (reference.py), and these are tried last.

No check of this exercise is statistical: every answer is a number that follows from its inputs, and the
slack of a comparison is for the rounding of single precision.

A batch is a dict of lists: tokens [S], features [S, H], probs [S, V], counted [S], lengths [texts].
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from autograder.process import Died
from autograder.student import Blocked, Missed, NoAnswer, Student

DECAY = 0.8
VOCABULARY, SIZE = 5, 4
BETAS, EPS = (0.9, 0.999), 1e-8  # Adam's defaults in torch

Batch = dict[str, Any]
Weights = dict[str, list[list[float]]]
Shift = Callable[[list[Any], list[int], int], list[Any]]


# -- the rule ------------------------------------------------------------------------------------------------


def mask_rule(lengths: Sequence[int], steps: int) -> list[list[bool]]:
    """[S, steps * S]: causal within a text at step 0, the own row at each later step."""
    text = text_of(lengths)
    rows = range(len(text))
    return [
        [text[s] == text[c] and c <= s for c in rows] + [s == c for _ in range(steps - 1) for c in rows]
        for s in rows
    ]


def positions_rule(lengths: Sequence[int], step: int) -> list[int]:
    return [place + step for n in lengths for place in range(n)]


def shift_rule(values: list[Any], lengths: Sequence[int], by: int) -> list[Any]:
    """Row t + by of the same text, or zeros."""
    text = text_of(lengths)
    return [
        values[t + by] if t + by < len(text) and text[t + by] == text[t] else nothing(values[t])
        for t in range(len(text))
    ]


def nothing(value: Any) -> Any:
    return [0.0] * len(value) if isinstance(value, list) else type(value)(0)


def text_of(lengths: Sequence[int]) -> list[int]:
    """The text that each row belongs to."""
    return [number for number, n in enumerate(lengths) for _ in range(n)]


def softmax(scores: Sequence[float]) -> list[float]:
    top = max(scores)
    parts = [math.exp(score - top) for score in scores]
    return [part / sum(parts) for part in parts]


def loss_of(logits: list[Any], batch: Batch, shift: Shift = shift_rule) -> float:
    """The weighted cross-entropy of all steps; a step in which no row counts is left out."""
    total = weights = 0.0
    for k, step in enumerate(logits):
        target = shift(batch["probs"], batch["lengths"], k + 1)
        rows = shift(batch["counted"], batch["lengths"], k + 1)
        costs = [
            -sum(q * math.log(p) for q, p in zip(target[t], softmax(step[t]), strict=True))
            for t, counts in enumerate(rows)
            if counts
        ]
        if costs:
            total += DECAY**k * sum(costs) / len(costs)
            weights += DECAY**k
    return total / weights


def rates_of(
    logits: list[Any],
    batch: Batch,
    shift: Shift = shift_rule,
    rows_at: Callable[[int], list[Any]] | None = None,
    weighted: bool = True,
) -> list[float]:
    """The acceptance rate at each depth, among the chains that got that far.

    rows_at(k): the rows that count in step k, where these are not the shifted ones. weighted=False takes all
    chains alike.
    """
    lengths, alive, rates = batch["lengths"], [1.0] * len(batch["tokens"]), []
    for k, step in enumerate(logits):
        p = [softmax(scores) for scores in step]
        q = shift(batch["probs"], lengths, k + 1)
        rows = rows_at(k) if rows_at else shift(batch["counted"], lengths, k + 1)
        counts = [weight * bool(row) for weight, row in zip(alive, rows, strict=True)]
        overlaps = [overlap(*pair) for pair in zip(p, q, strict=True)]
        rates.append(sum(w * o for w, o in zip(counts, overlaps, strict=True)) / (sum(counts) or 1.0))
        x = shift(batch["tokens"], lengths, k + 2)
        if not weighted:
            continue
        alive = [w * min(1.0, p[t][int(x[t])] / max(q[t][int(x[t])], 1e-9)) for t, w in enumerate(alive)]
    return rates


def overlap(p: Sequence[float], q: Sequence[float]) -> float:
    return sum(min(pair) for pair in zip(p, q, strict=True))


def adam(
    weights: Weights, gradients: Callable[[Weights, int], Weights], updates: int, rate: float
) -> Weights:
    """`updates` steps of Adam from these weights; gradients(weights, update) is asked before each."""
    now = {name: [list(row) for row in matrix] for name, matrix in weights.items()}
    mean = {name: [[0.0] * len(row) for row in matrix] for name, matrix in weights.items()}
    square = {name: [[0.0] * len(row) for row in matrix] for name, matrix in weights.items()}
    for update in range(updates):
        gradient = gradients(now, update)
        left = [1 - beta ** (update + 1) for beta in BETAS]
        for name, matrix in now.items():
            for i, row in enumerate(matrix):
                for j in range(len(row)):
                    g = gradient[name][i][j]
                    mean[name][i][j] += (1 - BETAS[0]) * (g - mean[name][i][j])
                    square[name][i][j] += (1 - BETAS[1]) * (g * g - square[name][i][j])
                    root = math.sqrt(square[name][i][j] / left[1]) + EPS
                    row[j] -= rate * mean[name][i][j] / left[0] / root
    return now


# -- cases ---------------------------------------------------------------------------------------------------


def seeded(seed: int) -> random.Random:
    """The generator of one check's hidden inputs."""
    return random.Random(seed)


def some_weights(rng: random.Random, vocabulary: int = VOCABULARY, size: int = SIZE) -> Weights:
    """Random weights of the notebook's head."""
    shapes = {
        "embed": (vocabulary, size),
        "mix": (2 * size, size),
        "query": (size, size),
        "key": (size, size),
    }
    shapes |= {"value": (size, size), "out": (2 * size, size), "logits": (size, vocabulary)}
    return {
        name: [
            [rng.gauss(0, rows**-0.5 if name != "embed" else 0.7) for _ in range(columns)]
            for _ in range(rows)
        ]
        for name, (rows, columns) in shapes.items()
    }


def some_batch(rng: random.Random, lengths: Sequence[int], counted: float = 0.7) -> Batch:
    """A batch of made-up texts. The first and the last row of the longest one count, so that some row does at
    every depth, whichever way a student's shift goes."""
    rows = sum(lengths)
    batch: Batch = {
        "tokens": [rng.randrange(VOCABULARY) for _ in range(rows)],
        "features": [[rng.gauss(0, 1) for _ in range(SIZE)] for _ in range(rows)],
        "probs": [softmax([rng.gauss(0, 1.5) for _ in range(VOCABULARY)]) for _ in range(rows)],
        "counted": [rng.random() < counted for _ in range(rows)],
        "lengths": list(lengths),
    }
    longest = max(range(len(lengths)), key=lambda text: lengths[text])
    end = sum(lengths[: longest + 1])
    batch["counted"][end - 1] = batch["counted"][end - lengths[longest]] = True
    return batch


def flat_logits(steps: int, rows: int, vocabulary: int = VOCABULARY) -> list[Any]:
    return [[[0.0] * vocabulary for _ in range(rows)] for _ in range(steps)]


# -- the form of an answer -----------------------------------------------------------------------------------


def numbers(value: Any, *shape: int) -> Any:
    """Nested lists of finite numbers (or bools) of this shape, or Missed("shape")."""
    if not shape:
        if type(value) not in (int, float, bool) or not math.isfinite(value):
            raise Missed("shape", f"a number expected, got {value!r:.100}")
        return value
    if type(value) is not list or len(value) != shape[0]:
        raise Missed("shape", f"{shape[0]} items expected, got {value!r:.100}")
    return [numbers(item, *shape[1:]) for item in value]


def number_or_nan(value: Any) -> float:
    """A loss; one that is not finite (told as None) is a wrong number, not a wrong form."""
    if value is None:
        return math.nan
    if type(value) not in (int, float):
        raise Missed("shape", f"a number expected, got {value!r:.100}")
    return float(value)


def flat(value: Any) -> Iterator[float]:
    if isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from flat(item)
    else:
        yield float(value)


def finite(value: Any) -> bool:
    """Are all numbers in it finite? A row that sees no key at all has none: its softmax is nan."""
    try:
        return all(map(math.isfinite, flat(value)))
    except (TypeError, ValueError):
        return False


def close(one: Any, other: Any, slack: float = 1e-4) -> bool:
    """Equal up to slack, of the larger of 1 and the number itself."""
    left, right = list(flat(one)), list(flat(other))
    return len(left) == len(right) and all(
        abs(a - b) <= slack * max(1.0, abs(b)) for a, b in zip(left, right, strict=True)
    )


# -- asking --------------------------------------------------------------------------------------------------


class Undefined(Exception):
    """An earlier part gives no answer that the next one could use."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


def own(student: Student, part: str, name: str, *args: Any) -> Any:
    """Ask an instrument for what an earlier part of the student gives; Undefined where it gives nothing."""
    try:
        value = student.call(name, *args)
    except NoAnswer:
        raise Undefined(part) from None
    except Died:
        raise Blocked(part) from None
    if not finite(value):
        raise Undefined(part)
    return value


def own_shift(student: Student) -> Shift:
    """The student's shift on lists; asked once for the same question."""
    known: dict[str, list[Any]] = {}

    def shift(values: list[Any], lengths: list[int], by: int) -> list[Any]:
        key = repr((values, lengths, by))
        if key not in known:
            value = own(student, "shift", "asked_shift", values, lengths, by)
            shape = (len(values), len(values[0])) if isinstance(values[0], list) else (len(values),)
            try:
                known[key] = numbers(value, *shape)
            except Missed:
                raise Undefined("shift") from None
        return known[key]

    return shift


def shifts(student: Student) -> Iterator[Shift]:
    """The rule and the student's own."""
    yield shift_rule
    yield own_shift(student)


def ask(student: Student, earlier: Sequence[str], name: str, *args: Any) -> Any:
    """Ask about the part that is judged; Blocked if it is an earlier part that raised, or is not written."""
    try:
        return student.call(name, *args)
    except NoAnswer as error:
        inside = [where for where in error.where if where in PARTS]
        if inside and inside[-1] in earlier:
            raise Blocked(inside[-1]) from None
        raise


PARTS = (
    "ttt_mask",
    "positions",
    "shift",
    "multi_step_loss",
    "unroll",
    "train",
    "acceptance",
    "compare",
)


def judge(readings: Iterator[Callable[[], bool]]) -> bool:
    """Does one reading explain the answer? Readings whose own part gives nothing are passed over."""
    for reading in readings:
        try:
            if reading():
                return True
        except Undefined:
            continue
    return False
