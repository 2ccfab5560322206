"""Wrong and right solutions of exercise 2; each changes a few cells of the reference solution."""

from typing import Any

TOKENS = """
def expected_tokens(alpha, N):
    if isinstance(alpha, list):
        return [expected_tokens(one, N) for one in alpha]
    if isinstance(N, list):
        return [expected_tokens(alpha, one) for one in N]
    return {formula}
"""
TIME = """
def wall_time(alpha, N, c):
    if isinstance(N, list):
        times = [wall_time(alpha, n, c) for n in N]
        return {{share: [time[share] for time in times] for share in ("draft", "verifier", "total")}}
    E = expected_tokens(alpha, N)
    draft, verifier = {draft}, {verifier}
    return {{"draft": draft, "verifier": verifier, "total": {total}}}
"""
RIGHT_TIME = {"draft": "N * c / E", "verifier": "1 / E", "total": "draft + verifier"}
SWEEP = """
import matplotlib.pyplot as plt
table, lengths = None, {lengths}
fig, ax = plt.subplots()
ax.plot(lengths, {times}, "o-")
ax.set_xlabel({x})
ax.set_ylabel({y})
"""
RIGHT_SWEEP = {
    "lengths": "list(range(1, 11))",
    "times": 'wall_time(0.9, lengths, 0.04)["total"]',
    "x": '"N"',
    "y": '"time per token (verifier passes)"',
}
OPTIMUM = """
def best_of_sweep(lengths, times):
    place = times.index(min(times))
    return {sweep}
def optimum(alpha, c):
    n = {search}
    return n, wall_time(alpha, n, c)["total"]
"""
TOTAL = 'wall_time(alpha, {n}, c)["total"]'
WALK = f"next(n for n in range(1, 9999) if {TOTAL.format(n='n + 1')} >= {TOTAL.format(n='n')})"
RIGHT_OPTIMUM = {"sweep": "lengths[place], place in (0, len(lengths) - 1)", "search": WALK}
MEASURED = """
def best_with_cost(alpha, c, milliseconds):
    def time(n):
        return (n * c + {cost}) / expected_tokens(alpha, n)
    return min(range(1, len(milliseconds)), key=time)
"""


def tokens(formula: str) -> dict[str, str]:
    return {"tokens_code": TOKENS.format(formula=formula)}


def time(**shares: str) -> dict[str, str]:
    return {"time_code": TIME.format(**RIGHT_TIME | shares)}


def sweep(**parts: str) -> dict[str, str]:
    return {"sweep_code": SWEEP.format(**RIGHT_SWEEP | parts)}


def optimum(**parts: str) -> dict[str, str]:
    return {"optimum_code": OPTIMUM.format(**RIGHT_OPTIMUM | parts)}


def measured(cost: str) -> dict[str, str]:
    return {"measured_code": MEASURED.format(cost=cost)}


def best_in(range_: str) -> str:
    return f'min({range_}, key=lambda n: wall_time(alpha, n, c)["total"])'


# What was changed, and what it costs: {check: the idea that the feedback names}.
WRONG: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "M11, exponent N": (
        tokens("(1 - alpha**N) / (1 - alpha) if alpha < 1 else N"),
        {"tokens-formula": "tokens-bonus"},
    ),
    "M11, accepted drafts only": (
        tokens("sum(alpha**k for k in range(1, N + 1))"),
        {"tokens-formula": "tokens-bonus"},
    ),
    "every draft counts with the same alpha": (
        tokens("1 + N * alpha"),
        # its time falls for ever, so there is no optimum to compare with: pending
        {"tokens-formula": "tokens-chain", "optimum": "blocked"},
    ),
    "the plain fraction at alpha 1": (
        tokens("(1 - alpha ** (N + 1)) / (1 - alpha)"),
        {"tokens-ends": "tokens-ends"},
    ),
    "N tokens at alpha 1": (
        tokens("(1 - alpha ** (N + 1)) / (1 - alpha) if alpha < 1 else N"),
        {"tokens-ends": "tokens-ends"},
    ),
    "not a number at alpha 1": (
        tokens("(1 - alpha ** (N + 1)) / (1 - alpha) if alpha < 1 else float('nan')"),
        {"tokens-ends": "tokens-ends"},
    ),
    "no tokens at alpha 0": (
        tokens("0 if alpha == 0 else sum(alpha**k for k in range(N + 1))"),
        {"tokens-ends": "tokens-ends"},
    ),
    "pairs instead of a table": (
        {
            "tokens_code": """
import numpy as np
def expected_tokens(alpha, N):
    alpha, N = np.broadcast_arrays(alpha, N)
    sums = [sum(a**k for k in range(n + 1)) for a, n in zip(alpha.flat, N.flat)]
    return np.array(sums).reshape(alpha.shape)
"""
        },
        {"tokens-lists": "raised"},
    ),
    "a table on its side": (
        {
            "tokens_code": """
import numpy as np
def expected_tokens(alpha, N):
    if isinstance(alpha, list) and isinstance(N, list):
        return [[expected_tokens(a, n) for a in alpha] for n in N]
    alpha, N = np.broadcast_arrays(alpha, N)
    sums = [sum(a**k for k in range(n + 1)) for a, n in zip(alpha.flat, N.flat)]
    return np.array(sums).reshape(alpha.shape)
"""
        },
        {"tokens-lists": "tokens-lists"},
    ),
    "M12, no verifier pass": (time(verifier="0.0"), {"time-verifier": "time-verifier"}),
    "M12, the verifier's pass is not in the total": (
        time(total="draft"),
        {"time-verifier": "time-total"},
    ),
    "M12, c per emitted token": (
        time(draft="c"),
        {"time-draft": "time-draft-token", "optimum": "blocked"},
    ),
    "M12, N c per emitted token": (time(draft="N * c"), {"time-draft": "time-draft-token"}),
    "N + 1 draft passes": (time(draft="(N + 1) * c / E"), {"time-draft": "time-draft"}),
    "the verifier is paid per position": (
        time(verifier="(N + 1) / E"),
        {"time-verifier": "time-verifier-each"},
    ),
    "no lists of lengths": (
        {
            "time_code": """
def wall_time(alpha, N, c):
    E = sum(alpha**k for k in range(N + 1))
    return {"draft": N * c / E, "verifier": 1 / E, "total": (N * c + 1) / E}
""",
            **sweep(times='[wall_time(0.9, n, 0.04)["total"] for n in lengths]'),
        },
        {"time-lists": "raised"},
    ),
    "a list of dicts": (
        {
            "time_code": TIME.format(**RIGHT_TIME).replace(
                'return {share: [time[share] for time in times] for share in ("draft", "verifier", "total")}',
                "return times",
            ),
            **sweep(times='[wall_time(0.9, n, 0.04)["total"] for n in lengths]'),
        },
        {"time-lists": "time-lists"},
    ),
    "a sweep from 0 to 9": (
        sweep(times='[1, *wall_time(0.9, lengths[:9], 0.04)["total"]]'),
        {"sweep-values": "sweep-values"},
    ),
    "a sweep with another alpha": (
        sweep(times='wall_time(0.8, lengths, 0.04)["total"]'),
        {"sweep-values": "sweep-values"},
    ),
    "only five lengths": (
        sweep(lengths="[1, 3, 5, 7, 10]"),
        {"sweep-values": "sweep-values"},
    ),
    "the speedup over N": (
        sweep(times='[1 / time for time in wall_time(0.9, lengths, 0.04)["total"]]'),
        {"sweep-values": "sweep-speedup"},
    ),
    "no labels": (sweep(x='""', y='""'), {"sweep-labels": "sweep-labels"}),
    "no unit": (sweep(y='"time per token"'), {"sweep-labels": "sweep-units"}),
    "M13, the sweep of the task": (
        optimum(search=best_in("range(1, 11)")),
        {"optimum": "optimum-edge"},
    ),
    "M13, a wider sweep": (optimum(search=best_in("range(1, 51)")), {"optimum": "optimum-edge"}),
    "the longest length": (optimum(search="400"), {"optimum": "optimum"}),
    "one short of the optimum": (optimum(search=f"max(1, {WALK} - 1)"), {"optimum": "optimum"}),
    "the speedup beside the optimum": (
        {"optimum_code": OPTIMUM.format(**RIGHT_OPTIMUM).replace("return n, wall", "return n, 1 / wall")},
        {"optimum": "optimum-time"},
    ),
    "never on the edge": (optimum(sweep="lengths[place], False"), {"edge": "edge"}),
    "only the last length is an edge": (
        optimum(sweep="lengths[place], place == len(lengths) - 1"),
        {"edge": "edge"},
    ),
    "the place in the list": (
        optimum(sweep="place + 1, place in (0, len(lengths) - 1)"),
        {"edge": "sweep-index"},
    ),
    "the slowest length": (
        {"optimum_code": OPTIMUM.format(**RIGHT_OPTIMUM).replace("min(times)", "max(times)")},
        {"edge": "sweep-best"},
    ),
    "V(N) in place of V(N + 1)": (
        measured("milliseconds[n - 1] / milliseconds[0]"),
        {"measured": "measured-shift"},
    ),
    "milliseconds added to passes": (measured("milliseconds[n]"), {"measured": "measured-units"}),
    "the measurement left out": (measured("1"), {"measured": "measured-ignored"}),
    "V in units of V(2)": (measured("milliseconds[n] / milliseconds[1]"), {"measured": "measured"}),
    "no draft at all counts as a length": (
        {
            "measured_code": MEASURED.format(cost="milliseconds[n] / milliseconds[0]").replace(
                "range(1,", "range(0,"
            )
        },
        {"measured": "measured"},
    ),
    "the measured pass shared by N": (
        measured("milliseconds[n] / milliseconds[0] / n"),
        {"measured": "measured"},
    ),
}

NUMPY_TOKENS = """
import numpy as np
def expected_tokens(alpha, N):
    a = np.asarray(alpha, dtype={dtype})
    n = np.asarray(N)
    if a.ndim and n.ndim:
        a = a[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a == 1, n + 1, (1 - a ** (n + 1)) / (1 - a)).astype({dtype})
"""
RIGHT: dict[str, dict[str, str]] = {
    "NumPy throughout": {
        "tokens_code": NUMPY_TOKENS.format(dtype="np.float64"),
        "time_code": """
def wall_time(alpha, N, c):
    E, N = expected_tokens(alpha, N), np.asarray(N)
    return {"draft": N * c / E, "verifier": 1 / E, "total": (N * c + 1) / E}
""",
        "optimum_code": """
def best_of_sweep(lengths, times):
    i = int(np.argmin(times))
    return np.asarray(lengths)[i], np.bool_(i == 0 or i == len(times) - 1)
def optimum(alpha, c):
    end = 10
    while True:
        lengths = np.arange(1, end + 1)
        n, edge = best_of_sweep(lengths, wall_time(alpha, lengths, c)["total"])
        if n < end:
            return int(n), float(wall_time(alpha, n, c)["total"])
        end *= 2
""",
        "measured_code": """
def best_with_cost(alpha, c, milliseconds):
    ms = np.asarray(milliseconds)
    n = np.arange(1, len(ms))
    return 1 + int(((n * c + ms[1:] / ms[0]) / expected_tokens(alpha, n)).argmin())
""",
    },
    "single precision": {"tokens_code": NUMPY_TOKENS.format(dtype="np.float32")},
    "recursion, tuples and a table": {
        "tokens_code": """
def expected_tokens(alpha, N):
    if hasattr(alpha, "__iter__"):
        return tuple(expected_tokens(a, N) for a in alpha)
    if hasattr(N, "__iter__"):
        return tuple(expected_tokens(alpha, n) for n in N)
    return 1 if N == 0 else 1 + alpha * expected_tokens(alpha, N - 1)
""",
        "sweep_code": """
lengths = range(1, 11)
table = {"N": lengths, "time per token (passes)": [wall_time(0.9, n, 0.04)["total"] for n in lengths]}
""",
        **optimum(
            sweep="lengths[place], lengths[place] in lengths[:1] + lengths[-1:]",
            search=best_in("range(1, 200)"),
        ),
    },
    "a class, and nothing calls an earlier part": {
        "tokens_code": """
class Model:
    def __init__(self, alpha, c=0.0):
        self.alpha, self.c = alpha, c
    def tokens(self, n):
        total, term = 0.0, 1.0
        for _ in range(n + 1):
            total, term = total + term, term * self.alpha
        return total
    def time(self, n, pass_cost=1.0):
        return (n * self.c + pass_cost) / self.tokens(n)
def expected_tokens(alpha, N):
    if isinstance(alpha, list):
        return [expected_tokens(a, N) for a in alpha]
    return [Model(alpha).tokens(n) for n in N] if isinstance(N, list) else Model(alpha).tokens(N)
""",
        "time_code": """
def wall_time(alpha, N, c):
    m, many = Model(alpha, c), isinstance(N, list)
    rows = [(n * c / m.tokens(n), 1 / m.tokens(n), m.time(n)) for n in (N if many else [N])]
    return dict(zip(("draft", "verifier", "total"), map(list, zip(*rows)) if many else rows[0]))
""",
        "sweep_code": """
import matplotlib.pyplot as plt
print("drawing")
plt.figure()
plt.bar(range(1, 11), [Model(0.9, 0.04).time(n) for n in range(1, 11)])
plt.xlabel("draft length")
plt.ylabel("Time per token, relative to plain decoding")
ax = plt.gca()
plt.show()
""",
        "optimum_code": """
def best_of_sweep(lengths, times):
    best = min(zip(times, lengths))[1]
    return [best, best == min(lengths) or best == max(lengths)]
def optimum(alpha, c):
    m = Model(alpha, c)
    best = min(range(1, 3000), key=m.time)
    return best, m.time(best)
""",
        "measured_code": """
def best_with_cost(alpha, c, milliseconds):
    V = {n: ms / milliseconds[0] for n, ms in enumerate(milliseconds, start=1)}
    m = Model(alpha, c)
    times = {n: m.time(n, V[n + 1]) for n in range(1, len(milliseconds))}
    return sorted(times, key=times.get)[0]
""",
    },
    "two panels, dots, a longer sweep": {
        "sweep_code": """
import sys
import matplotlib.pyplot as plt
import numpy as np
print("a warning", file=sys.stderr)
N = np.arange(1, 21)
fig, ax = plt.subplots(1, 2)
ax[0].plot(N, expected_tokens(0.9, N.tolist()))
ax[0].set(xlabel="N", ylabel="tokens per call")
ax[1].scatter(N, wall_time(0.9, N.tolist(), 0.04)["total"])
ax[1].set(xlabel="draft length $N$", ylabel="wall time per token [verifier passes]")
""",
    },
    "a table with three decimals and another column": {
        "sweep_code": """
ax = None
table = {
    "N": [str(n) for n in range(1, 11)],
    "tokens per call": [round(expected_tokens(0.9, n), 3) for n in range(1, 11)],
    "time per token (1 = plain decoding)": [round(wall_time(0.9, n, 0.04)["total"], 3) for n in range(1, 11)],
}
""",
    },
    "the bill of a call, and a while loop": {
        "time_code": """
def wall_time(alpha, N, c):
    shares = {"draft": [], "verifier": [], "total": []}
    for n in N if isinstance(N, (list, tuple)) else [N]:
        tokens = expected_tokens(alpha, n)
        bill = {"draft": c * n, "verifier": 1.0}
        bill["total"] = sum(bill.values())
        for name in shares:
            shares[name].append(bill[name] / tokens)
    return shares if isinstance(N, (list, tuple)) else {name: values[0] for name, values in shares.items()}
""",
        "measured_code": """
def best_with_cost(alpha, c, milliseconds):
    best, least = None, float("inf")
    for n in range(1, len(milliseconds)):
        share = wall_time(alpha, n, c)
        time = share["draft"] + share["verifier"] * milliseconds[n] / milliseconds[0]
        if time < least:
            best, least = n, time
    return best
""",
    },
}


def pasted(source: str) -> dict[str, Any]:
    """The library's module under the student's name, and nothing else in the notebook."""
    names = ("time", "sweep", "optimum", "measured")
    paste = {"tokens_code": source + "\noptimum = best_with_cost = optimal_n\n"}
    return paste | {f"{name}_code": "ax = table = None" if name == "sweep" else "" for name in names}
