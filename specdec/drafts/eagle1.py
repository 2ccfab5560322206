"""The EAGLE-1 head: predicts the verifier's next feature, and reads the token off with its output matrix.

A row reads the verifier's last hidden state at position i (after the final norm, which is what the output
matrix reads) and the token i + 1, joins the two by one matrix, and passes them through one layer. Its output
is to be the last hidden state of position i + 1; so it needs no output matrix of its own, and goes on from
its own output. EAGLE-2 is this head with a dynamic tree. Source: Li et al. 2024, arXiv:2401.15077.

`vocabulary` restricts what it proposes to some of the verifier's tokens: on a CPU the whole output matrix
costs more than the layer. Trees and caches are features.py's business.

Layout: features [B, n, H], embeddings [B, n, H], logits [B, n, Vd].
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from specdec.drafts.layer import HeadConfig, Layer
from specdec.verifier import Pass

FAMILY = "eagle1"


class Eagle1(nn.Module):
    """`vocabulary [Vd]`: target ids; `rows [Vd, H]`: the verifier's output rows for them, not trained."""

    family = FAMILY
    taps: tuple[int, ...] = ()

    def __init__(self, config: HeadConfig, vocabulary: Tensor, rows: Tensor) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(2 * config.hidden, config.hidden, bias=False)
        self.layers = nn.ModuleList([Layer(config, config.hidden)])
        self.vocabulary: Tensor
        self.rows: Tensor
        self.register_buffer("vocabulary", vocabulary)
        self.register_buffer("rows", rows, persistent=False)

    @property
    def layer(self) -> Layer:
        layer = self.layers[0]
        assert isinstance(layer, Layer)
        return layer

    def fuse(self, found: Pass) -> Tensor:
        """The feature of every row of a verifier pass."""
        return found.hidden

    def enter(self, embedded: Tensor, feature: Tensor) -> tuple[Tensor, Tensor]:
        """What attention reads and what the residual stream carries: the two joined, without a norm."""
        joined = self.fc(torch.cat((embedded, feature), dim=-1))
        return joined, joined

    def score(self, out: Tensor) -> Tensor:
        """Logits over the draft vocabulary: the predicted feature times the verifier's rows."""
        return torch.nn.functional.linear(out, self.rows)
