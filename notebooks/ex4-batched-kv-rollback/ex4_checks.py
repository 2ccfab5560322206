"""Visible checks of exercise 4: they say in a sentence what is missing. Standard library only.

    check = Checks(globals())
    check("rows-new")

A check prints one line when all is well; otherwise it raises NotYet, whose message is that sentence. A simulation
that builds on an earlier part which is not right yet cannot be judged here: its check then says what it waits for.
Lists and arrays are both welcome. The sentences live in ex4_ideas.json, next to this file. After you hand in, hidden
checks ask the same questions about other numbers.
"""

import contextlib
import json
import sys
from pathlib import Path

IDEAS = json.loads((Path(__file__).parent / "ex4_ideas.json").read_text(encoding="utf-8"))

STORES = ("keys", "values")
COUNTS = ("length", "computed", "discarded")
PARTS = ("new_cache", "rows_to_compute", "write", "rollback")
EARLIER = ("new-cache", "new-separate", "rows-new", "rows-positions", "write-place", "write-length", "write-ledger")
EARLIER += ("rollback-lengths", "rollback-prefix", "rollback-in-place", "rollback-ledger")

# The example by hand with a second round, a ragged batch, and one sequence: prompts, rounds, and what comes out.
TWO = {
    "prompts": [[11, 12, 13], [21, 22]],
    "rounds": [
        {"drafts": [[14, 15, 16], [23, 24, 25]], "accepted": [3, 1], "next": [17, 29]},
        {"drafts": [[18, 19], [31, 32]], "accepted": [2, 1], "next": [41, 42]},
    ],
    "sequences": [[11, 12, 13, 14, 15, 16, 17, 18, 19, 41], [21, 22, 23, 29, 31, 42]],
    "length": [9, 5],
    "computed": [9, 8],
    "discarded": [0, 3],
    "work": [[6, 5], [3, 3]],
}
RAGGED = {
    "prompts": [[51], [61, 62, 63, 64], [71, 72]],
    "rounds": [
        {"drafts": [[52, 53], [], [73, 74, 75]], "accepted": [0, 0, 2], "next": [54, 65, 79]},
        {"drafts": [[55, 56, 57], [66, 67], [81]], "accepted": [3, 1, 0], "next": [58, 69, 82]},
        {"drafts": [[], [83], [84, 85]], "accepted": [0, 1, 1], "next": [86, 87, 88]},
    ],
    "sequences": [
        [51, 54, 55, 56, 57, 58, 86],
        [61, 62, 63, 64, 65, 66, 69, 83, 87],
        [71, 72, 73, 74, 79, 82, 84, 88],
    ],
    "length": [6, 8, 7],
    "computed": [8, 9, 10],
    "discarded": [2, 1, 3],
    "work": [[3, 4, 5], [4, 3, 2], [1, 2, 3]],
}
ALONE = {
    "prompts": [[61, 62, 63, 64]],
    "rounds": [{"drafts": [[91, 92]], "accepted": [0], "next": [93]}],
    "sequences": [[61, 62, 63, 64, 93]],
    "length": [4],
    "computed": [6],
    "discarded": [2],
    "work": [[6]],
}


class NotYet(Exception):
    """One sentence about what is missing. Jupyter shows the sentence alone, without a traceback."""

    def __init__(self, idea, detail=""):
        self.idea = idea
        entry = IDEAS[idea]
        seen = f"{detail} " if detail else ""
        where = f"chapter {entry['page']}, {entry['section']}"
        super().__init__(f"Not yet ({entry['title']}): {seen}{entry['sentence']} Read again: {where}.")

    def _render_traceback_(self):
        return [str(self)]


class Checks:
    """Run the visible check of one idea on the functions and variables of a notebook."""

    def __init__(self, names):
        self.names = names

    def __call__(self, idea):
        try:
            with contextlib.redirect_stderr(sys.stdout):
                waits = CHECKS[idea](self.names)
        except NotYet:
            raise
        except NotImplementedError:
            raise NotYet("not-written") from None
        except Exception as error:
            raise NotYet("raised", f"{type(error).__name__}: {error}.") from None
        print(waits or f"ok: {IDEAS[idea]['title']}")


# -- task 1 ------------------------------------------------------------------------------------------------------------


def check_new_cache(names):
    for batch in (1, 2, 3):
        cache = a_cache(find(names, "new_cache")(batch), batch)
        if any(line for name in STORES for line in valid(cache)[name]) or any(sum(cache[name]) for name in COUNTS):
            raise NotYet("new-cache", f"new_cache({batch}) is not empty.")


def check_new_separate(names):
    a_cache(find(names, "new_cache")(2), 2)
    if not names["lists_are_separate"](2):
        raise NotYet("new-separate")


# -- task 2 ------------------------------------------------------------------------------------------------------------


def asked_rows(names):
    for lengths, sequences, missing in [
        ([3, 1], [[11, 12, 13, 14, 15], [21, 22, 23]], [[14, 15], [22, 23]]),
        ([2, 5, 0], [[31, 32], [41, 42, 43, 44, 45, 46], [51, 52, 53, 54]], [[], [46], [51, 52, 53, 54]]),
    ]:
        rows = find(names, "rows_to_compute")(filled(lengths), [list(tokens) for tokens in sequences])
        yield lengths, sequences, missing, rows_of(rows, len(lengths))


def check_rows_new(names):
    for lengths, sequences, missing, rows in asked_rows(names):
        got = [[token for _, token in line] for line in rows]
        if got == missing:
            continue
        shared = [[tokens[end:] for tokens in sequences] for end in (min(lengths), max(lengths))]
        more = all(len(line) >= len(right) for line, right in zip(got, missing))
        idea = "rows-shared" if got in shared else "rows-again" if more else "rows-new"
        raise NotYet(idea, f"With the lengths {lengths} and the sequences {sequences} you compute {got}.")


def check_rows_positions(names):
    asked = list(asked_rows(names))
    if not any(line for *_, rows in asked for line in rows):
        raise NotYet("rows-positions", "There are no rows.")
    for _, sequences, _, rows in asked:
        for line, tokens in zip(rows, sequences):
            for position, token in line:
                if token in tokens and position != tokens.index(token):
                    raise NotYet("rows-positions", f"Token {token} of {tokens} got the position {position}.")


# -- task 3 ------------------------------------------------------------------------------------------------------------


def written(names, cache, keys):
    """Your cache after the write of these keys (and their negatives as values)."""
    values = [[-key for key in line] for line in keys]
    return a_cache(find(names, "write")(cache, [list(line) for line in keys], values), len(keys))


def is_placed(before, after, keys):
    return all(
        valid_part(after[name][b], before["length"][b] + len(line))
        == before[name][b][: before["length"][b]] + [sign * key for key in line]
        for name, sign in (("keys", 1), ("values", -1))
        for b, line in enumerate(keys)
    )


def valid_part(line, length):
    return listed(line)[:length]


def check_write_place(names):
    for lengths, keys, idea in [
        ([2, 2], [[71, 72], [81, 82]], "write-place"),
        ([3, 1], [[1403, 1504], [2201, 2302]], "write-shared"),
        ([1, 4, 0], [[], [91], [92, 93, 94]], "write-shared"),
    ]:
        after = written(names, filled(lengths), keys)
        if not is_placed(filled(lengths), after, keys):
            raise NotYet(idea, f"With the lengths {lengths} and the keys {keys} your keys become {after['keys']}.")
    before = filled([5, 6])
    try:  # what your own rollback leaves behind the valid rows must not be in the way
        before = a_cache(names["rollback"](before, [3, 3], [3, 1]), 2)
    except Exception:
        return
    if any(not 0 <= length <= len(line) for length, line in zip(before["length"], before["keys"])):
        return
    after = written(names, copied(before), [[71, 72], [81, 82]])
    if not is_placed(before, after, [[71, 72], [81, 82]]):
        raise NotYet("write-stale")


def check_write_length(names):
    for lengths, keys, right in [
        ([3, 1], [[1, 2], [3, 4]], [5, 3]),
        ([1, 4, 0], [[], [1], [2, 3, 4]], [1, 5, 3]),
    ]:
        got = written(names, filled(lengths), keys)["length"]
        if got != right:
            raise NotYet("write-length", f"From {lengths} the lengths became {got}.")


def check_write_ledger(names):
    for lengths, keys, right in [
        ([3, 1], [[1, 2], [3, 4]], [5, 4]),
        ([1, 4, 0], [[], [1], [2, 3, 4]], [1, 6, 3]),
    ]:
        before = filled(lengths)
        got = written(names, filled(lengths), keys)
        if got["computed"] != right or got["discarded"] != before["discarded"]:
            raise NotYet("write-ledger", f"computed must be {right}, yours is {got['computed']}.")


# -- task 4 ------------------------------------------------------------------------------------------------------------

# lengths after the pass, drafted, accepted, lengths after the rollback, discarded by it
ROLLBACKS = [([6, 5], [3, 3], [3, 1], [6, 3], [0, 2]), ([4, 9, 7], [2, 5, 4], [0, 5, 2], [2, 9, 5], [2, 0, 2])]


def rolled_back(names):
    for lengths, drafted, accepted, right, _ in ROLLBACKS:
        got = find(names, "rollback")(filled(lengths), list(drafted), list(accepted))
        yield filled(lengths), drafted, accepted, right, a_cache(got, len(lengths))


def check_rollback_lengths(names):
    asked = list(rolled_back(names))
    if all(got["length"] == right for _, _, _, right, got in asked):
        return
    lengths = [got["length"] for *_, got in asked]
    told = f"In the example by hand your lengths are {lengths[0]}."
    for shared in (min, max):
        alike = [
            [[shared(right)] * len(right) for _, _, _, right, _ in asked],
            [[n - d + shared(k) for n, d in zip(c["length"], had)] for c, had, k, _, _ in asked],
            [[n - shared(d - a for d, a in zip(had, k)) for n in c["length"]] for c, had, k, _, _ in asked],
        ]
        if lengths in alike:
            raise NotYet("rollback-shared", told)
    more = [[n + 1 for n in right] for _, _, _, right, _ in asked]
    where_rejected = [[n + (a < d) for n, d, a in zip(right, had, kept)] for _, had, kept, right, _ in asked]
    if lengths in (more, where_rejected):
        raise NotYet("rollback-bonus", told)
    fewer = [[n - 1 for n in right] for _, _, _, right, _ in asked]
    less = [[n - (a < d) for n, d, a in zip(right, had, kept)] for _, had, kept, right, _ in asked]
    raise NotYet("rollback-newest" if lengths in (fewer, less) else "rollback-lengths", told)


def check_rollback_prefix(names):
    for before, _, _, right, got in rolled_back(names):
        if all(length <= 0 for length in got["length"]):
            raise NotYet("rollback-prefix", "Nothing is left.")
        for b, stays in enumerate(right):
            stays = max(0, min(stays, got["length"][b]))  # a wrong length is the business of another check
            if any(valid_part(got[name][b], stays) != before[name][b][:stays] for name in STORES):
                raise NotYet("rollback-prefix", f"The keys {before['keys'][b]} became {got['keys'][b]}.")


def check_rollback_in_place(names):
    lengths, drafted, accepted, _, _ = ROLLBACKS[0]
    a_cache(find(names, "rollback")(filled(lengths), drafted, accepted), 2)
    if not names["stays_in_place"](filled(lengths), drafted, accepted):
        raise NotYet("rollback-in-place")


def check_rollback_ledger(names):
    asked = list(rolled_back(names))
    by_rule = all(
        got["discarded"] == [old + more for old, more in zip(before["discarded"], gone)]
        for (before, *_, got), (*_, gone) in zip(asked, ROLLBACKS)
    )
    by_length = all(
        got["discarded"]
        == [old + was - now for old, was, now in zip(before["discarded"], before["length"], got["length"])]
        for before, _, _, _, got in asked
    )
    if not (by_rule or by_length) or any(got["computed"] != before["computed"] for before, *_, got in asked):
        raise NotYet("rollback-ledger", f"In the example by hand your discarded is {asked[0][-1]['discarded']}.")


# -- task 5 ------------------------------------------------------------------------------------------------------------


def check_simulation(names, cases, holds, idea, told):
    """Judge your simulation by what must come out; where an earlier part is not right yet, say so instead.

    holds(case, cache, sequences, passes) and told(...) look at one case.
    """
    for case in cases:
        prompts, rounds = json.loads(json.dumps([case["prompts"], case["rounds"]]))
        try:
            find(names, "simulate")
            answer = names["watched"](prompts, rounds)
            if not isinstance(answer["result"], (tuple, list)) or len(answer["result"]) != 2:
                raise NotYet("shape", "simulate must return two things: the cache and the sequences.")
            cache = a_cache(answer["result"][0], len(case["prompts"]))
            seen = cache, listed(answer["result"][1]), [rows_of(rows, len(prompts)) for rows in answer["passes"]]
            if not holds(case, *seen):
                raise NotYet(idea(case, *seen), told(case, *seen))
        except Exception as error:
            if is_unwritten(error):
                raise NotYet("not-written") from None
            waiting = [name for name in EARLIER if not passes(names, name)]
            if not waiting:
                raise
            return f"waits: this cannot be judged before an earlier check passes ({IDEAS[waiting[0]]['title']})."


def is_unwritten(error):
    """Is it the simulation itself that is not written?"""
    trace, inside = error.__traceback__, []
    while trace:
        inside.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    if isinstance(error, NotYet):
        return error.idea == "not-written"
    found = [name for name in inside if name in (*PARTS, "simulate")]
    return isinstance(error, NotImplementedError) and found[-1:] == ["simulate"]


def passes(names, idea):
    try:
        CHECKS[idea](names)
    except Exception:
        return False
    return True


def check_two_lengths(names):
    return check_simulation(
        names,
        [TWO],
        lambda case, cache, *_: cache["length"] == case["length"],
        lambda *_: "two-lengths",
        lambda case, cache, *_: f"After two rounds your lengths are {cache['length']}.",
    )


def check_two_contents(names):
    return check_simulation(
        names,
        [TWO],
        lambda case, cache, *_: is_fresh(case, cache, exactly=False),
        lambda *_: "two-contents",
        lambda case, cache, *_: f"After two rounds your keys are {valid(cache)['keys']}.",
    )


def is_fresh(case, cache, exactly=True):
    """Do the valid rows hold what one pass over the same tokens gives? A wrong length is another check's business."""
    for name, sign in (("keys", 1), ("values", -1)):
        for line, tokens, length in zip(valid(cache)[name], case["sequences"], case["length"]):
            fresh = [sign * (100 * token + position) for position, token in enumerate(tokens)]
            enough = len(line) == length if exactly else 2 * len(line) >= length
            if not enough or line[:length] != fresh[: min(length, len(line))]:
                return False
    return True


def check_simulate_any(names):
    return check_simulation(
        names,
        [RAGGED, TWO, ALONE],
        lambda case, cache, sequences, _: (
            sequences == case["sequences"]
            and all(cache[name] == case[name] for name in COUNTS)
            and is_fresh(case, cache)
        ),
        lambda *_: "simulate-any",
        lambda case, *_: f"Look at the prompts {case['prompts']} with the rounds {case['rounds']}.",
    )


def check_simulate_work(names):
    def counts(done):
        return [[len(line) for line in rows] for rows in done]

    return check_simulation(
        names,
        [TWO, RAGGED],
        lambda case, _, __, done: counts(done) == case["work"],
        lambda case, _, __, done: "simulate-calls" if len(done) > len(case["work"]) else "simulate-work",
        lambda case, _, __, done: f"For the prompts {case['prompts']} the rows per pass are {counts(done)}.",
    )


# -- reading answers ---------------------------------------------------------------------------------------------------


def filled(lengths):
    """A cache of these lengths whose entries are marks that no pass gives, and a ledger to match."""
    keys = [[10_000 + 100 * b + i for i in range(length)] for b, length in enumerate(lengths)]
    return {
        "keys": keys,
        "values": [[-key for key in line] for line in keys],
        "length": list(lengths),
        "computed": [length + (length and b) for b, length in enumerate(lengths)],
        "discarded": [length and b for b, length in enumerate(lengths)],
    }


def find(names, name):
    if names.get(name) is None:
        raise NotYet("not-written", f"`{name}` is missing.")
    return names[name]


def listed(value):
    """Arrays, tuples and lists as nested lists."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return [listed(item) for item in value] if isinstance(value, (list, tuple)) else value


def copied(cache):
    return {name: listed(cache[name]) for name in (*STORES, *COUNTS)}


def a_cache(value, batch):
    """Your cache in plain lists."""
    if not isinstance(value, dict) or {*STORES, *COUNTS} - set(value):
        raise NotYet("shape", f"A cache is a dict with {', '.join((*STORES, *COUNTS))}, not {value!r:.80}.")
    cache = copied(value)
    for name in (*STORES, *COUNTS):
        kind = (list,) if name in STORES else (int, float)
        if not isinstance(cache[name], list) or len(cache[name]) != batch:
            raise NotYet("shape", f"{name} must have {batch} items, yours is {cache[name]!r:.80}.")
        if not all(isinstance(item, kind) for item in cache[name]):
            raise NotYet("shape", f"{name} is {cache[name]!r:.80}.")
    return cache


def valid(cache):
    return {name: [line[:n] for line, n in zip(cache[name], cache["length"])] for name in STORES}


def rows_of(value, batch):
    rows = listed(value)
    if not isinstance(rows, list) or len(rows) != batch or not all(isinstance(line, list) for line in rows):
        raise NotYet("shape", f"rows_to_compute must return one list per sequence, not {rows!r:.80}.")
    if not all(isinstance(row, list) and len(row) == 2 for line in rows for row in line):
        raise NotYet("shape", f"A row is a pair (position, token); yours are {rows!r:.80}.")
    return rows


CHECKS = {
    "new-cache": check_new_cache,
    "new-separate": check_new_separate,
    "rows-new": check_rows_new,
    "rows-positions": check_rows_positions,
    "write-place": check_write_place,
    "write-length": check_write_length,
    "write-ledger": check_write_ledger,
    "rollback-lengths": check_rollback_lengths,
    "rollback-prefix": check_rollback_prefix,
    "rollback-in-place": check_rollback_in_place,
    "rollback-ledger": check_rollback_ledger,
    "two-lengths": check_two_lengths,
    "two-contents": check_two_contents,
    "simulate-any": check_simulate_any,
    "simulate-work": check_simulate_work,
}
