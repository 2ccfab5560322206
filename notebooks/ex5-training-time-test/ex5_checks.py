"""Visible checks of exercise 5: they say in a sentence what is missing. Standard library only.

    check = Checks(globals())
    check("mask-causal")

A check prints one line when all is well; otherwise it raises NotYet, whose message is that sentence. Later parts
are compared with what your own earlier parts give; where an earlier one is not right yet and the later one cannot
be judged, its check says what it waits for. The notebook's own instruments (asked_loss, watched, slope, ...) turn
lists into tensors. The sentences live in ex5_ideas.json, next to this file. After you hand in, hidden checks ask
the same questions about other numbers.
"""

import contextlib
import json
import math
import random
import sys
from pathlib import Path

IDEAS = json.loads((Path(__file__).parent / "ex5_ideas.json").read_text(encoding="utf-8"))

DECAY = 0.8
V, H = 3, 4
BUMP = 3.0
GAIN = math.log(math.exp(BUMP) + V - 1) - math.log(V)
LENGTHS = [4, 1, 3]
# Which checks a part's answers depend on.
MASK, SHIFT = ("mask-causal", "mask-diagonal", "mask-texts"), ("positions", "shift", "shift-ends")
LOSS = ("loss-targets", "loss-mask", "loss-tokens", "loss-weights")
UNROLL = ("unroll-inputs", "unroll-feeding", "unroll-gradient")
WAITS_FOR = {
    **dict.fromkeys(LOSS, SHIFT[1:]),
    **dict.fromkeys(UNROLL, MASK + SHIFT),
    "train": MASK + SHIFT + LOSS + UNROLL,
    "acceptance": MASK + SHIFT + UNROLL,
    "acceptance-alive": (*MASK, *SHIFT, *UNROLL, "acceptance"),
    "compare": (*MASK, *SHIFT, *LOSS, *UNROLL, "train", "acceptance", "acceptance-alive"),
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
        failure = self.failure(idea)
        if failure and self.is_written(idea):
            for earlier in WAITS_FOR.get(idea, ()):
                if self.failure(earlier):
                    print(f"This check waits: repair \"{IDEAS[earlier]['title']}\" first.")
                    return
        if failure:
            raise failure from None
        print(f"ok: {IDEAS[idea]['title']}")

    def failure(self, idea):
        """What is not yet right about an idea, or None."""
        try:
            with contextlib.redirect_stderr(sys.stdout):
                CHECKS[idea](self.names)
        except NotYet as error:
            return error
        except NotImplementedError:
            return NotYet("not-written")
        except Exception as error:
            return NotYet("raised", f"{type(error).__name__}: {error}.")
        return None

    def is_written(self, idea):
        """Is the failing function itself there, and more than the line that it was released with?"""
        function = self.names.get(FUNCTIONS[idea])
        code = getattr(function, "__code__", None)
        return function is not None and (code is None or "NotImplementedError" not in code.co_names)


# -- tasks 1 and 2 -----------------------------------------------------------------------------------------------------


def masks(names):
    for lengths, steps in (([3], 2), ([2, 1], 2), (LENGTHS, 3), ([1, 1], 1)):
        rows = sum(lengths)
        yield lengths, steps, listed(find(names, "ttt_mask")(lengths, steps), rows, steps * rows)


def check_mask_causal(names):
    for lengths, steps, mask in masks(names):
        text = text_of(lengths)
        for s, row in enumerate(mask):
            if any(bool(row[c]) != (c <= s) for c in range(len(text)) if text[c] == text[s]):
                raise NotYet("mask-causal", f"ttt_mask({lengths}, {steps}): row {s} is {shown(row)}.")


def check_mask_diagonal(names):
    for lengths, steps, mask in masks(names):
        text = text_of(lengths)
        rows = range(len(text))
        for k in range(1, steps):
            block = [[bool(mask[s][k * len(text) + c]) for c in rows if text[c] == text[s]] for s in rows]
            eye = [[c == s for c in rows if text[c] == text[s]] for s in rows]
            causal = [[c <= s for c in rows if text[c] == text[s]] for s in rows]
            if block != eye:
                idea = "mask-later-causal" if block == causal else "mask-diagonal"
                raise NotYet(idea, f"ttt_mask({lengths}, {steps}), the keys of step {k}.")


def check_mask_texts(names):
    something = False
    for lengths, steps, mask in masks(names):
        text = text_of(lengths)
        something = something or any(map(any, mask))
        for s, row in enumerate(mask):
            if any(seen and text[c % len(text)] != text[s] for c, seen in enumerate(row)):
                raise NotYet("mask-texts", f"ttt_mask({lengths}, {steps}): row {s} is {shown(row)}.")
    if not something:
        raise NotYet("mask-texts", "Nothing is seen at all.")


def check_positions(names):
    for lengths, step in (([3, 2], 0), ([3, 2], 1), (LENGTHS, 2)):
        got = listed(find(names, "positions")(lengths, step), sum(lengths))
        if got != [place + step for n in lengths for place in range(n)]:
            raise NotYet("positions", f"positions({lengths}, {step}) is {got}.")


def shifted(names):
    """(lengths, by, values, result, right result)."""
    find(names, "shift")
    for lengths in ([3, 2], LENGTHS, [1, 4]):
        rows = sum(lengths)
        tokens = list(range(10, 10 + rows))
        for values in (tokens, [True] * rows, [[token, token + 0.5] for token in tokens]):
            for by in (0, 1, 2, 4):
                got = names["asked_shift"](values, lengths, by)
                shape = (rows, 2) if isinstance(values[0], list) else (rows,)
                yield lengths, by, values, listed(got, *shape), shifted_right(values, lengths, by)


def check_shift(names):
    for lengths, by, values, got, right in shifted(names):
        for t, kept in enumerate(stays(lengths, by)):
            if kept and got[t] != right[t]:
                raise NotYet("shift", f"shift({values}, {lengths}, {by}) is {got}.")


def check_shift_ends(names):
    asked = list(shifted(names))
    if all(got == other_way(values, lengths, by) for lengths, by, values, got, _ in asked):
        return
    for lengths, by, values, got, right in asked:
        for t, kept in enumerate(stays(lengths, by)):
            if not kept and got[t] != right[t]:
                raise NotYet("shift-ends", f"shift({values}, {lengths}, {by}) is {got}.")


# -- task 3 ------------------------------------------------------------------------------------------------------------


def loss(names, logits, batch):
    find(names, "multi_step_loss")
    told = names["asked_loss"](logits, batch["probs"], batch["counted"], batch["lengths"])
    return math.nan if told["value"] is None else told["value"]


def loss_cases():
    lot = random.Random(3)
    for lengths, counted, steps in ((LENGTHS, (1, 2, 3, 6), 2), ([5], (3, 4), 3)):
        rows = sum(lengths)
        probs = [softmax([lot.gauss(0, 1.5) for _ in range(V)]) for _ in range(rows)]
        yield {"probs": probs, "counted": [t in counted for t in range(rows)], "lengths": lengths}, steps


def taken_apart(names, batch, steps):
    """[steps, S, V]: share of each row in the loss times its target; the loss is linear in -log p."""
    logits, result = flat(steps, len(batch["probs"])), []
    base = loss(names, logits, batch)
    for step in logits:
        result.append([])
        for row in step:
            drops = []
            for v in range(V):
                row[v] = BUMP
                drops.append(base - loss(names, logits, batch))
                row[v] = 0.0
            share = sum(drops) / (BUMP - V * GAIN)
            result[-1].append([(drop + GAIN * share) / BUMP for drop in drops])
    return result


def check_loss_targets(names):
    for batch, steps in loss_cases():
        told = taken_apart(names, batch, steps)
        if not any(sum(target) > 1e-4 for step in told for target in step):
            raise NotYet("loss-targets", "Your loss does not depend on the logits.")
        for k, step in enumerate(told):
            right = own_shift(names)(batch["probs"], batch["lengths"], k + 1)
            for t, (got, target) in enumerate(zip(step, right)):
                share = sum(got)
                if share <= 1e-4 or not sum(target):
                    continue
                got = [x / share for x in got]
                if not close(got, target, 0.02):
                    hard = close(got, [float(q == max(target)) for q in target], 0.02)
                    raise NotYet("loss-hard" if hard else "loss-targets", f"Step {k}, row {t}.")
        asked = names["asked_loss"](
            flat(steps, len(batch["probs"])), batch["probs"], batch["counted"], batch["lengths"]
        )
        if not asked["differentiable"]:
            raise NotYet("loss-gradient")


def check_loss_mask(names):
    for batch, steps in loss_cases():
        for k, step in enumerate(taken_apart(names, batch, steps)):
            got = [t for t, target in enumerate(step) if sum(target) > 1e-4]
            right = own_shift(names)(batch["counted"], batch["lengths"], k + 1)
            right = [t for t, counts in enumerate(right) if counts]
            if got and got != right:
                raise NotYet("loss-mask", f"At step {k} the rows {got} count instead of {right}.")
    last = {"probs": [softmax([1, 2, 3])] * 4, "counted": [False, False, True, True], "lengths": [4]}
    if close(loss(names, flat(1, 4), last), math.log(V) * 2 / 3, 0.01):
        raise NotYet("loss-mask", "A row whose text has ended counts.")


def long_texts(lengths, counted=lambda t: True):
    rows = sum(lengths)
    return {
        "probs": [[1.0, 0.0, 0.0]] * rows,
        "counted": [counted(t) for t in range(rows)],
        "lengths": lengths,
    }


def bumped(steps, rows, where):
    return [[[BUMP * where(k, t), 0.0, 0.0] for t in range(rows)] for k in range(steps)]


def check_loss_tokens(names):
    texts = long_texts([160, 40])
    base = loss(names, bumped(1, 200, lambda k, t: False), texts)
    first = loss(names, bumped(1, 200, lambda k, t: t < 160), texts)
    both = loss(names, bumped(1, 200, lambda k, t: True), texts)
    if both == base or not math.isfinite(base):
        raise NotYet("loss-tokens", f"The loss is {base}.")
    share = (base - first) / (base - both)
    if abs(share - 0.8) > 0.03:
        detail = f"Of two texts of 160 and 40 rows the first has {share:.2f} of the loss."
        raise NotYet("loss-texts" if abs(share - 0.5) < 0.03 else "loss-tokens", detail)
    half = loss(names, flat(1, 200), long_texts([200], lambda t: t % 2 == 0))
    less = loss(names, flat(1, 100), long_texts([100]))
    if not (close(half / base, 1, 0.05) and close(less / base, 1, 0.05)):
        detail = f"With 200, 100 and 100 rows that count, all alike, the loss is {base:.3f}, {half:.3f}, {less:.3f}."
        raise NotYet("loss-tokens", detail)


def check_loss_weights(names):
    steps, texts = 3, long_texts([200])
    base = loss(names, flat(steps, 200), texts)
    shares = [base - loss(names, bumped(steps, 200, lambda k, t, one=one: k == one), texts) for one in range(steps)]
    if not math.isfinite(sum(shares)) or sum(shares) <= 0:
        raise NotYet("loss-weights", f"The loss is {base}.")
    right = [DECAY**k / (1 + DECAY + DECAY**2) for k in range(steps)]
    if not close([share / sum(shares) for share in shares], right, 0.02):
        parts = ", ".join(f"{share / sum(shares):.2f}" for share in shares)
        raise NotYet("loss-weights", f"The shares of three steps are {parts}.")
    if not close(base / loss(names, flat(1, 200), texts), 1, 0.05):
        raise NotYet("loss-normalised", f"All rows cost {math.log(V):.2f}, and your loss is {base:.2f}.")
    short = long_texts([3])
    begun, ended = loss(names, flat(1, 3), short), loss(names, flat(5, 3), short)
    total = sum(DECAY**k for k in range(5))
    too_many = [
        math.log(V) * sum(DECAY**k * max(0, min(rows, 2 - k)) / rows for k in range(5)) / total for rows in (2, 3)
    ]  # rows that have ended count in every step: a matter of the mask. And a sum is no matter of the weights
    if not any(close(ended, right, 0.01) for right in (begun, begun * 1.4 / 1.8, *too_many)):
        raise NotYet("loss-empty", f"A text of three rows costs {begun:.3f} in one step and {ended:.3f} in five.")
    uneven = {"probs": [[1.0, 0.0, 0.0]] * 4, "counted": [True] * 4, "lengths": [4]}
    begun = loss(names, flat(2, 4), uneven)
    later = loss(names, bumped(2, 4, lambda k, t: k == 1), uneven)
    saved = (begun - later) / (BUMP - GAIN)
    ended_rows = [4 / 9 * part for part in (1, 2 / 3, 1 / 2, 3 / 4)]  # a row too many is a matter of the mask
    if not any(close(saved, right, 0.005) for right in ended_rows) and not_named(names):
        raise NotYet("loss-weights", f"With 3 rows in step 0 and 2 in step 1, step 1 has {saved:.2f} of the loss.")


def not_named(names):
    """Is nothing wrong with the loss that another check names?"""
    try:
        for other in (check_loss_targets, check_loss_mask, check_loss_tokens):
            other(names)
    except NotYet:
        return False
    return True


# -- task 4 ------------------------------------------------------------------------------------------------------------


def unroll_cases():
    lot = random.Random(4)
    return [(some_weights(lot), some_batch(lot, lengths), steps) for lengths, steps in ((LENGTHS, 3), ([2, 3], 2))]


def watch(names, weights, batch, steps):
    find(names, "unroll")
    told = names["watched"](weights, batch, steps)
    if len(told["calls"]) != steps or len(told["logits"]) != steps:
        raise NotYet("unroll-calls", f"{len(told['calls'])} calls for {steps} steps.")
    return told


def check_unroll_inputs(names):
    for weights, batch, steps in unroll_cases():
        lengths, rows = batch["lengths"], len(batch["tokens"])
        told = watch(names, weights, batch, steps)
        for k, call in enumerate(told["calls"]):
            tokens = own_shift(names)(batch["tokens"], lengths, k + 1)
            if call["tokens"] != tokens:
                raise NotYet("unroll-tokens", f"Step {k} reads {call['tokens']} instead of {tokens}.")
            if call["positions"] != names["positions"](lengths, k).tolist():
                raise NotYet("unroll-positions", f"Step {k} stands at {call['positions']}.")
            if len(call["mask"][0]) != (k + 1) * rows:
                raise NotYet("unroll-past", f"At step {k} there are {len(call['mask'][0])} keys for {rows} rows.")
            mask = names["ttt_mask"](lengths, steps).tolist()
            if [list(map(bool, row)) for row in call["mask"]] != [row[: (k + 1) * rows] for row in mask]:
                raise NotYet("unroll-inputs", f"The mask of step {k}.")
            columns = list(zip(*weights["logits"]))
            scores = [[sum(h * w for h, w in zip(row, column)) for column in columns] for row in call["after"]]
            if not close(told["logits"][k], scores, 1e-3):
                raise NotYet("unroll-inputs", f"The logits of step {k}.")


def check_unroll_feeding(names):
    for weights, batch, steps in unroll_cases():
        calls = watch(names, weights, batch, steps)["calls"]
        if not close(calls[0]["hidden"], batch["features"]):
            raise NotYet("unroll-feeding", "Step 0 does not get the features.")
        for k, call in enumerate(calls[1:], 1):
            if not close(call["hidden"], calls[k - 1]["after"]):
                true = [shifted_right(batch["features"], batch["lengths"], by) for by in (0, k)]
                teacher = any(close(call["hidden"], one) for one in true)
                raise NotYet("unroll-teacher" if teacher else "unroll-feeding", f"Step {k}.")


def check_unroll_gradient(names):
    """The gradient that torch gives against differences of the logits themselves."""
    lot = random.Random(44)
    weights, batch, steps = unroll_cases()[0]
    watch(names, weights, batch, steps)
    pull = [[lot.gauss(0, 1) for _ in range(V)] for _ in batch["tokens"]]
    gradient = names["pulled"](weights, batch, steps, pull)
    for name, matrix in weights.items():
        way = [[lot.gauss(0, 0.3) for _ in row] for row in matrix]

        def pulled(by):
            moved = [[w + by * d for w, d in zip(*rows)] for rows in zip(weights[name], way)]
            last = names["watched"]({**weights, name: moved}, batch, steps)["logits"][-1]
            return dot(pull, last)

        near, far = pulled(0.02) - pulled(-0.02), pulled(0.04) - pulled(-0.04)
        if abs(dot(gradient[name], way) - (8 * near - far) / 0.24) > 0.02 + 0.02 * abs(dot(gradient[name], way)):
            raise NotYet("unroll-gradient")


# -- task 5 ------------------------------------------------------------------------------------------------------------


def run_case(count, seed=5):
    lot = random.Random(seed)
    return some_weights(lot), [some_batch(lot, [5, *(lot.randint(1, 4) for _ in range(2))]) for _ in range(count)]


def check_train(names):
    find(names, "train")
    weights, batches = run_case(3)
    for steps in (3, 1):
        got = names["trained"](weights, batches, steps, 0.02)
        if not same_run(got, adam(names, weights, batches, steps, 0.02), weights):
            first = steps > 1 and same_run(got, adam(names, weights, batches, 1, 0.02), weights)
            raise NotYet("train-steps" if first else "train", f"Three batches, {steps} steps.")


def adam(names, weights, batches, steps, rate):
    """What Adam makes of the gradients of your own loss of your own unrolling."""
    now = {name: [list(row) for row in matrix] for name, matrix in weights.items()}
    mean = {name: [[0.0] * len(row) for row in matrix] for name, matrix in weights.items()}
    square = {name: [[0.0] * len(row) for row in matrix] for name, matrix in weights.items()}
    for update, batch in enumerate(batches, 1):
        gradient = names["slope"](now, batch, steps)["gradient"]
        for name, matrix in now.items():
            for i, row in enumerate(matrix):
                for j in range(len(row)):
                    g = gradient[name][i][j]
                    mean[name][i][j] = 0.9 * mean[name][i][j] + 0.1 * g
                    square[name][i][j] = 0.999 * square[name][i][j] + 0.001 * g * g
                    root = math.sqrt(square[name][i][j] / (1 - 0.999**update)) + 1e-8
                    row[j] -= rate * mean[name][i][j] / (1 - 0.9**update) / root
    return now


def same_run(got, right, start):
    def distance(one, other):
        pairs = zip(numbers_in(one), numbers_in({name: other[name] for name in one}))
        return sum((a - b) ** 2 for a, b in pairs) ** 0.5

    return distance(got, right) <= 0.02 * distance(right, start) + 1e-6


def measure(names, weights, batch, depth):
    find(names, "acceptance")
    return listed(names["measured"](weights, batch, depth), depth)


def rates_of(logits, batch, shift, weighted=True, everywhere=False):
    lengths, alive, rates = batch["lengths"], [1.0] * len(batch["tokens"]), []
    for k, step in enumerate(logits):
        p, q = [softmax(scores) for scores in step], shift(batch["probs"], lengths, k + 1)
        rows = [everywhere or bool(row) for row in shift(batch["counted"], lengths, k + 1)]
        overlaps = [sum(map(min, p[t], q[t])) for t in range(len(rows))]
        counts = [w * row for w, row in zip(alive, rows)]
        rates.append(sum(w * o for w, o in zip(counts, overlaps)) / sum(counts))
        for t, x in enumerate(shift(batch["tokens"], lengths, k + 2)):
            if weighted:
                alive[t] *= min(1, p[t][int(x)] / max(q[t][int(x)], 1e-9))
    return rates


def check_acceptance(names):
    lot = random.Random(51)
    weights, batch = some_weights(lot), some_batch(lot, LENGTHS)
    batch["counted"] = [False, True, True, True, True, False, True, False]
    got = measure(names, weights, batch, 1)
    logits = names["watched"](weights, batch, 1)["logits"]
    right = rates_of(logits, batch, own_shift(names))
    if not close(got, right, 1e-3):
        every = close(got, rates_of(logits, batch, own_shift(names), everywhere=True), 1e-3)
        detail = f"At depth 1 you measure {got[0]:.3f} instead of {right[0]:.3f}."
        raise NotYet("acceptance-rows" if every else "acceptance", detail)
    # Later depths, one row in each, and a head that knows nothing: p is flat, and no chain is lost on the way.
    weights, batch = some_weights(lot), some_batch(lot, [9, 3])
    weights["logits"] = [[0.0] * V for _ in range(H)]
    batch["counted"] = [t == 4 for t in range(12)]
    for t, q in enumerate(batch["probs"][:-1]):
        batch["tokens"][t + 1] = q.index(min(q))
    got = measure(names, weights, batch, 3)
    right = rates_of(flat(3, 12), batch, own_shift(names))
    if not close(got, right, 1e-3):
        raise NotYet("acceptance-targets", f"You measure {got} instead of {right}.")


def check_acceptance_alive(names):
    weights, batch = alive_case()
    got = measure(names, weights, batch, 3)
    logits = names["watched"](weights, batch, 3)["logits"]
    ways = [rates_of(logits, batch, own_shift(names), everywhere=every) for every in (False, True)]
    if any(close(got, way, 1e-3) for way in ways):
        return
    if close(got, rates_of(logits, batch, own_shift(names), weighted=False), 1e-3):
        raise NotYet("acceptance-plain", f"You measure {got}.")
    raise NotYet("acceptance-alive", f"You measure {got}.")


def alive_case():
    lot = random.Random(52)
    weights, batch = some_weights(lot), some_batch(lot, [6, 5])
    weights["logits"] = [[3 * w for w in row] for row in weights["logits"]]
    batch["counted"] = [t not in (0, 2, 6) for t in range(11)]
    for t, q in enumerate(batch["probs"][:-1]):
        batch["tokens"][t + 1] = lot.choices(range(V), q)[0]
    return weights, batch


def check_compare(names):
    find(names, "compare")
    weights, batches = run_case(3, seed=6)
    held_out = some_batch(random.Random(7), [6, 5])
    told = names["compared"](weights, batches, held_out, 3, 0.02)
    if not isinstance(told, dict) or set(told) != {"without", "with"}:
        raise NotYet("shape", "compare returns a dict with the two entries \"without\" and \"with\".")
    for name, steps in (("without", 1), ("with", 3)):
        head = names["trained"](weights, batches, steps, 0.02)
        right = names["measured"](head, held_out, 3)
        if not close(listed(told[name], 3), listed(right, 3), 2e-3):
            raise NotYet("compare", f"{name}: {told[name]}, where your own train and acceptance give {right}.")


# -- numbers -----------------------------------------------------------------------------------------------------------


def find(names, name):
    if names.get(name) is None:
        raise NotYet("not-written", f"`{name}` is missing.")
    return names[name]


def listed(value, *shape):
    """Tensors and nested lists of finite numbers, of this shape, as nested lists."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if not shape:
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise NotYet("shape", f"A number was expected, not {value!r:.60}.")
        return value
    if not isinstance(value, (list, tuple)) or len(value) != shape[0]:
        raise NotYet("shape", f"{shape[0]} items were expected, not {value!r:.60}.")
    return [listed(item, *shape[1:]) for item in value]


def own_shift(names):
    def shift(values, lengths, by):
        return names["asked_shift"](values, lengths, by).tolist()

    return shift


def shifted_right(values, lengths, by):
    text = text_of(lengths)
    here = stays(lengths, by)
    return [values[t + by] if here[t] else nothing(values[t]) for t in range(len(text))]


def stays(lengths, by):
    """Is row t + by in the text of row t?"""
    text = text_of(lengths)
    return [t + by < len(text) and text[t + by] == text[t] for t in range(len(text))]


def other_way(values, lengths, by):
    result = [nothing(row) for row in values]
    for t, kept in enumerate(stays(lengths, by)):
        if kept:
            result[t + by] = values[t]
    return result


def nothing(value):
    return [0] * len(value) if isinstance(value, list) else 0


def text_of(lengths):
    return [number for number, n in enumerate(lengths) for _ in range(n)]


def shown(row):
    return " ".join(str(int(seen)) for seen in row)


def softmax(scores):
    parts = [math.exp(score - max(scores)) for score in scores]
    return [part / sum(parts) for part in parts]


def flat(steps, rows):
    return [[[0.0] * V for _ in range(rows)] for _ in range(steps)]


def some_weights(lot):
    shapes = {"embed": (V, H), "mix": (2 * H, H), "query": (H, H), "key": (H, H), "value": (H, H)}
    shapes |= {"out": (2 * H, H), "logits": (H, V)}
    return {name: [[lot.gauss(0, 0.6) for _ in range(n)] for _ in range(m)] for name, (m, n) in shapes.items()}


def some_batch(lot, lengths):
    rows = sum(lengths)
    return {
        "tokens": [lot.randrange(V) for _ in range(rows)],
        "features": [[lot.gauss(0, 1) for _ in range(H)] for _ in range(rows)],
        "probs": [softmax([lot.gauss(0, 1.5) for _ in range(V)]) for _ in range(rows)],
        "counted": [place > 0 for n in lengths for place in range(n)],
        "lengths": list(lengths),
    }


def numbers_in(value):
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(item)
    else:
        yield float(value)


def dot(one, other):
    return sum(a * b for a, b in zip(numbers_in(one), numbers_in(other)))


def close(one, other, slack=1e-4):
    left, right = list(numbers_in(one)), list(numbers_in(other))
    return len(left) == len(right) and all(abs(a - b) <= slack * max(1, abs(b)) for a, b in zip(left, right))


CHECKS = {
    "mask-causal": check_mask_causal,
    "mask-diagonal": check_mask_diagonal,
    "mask-texts": check_mask_texts,
    "positions": check_positions,
    "shift": check_shift,
    "shift-ends": check_shift_ends,
    "loss-targets": check_loss_targets,
    "loss-mask": check_loss_mask,
    "loss-tokens": check_loss_tokens,
    "loss-weights": check_loss_weights,
    "unroll-inputs": check_unroll_inputs,
    "unroll-feeding": check_unroll_feeding,
    "unroll-gradient": check_unroll_gradient,
    "train": check_train,
    "acceptance": check_acceptance,
    "acceptance-alive": check_acceptance_alive,
    "compare": check_compare,
}
FUNCTIONS = {
    **dict.fromkeys(MASK, "ttt_mask"),
    "positions": "positions",
    **dict.fromkeys(SHIFT[1:], "shift"),
    **dict.fromkeys(LOSS, "multi_step_loss"),
    **dict.fromkeys(UNROLL, "unroll"),
    "train": "train",
    **dict.fromkeys(("acceptance", "acceptance-alive"), "acceptance"),
    "compare": "compare",
}
