"""Batches for training: stored texts and features, packed by length, in an order that a seed decides.

An epoch goes through all training texts once. Texts of similar length share a batch, so that little of it is
padding; which batches there are depends on the seed and the epoch alone, so training that was interrupted
goes on with exactly the batch that it would have had. A held-out part, the last texts of every kind by the
order of their ids, is never trained on.

`best` and `normaliser` need the verifier's whole output matrix and are the same in every epoch, so they are
computed once and kept beside the features (`Targets`).

Layout: as in losses.py; what is stored is bf16.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from specdec.errors import SpecdecError
from specdec.train.features import Features
from specdec.train.losses import Batch
from specdec.train.shards import write_whole
from specdec.verifier import Verifier

HELD_OUT = 20  # one text in so many
CHUNK = 2048  # rows of hidden states multiplied by the whole output matrix at once
TARGETS = "targets.npz"


class Targets:
    """Per text: the verifier's first choice behind each token, and the logsumexp of its logits."""

    def __init__(self, folder: Path, features: Features, output: Tensor, progress: Callable[[int], None] | None = None) -> None:
        """Read them from `folder`, or compute them with `output [V, H]` and write them there."""
        path = folder / TARGETS
        tokens = sum(len(features[i].tokens) for i in range(len(features)))
        if path.exists():
            with np.load(path) as stored:
                best, normaliser = stored["best"], stored["normaliser"]
            if len(best) != tokens:
                raise SpecdecError(
                    f"{path} belongs to other features: delete it, and it is computed again"
                )
        else:
            best, normaliser = self._compute(features, output, progress)
            write_whole(path, partial(np.savez, best=best, normaliser=normaliser))
        self.best, self.normaliser = torch.from_numpy(best.astype(np.int64)), torch.from_numpy(normaliser)
        lengths = [len(features[i].tokens) for i in range(len(features))]
        self.starts = np.concatenate(([0], np.cumsum(lengths)))

    @staticmethod
    @torch.no_grad()
    def _compute(
        features: Features, output: Tensor, progress: Callable[[int], None] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        best, normaliser = [], []
        for i in range(len(features)):
            for hidden in features[i].features[:, -1].split(CHUNK):
                logits = F.linear(hidden.to(output.dtype), output).float()
                best.append(logits.argmax(-1).numpy().astype(np.uint16))
                normaliser.append(logits.logsumexp(-1).numpy())
            if progress is not None:
                progress(i + 1)
        return np.concatenate(best), np.concatenate(normaliser)

    def of(self, i: int) -> tuple[Tensor, Tensor]:
        """best [n] int64 and normaliser [n] of text i."""
        part = slice(self.starts[i], self.starts[i + 1])
        return self.best[part], self.normaliser[part]
