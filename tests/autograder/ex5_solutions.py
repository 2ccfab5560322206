"""Wrong and right solutions of exercise 5; each changes a few cells of the reference solution."""

from bank import Bank

BANK = Bank("ex5")


def edited(cell: str, *changes: tuple[str, str]) -> dict[str, str]:
    """A cell of the reference solution with some of its text replaced."""
    source = BANK.solutions[cell]
    for old, new in changes:
        assert old in source, (cell, old)
        source = source.replace(old, new)
    return {cell.replace("-", "_"): source}


FIRST = "    first = (text[:, None] == text).tril()\n"
LATER = "    later = torch.eye(len(text), dtype=torch.bool)\n"
SHIFTED = "    result, start = torch.zeros_like(values), 0\n"
TARGET = "target, rows = shift(probs, lengths, k + 1), shift(counted, lengths, k + 1)"
MEAN = "            total = total + DECAY**k * cost.mean()\n"
CALL = "head(shift(tokens, lengths, k + 1), hidden, positions(lengths, k), past, mask)"
OPTIMIZER = "    optimizer = torch.optim.Adam(head.parameters(), lr=rate)\n"
OVERLAP = "overlap = torch.minimum(p, q).sum(-1)"
RATE = "float((alive * overlap)[rows].sum() / alive[rows].sum())"
ALIVE = "(p.gather(1, x) / q.gather(1, x).clamp_min(1e-9)).clamp(max=1)[:, 0]"
HEADS = (
    '    heads = {"without": train(make_head(), batches, 1, rate), '
    '"with": train(make_head(), batches, steps, rate)}\n'
)
ONE_HEAD = """
    head = make_head()
    without = acceptance(train(head, batches, 1, rate), held_out, steps)
    return {"without": without, "with": acceptance(train(head, batches, steps, rate), held_out, steps)}
"""
REPEATED = "    result = torch.cat([one[-1:].expand_as(one) for one in values.split(lengths)]).clone()\n"

DETACHED_LOSS = edited("loss-code", ("return total / weights", "return (total / weights).detach()"))
PER_TEXT = """
            text = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))[rows]
            means = [cost[text == one].mean() for one in text.unique()]
            total = total + DECAY**k * sum(means) / len(means)
"""

# What was changed, and what it costs: {check: the idea that the feedback names}.
WRONG: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "M23, causal in the later steps": (
        edited("mask-code", (LATER, "    later = first\n")),
        {"mask-diagonal": "mask-later-causal"},
    ),
    "later steps are not seen": (
        edited("mask-code", ("torch.eye(len(text), dtype=torch.bool)", "torch.zeros_like(first)")),
        {"mask-diagonal": "mask-diagonal"},
    ),
    "the row before in the later steps": (
        edited("mask-code", (LATER, LATER + "    later = later | later.roll(1, 1) & first\n")),
        {"mask-diagonal": "mask-diagonal"},
    ),
    "one long text": (
        edited(
            "mask-code", (FIRST, "    first = torch.ones(len(text), len(text), dtype=torch.bool).tril()\n")
        ),
        {"mask-texts": "mask-texts"},
    ),
    "step 0 sees all of its text": (
        edited("mask-code", (".tril()", "")),
        {"mask-causal": "mask-causal"},
    ),
    "step 0 looks ahead": (
        edited("mask-code", (".tril()", ".triu()")),
        {"mask-causal": "mask-causal"},
    ),
    "step 0 without its own row": (
        edited("mask-code", (".tril()", ".tril(-1)")),
        # the first row of a text then sees nothing, and the head gives no number
        {
            "mask-causal": "mask-causal",
            **dict.fromkeys(
                (
                    *("unroll-inputs", "unroll-feeding", "unroll-gradient"),
                    *("train", "acceptance", "acceptance-alive", "compare"),
                ),
                "blocked",
            ),
        },
    ),
    "positions stand still": (
        edited("shift-code", ("torch.arange(n) + step", "torch.arange(n)")),
        {"positions": "positions"},
    ),
    "positions count on through the batch": (
        edited(
            "shift-code",
            ("torch.cat([torch.arange(n) + step for n in lengths])", "torch.arange(sum(lengths)) + step"),
        ),
        {"positions": "positions"},
    ),
    "positions count from 1": (
        edited("shift-code", ("torch.arange(n) + step", "torch.arange(n) + step + 1")),
        {"positions": "positions"},
    ),
    "shifted the other way": (
        edited(
            "shift-code",
            (
                "result[start : start + n - by] = values[start + by : start + n]",
                "result[start + by : start + n] = values[start : start + n - by]",
            ),
        ),
        {"shift": "shift"},
    ),
    "shifted one too far": (
        edited("shift-code", (SHIFTED, "    by += 1\n" + SHIFTED)),
        {"shift": "shift"},
    ),
    "a roll of the whole row": (
        edited("shift-code", (SHIFTED, "    return values.roll(-by, 0)\n" + SHIFTED)),
        {"shift-ends": "shift-ends"},
    ),
    "a slice of the whole row": (
        edited(
            "shift-code",
            (SHIFTED, SHIFTED + "    result[: max(0, len(values) - by)] = values[by:]\n    return result\n"),
        ),
        {"shift-ends": "shift-ends"},
    ),
    "the last row is repeated": (
        edited("shift-code", (SHIFTED, SHIFTED + REPEATED)),
        {"shift-ends": "shift-ends"},
    ),
    "M25, targets stand still": (
        edited("loss-code", (TARGET, "target, rows = probs, shift(counted, lengths, k + 1)")),
        {"loss-targets": "loss-targets"},
    ),
    "M25, targets of step 0 at every step": (
        edited("loss-code", ("shift(probs, lengths, k + 1)", "shift(probs, lengths, 1)")),
        {"loss-targets": "loss-targets"},
    ),
    "M25, targets one step behind": (
        edited("loss-code", ("shift(probs, lengths, k + 1)", "shift(probs, lengths, k)")),
        {"loss-targets": "loss-targets"},
    ),
    "hard targets": (
        edited(
            "loss-code",
            (
                "-(target[rows] * scores[rows].log_softmax(-1)).sum(-1)",
                "nn.functional.cross_entropy(scores[rows], target[rows].argmax(-1), reduction='none')",
            ),
        ),
        {"loss-targets": "loss-hard"},
    ),
    "a loss without a gradient": (
        DETACHED_LOSS,
        {"loss-targets": "loss-gradient", "train": "blocked", "compare": "blocked"},
    ),
    "M25, the mask stands still": (
        edited("loss-code", ("shift(counted, lengths, k + 1)", "counted")),
        {"loss-mask": "loss-mask"},
    ),
    "M25, the mask of step 0 at every step": (
        edited("loss-code", ("shift(counted, lengths, k + 1)", "shift(counted, lengths, 1)")),
        {"loss-mask": "loss-mask"},
    ),
    "prompts count": (
        edited("loss-code", ("shift(counted, lengths, k + 1)", "shift(counted | True, lengths, k + 1)")),
        {"loss-mask": "loss-mask"},
    ),
    "texts that have ended count": (
        edited(
            "loss-code",
            (
                "shift(counted, lengths, k + 1)",
                "shift(counted, lengths, k + 1) | ~shift(counted | True, lengths, k + 1)",
            ),
        ),
        {"loss-mask": "loss-mask"},
    ),
    "a mean over texts": (
        edited("loss-code", (MEAN, PER_TEXT.lstrip("\n"))),
        {"loss-tokens": "loss-texts"},
    ),
    "a sum over the rows": (
        edited("loss-code", ("cost.mean()", "cost.sum()")),
        {"loss-tokens": "loss-tokens"},
    ),
    "divided by all rows": (
        edited("loss-code", ("cost.mean()", "cost.sum() / len(probs)")),
        {"loss-tokens": "loss-tokens"},
    ),
    "all steps weigh the same": (
        edited("loss-code", ("DECAY**k", "1")),
        {"loss-weights": "loss-weights"},
    ),
    "late steps weigh more": (
        edited("loss-code", ("DECAY**k", "DECAY**(len(logits) - k)")),
        {"loss-weights": "loss-weights"},
    ),
    "only the first step": (
        edited("loss-code", ("in enumerate(logits)", "in enumerate(logits[:1])")),
        {"loss-weights": "loss-weights"},
    ),
    "weights are not divided by": (
        edited("loss-code", ("return total / weights", "return total")),
        {"loss-weights": "loss-normalised"},
    ),
    "empty steps are divided by": (
        edited(
            "loss-code",
            ("return total / weights", "return total / sum(DECAY**k for k in range(len(logits)))"),
        ),
        {"loss-weights": "loss-empty"},
    ),
    "the mean of nothing": (
        edited("loss-code", ("if rows.any():", "if True:")),
        {"loss-weights": "loss-empty"},
    ),
    "one mean over the rows of all steps": (
        edited(
            "loss-code",
            ("cost.mean()", "cost.sum()"),
            ("weights += DECAY**k", "weights += DECAY**k * len(cost)"),
        ),
        {"loss-weights": "loss-weights"},
    ),
    "M24, features at every step": (
        edited(
            "unroll-code",
            ("hidden, past = head(", "hidden, past = head("),
            ("hidden, positions", "features, positions"),
        ),
        {"unroll-feeding": "unroll-teacher"},
    ),
    "M24, the true features of every step": (
        edited("unroll-code", ("hidden, positions", "shift(features, lengths, k), positions")),
        {"unroll-feeding": "unroll-teacher"},
    ),
    "half of the true features": (
        edited("unroll-code", ("hidden, positions", "(hidden + features) / 2, positions")),
        {"unroll-feeding": "unroll-feeding"},
    ),
    "M26, hidden states are detached": (
        edited("unroll-code", ("hidden, positions", "hidden.detach(), positions")),
        {"unroll-gradient": "unroll-gradient"},
    ),
    "M26, keys and values are detached": (
        edited("unroll-code", ("past, mask)", "[(k.detach(), v.detach()) for k, v in past], mask)")),
        {"unroll-gradient": "unroll-gradient"},
    ),
    "M26, early steps without a gradient": (
        edited(
            "unroll-code",
            (
                "        hidden, past = ",
                "        with torch.set_grad_enabled(k == steps - 1):\n            hidden, past = ",
            ),
        ),
        {"unroll-gradient": "unroll-gradient"},
    ),
    "tokens of step 0 at every step": (
        edited("unroll-code", ("shift(tokens, lengths, k + 1)", "shift(tokens, lengths, 1)")),
        {"unroll-inputs": "unroll-tokens"},
    ),
    "tokens one step behind": (
        edited("unroll-code", ("shift(tokens, lengths, k + 1)", "shift(tokens, lengths, k)")),
        {"unroll-inputs": "unroll-tokens"},
    ),
    "positions of step 0 at every step": (
        edited("unroll-code", ("positions(lengths, k)", "positions(lengths, 0)")),
        {"unroll-inputs": "unroll-positions"},
    ),
    "no past": (
        edited("unroll-code", ("past, mask)", "[], mask)")),
        {"unroll-inputs": "unroll-past"},
    ),
    "plain descent": (
        edited("train-code", ("torch.optim.Adam", "torch.optim.SGD")),
        {"train": "train"},
    ),
    "a new optimizer for each batch": (
        edited(
            "train-code",
            (OPTIMIZER, ""),
            ("        logits = unroll", f"    {OPTIMIZER}        logits = unroll"),
        ),
        {"train": "train"},
    ),
    "gradients add up": (
        edited("train-code", ("        optimizer.zero_grad()\n", "")),
        {"train": "train"},
    ),
    "the batches backwards": (
        edited("train-code", ("for batch in batches", "for batch in batches[::-1]")),
        {"train": "train"},
    ),
    "training sees one step": (
        edited("train-code", ('batch["lengths"], steps)', 'batch["lengths"], 1)')),
        {"train": "train-steps"},
    ),
    "how often the best tokens agree": (
        edited("train-code", (OVERLAP, "overlap = (p.argmax(-1) == q.argmax(-1)).float()")),
        {"acceptance": "acceptance"},
    ),
    "what q gives to the best draft": (
        edited("train-code", (OVERLAP, "overlap = q.gather(1, p.argmax(-1, keepdim=True))[:, 0]")),
        {"acceptance": "acceptance"},
    ),
    "all rows are averaged": (
        edited(
            "train-code",
            (
                '            rows = shift(batch["counted"], lengths, k + 1)\n',
                '            rows = batch["counted"] | True\n',
            ),
        ),
        {"acceptance": "acceptance-rows"},
    ),
    "the target of depth 1 at every depth": (
        edited("train-code", ('shift(batch["probs"], lengths, k + 1)', 'shift(batch["probs"], lengths, 1)')),
        # who is alive depends on q too
        {"acceptance": "acceptance-targets"},
    ),
    "a plain mean at every depth": (
        edited("train-code", (RATE, "float(overlap[rows].mean())")),
        {"acceptance-alive": "acceptance-plain"},
    ),
    "survival by the overlap": (
        edited("train-code", (ALIVE, "overlap")),
        {"acceptance-alive": "acceptance-alive"},
    ),
    "q over p": (
        edited("train-code", (ALIVE, "(q.gather(1, x) / p.gather(1, x)).clamp(max=1)[:, 0]")),
        {"acceptance-alive": "acceptance-alive"},
    ),
    "not divided by the chains that are left": (
        edited("train-code", (RATE, "float((alive * overlap)[rows].sum() / rows.sum())")),
        {"acceptance-alive": "acceptance-alive"},
    ),
    "the token that was just read": (
        edited("train-code", ("lengths, k + 2)", "lengths, k + 1)")),
        {"acceptance-alive": "acceptance-alive"},
    ),
    "the same head trained twice": (
        edited("train-code", (HEADS, ONE_HEAD.lstrip("\n"))),
        {"compare": "compare"},
    ),
    "measured on a text that was trained on": (
        edited("train-code", ("acceptance(head, held_out, steps)", "acceptance(head, batches[0], steps)")),
        {"compare": "compare"},
    ),
    "names exchanged": (
        edited(
            "train-code",
            (
                '"without": train(make_head(), batches, 1, rate), "with"',
                '"with": train(make_head(), batches, 1, rate), "without"',
            ),
        ),
        {"compare": "compare"},
    ),
    "both with all steps": (
        edited("train-code", ("batches, 1, rate)", "batches, steps, rate)")),
        {"compare": "compare"},
    ),
}


# -- right ---------------------------------------------------------------------------------------------------

LOOPS = {
    "mask_code": """
def ttt_mask(lengths, steps):
    rows, result = sum(lengths), []
    begin = 0
    for n in lengths:
        for place in range(n):
            row = [0] * rows
            for key in range(begin, begin + place + 1):
                row[key] = 1
            for step in range(1, steps):
                row += [1 if key == begin + place else 0 for key in range(rows)]
            result.append(row)
        begin += n
    return torch.tensor(result) == 1
""",
    "shift_code": """
def positions(lengths, step):
    result = []
    for n in lengths:
        for place in range(n):
            result.append(place + step)
    return torch.tensor(result)

def shift(values, lengths, by):
    result = values.clone()
    begin = 0
    for n in lengths:
        for row in range(begin, begin + n):
            if row + by < begin + n:
                result[row] = values[row + by]
            else:
                result[row] = 0
        begin += n
    return result
""",
    "loss_code": """
def multi_step_loss(logits, probs, counted, lengths):
    losses, weights = [], []
    for k in range(len(logits)):
        costs, begin = [], 0
        for n in lengths:
            for t in range(begin, begin + n):
                i = t + k + 1
                if i < begin + n and counted[i]:
                    costs.append(-torch.dot(probs[i], torch.log_softmax(logits[k][t], 0)))
            begin += n
        if costs:
            losses.append(torch.stack(costs).mean())
            weights.append(0.8 ** k)
    return sum(w * one for w, one in zip(weights, losses)) / sum(weights)
""",
}
VECTORISED = {
    "mask_code": """
def text_and_place(lengths):
    text = torch.tensor([number for number, n in enumerate(lengths) for _ in range(n)])
    place = torch.tensor([place for n in lengths for place in range(n)])
    return text, place

def ttt_mask(lengths, steps):
    text, place = text_and_place(lengths)
    same = torch.eq(text.unsqueeze(0), text.unsqueeze(1))
    causal = place.unsqueeze(0) <= place.unsqueeze(1)
    own = same & (place.unsqueeze(0) == place.unsqueeze(1))
    return torch.hstack((same & causal, own.repeat(1, steps - 1)))
""",
    "shift_code": """
def positions(lengths, step):
    return text_and_place(lengths)[1] + step

def shift(values, lengths, by):
    text, _ = text_and_place(lengths)
    source = torch.arange(len(text)) + by
    inside = source < len(text)
    source = source.clamp(max=len(text) - 1)
    inside = inside & (text[source] == text)
    moved = values[source]
    return torch.where(inside.reshape(-1, *[1] * (values.ndim - 1)), moved, torch.zeros_like(moved))
""",
    "loss_code": """
def multi_step_loss(logits, probs, counted, lengths):
    targets = torch.stack([shift(probs, lengths, k) for k in range(1, len(logits) + 1)])
    rows = torch.stack([shift(counted, lengths, k) for k in range(1, len(logits) + 1)]).float()
    cost = -(targets * torch.stack(list(logits)).log_softmax(-1)).sum(-1)
    weight = DECAY ** torch.arange(len(logits)) * (rows.sum(1) > 0)
    means = (cost * rows).sum(1) / rows.sum(1).clamp(min=1)
    return (weight * means).sum() / weight.sum()
""",
}
PADDED = {
    "shift_code": """
def positions(lengths, step):
    return torch.hstack([torch.arange(step, n + step) for n in lengths])

def shift(values, lengths, by):
    moved = []
    for text in torch.split(values, lengths):
        tail = torch.zeros((min(by, len(text)), *values.shape[1:]), dtype=values.dtype)
        moved.append(torch.cat((text[by:], tail)))
    return torch.cat(moved)
""",
    "loss_code": """
def multi_step_loss(logits, probs, counted, lengths):
    weighted, weights = 0, 0
    for step, scores in enumerate(logits, start=1):
        counts = shift(counted, lengths, step)
        if not counts.any():
            continue
        loss = nn.functional.cross_entropy(scores[counts], shift(probs, lengths, step)[counts])
        weighted, weights = weighted + loss * DECAY**step, weights + DECAY**step
    return weighted / weights
""",
}
CALLED_BY_NAME = {
    "unroll_code": """
def unroll(head, tokens, features, lengths, steps):
    def go(k, hidden, past):
        if k == steps:
            return []
        mask = ttt_mask(lengths, k + 1)
        inputs = dict(tokens=shift(tokens, lengths, k + 1), positions=positions(lengths, k), mask=mask)
        hidden, past = head.forward(hidden=hidden, past=past, **inputs)
        return [head.logits(hidden), *go(k + 1, hidden, past)]

    return go(0, features, [])
""",
}
CLASSES = {
    "train_code": """
class Trainer:
    def __init__(self, head, rate):
        self.head, self.optimizer = head, torch.optim.Adam([*head.parameters()], rate)

    def update(self, batch, steps):
        self.head.zero_grad(set_to_none=True)
        keys = ("tokens", "features", "lengths")
        logits = unroll(self.head, *(batch[key] for key in keys), steps)
        multi_step_loss(logits, batch["probs"], batch["counted"], batch["lengths"]).backward()
        self.optimizer.step()

def train(head, batches, steps, rate):
    trainer = Trainer(head, rate)
    for batch in batches:
        trainer.update(batch, steps)
    return trainer.head

@torch.no_grad()
def acceptance(head, batch, depth):
    lengths, result = batch["lengths"], []
    steps = unroll(head, batch["tokens"], batch["features"], lengths, depth)
    weight = [1.0] * sum(lengths)
    for k, scores in enumerate(steps):
        p = torch.softmax(scores, dim=1).tolist()
        top = bottom = 0.0
        begin = 0
        for n in lengths:
            for t in range(begin, begin + n - k - 1):
                q = batch["probs"][t + k + 1].tolist()
                if batch["counted"][t + k + 1]:
                    top += weight[t] * (1 - sum(abs(a - b) for a, b in zip(p[t], q)) / 2)
                    bottom += weight[t]
                if t + k + 2 < begin + n:
                    x = int(batch["tokens"][t + k + 2])
                    weight[t] *= min(1, p[t][x] / q[x])
            begin += n
        result.append(top / bottom)
    return tuple(result)

def compare(make_head, batches, held_out, steps, rate):
    result = {}
    for name, k in (("with", steps), ("without", 1)):
        head = make_head()
        train(head, batches, k, rate)
        result[name] = acceptance(head, held_out, steps)
    return result
""",
}
CHATTY = {
    "train_code": """
import sys
import numpy as np
import matplotlib.pyplot as plt

def train(head, batches, steps, rate):
    losses = []
    optimizer = torch.optim.Adam(head.parameters(), rate)
    for number, batch in enumerate(batches):
        optimizer.zero_grad()
        logits = unroll(head, batch["tokens"], batch["features"], batch["lengths"], steps)
        loss = multi_step_loss(logits, batch["probs"], batch["counted"], batch["lengths"])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        print(f"{number}: {losses[-1]:.3f}", file=sys.stderr)
    plt.plot(losses)
    plt.close()

def acceptance(head, batch, depth):
    with torch.no_grad():
        logits = unroll(head, batch["tokens"], batch["features"], batch["lengths"], depth)
    lengths, alive, rates = batch["lengths"], np.ones(sum(batch["lengths"])), []
    for k, scores in enumerate(logits):
        p = scores.softmax(-1).numpy().astype(np.float64)
        q = shift(batch["probs"], lengths, k + 1).numpy()
        rows = shift(batch["counted"], lengths, k + 1).numpy()
        rates.append(np.average(np.minimum(p, q).sum(1)[rows], weights=alive[rows]))
        x = shift(batch["tokens"], lengths, k + 2).numpy()
        at = np.arange(len(x))
        alive *= np.minimum(1, p[at, x] / np.maximum(q[at, x], 1e-12))
        print("depth", k + 1, rates[-1])
    return np.array(rates)

def compare(make_head, batches, held_out, steps, rate):
    print("let us see")
    one, other = make_head(), make_head()
    train(one, batches, 1, rate)
    train(other, batches, steps, rate)
    return {"without": acceptance(one, held_out, steps), "with": acceptance(other, held_out, steps)}
""",
}
# Each changes some cells; the others are the reference's.
RIGHT: dict[str, dict[str, str]] = {
    "loops over rows": LOOPS,
    "vectorised, with a helper": VECTORISED,
    "text by text, and cross_entropy": PADDED,
    "recursion, and arguments by name": CALLED_BY_NAME,
    "a class, tuples and total variation": CLASSES,
    "NumPy, prints, stderr and a plot": CHATTY,
    "all of it another way": {**VECTORISED, **CALLED_BY_NAME, **CLASSES},
}

# A part with everything written out inside itself, on an earlier part that is wrong.
INSIDE = {
    "train_code": """
def right_shift(values, lengths, by):
    result, start = torch.zeros_like(values), 0
    for n in lengths:
        if by < n:
            result[start : start + n - by] = values[start + by : start + n]
        start += n
    return result

def right_loss(logits, batch):
    total, weights = 0.0, 0.0
    for k, scores in enumerate(logits):
        q = right_shift(batch["probs"], batch["lengths"], k + 1)
        rows = right_shift(batch["counted"], batch["lengths"], k + 1)
        if rows.any():
            total = total - 0.8**k * (q[rows] * scores[rows].log_softmax(-1)).sum(-1).mean()
            weights += 0.8**k
    return total / weights

"""
    + BANK.solutions["train-code"].replace(
        'multi_step_loss(logits, batch["probs"], batch["counted"], batch["lengths"])',
        "right_loss(logits, batch)",
    ),
}
