"""Wrong and right solutions of exercise 4; each changes a few cells of the reference solution."""

from bank import Bank

BANK = Bank("ex4")


def edited(cell: str, *changes: tuple[str, str]) -> dict[str, str]:
    """A cell of the reference solution with some of its text replaced."""
    source = BANK.solutions[cell]
    for old, new in changes:
        assert old in source, (cell, old)
        source = source.replace(old, new)
    return {cell.replace("-", "_"): source}


SHARED_LISTS = edited("new-code", ("[[] for _ in range(batch)]", "[[]] * batch"))
APPENDING = {
    "write_code": """
def write(cache, keys, values):
    for b in range(len(keys)):
        cache["keys"][b].extend(keys[b])
        cache["values"][b] += values[b]
        cache["length"][b] += len(keys[b])
        cache["computed"][b] += len(keys[b])
    return cache
"""
}
CUTTING = {
    "rollback_code": """
def rollback(cache, drafted, accepted):
    for b in range(len(drafted)):
        rejected = drafted[b] - accepted[b]
        cache["length"][b] -= rejected
        for name in ("keys", "values"):
            del cache[name][b][cache["length"][b] :]
        cache["discarded"][b] += rejected
    return cache
"""
}
LENGTH = (
    '    for b, (had, kept) in enumerate(zip(drafted, accepted)):\n        cache["length"][b] -= had - kept\n'
)
ROUND = "        keys, values = verifier(rows_to_compute(cache, with_drafts))\n"


def lengths(change: str) -> dict[str, str]:
    """A rollback with other lengths; its ledger is right."""
    loop = "    for b, (had, kept) in enumerate(zip(drafted, accepted)):\n"
    return edited("rollback-code", (LENGTH, change + loop))


# What was changed, and what it costs: {check: the idea that the feedback names}.
WRONG: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "sequences that share a list": (
        SHARED_LISTS,
        # whatever is stored for one is stored for all: the simulation has no right answer to be compared with
        {
            "new-separate": "new-separate",
            "two-contents": "blocked",
            "simulate-any": "blocked",
        },
    ),
    "a cache that is not empty": (
        edited("new-code", ('"computed": [0] * batch', '"computed": [1] * batch')),
        {"new-cache": "new-cache"},
    ),
    "M19, rows from the shortest length": (
        edited("rows-code", ("range(length,", 'range(min(cache["length"]),')),
        {"rows-new": "rows-shared"},
    ),
    "M19, rows from the longest length": (
        edited("rows-code", ("range(length,", 'range(max(cache["length"]),')),
        {"rows-new": "rows-shared"},
    ),
    "M22, everything is computed anew": (
        edited("rows-code", ("range(length,", "range(")),
        {"rows-new": "rows-again"},
    ),
    "M22, one row too many": (
        edited("rows-code", ("range(length,", "range(max(0, length - 1),")),
        {"rows-new": "rows-again"},
    ),
    "the newest row is left out": (
        edited("rows-code", ("len(tokens))", "len(tokens) - 1)")),
        {"rows-new": "rows-new"},
    ),
    "positions from the first new row": (
        edited("rows-code", ("(position, tokens[position])", "(position - length, tokens[position])")),
        {"rows-positions": "rows-positions"},
    ),
    "positions counted from 1": (
        edited("rows-code", ("(position, tokens[position])", "(position + 1, tokens[position])")),
        {"rows-positions": "rows-positions"},
    ),
    "positions of the first sequence": (
        edited(
            "rows-code",
            ("(position, tokens[position])", '(position - length + cache["length"][0], tokens[position])'),
        ),
        {"rows-positions": "rows-positions"},
    ),
    "M19, written at the shortest length": (
        edited(
            "write-code",
            ("[b][length:]", "[b][start:]"),
            ("    for b, length", '    start = min(cache["length"])\n    for b, length'),
        ),
        {"write-place": "write-shared"},
    ),
    "M19, written at the longest length": (
        # a list ends where its valid rows do unless something was rolled back: only then does this show
        edited(
            "write-code",
            ("[b][length:]", "[b][start:]"),
            ("    for b, length", '    start = max(cache["length"])\n    for b, length'),
        ),
        {"write-place": "write-stale"},
    ),
    "written in front": (
        edited("write-code", ("[b][length:] =", "[b][:0] =")),
        {"write-place": "write-place"},
    ),
    "values are not written": (
        edited("write-code", ('        cache["values"][b][length:] = values[b]\n', "")),
        {"write-place": "write-place"},
    ),
    "appended behind what was rolled back": (APPENDING, {"write-place": "write-stale"}),
    "lengths grow by the first sequence's rows": (
        edited("write-code", ('cache["length"][b] += len(keys[b])', 'cache["length"][b] += len(keys[0])')),
        {"write-length": "write-length"},
    ),
    "all lengths grow alike": (
        edited(
            "write-code",
            ('cache["length"][b] += len(keys[b])', 'cache["length"][b] += max(len(line) for line in keys)'),
        ),
        {"write-length": "write-length"},
    ),
    "the work of the batch in every ledger": (
        edited(
            "write-code",
            ('cache["computed"][b] += len(keys[b])', 'cache["computed"][b] += sum(map(len, keys))'),
        ),
        {"write-ledger": "write-ledger"},
    ),
    "passes counted instead of rows": (
        edited("write-code", ('cache["computed"][b] += len(keys[b])', 'cache["computed"][b] += 1')),
        {"write-ledger": "write-ledger"},
    ),
    "M19, the shortest length for all": (
        lengths("""
    left = min(n - had + kept for n, had, kept in zip(cache["length"], drafted, accepted))
    cache["length"] = [left] * len(drafted)
"""),
        {"rollback-lengths": "rollback-shared"},
    ),
    "M19, the longest length for all": (
        lengths("""
    left = max(n - had + kept for n, had, kept in zip(cache["length"], drafted, accepted))
    cache["length"] = [left] * len(drafted)
"""),
        {"rollback-lengths": "rollback-shared"},
    ),
    "M19, the fewest accepted drafts for all": (
        lengths("""
    cache["length"] = [n - had + min(accepted) for n, had in zip(cache["length"], drafted)]
"""),
        {"rollback-lengths": "rollback-shared"},
    ),
    "M19, one cut for all": (
        lengths("""
    cut = max(had - kept for had, kept in zip(drafted, accepted))
    cache["length"] = [n - cut for n in cache["length"]]
"""),
        {"rollback-lengths": "rollback-shared"},
    ),
    "M20, the correction is counted as cached": (
        lengths("""
    for b, (had, kept) in enumerate(zip(drafted, accepted)):
        cache["length"][b] -= max(0, had - kept - 1)
"""),
        {"rollback-lengths": "rollback-bonus"},
    ),
    "M20, the bonus too": (
        lengths("""
    for b, (had, kept) in enumerate(zip(drafted, accepted)):
        cache["length"][b] -= had - kept - 1
"""),
        {"rollback-lengths": "rollback-bonus"},
    ),
    "the newest token's row goes too": (
        lengths("""
    for b, (had, kept) in enumerate(zip(drafted, accepted)):
        cache["length"][b] -= had - kept + 1
"""),
        {"rollback-lengths": "rollback-newest"},
    ),
    "all drafts go where one was rejected": (
        lengths("""
    for b, (had, kept) in enumerate(zip(drafted, accepted)):
        cache["length"][b] -= had if kept < had else 0
"""),
        {"rollback-lengths": "rollback-lengths"},
    ),
    "M21, the prefix is zeroed": (
        edited(
            "rollback-code",
            (
                "    return cache",
                '    for line in cache["keys"]:\n        line[:] = [0] * len(line)\n    return cache',
            ),
        ),
        {"rollback-prefix": "rollback-prefix"},
    ),
    "M21, the lists are made anew": (
        edited(
            "rollback-code",
            (
                "    return cache",
                """    for name in ("keys", "values"):
        cache[name] = [line[:length] for line, length in zip(cache[name], cache["length"])]
    return cache""",
            ),
        ),
        {"rollback-in-place": "rollback-in-place"},
    ),
    "accepted drafts are discarded work": (
        edited("rollback-code", ('cache["discarded"][b] += had - kept', 'cache["discarded"][b] += kept')),
        {"rollback-ledger": "rollback-ledger"},
    ),
    "rejected work is not counted as computed": (
        edited(
            "rollback-code",
            (
                'cache["discarded"][b] += had - kept',
                'cache["discarded"][b] += had - kept\n        cache["computed"][b] -= had - kept',
            ),
        ),
        {"rollback-ledger": "rollback-ledger"},
    ),
    "a pass per sequence": (
        edited(
            "simulate-code",
            (
                ROUND,
                """        rows = rows_to_compute(cache, with_drafts)
        keys, values = [], []
        for b in range(len(rows)):
            one_k, one_v = verifier([line if a == b else [] for a, line in enumerate(rows)])
            keys.append(one_k[b])
            values.append(one_v[b])
""",
            ),
        ),
        {"simulate-work": "simulate-calls"},
    ),
    "M22, accepted drafts go through the verifier again": (
        edited(
            "simulate-code",
            (
                "    return cache, sequences",
                """        again = [tokens[n - 1] for n, tokens in zip(cache["length"], sequences)]
        verifier([[(n - 1, token)] for n, token in zip(cache["length"], again)])
    return cache, sequences""",
            ),
        ),
        {"simulate-work": "simulate-calls"},
    ),
    "M20, the correction goes into the pass that makes it": (
        edited(
            "simulate-code",
            (
                "keys, values = verifier(rows_to_compute(cache, with_drafts))",
                """rows = rows_to_compute(cache, with_drafts)
        for b, line in enumerate(rows):
            line.append((len(with_drafts[b]), one["next"][b]))
        keys, values = verifier(rows)""",
            ),
            (
                '[len(drafts) for drafts in one["drafts"]], one["accepted"])',
                '[len(drafts) + 1 for drafts in one["drafts"]], [n + 1 for n in one["accepted"]])',
            ),
        ),
        {
            "two-lengths": "two-lengths",
            "two-contents": "two-contents",
            "simulate-any": "simulate-any",
            "simulate-work": "simulate-work",
        },
    ),
    "the accepted drafts are not emitted": (
        edited("simulate-code", ('sequences[b] + one["drafts"][b][:kept] +', "sequences[b] +")),
        {
            "two-lengths": "two-lengths",
            "two-contents": "two-contents",
            "simulate-any": "simulate-any",
            "simulate-work": "simulate-work",
        },
    ),
    "all sequences accept what the first one does": (
        edited("simulate-code", ('one["accepted"])\n', '[one["accepted"][0]] * len(prompts))\n')),
        {
            "two-lengths": "two-lengths",
            "two-contents": "two-contents",
            "simulate-any": "simulate-any",
            "simulate-work": "simulate-work",
        },
    ),
    "only two sequences": (
        edited("simulate-code", ("new_cache(len(prompts))", "new_cache(2)")),
        {"simulate-any": "raised", "simulate-work": "raised"},
    ),
}

NUMPY = {
    "new_code": """
import numpy as np
def new_cache(batch):
    counts = {name: np.zeros(batch, dtype=int) for name in ("length", "computed", "discarded")}
    return counts | {name: [[] for _ in range(batch)] for name in ("keys", "values")}
""",
    "rows_code": """
def rows_to_compute(cache, sequences):
    starts = np.asarray(cache["length"])
    return [
        np.column_stack([np.arange(start, len(tokens)), np.asarray(tokens[start:], dtype=int)]).tolist()
        for start, tokens in zip(starts, sequences)
    ]
""",
    "write_code": """
def write(cache, keys, values):
    new = np.array([len(line) for line in keys])
    for b, start in enumerate(cache["length"]):
        cache["keys"][b][start:] = list(keys[b])
        cache["values"][b][start:] = list(values[b])
    cache["length"] = np.asarray(cache["length"]) + new
    cache["computed"] = np.asarray(cache["computed"]) + new
    return cache
""",
    "rollback_code": """
def rollback(cache, drafted, accepted):
    gone = np.asarray(drafted) - np.asarray(accepted)
    cache["length"] = np.asarray(cache["length"]) - gone
    cache["discarded"] = np.asarray(cache["discarded"]) + gone
    return cache
""",
}
RIGHT: dict[str, dict[str, str]] = {
    "lists that are cut, rows that are appended": APPENDING | CUTTING,
    "NumPy counts": NUMPY,
    "slots overwritten one by one, lists never shorter": {
        "write_code": """
def write(cache, keys, values):
    for b, rows in enumerate(zip(keys, values)):
        for key, value in zip(*rows):
            slot = cache["length"][b]
            for line, item in ((cache["keys"][b], key), (cache["values"][b], value)):
                if slot < len(line):
                    line[slot] = item
                else:
                    line.append(item)
            cache["length"][b] += 1
            cache["computed"][b] += 1
    return cache
""",
    },
    "preallocated arrays of one capacity": {
        "new_code": """
import numpy as np
def new_cache(batch, capacity=64):
    cache = {name: np.zeros((batch, capacity), dtype=np.int64) for name in ("keys", "values")}
    return cache | {name: [0] * batch for name in ("length", "computed", "discarded")}
""",
        "write_code": """
def write(cache, keys, values):
    for b, start in enumerate(cache["length"]):
        n = len(keys[b])
        for name, rows in (("keys", keys), ("values", values)):
            cache[name][b][start:start + n] = rows[b]
        cache["length"][b] += n
        cache["computed"][b] += n
    return cache
""",
    },
    "a class behind the functions": {
        "new_code": """
class Sequence:
    def __init__(self, cache, b):
        self.cache, self.b = cache, b
    def __getitem__(self, name):
        return self.cache[name][self.b]
    def add(self, name, amount):
        self.cache[name][self.b] += amount
def each(cache):
    return [Sequence(cache, b) for b in range(len(cache["length"]))]
def new_cache(batch):
    print("a new cache")
    return dict(keys=[list() for _ in range(batch)], values=[list() for _ in range(batch)],
                length=[0] * batch, computed=[0] * batch, discarded=[0] * batch)
""",
        "rows_code": """
def rows_to_compute(cache, sequences):
    return [list(enumerate(tokens))[one["length"]:] for one, tokens in zip(each(cache), sequences)]
""",
        "write_code": """
def write(cache, keys, values):
    for one, new_keys, new_values in zip(each(cache), keys, values):
        del one["keys"][one["length"]:], one["values"][one["length"]:]
        one["keys"].extend(new_keys)
        one["values"].extend(new_values)
        one.add("length", len(new_keys))
        one.add("computed", len(new_keys))
    return cache
""",
        "rollback_code": """
def rollback(cache, drafted, accepted):
    for one, had, kept in zip(each(cache), drafted, accepted):
        one.add("length", kept - had)
        one.add("discarded", had - kept)
    return cache
""",
    },
    "a simulation with everything written out inside, and stderr": {
        "simulate_code": """
import sys
def simulate(prompts, rounds):
    B = len(prompts)
    text = [list(p) for p in prompts]
    K, V, n, done, gone = [[] for _ in range(B)], [[] for _ in range(B)], [0] * B, [0] * B, [0] * B
    for number, r in enumerate(rounds):
        print("round", number, file=sys.stderr)
        rows = [[(i, t) for i, t in enumerate(text[b] + r["drafts"][b]) if i >= n[b]] for b in range(B)]
        new_k, new_v = verifier(rows)
        for b in range(B):
            K[b] += new_k[b]
            V[b] += new_v[b]
            done[b] += len(rows[b])
            bad = len(r["drafts"][b]) - r["accepted"][b]
            if bad:
                del K[b][-bad:], V[b][-bad:]
            gone[b] += bad
            n[b] = len(K[b])
            text[b] += r["drafts"][b][: r["accepted"][b]] + [r["next"][b]]
    return {"keys": K, "values": V, "length": n, "computed": done, "discarded": gone}, text
""",
    },
    "a recursive simulation": {
        "simulate_code": """
def simulate(prompts, rounds):
    if not rounds:
        return new_cache(len(prompts)), [list(prompt) for prompt in prompts]
    cache, sequences = simulate(prompts, rounds[:-1])
    r = rounds[-1]
    rows = rows_to_compute(cache, [s + d for s, d in zip(sequences, r["drafts"])])
    cache = rollback(write(cache, *verifier(rows)), list(map(len, r["drafts"])), r["accepted"])
    ends = zip(sequences, r["drafts"], r["accepted"], r["next"])
    return cache, [s + d[:k] + [t] for s, d, k, t in ends]
""",
    },
}
