"""What a right batched cache does, and what a simulation built on a student's own cache does.

The simulation calls the parts before it. Where one of these is wrong, a simulation that calls it correctly is
still right, and one that has the right step written out inside itself is right as well. So its answers are
compared with *readings*: each part by the rule or by the student's own function, asked as a black box through
`Student`. One reading must explain all of them.

A cache is a dict of lists, one entry per sequence: keys and values (lists of whole numbers, of which the
first `length` are valid; what lies behind is nobody's business), length, computed, discarded. The toy
verifier gives the token t at position i the key 100 t + i and the value -(100 t + i).
"""

import copy
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autograder.process import Died
from autograder.student import Blocked, Missed, NoAnswer, Student

PARTS = ("new_cache", "rows_to_compute", "write", "rollback", "simulate")
STORES = ("keys", "values")
COUNTS = ("length", "computed", "discarded")
TOKENS = range(10, 90)

Cache = dict[str, list[Any]]
Rows = list[list[list[int]]]  # per sequence, [position, token]
Part = Callable[..., Any]


# -- the rule ------------------------------------------------------------------------------------------------


def new_cache_rule(batch: int) -> Cache:
    return {**{name: [[] for _ in range(batch)] for name in STORES}, **{name: [0] * batch for name in COUNTS}}


def rows_rule(cache: Cache, sequences: Sequence[Sequence[int]]) -> Rows:
    """What is not cached yet: [position, token] from the own length on."""
    return [
        [[position, tokens[position]] for position in range(length, len(tokens))]
        for length, tokens in zip(cache["length"], sequences, strict=True)
    ]


def write_rule(cache: Cache, keys: list[list[int]], values: list[list[int]]) -> Cache:
    """New rows go behind the valid ones of their own sequence."""
    for b, length in enumerate(cache["length"]):
        for name, rows in (("keys", keys), ("values", values)):
            cache[name][b][length:] = rows[b]
        cache["length"][b] += len(keys[b])
        cache["computed"][b] += len(keys[b])
    return cache


def rollback_rule(cache: Cache, drafted: Sequence[int], accepted: Sequence[int]) -> Cache:
    """Forget the rejected drafts of each sequence."""
    for b, (had, kept) in enumerate(zip(drafted, accepted, strict=True)):
        cache["length"][b] -= had - kept
        cache["discarded"][b] += had - kept
    return cache


RULE: dict[str, Part] = {
    "new_cache": new_cache_rule,
    "rows_to_compute": rows_rule,
    "write": write_rule,
    "rollback": rollback_rule,
}


def verifier(rows: Rows) -> tuple[list[list[int]], list[list[int]]]:
    """Keys and values of the rows of one pass."""
    keys = [[100 * token + position for position, token in line] for line in rows]
    return keys, [[-key for key in line] for line in keys]


# -- cases ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Prompts and rounds as the student's simulation gets them."""

    prompts: list[list[int]]
    rounds: list[dict[str, Any]]


def two_sequences(rng: random.Random, rounds: int) -> Case:
    """A accepts all of its drafts, B rejects its second one, round after round."""
    given = []
    for _ in range(rounds):
        n = rng.randint(3, 5)
        given.append({"drafts": [words(rng, n), words(rng, n)], "accepted": [n, 1], "next": words(rng, 2)})
    return Case([words(rng, rng.randint(2, 5)) for _ in range(2)], given)


def any_batch(rng: random.Random) -> Case:
    """Ragged prompts, ragged drafts, any acceptance."""
    batch, given = rng.randint(1, 4), []
    for _ in range(rng.randint(3, 5)):
        drafts = [words(rng, rng.randint(0, 4)) for _ in range(batch)]
        accepted = [rng.randint(0, len(one)) for one in drafts]
        given.append({"drafts": drafts, "accepted": accepted, "next": words(rng, batch)})
    return Case([words(rng, rng.randint(1, 6)) for _ in range(batch)], given)


def words(rng: random.Random, count: int) -> list[int]:
    return [rng.choice(TOKENS) for _ in range(count)]


def filled(rng: random.Random, lengths: Sequence[int]) -> Cache:
    """A cache whose entries are marks that no pass of the verifier would give, and a ledger to match."""
    marks: Iterator[int] = iter(rng.sample(range(20_000, 90_000), 2 * sum(lengths)))
    cache = new_cache_rule(len(lengths))
    for name in STORES:
        cache[name] = [list(itertools.islice(marks, length)) for length in lengths]
    cache["length"] = list(lengths)
    cache["discarded"] = [rng.randint(0, 5) for _ in lengths]
    cache["computed"] = [sum(pair) for pair in zip(lengths, cache["discarded"], strict=True)]
    return cache


# -- asking --------------------------------------------------------------------------------------------------


def cache_of(value: Any, batch: int) -> Cache:
    """A cache of the form that the exercise asks for, or Missed("shape")."""
    if type(value) is not dict or not {*STORES, *COUNTS} <= set(value):
        raise Missed("shape", f"a cache expected, got {value!r:.200}")
    for name in (*STORES, *COUNTS):
        if type(value[name]) is not list or len(value[name]) != batch:
            raise Missed("shape", f"{name} is {value[name]!r:.200}")
    if not all(type(line) is list for name in STORES for line in value[name]):
        raise Missed("shape", "keys and values hold a list per sequence")
    if not all(is_whole(count) for name in COUNTS for count in value[name]):
        raise Missed("shape", f"counts are {[value[name] for name in COUNTS]!r:.200}")
    for name in COUNTS:
        value[name] = [int(count) for count in value[name]]
    return value


def is_whole(value: Any) -> bool:
    return type(value) in (int, float) and value == int(value)


def rows_of(value: Any, batch: int) -> Rows:
    """Rows of the form that the exercise asks for, or Missed("shape")."""
    if type(value) is not list or len(value) != batch or not all(type(line) is list for line in value):
        raise Missed("shape", f"a list of rows per sequence expected, got {value!r:.200}")
    for line in value:
        if not all(type(row) is list and len(row) == 2 and all(map(is_whole, row)) for row in line):
            raise Missed("shape", f"rows of (position, token) expected, got {line!r:.200}")
    return [[[int(position), int(token)] for position, token in line] for line in value]


def valid(cache: Cache) -> dict[str, list[list[int]]]:
    """The valid entries of a cache; a length beyond what is there shows as a missing entry."""
    return {
        name: [
            line[: max(0, length)] + [None] * (length - len(line))
            for line, length in zip(cache[name], cache["length"], strict=True)
        ]
        for name in STORES
    }


def own_part(student: Student, name: str) -> Part:
    """A part of the student as a function on plain data; Undefined where it gives no right kind of answer."""

    def part(*args: Any) -> Any:
        batch = args[0] if name == "new_cache" else len(args[0]["length"])
        try:
            value = student.call(name, *args)
            return rows_of(value, batch) if name == "rows_to_compute" else cache_of(value, batch)
        except (NoAnswer, Missed):
            raise Undefined(name) from None
        except Died:
            raise Blocked(name) from None

    return part


class Undefined(Exception):
    """A part gives no answer that the next one could use."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


# -- readings of a simulation --------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a simulation leaves behind; `passes` are the rows of each call of the verifier."""

    cache: Cache
    sequences: list[list[int]]
    passes: list[Rows] = field(default_factory=list)

    @property
    def work(self) -> list[list[int]]:
        """Rows per call and sequence."""
        return [[len(line) for line in rows] for rows in self.passes]


def compose(parts: Mapping[str, Part], case: Case) -> Outcome:
    """The simulation, built on these parts."""
    cache = parts["new_cache"](len(case.prompts))
    sequences, passes = [list(prompt) for prompt in case.prompts], []
    for one in case.rounds:
        drafts, accepted = one["drafts"], one["accepted"]
        rows = parts["rows_to_compute"](
            copy.deepcopy(cache), [old + new for old, new in zip(sequences, drafts, strict=True)]
        )
        passes.append(rows)
        cache = parts["write"](cache, *verifier(rows))
        cache = parts["rollback"](cache, [len(new) for new in drafts], list(accepted))
        for tokens, new, kept, last in zip(sequences, drafts, accepted, one["next"], strict=True):
            tokens += [*new[:kept], last]
    return Outcome(cache, sequences, passes)


def readings(student: Student) -> Iterator[dict[str, Part]]:
    """All choices between the rule and the student's own part: the rule, the own parts alone, the others."""
    own = {name: own_part(student, name) for name in PARTS[:-1]}
    yield RULE
    yield own
    for names in itertools.product((True, False), repeat=3):
        if any(names) and not all(names):
            chosen = {name for name, mine in zip(PARTS[1:-1], names, strict=True) if mine}
            yield {name: own[name] if name in chosen else RULE[name] for name in PARTS[:-1]}
    yield {**own, "new_cache": new_cache_rule}


def judge(
    student: Student,
    cases: Sequence[Case],
    ask: Callable[[Case], Outcome],
    holds: Callable[[Outcome, Outcome], bool],
) -> str:
    """ "" if one reading explains every answer; else the details of the first contradiction of the rule.

    Blocked if the student's own parts give no answers to compare with, or share their lists.
    """
    try:
        answers = [ask(case) for case in cases]
    except NoAnswer as error:
        inside = [name for name in error.where if name in PARTS]
        if error.idea != "not-written" or (inside and inside[-1] != "simulate"):
            block_on_own_parts(student, cases)
        raise
    except Missed:
        block_on_own_parts(student, cases)
        raise
    for parts in readings(student):
        try:
            if all(holds(got, compose(parts, case)) for got, case in zip(answers, cases, strict=True)):
                return ""
        except Undefined:
            continue
    block_on_own_parts(student, cases)
    return next(
        f"{case} gave {got}"
        for got, case in zip(answers, cases, strict=True)
        if not holds(got, compose(RULE, case))
    )


def block_on_own_parts(student: Student, cases: Sequence[Case]) -> None:
    own = {name: own_part(student, name) for name in PARTS[:-1]}
    try:
        for case in cases:
            compose(own, case)
    except Undefined as error:
        raise Blocked(error.part) from None
    try:
        separate = student.call("lists_are_separate", 3)
    except (NoAnswer, Died):
        separate = True
    if separate is False:  # sequences that share a list cannot be told apart from outside
        raise Blocked("new_cache")
