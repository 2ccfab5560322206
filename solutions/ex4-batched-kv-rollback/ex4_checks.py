"""Visible checks of exercise 4: they say in a sentence what is missing. Standard library only.

    check = Checks(globals())
    check("rows-new")

A check prints one line when all is well; otherwise it raises NotYet, whose message is that sentence. A later part is
checked given your earlier parts: where your rollback is wrong, a simulation that calls it correctly is right. Lists and
arrays are both welcome. The sentences live in ex4_ideas.json, next to this file. After you hand in, hidden checks ask
the same questions about other numbers.
"""

import contextlib
import itertools
import json
import sys
from pathlib import Path

IDEAS = json.loads((Path(__file__).parent / "ex4_ideas.json").read_text(encoding="utf-8"))

STORES = ("keys", "values")
COUNTS = ("length", "computed", "discarded")
PARTS = ("new_cache", "rows_to_compute", "write", "rollback")

# The example by hand with a second round, and a ragged batch: prompts, rounds.
TWO = (
    [[11, 12, 13], [21, 22]],
    [
        {"drafts": [[14, 15, 16], [23, 24, 25]], "accepted": [3, 1], "next": [17, 29]},
        {"drafts": [[18, 19], [31, 32]], "accepted": [2, 1], "next": [41, 42]},
    ],
)
RAGGED = (
    [[51], [61, 62, 63, 64], [71, 72]],
    [
        {"drafts": [[52, 53], [], [73, 74, 75]], "accepted": [0, 0, 2], "next": [54, 65, 79]},
        {"drafts": [[55, 56, 57], [66, 67], [81]], "accepted": [3, 1, 0], "next": [58, 69, 82]},
        {"drafts": [[], [83], [84, 85]], "accepted": [0, 1, 1], "next": [86, 87, 88]},
    ],
)


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
                CHECKS[idea](self.names)
        except NotYet:
            raise
        except NotImplementedError:
            raise NotYet("not-written") from None
        except Exception as error:
            raise NotYet("raised", f"{type(error).__name__}: {error}.") from None
        print(f"ok: {IDEAS[idea]['title']}")


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
    for lengths, sequences in [
        ([3, 1], [[11, 12, 13, 14, 15], [21, 22, 23]]),
        ([2, 5, 0], [[31, 32], [41, 42, 43, 44, 45, 46], [51, 52, 53, 54]]),
    ]:
        rows = find(names, "rows_to_compute")(filled(lengths), [list(tokens) for tokens in sequences])
        yield lengths, sequences, rows_of(rows, len(lengths))


def check_rows_new(names):
    for lengths, sequences, rows in asked_rows(names):
        got = [[token for _, token in line] for line in rows]
        if got == [tokens[length:] for tokens, length in zip(sequences, lengths)]:
            continue
        shared = [[tokens[end:] for tokens in sequences] for end in (min(lengths), max(lengths))]
        more = all(len(line) >= len(tokens) - n for line, tokens, n in zip(got, sequences, lengths))
        idea = "rows-shared" if got in shared else "rows-again" if more else "rows-new"
        raise NotYet(idea, f"With the lengths {lengths} and the sequences {sequences} you compute {got}.")


def check_rows_positions(names):
    asked = list(asked_rows(names))
    if not any(line for _, _, rows in asked for line in rows):
        raise NotYet("rows-positions", "There are no rows.")
    for lengths, sequences, rows in asked:
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
    for lengths, keys in [([3, 1], [[1, 2], [3, 4]]), ([1, 4, 0], [[], [1], [2, 3, 4]])]:
        got = written(names, filled(lengths), keys)["length"]
        if got != [length + len(line) for length, line in zip(lengths, keys)]:
            raise NotYet("write-length", f"From {lengths} the lengths became {got}.")


def check_write_ledger(names):
    for lengths, keys in [([3, 1], [[1, 2], [3, 4]]), ([1, 4, 0], [[], [1], [2, 3, 4]])]:
        before = filled(lengths)
        got = written(names, filled(lengths), keys)
        right = [had + len(line) for had, line in zip(before["computed"], keys)]
        if got["computed"] != right or got["discarded"] != before["discarded"]:
            raise NotYet("write-ledger", f"computed must be {right}, yours is {got['computed']}.")


# -- task 4 ------------------------------------------------------------------------------------------------------------

# lengths after the pass, drafted, accepted
ROLLBACKS = [([6, 5], [3, 3], [3, 1]), ([4, 9, 7], [2, 5, 4], [0, 5, 2])]


def rolled_back(names):
    for lengths, drafted, accepted in ROLLBACKS:
        got = find(names, "rollback")(filled(lengths), list(drafted), list(accepted))
        right = [length - had + kept for length, had, kept in zip(lengths, drafted, accepted)]
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
    lengths, drafted, accepted = ROLLBACKS[0]
    a_cache(find(names, "rollback")(filled(lengths), drafted, accepted), 2)
    if not names["stays_in_place"](filled(lengths), drafted, accepted):
        raise NotYet("rollback-in-place")


def check_rollback_ledger(names):
    asked = list(rolled_back(names))
    by_rule = all(
        got["discarded"] == [old + had - kept for old, had, kept in zip(before["discarded"], drafted, accepted)]
        for before, drafted, accepted, _, got in asked
    )
    by_length = all(
        got["discarded"]
        == [old + was - now for old, was, now in zip(before["discarded"], before["length"], got["length"])]
        for before, _, _, _, got in asked
    )
    if not (by_rule or by_length) or any(got["computed"] != before["computed"] for before, *_, got in asked):
        raise NotYet("rollback-ledger", f"In the example by hand your discarded is {asked[0][-1]['discarded']}.")


# -- task 5 ------------------------------------------------------------------------------------------------------------


def simulated(names, case):
    """Your simulation: cache, sequences."""
    prompts, rounds = json.loads(json.dumps(case))
    result = find(names, "simulate")(prompts, rounds)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise NotYet("shape", "simulate must return two things: the cache and the sequences.")
    return a_cache(result[0], len(prompts)), listed(result[1])


def composed(parts, case):
    """The simulation built on these parts: cache, sequences, rows per pass."""
    prompts, rounds = json.loads(json.dumps(case))
    cache, work = a_cache(parts["new_cache"](len(prompts)), len(prompts)), []
    for one in rounds:
        drafts, accepted = one["drafts"], one["accepted"]
        rows = parts["rows_to_compute"](copied(cache), [old + new for old, new in zip(prompts, drafts)])
        rows = rows_of(rows, len(prompts))
        work.append([len(line) for line in rows])
        keys = [[100 * token + position for position, token in line] for line in rows]
        values = [[-key for key in line] for line in keys]
        cache = a_cache(parts["write"](copied(cache), keys, values), len(prompts))
        cache = a_cache(parts["rollback"](copied(cache), [len(new) for new in drafts], list(accepted)), len(prompts))
        prompts = [old + new[:kept] + [last] for old, new, kept, last in zip(prompts, drafts, accepted, one["next"])]
    return cache, prompts, work


def explained(names, case, holds):
    """Does some choice between your parts and the rule's explain what you gave? NotYet where yours cannot tell."""
    own = {name: names.get(name) for name in PARTS}
    for mine in itertools.product((False, True), repeat=len(PARTS)):
        parts = {name: own[name] if use else RULE[name] for name, use in zip(PARTS, mine)}
        with contextlib.suppress(Exception):
            if holds(*composed(parts, case)):
                return True
    block_on_own(names)
    return False


def block_on_own(names):
    """NotYet where your own parts give nothing that a simulation could be compared with."""
    own = {name: names.get(name) for name in PARTS}
    try:
        for case in (TWO, RAGGED):
            composed(own, case)
    except Exception:
        raise NotYet("blocked") from None
    if not names["lists_are_separate"](2):
        raise NotYet("blocked", "Your new_cache shares its lists.")


def attempt(names, action):
    """Run the simulation; where it has no answer because an earlier part has none, it waits for that one."""
    try:
        return action()
    except NotYet as error:
        if error.idea == "shape":
            block_on_own(names)
        raise
    except Exception as error:
        trace, inside = error.__traceback__, []
        while trace:
            inside.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        found = [name for name in inside if name in (*PARTS, "simulate")]
        if not isinstance(error, NotImplementedError) or found[-1:] != ["simulate"]:
            block_on_own(names)
        raise


def check_two_lengths(names):
    cache, _ = attempt(names, lambda: simulated(names, TWO))
    if not explained(names, TWO, lambda right, *_: right["length"] == cache["length"]):
        raise NotYet("two-lengths", f"After two rounds your lengths are {cache['length']}.")


def check_two_contents(names):
    cache, _ = attempt(names, lambda: simulated(names, TWO))

    def holds(right, *_):
        pairs = [(a, b) for name in STORES for a, b in zip(valid(right)[name], valid(cache)[name])]
        return all(2 * len(b) >= len(a) and a[: len(b)] == b[: len(a)] for a, b in pairs)

    if not explained(names, TWO, holds):
        raise NotYet("two-contents", f"After two rounds your keys are {valid(cache)['keys']}.")


def check_simulate_any(names):
    for case in (RAGGED, TWO, (RAGGED[0][1:2], [{"drafts": [[91, 92]], "accepted": [0], "next": [93]}])):
        cache, sequences = attempt(names, lambda case=case: simulated(names, case))

        def holds(right, tokens, _, cache=cache, sequences=sequences):
            same = all(right[name] == cache[name] for name in COUNTS)
            return same and valid(right) == valid(cache) and tokens == sequences

        if not explained(names, case, holds):
            raise NotYet("simulate-any", f"For the prompts {case[0]} and the rounds {case[1]}.")


def check_simulate_work(names):
    find(names, "simulate")
    for case in (TWO, RAGGED):
        told = attempt(names, lambda case=case: names["watched"](*json.loads(json.dumps(case))))
        a_cache(told["result"][0], len(case[0]))
        passes = [rows_of(rows, len(case[0])) for rows in told["passes"]]
        got = [[len(line) for line in rows] for rows in passes]
        if not explained(names, case, lambda _, __, work, got=got: work == got):
            idea = "simulate-calls" if len(got) > len(case[1]) else "simulate-work"
            raise NotYet(idea, f"For the prompts {case[0]} the rows per pass are {got}.")


# -- the rule ----------------------------------------------------------------------------------------------------------


def rule_new_cache(batch):
    return filled([0] * batch)


def rule_rows(cache, sequences):
    return [list(enumerate(tokens))[length:] for length, tokens in zip(cache["length"], sequences)]


def rule_write(cache, keys, values):
    for b, length in enumerate(cache["length"]):
        for name, rows in (("keys", keys), ("values", values)):
            cache[name][b] = cache[name][b][:length] + rows[b]
        for name in ("length", "computed"):
            cache[name][b] += len(keys[b])
    return cache


def rule_rollback(cache, drafted, accepted):
    for b, (had, kept) in enumerate(zip(drafted, accepted)):
        cache["length"][b] -= had - kept
        cache["discarded"][b] += had - kept
    return cache


RULE = {"new_cache": rule_new_cache, "rows_to_compute": rule_rows, "write": rule_write, "rollback": rule_rollback}


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
