"""Visible checks of exercise 2: they say in a sentence what is missing. Standard library only.

    check = Checks(globals())
    check("tokens-formula")

A check prints one line when all is well; otherwise it raises NotYet, whose message is that sentence. A later part is
checked given your earlier parts: where your expected tokens are wrong, a time per token that uses them correctly is
right. Lists and arrays are both welcome. The sentences live in ex2_ideas.json, next to this file. After you hand in,
hidden checks ask the same questions about other numbers.
"""

import contextlib
import json
import math
import re
import sys
from pathlib import Path

IDEAS = json.loads((Path(__file__).parent / "ex2_ideas.json").read_text(encoding="utf-8"))

TOLERANCE = 1e-4  # relative; float32 answers are welcome, a wrong idea is off by far more
ROUNDED = 6e-4  # a table may show three decimals
FLAT = 1e-5  # relative; two lengths that are this close at the bottom are equally good
FALLS_FOR_EVER = 400  # lengths; a right curve of the cases below has turned long before


class NotYet(Exception):
    """One sentence about what is missing. Jupyter shows the sentence alone, without a traceback."""

    def __init__(self, idea, detail=""):
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


def check_tokens_formula(names):
    expected_tokens = find(names, "expected_tokens")
    for alpha, n, right in [(0.5, 1, 1.5), (0.5, 2, 1.75), (0.8, 3, 2.952)]:
        got = number(expected_tokens(alpha, n))
        if same(got, right):
            continue
        forgotten = same(got, right - 1) or same(got, right - alpha**n)
        chain = same(got, 1 + n * alpha) or same(got, n * alpha)
        idea = "tokens-bonus" if forgotten else "tokens-chain" if chain else "tokens-formula"
        raise NotYet(idea, f"expected_tokens({alpha}, {n}) must be {right}, yours is {got:.4g}.")


def check_tokens_ends(names):
    expected_tokens = find(names, "expected_tokens")
    for n in (1, 4):
        for end, near, right in ((0.0, 1e-5, 1), (1.0, 1 - 1e-5, n + 1)):
            try:
                got = number(expected_tokens(end, n))
            except (ZeroDivisionError, FloatingPointError) as error:
                raise NotYet("tokens-ends", f"expected_tokens({end}, {n}): {error}.") from None
            # the limit of your own formula: its error is the business of another check
            if not same(got, right) and not abs(got - number(expected_tokens(near, n))) < 1e-2:
                raise NotYet("tokens-ends", f"expected_tokens({end}, {n}) must be {right}, yours is {got:.4g}.")


def check_tokens_lists(names):
    expected_tokens = find(names, "expected_tokens")
    alphas, lengths = [0.3, 0.6, 0.9], [1, 2, 5, 8]
    alone = [[number(expected_tokens(alpha, n)) for n in lengths] for alpha in alphas]
    for given, right in [
        ((alphas[0], list(lengths)), alone[0]),
        ((list(alphas), lengths[0]), [row[0] for row in alone]),
        ((list(alphas), list(lengths)), alone),
        ((list(alphas), lengths[:3]), [row[:3] for row in alone]),
    ]:
        got = listed(expected_tokens(*given))
        if not alike(got, right):
            raise NotYet("tokens-lists", f"expected_tokens({given[0]}, {given[1]}) gave {got!r:.120}.")


# -- task 2 ------------------------------------------------------------------------------------------------------------

# alpha, N, c, and the expected tokens
CASES = [(0.5, 2, 0.1, 1.75), (0.8, 5, 0.05, 3.68928), (0.6, 4, 0.2, 2.3056)]


def check_time_draft(names):
    for alpha, n, c, right in CASES:
        got = shares(names, alpha, n, c)["draft"]
        if not any(same(got * tokens, n * c) for tokens in (right, own_tokens(names, alpha, n)) if tokens):
            idea = "time-draft-token" if same(got, c) or same(got, n * c) else "time-draft"
            raise NotYet(idea, f'wall_time({alpha}, {n}, {c})["draft"] is {got:.4g}.')


def check_time_verifier(names):
    for alpha, n, c, right in CASES:
        got = shares(names, alpha, n, c)
        passes = [got["verifier"] * tokens for tokens in (right, own_tokens(names, alpha, n)) if tokens]
        if not any(same(one, 1) for one in passes):
            each = any(same(one, n + 1) for one in passes)
            idea = "time-verifier-each" if each else "time-verifier"
            raise NotYet(idea, f'wall_time({alpha}, {n}, {c})["verifier"] is {got["verifier"]:.4g}.')
        if not same(got["total"], got["draft"] + got["verifier"]):
            raise NotYet("time-total", f'wall_time({alpha}, {n}, {c})["total"] is {got["total"]:.4g}.')


def check_time_lists(names):
    lengths = [1, 3, 8]
    alone = [shares(names, 0.7, n, 0.1) for n in lengths]
    got = find(names, "wall_time")(0.7, list(lengths), 0.1)
    if not isinstance(got, dict) or {"draft", "verifier", "total"} - set(got):
        raise NotYet("time-lists")
    for share in ("draft", "verifier", "total"):
        if not alike(listed(got[share]), [one[share] for one in alone]):
            raise NotYet("time-lists", f"wall_time(0.7, {lengths}, 0.1)[{share!r}] is {listed(got[share])!r:.120}.")


# -- task 3 ------------------------------------------------------------------------------------------------------------


def seen(names):
    """What is in the plot or the table: curves as {x: y}, and pairs of labels."""
    answer = names["plotted"]()
    if not answer["labels"]:
        raise NotYet("not-written", "There is neither `ax` nor `table`.")
    found = []
    for x, y in answer["curves"]:
        with contextlib.suppress(TypeError, ValueError):
            found.append({float(a): float(b) for a, b in zip(listed(x), listed(y))})
    return found, answer["labels"]


# some points of the sweep, at alpha 0.9 and c 0.04
HEIGHTS = {1: 0.54737, 5: 0.25610, 10: 0.20403}


def check_sweep_values(names):
    found, _ = seen(names)
    readings = [HEIGHTS]
    with contextlib.suppress(Exception):  # where your wall_time gives no answer, these points alone decide
        readings.append({n: shares(names, 0.9, n, 0.04)["total"] for n in range(1, 11)})
    for curve in found:
        if any(float(n) not in curve for n in range(1, 11)):
            continue
        for right in readings:
            if all(abs(curve[n] - want) <= ROUNDED for n, want in right.items()):
                return
            if all(curve[n] and abs(1 / curve[n] - want) <= ROUNDED for n, want in right.items()):
                raise NotYet("sweep-speedup")
    raise NotYet("sweep-values")


def check_sweep_labels(names):
    _, labels = seen(names)
    pairs = [(str(x), str(y)) for x, y in labels]
    named = [
        (x, y)
        for x, y in pairs
        if re.search(r"\bN\b|draft|length", x, re.IGNORECASE) and re.search("time", y, re.IGNORECASE)
    ]
    if not named:
        raise NotYet("sweep-labels", f"Your labels are {pairs}.")
    if not any(re.search(r"pass|call|plain|relative", y, re.IGNORECASE) for _, y in named):
        raise NotYet("sweep-units", f"Your labels are {named}.")


# -- task 4 and 5 ------------------------------------------------------------------------------------------------------


def check_edge(names):
    best_of_sweep = find(names, "best_of_sweep")
    for lengths, times, best, on_edge in [
        ([3, 6, 12], [0.7, 0.5, 0.6], 6, False),
        ([3, 6, 12], [0.7, 0.6, 0.5], 12, True),
        ([3, 6, 12], [0.5, 0.6, 0.7], 3, True),
    ]:
        got = pair(best_of_sweep(list(lengths), list(times)), "best_of_sweep")
        call = f"best_of_sweep({lengths}, {times}) must be ({best}, {on_edge}), yours is {tuple(got)}."
        if got[0] != best:
            raise NotYet("sweep-index" if got[0] - lengths.index(best) in (0, 1) else "sweep-best", call)
        if got[1] not in (True, False) or bool(got[1]) != on_edge:
            raise NotYet("edge", call)


# alpha, c, the best N, its time
OPTIMA = [(0.5, 0.1, 2, 0.685714), (0.9, 0.1, 10, 0.291465), (0.97, 0.004, 78, 0.0432599)]


def check_optimum(names):
    optimum = find(names, "optimum")
    yours = [own_curves(names, alpha, c) for alpha, c, _, _ in OPTIMA]
    for by_time, _ in yours:
        if by_time and lowest(by_time) == FALLS_FOR_EVER:
            raise NotYet("blocked", "Your wall_time falls for ever as N grows, so it has no optimum.")
    got = [pair(optimum(alpha, c), "optimum") for alpha, c, _, _ in OPTIMA]
    found = [n for n, _ in got]
    fitting = []
    if found == [n for _, _, n, _ in OPTIMA]:
        fitting.append([time for *_, time in OPTIMA])
    for curves in zip(*yours):
        if all(curves) and all(is_lowest(curve, n) for curve, n in zip(curves, found)):
            fitting.append([curve(n) for curve, n in zip(curves, found)])
    if not fitting:
        end = max((n for n in found if isinstance(n, int)), default=0)
        early = [[min(n, end) for _, _, n, _ in OPTIMA]]
        if all(by_time for by_time, _ in yours):
            early.append([min(lowest(by_time), end) for by_time, _ in yours])
        told = ", ".join(f"optimum({alpha}, {c}) gave N = {n}" for (alpha, c, _, _), n in zip(OPTIMA, found))
        raise NotYet("optimum-edge" if found in early else "optimum", f"{told}.")
    times = [float(time) for _, time in got]
    if not any(all(map(same, times, right)) for right in fitting):
        raise NotYet("optimum-time", f"Your times are {times}.")


def own_curves(names, alpha, c, cost=lambda n: 1.0):
    """Time per token over N, from your own time and from your own tokens; None where these give no answer."""

    def by_time(n):
        own = shares(names, alpha, n, c)
        return own["total"] + (cost(n + 1) - 1) * own["verifier"]

    def by_tokens(n):
        return (n * c + cost(n + 1)) / own_tokens(names, alpha, n)

    result = []
    for curve in (by_time, by_tokens):
        try:
            curve(1)
        except Exception:
            curve = None
        result.append(curve)
    return result


def lowest(curve, longest=FALLS_FOR_EVER):
    return min(range(1, longest + 1), key=curve)


def is_lowest(curve, n, longest=FALLS_FOR_EVER):
    if not isinstance(n, int) or not 1 <= n <= longest:
        return False
    return curve(n) <= curve(lowest(curve, longest)) * (1 + FLAT)


# alpha, c, milliseconds; then the best N of each case, and what wrong ideas take for it
MEASURED = [
    (0.9, 0.04, [20.0, 21.0, 22.0, 23.0, 30.0, 37.0, 44.0, 51.0]),
    (0.95, 0.3, [20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0]),
    (0.4, 0.1, [10.0, 30.0, 50.0, 70.0]),
    (0.9, 0.25, [10.0, 30.0, 30.0, 31.0, 31.0, 32.0, 32.0, 33.0]),
    (0.8, 0.1, [10.0, 11.0, 12.0, 20.0]),
]
BEST = [3, 7, 1, 7, 2]
NOT_BEST = {
    "measured-shift": [4, 7, 1, 1, 3],
    "measured-units": [3, 8, 1, 7, 2],
    "measured-ignored": [7, 8, 2, 6, 3],
}


def check_measured(names):
    best_with_cost = find(names, "best_with_cost")
    got = [listed(best_with_cost(alpha, c, list(ms))) for alpha, c, ms in MEASURED]
    if got == BEST:
        return
    yours = [own_curves(names, alpha, c, lambda n, ms=ms: ms[n - 1] / ms[0]) for alpha, c, ms in MEASURED]
    for curves in zip(*yours):
        fits = zip(curves, got, MEASURED)
        if all(curves) and all(is_lowest(curve, n, len(ms) - 1) for curve, n, (_, _, ms) in fits):
            return
    idea = next((idea for idea, wrong in NOT_BEST.items() if got == wrong), "measured")
    told = [f"{n} for {case}" for n, right, case in zip(got, BEST, MEASURED) if n != right]
    raise NotYet(idea, f"You say {told[0]}.")


# -- reading answers ---------------------------------------------------------------------------------------------------


def find(names, name):
    if names.get(name) is None:
        raise NotYet("not-written", f"`{name}` is missing.")
    return names[name]


def listed(value):
    """Arrays, tuples and lists as nested lists."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return [listed(item) for item in value] if isinstance(value, (list, tuple)) else value


def number(value):
    value = listed(value)
    if isinstance(value, (list, dict, str)) or value is None:
        raise NotYet("shape", f"A number is needed, not {value!r:.80}.")
    return float(value)


def same(got, want):
    return math.isclose(got, want, rel_tol=TOLERANCE, abs_tol=1e-9)


def alike(got, want):
    """Are these the same numbers in the same nested lists?"""
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(alike, got, want))
    return not isinstance(got, (list, dict, str)) and got is not None and same(float(got), want)


def pair(value, name):
    result = listed(value)
    if not isinstance(result, list) or len(result) != 2:
        raise NotYet("shape", f"{name} must return two things, not {result!r:.80}.")
    return result


def shares(names, alpha, n, c):
    """Your wall_time of one length: three numbers."""
    got = find(names, "wall_time")(alpha, n, c)
    if not isinstance(got, dict) or {"draft", "verifier", "total"} - set(got):
        raise NotYet("shape", "wall_time must return a dict with draft, verifier and total.")
    return {share: number(got[share]) for share in ("draft", "verifier", "total")}


def own_tokens(names, alpha, n):
    """The expected tokens by your own function; 0 where it gives no answer."""
    try:
        return max(0.0, number(names["expected_tokens"](alpha, n)))
    except Exception:
        return 0.0


CHECKS = {
    "tokens-formula": check_tokens_formula,
    "tokens-ends": check_tokens_ends,
    "tokens-lists": check_tokens_lists,
    "time-draft": check_time_draft,
    "time-verifier": check_time_verifier,
    "time-lists": check_time_lists,
    "sweep-values": check_sweep_values,
    "sweep-labels": check_sweep_labels,
    "edge": check_edge,
    "optimum": check_optimum,
    "measured": check_measured,
}
