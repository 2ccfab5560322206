"""Checks of tasks 1 to 4: the parts of the cache, each alone, on caches that the check makes.

Entries of these caches are marks that no pass of the verifier gives: one that was computed again shows.
"""

import random
from collections.abc import Callable, Sequence

import pytest

from autograder.ex4.rule import (
    COUNTS,
    STORES,
    Cache,
    Undefined,
    cache_of,
    filled,
    own_part,
    rows_of,
    valid,
    words,
)
from autograder.student import Missed, Student

BATCHES = (1, 2, 2, 3, 4, 5)


# -- task 1 --------------------------------------------------------------------------------------------------


@pytest.mark.check("new-cache", points=1)
def test_a_new_cache_is_empty(student: Student) -> None:
    for batch in BATCHES:
        cache = cache_of(student.call("new_cache", batch), batch)
        if any(line for name in STORES for line in valid(cache)[name]) or any(
            count for name in COUNTS for count in cache[name]
        ):
            raise Missed("new-cache", f"{cache}")


@pytest.mark.check("new-separate", points=1)
def test_every_sequence_has_lists_of_its_own(student: Student) -> None:
    cache_of(student.call("new_cache", 3), 3)
    for batch in (2, 3, 5):
        if student.call("lists_are_separate", batch) is not True:
            raise Missed("new-separate", f"a batch of {batch}")


# -- task 2 --------------------------------------------------------------------------------------------------

RowCase = tuple[Cache, list[list[int]], list[list[list[int]]]]


def asked_rows(student: Student, seed: int) -> list[RowCase]:
    """(cache, sequences of different tokens, the student's rows); lengths differ, and nothing may be new."""
    rng = random.Random(seed)
    result = []
    for batch in BATCHES * 2:
        lengths = rng.sample(range(0, 9), batch)
        sequences = [
            rng.sample(range(10, 90), length + rng.randint(0 if b else 1, 5))
            for b, length in enumerate(lengths)
        ]
        cache = filled(rng, lengths)
        rows = rows_of(student.call("rows_to_compute", cache, sequences), batch)
        result.append((cache, sequences, rows))
    return result


@pytest.mark.check("rows-new", points=2)
def test_only_what_is_not_cached_is_computed(student: Student) -> None:
    asked = asked_rows(student, 4201)

    def all_from(start: Callable[[list[int], int], int]) -> bool:
        """Are these the tokens behind `start`, of the lengths of the batch and the sequence's own?"""
        return all(
            [token for _, token in line] == tokens[start(cache["length"], length) :]
            for cache, sequences, rows in asked
            for line, tokens, length in zip(rows, sequences, cache["length"], strict=True)
        )

    if all_from(lambda lengths, own: own):
        return
    if all_from(lambda lengths, own: min(lengths)) or all_from(lambda lengths, own: max(lengths)):
        raise Missed("rows-shared")
    more = all(
        len(line) >= len(tokens) - length
        for cache, sequences, rows in asked
        for line, tokens, length in zip(rows, sequences, cache["length"], strict=True)
    )
    raise Missed("rows-again" if more else "rows-new", f"{asked[1]}")


@pytest.mark.check("rows-positions", points=1)
def test_every_row_knows_its_position_in_its_own_sequence(student: Student) -> None:
    asked = asked_rows(student, 4202)
    if not any(line for _, _, rows in asked for line in rows):
        raise Missed("rows-positions", "no rows")
    for _, sequences, rows in asked:
        for line, tokens in zip(rows, sequences, strict=True):
            for position, token in line:
                if token in tokens and position != tokens.index(token):
                    raise Missed("rows-positions", f"{tokens} gave {line}")


# -- task 3 --------------------------------------------------------------------------------------------------


def ask_write(student: Student, cache: Cache, keys: list[list[int]], values: list[list[int]]) -> Cache:
    return cache_of(student.call("write", cache, keys, values), len(keys))


def new_rows(rng: random.Random, batch: int, even: bool = False) -> tuple[list[list[int]], list[list[int]]]:
    """Keys and values of a pass; sequences have different numbers of rows unless `even`."""
    counts = [2] * batch if even else [rng.randint(0, 4) for _ in range(batch)]
    return [words(rng, n) for n in counts], [[-word for word in words(rng, n)] for n in counts]


def is_placed(before: Cache, after: Cache, keys: list[list[int]], values: list[list[int]]) -> bool:
    """Do the new rows lie behind the valid ones of their own sequence, and are these as they were?"""
    return all(
        after[name][b][: before["length"][b] + len(rows[b])] == valid(before)[name][b] + rows[b]
        for name, rows in (("keys", keys), ("values", values))
        for b in range(len(keys))
    )


@pytest.mark.check("write-place", points=2)
def test_new_rows_go_behind_the_valid_ones_of_their_own_sequence(student: Student) -> None:
    rng = random.Random(4301)
    even, ragged = [], []
    for batch in BATCHES:
        cache, rows = filled(rng, [rng.randint(0, 6)] * batch), new_rows(rng, batch, even=True)
        even.append(is_placed(cache, ask_write(student, cache, *rows), *rows))
        cache, rows = filled(rng, rng.sample(range(0, 9), batch)), new_rows(rng, batch)
        ragged.append(is_placed(cache, ask_write(student, cache, *rows), *rows))
    if not all(even):
        raise Missed("write-place")
    if not all(ragged):
        raise Missed("write-shared")
    for _ in range(6):
        cache = filled(rng, [rng.randint(5, 9) for _ in range(3)])
        try:  # what the student's own rollback leaves behind the valid rows must not be in the way
            cache = own_part(student, "rollback")(cache, [4, 3, 4], [1, 3, 0])
        except Undefined:
            return
        if any(
            not 0 <= length <= len(line) for length, line in zip(cache["length"], cache["keys"], strict=True)
        ):
            return
        rows = new_rows(rng, 3)
        if not is_placed(cache, ask_write(student, cache, *rows), *rows):
            raise Missed("write-stale", f"{cache}")


@pytest.mark.check("write-length", points=1)
def test_the_length_of_each_sequence_grows_by_its_own_rows(student: Student) -> None:
    counted(student, 4302, "length", "write-length")


@pytest.mark.check("write-ledger", points=1)
def test_every_row_of_a_pass_is_work(student: Student) -> None:
    counted(student, 4303, "computed", "write-ledger")
    counted(student, 4304, "discarded", "write-ledger", grows=False)


def counted(student: Student, seed: int, name: str, idea: str, grows: bool = True) -> None:
    rng = random.Random(seed)
    for batch in BATCHES:
        cache = filled(rng, [rng.randint(0, 6) for _ in range(batch)])
        rows = new_rows(rng, batch)
        expected = [had + len(new) * grows for had, new in zip(cache[name], rows[0], strict=True)]
        got = ask_write(student, cache, *rows)[name]
        if got != expected:
            raise Missed(idea, f"{name} became {got}, not {expected}")


# -- task 4 --------------------------------------------------------------------------------------------------

RollbackCase = tuple[Cache, list[int], list[int], Cache]


def asked_rollback(student: Student, seed: int) -> list[RollbackCase]:
    """(cache, drafted, accepted, the cache that comes back); acceptance differs within a batch."""
    rng = random.Random(seed)
    result = []
    for batch in BATCHES * 2:
        drafted = [rng.randint(1, 5) for _ in range(batch)]
        accepted = [rng.choice([n, rng.randint(0, n)]) for n in drafted]
        if batch > 1:
            accepted[0], accepted[1] = drafted[0], rng.randint(0, drafted[1] - 1)
        cache = filled(rng, [n + rng.randint(3, 8) for n in drafted])
        result.append((cache, drafted, accepted, ask_rollback(student, cache, drafted, accepted)))
    return result


def ask_rollback(student: Student, cache: Cache, drafted: list[int], accepted: list[int]) -> Cache:
    return cache_of(student.call("rollback", cache, drafted, accepted), len(drafted))


@pytest.mark.check("rollback-lengths", points=3)
def test_each_sequence_forgets_its_own_rejected_drafts(student: Student) -> None:
    asked = asked_rollback(student, 4401)

    got = [after["length"] for *_, after in asked]
    if got == [lengths_rule(cache, drafted, accepted) for cache, drafted, accepted, _ in asked]:
        return
    for idea, rule in WRONG_LENGTHS:
        if got == [rule(cache, drafted, accepted) for cache, drafted, accepted, _ in asked]:
            raise Missed(idea)
    raise Missed("rollback-lengths", f"{asked[1]}")


def lengths_rule(cache: Cache, drafted: Sequence[int], accepted: Sequence[int]) -> list[int]:
    return [length - had + kept for length, had, kept in zip(cache["length"], drafted, accepted, strict=True)]


Lengths = Callable[[Cache, Sequence[int], Sequence[int]], list[int]]


def one_length(shared: Callable[[Sequence[int]], int]) -> Lengths:
    """The batch gets one length."""
    return lambda cache, had, kept: [shared(lengths_rule(cache, had, kept))] * len(had)


def one_acceptance(shared: Callable[[Sequence[int]], int]) -> Lengths:
    """The batch keeps one number of drafts."""
    return lambda cache, had, kept: lengths_rule(cache, had, [shared(kept)] * len(had))


def one_cut(shared: Callable[[Sequence[int]], int]) -> Lengths:
    """The batch loses one number of drafts."""

    def rule(cache: Cache, had: Sequence[int], kept: Sequence[int]) -> list[int]:
        cut = shared([a - b for a, b in zip(had, kept, strict=True)])
        return [length - cut for length in cache["length"]]

    return rule


def off_by(more: int, only_rejected: bool = False) -> Lengths:
    """Every length is off, or those of the sequences that rejected a draft."""

    def rule(cache: Cache, had: Sequence[int], kept: Sequence[int]) -> list[int]:
        right = lengths_rule(cache, had, kept)
        return [n + more * (b < a or not only_rejected) for n, a, b in zip(right, had, kept, strict=True)]

    return rule


WRONG_LENGTHS: list[tuple[str, Lengths]] = [
    *(
        ("rollback-shared", make(shared))
        for make in (one_length, one_acceptance, one_cut)
        for shared in (min, max)
    ),
    ("rollback-bonus", off_by(1)),
    ("rollback-bonus", off_by(1, only_rejected=True)),
    ("rollback-newest", off_by(-1)),
    ("rollback-newest", off_by(-1, only_rejected=True)),
]


@pytest.mark.check("rollback-prefix", points=1)
def test_what_was_accepted_is_still_there(student: Student) -> None:
    for cache, drafted, accepted, got in asked_rollback(student, 4402):
        if all(length <= 0 for length in got["length"]):
            raise Missed("rollback-prefix", "nothing is left")
        for b, right in enumerate(lengths_rule(cache, drafted, accepted)):
            stays = min(right, max(0, got["length"][b]))  # a wrong length costs the points of another check
            if any(got[name][b][:stays] != cache[name][b][:stays] for name in STORES):
                raise Missed("rollback-prefix", f"{cache['keys'][b]} became {got['keys'][b]}")


@pytest.mark.check("rollback-in-place", points=1)
def test_nothing_that_stays_is_moved(student: Student) -> None:
    rng = random.Random(4403)
    for batch in (2, 3):
        drafted = [rng.randint(2, 4) for _ in range(batch)]
        case = (
            filled(rng, [n + 3 for n in drafted]),
            drafted,
            [n - 1 if b else n for b, n in enumerate(drafted)],
        )
        ask_rollback(student, *case)
        if student.call("stays_in_place", *case) is not True:
            raise Missed("rollback-in-place")


@pytest.mark.check("rollback-ledger", points=1)
def test_rejected_drafts_are_discarded_work(student: Student) -> None:
    """What was discarded may follow from the own lengths, whose error costs the points of another check."""
    asked = asked_rollback(student, 4404)
    by_rule = all(
        got["discarded"] == rollback_counts(cache, drafted, accepted)
        for cache, drafted, accepted, got in asked
    )
    by_length = all(
        got["discarded"]
        == [
            old + was - now
            for old, was, now in zip(cache["discarded"], cache["length"], got["length"], strict=True)
        ]
        for cache, _, _, got in asked
    )
    if not (by_rule or by_length) or any(got["computed"] != cache["computed"] for cache, _, _, got in asked):
        raise Missed("rollback-ledger", f"{asked[1]}")


def rollback_counts(cache: Cache, drafted: Sequence[int], accepted: Sequence[int]) -> list[int]:
    return [old + had - kept for old, had, kept in zip(cache["discarded"], drafted, accepted, strict=True)]
