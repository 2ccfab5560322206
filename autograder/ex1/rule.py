"""What a right speculative step does, given a student's own earlier parts.

A step calls accept and residual. Where one of these is wrong, a step that calls it correctly is still a right
step; and a step that has the right rule written out inside itself is right as well. So a step is judged
against *readings* of the earlier parts: the student's accept or the rule, the student's residual or the rule.
It is right if one reading explains all of its answers. The parts are asked as black boxes, through `Student`.

All probabilities are multiples of 1/64 and all coins odd multiples of 1/512: sums are exact, no coin falls on
a boundary, and no test needs a tolerance. Layout: tables q, p [V][V], coins [2N+1] as in the exercise.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.process import Died
from autograder.student import Blocked, Missed, NoAnswer, Student

PARTS = ("accept", "residual", "speculative_step", "chi_square", "count_tokens")
ENOUGH = 10  # cases that a check puts to a step
Row = list[float]


@dataclass(frozen=True)
class Case:
    """One step to ask for. Its drafts are the most likely tokens of p unless `any_draft`, so that drafting by
    argmax costs the points of drafting and no others."""

    q: list[Row]
    p: list[Row]
    last: int
    coins: list[float]

    @property
    def n(self) -> int:
        return len(self.coins) // 2

    @property
    def final(self) -> float:
        return self.coins[-1]

    @property
    def drafts(self) -> list[int]:
        tokens, token = [], self.last
        for u in self.coins[: self.n]:
            token = draw(self.p[token], u)
            tokens.append(token)
        return tokens


# -- the rule ------------------------------------------------------------------------------------------------


def draw(weights: Sequence[float], u: float) -> int:
    """The first token whose running sum exceeds u; the last token of positive weight if none does."""
    total = 0.0
    for token, weight in enumerate(weights):
        total += weight
        if u < total:
            return token
    return max(token for token, weight in enumerate(weights) if weight > 0 or token == 0)


def accept_rule(q_x: float, p_x: float, u: float) -> bool:
    """u < q(x) / p(x). Leviathan et al. (2023), Algorithm 1."""
    return u * p_x < q_x


def residual_rule(q: Sequence[float], p: Sequence[float]) -> Row:
    """norm(max(0, q - p)), and q where the two are equal."""
    return normalised([max(0.0, a - b) for a, b in zip(q, p, strict=True)]) or list(q)


def normalised(weights: Sequence[float]) -> Row:
    """Weights over their sum; [] if that is not positive."""
    total = sum(weights)
    return [weight / total for weight in weights] if total > 0 else []


# -- cases ---------------------------------------------------------------------------------------------------


def row(rng: random.Random, size: int, parts: int = 64) -> Row:
    """A row of positive multiples of 1/64 whose largest entry is unique."""
    while True:
        cuts = sorted(rng.sample(range(1, parts), size - 1))
        counts = [b - a for a, b in zip([0, *cuts], [*cuts, parts], strict=True)]
        if counts.count(max(counts)) == 1:
            return [count / parts for count in counts]


def coin(rng: random.Random, low: float = 0.0, high: float = 1.0) -> float:
    """An odd multiple of 1/512 between low and high, two multiples of 1/64 that differ."""
    return (2 * rng.randrange(round(low * 256), round(high * 256)) + 1) / 512


def cases(seed: int, any_draft: bool = False) -> Iterator[Case]:
    """An endless stream of steps, of 1 to 4 drafts over 3 to 6 tokens.

    Accept coins are low, high or anywhere, and q is flatter or sharper than p, so that full acceptance and
    rejection both happen often under the rule and under wrong ones. With any_draft the accept coins are 0.
    """
    rng = random.Random(seed)
    while True:
        size, n = rng.randint(3, 6), rng.randint(1, 4)
        p = [row(rng, size) for _ in range(size)]
        q = [row(rng, size) for _ in range(size)]
        if rng.random() < 0.4:  # the verifier is surer of the draft's favourite than the draft is
            q = [sharper(line) for line in p]
        token = last = rng.randrange(size)
        draft_coins = []
        for _ in range(n):
            best = p[token].index(max(p[token]))
            start = sum(p[token][:best])
            draft_coins.append(coin(rng) if any_draft else coin(rng, start, start + p[token][best]))
            token = draw(p[token], draft_coins[-1])
        low, high = rng.choice([(0.0, 0.25), (0.0, 1.0), (0.75, 1.0)])
        accept_coins = [0.0 if any_draft else coin(rng, low, high) for _ in range(n)]
        yield Case(q, p, last, [*draft_coins, *accept_coins, coin(rng)])


def sharper(line: Row) -> Row:
    """Half of what the other tokens have goes to the most likely one, in multiples of 1/64."""
    best = line.index(max(line))
    moved = [0.0 if i == best else (round(value * 64) // 2) / 64 for i, value in enumerate(line)]
    return [line[best] + sum(moved) if i == best else value - moved[i] for i, value in enumerate(line)]


# -- readings of the earlier parts ---------------------------------------------------------------------------


def own_accept(student: Student) -> Callable[[float, float, float], bool | None]:
    """The student's accept as a black box; None where it gives no decision."""

    def decide(q_x: float, p_x: float, u: float) -> bool | None:
        try:
            value = student.call("accept", q_x, p_x, u)
        except NoAnswer:
            return None
        except Died:
            raise Blocked("accept") from None
        return bool(value) if value in (True, False) else None

    return decide


def own_residual(student: Student, q: Row, p: Row) -> Row | None:
    """The student's residual as a black box; None where it gives no row of numbers."""
    try:
        return numbers(student.call("residual", q, p), len(q))
    except (NoAnswer, Missed):
        return None
    except Died:
        raise Blocked("residual") from None


def walk(case: Case, keep: Callable[[float, float, float], bool | None]) -> tuple[int, int] | None:
    """How many drafts this accept keeps, and the token before the position where it stops."""
    before = case.last
    for i, x in enumerate(case.drafts):
        kept = keep(case.q[before][x], case.p[before][x], case.coins[case.n + i])
        if kept is None:
            return None
        if not kept:
            return i, before
        before = x
    return case.n, before


def drawn_from(weights: Row | None, u: float) -> set[int]:
    """The tokens that a step may read off a residual with the coin u, even off a wrong one."""
    if weights is None:
        return set()
    clamped = [max(0.0, weight) for weight in weights]
    return {draw(line, u) for line in (weights, clamped, normalised(clamped)) if line}


@dataclass(frozen=True)
class Asked:
    """A step's answer beside what a reading says: `kept` drafts, and the row `before` at the end."""

    case: Case
    kept: int
    before: int
    tokens: list[Any]
    reasons: Any

    @property
    def rows(self) -> tuple[Row, Row]:
        return self.case.q[self.before], self.case.p[self.before]


def judge(
    student: Student,
    pool: Sequence[Case],
    fits: Callable[[Case, int, int], bool],
    holds: Callable[[Asked], bool],
) -> list[Asked]:
    """Put the cases that fit to the student's step; [] if one reading of accept explains every answer.

    Otherwise the answers that contradict the student's own reading. Blocked if that reading has no fitting
    case.
    """
    wrong: list[list[Asked] | None] = []
    answers: dict[int, tuple[list[Any], Any]] = {}
    for keep in (own_accept(student), accept_rule):
        asked = []
        for number, case in enumerate(pool):
            end = walk(case, keep)
            if end is None or not fits(case, *end):
                continue
            if number not in answers:
                answers[number] = ask_step(student, case)
            asked.append(Asked(case, *end, *answers[number]))
            if len(asked) == ENOUGH:
                break
        wrong.append([one for one in asked if not holds(one)] if asked else None)
        if wrong[-1] == []:
            return []
    if wrong[0] is None:
        raise Blocked("accept")
    return wrong[0]


def ask_step(student: Student, case: Case) -> tuple[list[Any], Any]:
    """The student's (tokens, reasons). Blocked if the step stumbled over an earlier part without answer."""
    try:
        answer = student.call("speculative_step", case.q, case.p, case.last, case.coins)
    except NoAnswer as error:
        inside = [name for name in error.where if name in PARTS]
        if inside and inside[-1] != "speculative_step":
            raise Blocked(inside[-1]) from None
        end = walk(case, own_accept(student))
        if error.idea != "not-written" and end is None:
            raise Blocked("accept") from None
        if error.idea != "not-written" and end and end[0] < case.n:
            before = end[1]
            if own_residual(student, case.q[before], case.p[before]) is None:
                raise Blocked("residual") from None
        raise
    if type(answer) is list and len(answer) == 2 and type(answer[0]) is list:
        return answer[0], answer[1]
    raise Missed("shape", f"speculative_step returned {answer!r:.200}")


def numbers(value: Any, length: int) -> Row:
    """A list of `length` finite numbers, or Missed("shape")."""
    if type(value) is not list or len(value) != length or not all(type(x) in (int, float) for x in value):
        raise Missed("shape", f"{length} numbers expected, got {value!r:.200}")
    if not all(abs(x) < 1e300 for x in value):
        raise Missed("shape", f"finite numbers expected, got {value!r:.200}")
    return [float(x) for x in value]
