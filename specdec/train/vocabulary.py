"""The reduced draft vocabulary: the tokens that the verifier says most often.

A draft's output matrix is most of its cost on a small verifier. The few thousand most frequent tokens of the
answers make up nearly all that is ever accepted; what is outside can only be missed, never be wrong. Counted
are the answers of the training text, as the EAGLE-3 paper's code does; `coverage` says what share of held-out
answers is inside.

Layout: token ids as int64, rising.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from specdec.errors import SpecdecError
from specdec.train.batches import Texts


def answer_counts(texts: Texts, chosen: list[int], size: int) -> np.ndarray:
    """How often each of `size` tokens occurs in the answers of these texts, int64 [V]."""
    counts = np.zeros(size, dtype=np.int64)
    for i in chosen:
        text = texts.features[i]
        np.add.at(counts, text.tokens[text.mask].numpy(), 1)
    return counts


def draft_vocabulary(texts: Texts, size: int, target_size: int) -> Tensor:
    """The `size` most frequent answer tokens of the training texts, [Vd] rising; of equals the lowest ids.

    Raises SpecdecError when `size` is not from 1 to `target_size`.
    """
    if not 1 <= size <= target_size:
        raise SpecdecError(f"the draft vocabulary is to have {size} tokens, but must have 1 to {target_size}")
    counts = answer_counts(texts, texts.training, target_size)
    return torch.from_numpy(np.sort(np.argsort(-counts, kind="stable")[:size]))


def coverage(texts: Texts, vocabulary: Tensor, target_size: int) -> float:
    """The share of held-out answer tokens that are in the vocabulary."""
    counts = answer_counts(texts, texts.held_out, target_size)
    return float(counts[vocabulary.numpy()].sum() / counts.sum())
