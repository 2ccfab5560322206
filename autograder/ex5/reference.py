"""The notebook's head and a right solution of it in torch, in double precision: the last of the readings.

Used where a student's part has everything written out inside itself, so that none of the student's own
earlier parts explains it. Imported when that happens and not before: torch takes its time.
"""

import torch
from torch import Tensor

from autograder.ex5.rule import Batch, Weights, adam, loss_of, mask_rule, positions_rule, rates_of, shift_rule


def as_tensor(value: object) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def forward(weights: dict[str, Tensor], batch: Batch, steps: int) -> list[Tensor]:
    """The logits [S, V] of each step."""
    lengths, mask = batch["lengths"], torch.tensor(mask_rule(batch["lengths"], steps))
    hidden, keys, values, logits = as_tensor(batch["features"]), [], [], []
    for k in range(steps):
        tokens = torch.tensor(shift_rule(batch["tokens"], lengths, k + 1))
        place = torch.tensor(positions_rule(lengths, k))
        x = torch.tanh(torch.cat((weights["embed"][tokens], hidden), 1) @ weights["mix"])
        keys.append(turn(x @ weights["key"], place))
        values.append(x @ weights["value"])
        scores = turn(x @ weights["query"], place) @ torch.cat(keys).T / x.shape[1] ** 0.5
        seen = scores.masked_fill(~mask[:, : scores.shape[1]], -torch.inf).softmax(1)
        hidden = torch.cat((x, seen @ torch.cat(values)), 1) @ weights["out"]
        logits.append(hidden @ weights["logits"])
    return logits


def turn(x: Tensor, place: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=1)
    angle = place[:, None] * 0.5 ** torch.arange(first.shape[1], dtype=torch.float64)
    return torch.cat(
        (first * angle.cos() - second * angle.sin(), first * angle.sin() + second * angle.cos()), 1
    )


def unrolled(weights: Weights, batch: Batch, steps: int) -> list[list[list[float]]]:
    logits = forward({name: as_tensor(w) for name, w in weights.items()}, batch, steps)
    return [one.tolist() for one in logits]


def slope(weights: Weights, batch: Batch, steps: int) -> Weights:
    """The gradient of the loss of `steps` steps."""
    leaves = {name: as_tensor(w).requires_grad_() for name, w in weights.items()}
    loss = torch.zeros((), dtype=torch.float64)
    total = 0.0
    for k, scores in enumerate(forward(leaves, batch, steps)):
        rows = torch.tensor(shift_rule(batch["counted"], batch["lengths"], k + 1))
        target = as_tensor(shift_rule(batch["probs"], batch["lengths"], k + 1))
        if rows.any():
            loss = loss - 0.8**k * (target[rows] * scores[rows].log_softmax(1)).sum() / rows.sum()
            total += 0.8**k
    (loss / total).backward()
    return {name: (w * 0 if w.grad is None else w.grad).tolist() for name, w in leaves.items()}


def trained(weights: Weights, batches: list[Batch], steps: int, rate: float) -> Weights:
    return adam(weights, lambda now, update: slope(now, batches[update], steps), len(batches), rate)


def measured(weights: Weights, batch: Batch, depth: int) -> list[float]:
    return rates_of(unrolled(weights, batch, depth), batch)


def loss(weights: Weights, batch: Batch, steps: int) -> float:
    return loss_of(unrolled(weights, batch, steps), batch)
