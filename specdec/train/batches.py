"""Batches for training: stored texts and features, packed by length, in an order that a seed decides.

An epoch goes through all training texts once. Texts of similar length share a batch, so that little of it is
padding; which batches there are depends on the seed and the epoch alone, so training that was interrupted
goes on with exactly the batch that it would have had. Every twentieth text is held out, and never trained on.

`best` and `normaliser` need the verifier's whole output matrix and are the same in every epoch, so they are
computed once and kept beside the features. That matrix is seven times as much work as the head: so a text
that is trained on, of which only `best` is asked, gets it from a bf16 product where there is one, and NaN
as its normaliser. Held-out texts get both in full.

Layout: as in losses.py; what is stored is bf16.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from specdec.errors import SpecdecError
from specdec.files import write_whole
from specdec.linear import blocks_bf16
from specdec.train.features import Features
from specdec.train.losses import Batch

HELD_OUT = 20  # every so many texts, one is held out
BUCKET = 32  # batches whose texts are sorted by length together
CHUNK = 2048  # rows of hidden states multiplied by the whole output matrix at once
TARGETS = "targets.npz"
SPREAD_TEXTS = 64  # the first so many say how large features are


class Texts:
    """Stored texts with features, targets and the parts they fall into; `batch` makes batches of them.

    longest  texts are cut behind so many tokens.
    most     train on so many only: those of the first prompts. Which texts are held out does not depend on
             it, and what it leaves of a larger number contains what it leaves of a smaller one.
    """

    def __init__(
        self,
        features: Features,
        folder: Path,
        output: Tensor,
        longest: int = 512,
        progress: Callable[[int], None] | None = None,
        most: int | None = None,
    ) -> None:
        self.features, self.longest = features, longest
        self.lengths = [min(len(features[i].tokens), longest) for i in range(len(features))]
        self.held_out = list(range(HELD_OUT - 1, len(features), HELD_OUT))
        self.training = sorted(set(range(len(features))) - set(self.held_out))
        if most is not None:
            if not 1 <= most <= len(self.training):
                raise SpecdecError(
                    f"there are {len(self.training)} texts to train on, so {most} of them cannot be taken: "
                    f"ask for 1 to {len(self.training)}"
                )
            self.training = sorted(sorted(self.training, key=features.number)[:most])
        if not self.held_out:
            raise SpecdecError(
                f"there are {len(features)} texts, too few to hold one in {HELD_OUT} out: make more with "
                "`specdec data`"
            )
        self.best, self.normaliser = targets(folder, features, output, set(self.held_out), progress)
        self.spread = spread(features, range(min(len(features), SPREAD_TEXTS)))

    def batch(self, chosen: Sequence[int]) -> Batch:
        """The texts with these numbers, padded to the longest of them."""
        length = max(self.lengths[i] for i in chosen)
        texts = [self.features[i] for i in chosen]
        parts = [
            (text.tokens, text.mask, text.features, self.best[i], self.normaliser[i])
            for i, text in zip(chosen, texts, strict=True)
        ]
        tokens, mask, features, best, normaliser = (
            torch.stack([padded(part[: self.longest], length) for part in column])
            for column in zip(*parts, strict=True)
        )
        return Batch(tokens, mask, features[:, :, :-1], features[:, :, -1], best, normaliser)

    def epoch(self, seed: int, epoch: int, batch_tokens: int) -> list[list[int]]:
        """The batches of one epoch: lists of text numbers, of at most `batch_tokens` padded tokens each."""
        order = random.Random(f"{seed}/{epoch}")
        chosen = self.training.copy()
        order.shuffle(chosen)
        mean = sum(self.lengths[i] for i in chosen) / len(chosen)
        together = max(1, int(BUCKET * batch_tokens / mean))
        batches: list[list[int]] = []
        for start in range(0, len(chosen), together):
            bucket = sorted(chosen[start : start + together], key=lambda i: self.lengths[i])
            batches += pack(bucket, self.lengths, batch_tokens)
        order.shuffle(batches)
        return batches


def pack(chosen: Sequence[int], lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """`chosen`, sorted by rising length, in groups of at most `batch_tokens` padded tokens, at least one."""
    groups: list[list[int]] = []
    for i in chosen:
        if groups and (len(groups[-1]) + 1) * lengths[i] <= batch_tokens:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def padded(x: Tensor, length: int) -> Tensor:
    """x [n, ...] with zeros behind it up to `length`."""
    return F.pad(x, (0, 0) * (x.dim() - 1) + (0, length - len(x)))


def spread(features: Features, chosen: Iterable[int]) -> Tensor:
    """Root mean square of every channel of the stored features over these texts, [features, H] fp32."""
    rows = torch.cat([features[i].features.float() for i in chosen])
    return rows.pow(2).mean(0).sqrt()


def targets(
    folder: Path,
    features: Features,
    output: Tensor,
    exact: Collection[int],
    progress: Callable[[int], None] | None = None,
) -> tuple[list[Tensor], list[Tensor]]:
    """Per text: the verifier's first choice behind each token, and the logsumexp of its logits there.

    Read from `folder`, or computed with the whole `output [V, H]` and written there. Raises SpecdecError when
    what is stored belongs to other features.
    """
    path = folder / TARGETS
    lengths = [len(features[i].tokens) for i in range(len(features))]
    if path.exists():
        with np.load(path) as stored:
            best, normaliser = stored["best"], stored["normaliser"]
    else:
        best, normaliser = compute_targets(features, output, exact, progress)
        write_whole(path, partial(np.savez, best=best, normaliser=normaliser))
    if len(best) != sum(lengths):
        raise SpecdecError(f"{path} belongs to other features: delete it, and it is computed again")
    return (
        list(torch.from_numpy(best.astype(np.int64)).split(lengths)),
        list(torch.from_numpy(normaliser).split(lengths)),
    )


@torch.no_grad()
def compute_targets(
    features: Features,
    output: Tensor,
    exact: Collection[int],
    progress: Callable[[int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """As `targets`: uint16 [T] and float32 [T] over all texts; exact: those that need the normaliser."""
    rounded = output.bfloat16() if blocks_bf16() else output
    best, normaliser = [], []
    for i in range(len(features)):
        for hidden in features[i].features[:, -1].split(CHUNK):
            if i in exact:
                logits = F.linear(hidden.to(output.dtype), output).float()
                normaliser.append(logits.logsumexp(-1).numpy())
            else:
                logits = F.linear(hidden.to(rounded.dtype), rounded)
                normaliser.append(np.full(len(hidden), np.nan, np.float32))
            best.append(logits.argmax(-1).numpy().astype(np.uint16))
        if progress is not None:
            progress(i + 1)
    return np.concatenate(best), np.concatenate(normaliser)
