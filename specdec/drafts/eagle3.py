"""The EAGLE-3 head: three of the verifier's layers fused, one layer of its own, a small vocabulary.

A row of the head stands for one position: it reads the verifier's features at position i, fused from the
inputs of three layers, and the token that came after, i + 1; what it puts out gives the token i + 2, and
stands in for the feature of position i + 1 where the verifier has not been yet. So it can go on from its own
output, and its training made it used to that. Source: Li et al. 2025, arXiv:2503.01840.

The layout is the public one, so other engines can load it: `fc`, `midlayer.*`, `norm`, `lm_head`, and the two
tables of the reduced vocabulary, `d2t` (target id = i + d2t[i]) and `t2d` (which targets there are).
Embeddings are the verifier's. How rows are cached and trees grown is features.py's business.

Layout: features [B, n, H], embeddings [B, n, H], logits [B, n, Vd] over the draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from specdec.drafts.layer import HeadConfig, Layer, Norm
from specdec.verifier import Pass

FAMILY = "eagle3"


def tapped_layers(layers: int) -> tuple[int, int, int]:
    """Which layers' inputs are fused: an early, the middle and a late one, as in the public heads."""
    return 2, layers // 2, layers - 3


class MidLayer(Layer):
    """The layer, whose attention reads embedding and feature side by side, each normalised on its own."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__(config, 2 * config.hidden)
        self.input_layernorm = Norm(config.hidden, config.norm_eps)
        self.hidden_norm = Norm(config.hidden, config.norm_eps)


class Eagle3(nn.Module):
    """`vocabulary [Vd]`: the target ids that the head can propose, rising. `taps`: the layers it reads."""

    family = FAMILY

    def __init__(
        self, config: HeadConfig, vocabulary: Tensor, target_size: int, taps: Sequence[int] = (2, 15, 27)
    ) -> None:
        super().__init__()
        self.config = config
        self.taps = tuple(taps)
        self.fc = nn.Linear(len(self.taps) * config.hidden, config.hidden, bias=False)
        self.midlayer = MidLayer(config)
        self.norm = Norm(config.hidden, config.norm_eps)
        self.lm_head = nn.Linear(config.hidden, len(vocabulary), bias=False)
        known = torch.zeros(target_size, dtype=torch.bool)
        known[vocabulary] = True
        self.d2t: Tensor
        self.t2d: Tensor
        self.register_buffer("d2t", vocabulary - torch.arange(len(vocabulary)))
        self.register_buffer("t2d", known)

    @property
    def layer(self) -> Layer:
        return self.midlayer

    @property
    def vocabulary(self) -> Tensor:
        """Target id of each draft id, `[Vd]`."""
        return self.d2t + torch.arange(len(self.d2t), device=self.d2t.device)

    def fuse(self, found: Pass) -> Tensor:
        """The feature of every row of a verifier pass."""
        return self.fc(torch.cat([found.taps[i] for i in self.taps], dim=-1))

    def enter(self, embedded: Tensor, feature: Tensor) -> tuple[Tensor, Tensor]:
        """What attention reads `[B, n, 2H]`, and the residual stream: the feature as it is."""
        layer = self.midlayer
        return torch.cat((layer.input_layernorm(embedded), layer.hidden_norm(feature)), dim=-1), feature

    def score(self, out: Tensor) -> Tensor:
        """Logits over the draft vocabulary from the layer's output."""
        return self.lm_head(self.norm(out))
