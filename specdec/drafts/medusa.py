"""Medusa: several heads on the verifier's last hidden state, each one position further ahead.

Head j looks at the last hidden state of the newest position the verifier has seen and guesses the token
j + 2 places on (the next one is the verifier's own). It does not know which tokens stand in between, so all
nodes of one depth share one p. That makes drafting one matrix product for the whole tree, and guesses poor
further down. Each head is a residual block of its own, read by the verifier's output matrix, restricted to
`vocabulary`. Verified exactly here, as every draft. Source: Cai et al. 2024, arXiv:2401.10774.

The layout follows the public one: `medusa_head.<j>.0.linear`; the output matrix is the verifier's.

Layout: hidden [B, H], blocks [k, H, H], logits [B, k, Vd].
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specdec.errors import SpecdecError
from specdec.grow import Growth, Vocabulary, grow
from specdec.policy import Policy, static
from specdec.sampling import Sampling, probabilities
from specdec.tree import DraftTree
from specdec.verifier import Pass, Verifier
from specdec.verify import Verdict, row_of

FAMILY = "medusa"


class Block(nn.Module):
    """x + silu(W x + b)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        nn.init.zeros_(
            self.linear.weight
        )  # so that an untrained head says what the verifier's last layer says
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.silu(self.linear(x))


class Medusa(nn.Module):
    """`count` heads; `vocabulary [Vd]`: target ids; `rows [Vd, H]`: the verifier's output rows for them."""

    family = FAMILY
    taps: tuple[int, ...] = ()

    def __init__(self, hidden: int, count: int, vocabulary: Tensor, rows: Tensor) -> None:
        super().__init__()
        self.hidden = hidden
        self.medusa_head = nn.ModuleList([nn.ModuleList([Block(hidden)]) for _ in range(count)])
        self.vocabulary: Tensor
        self.rows: Tensor
        self.register_buffer("vocabulary", vocabulary)
        self.register_buffer("rows", rows, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits `[..., k, Vd]` of all heads from hidden states `[..., H]`."""
        blocks = [self.block(j)(hidden) for j in range(len(self.medusa_head))]
        return self.score(torch.stack(blocks, dim=-2))

    def block(self, j: int) -> Block:
        """What head j makes of a hidden state."""
        block = self.medusa_head[j][0]  # type: ignore[index]  # a list of one block
        assert isinstance(block, Block)
        return block

    def score(self, out: Tensor) -> Tensor:
        """Logits over the draft vocabulary from what a block puts out."""
        return F.linear(out, self.rows)


class MedusaDraft:
    """The heads with a default policy, no deeper than there are heads."""

    samples = True
    taps: tuple[int, ...] = ()
    name = FAMILY

    def __init__(self, heads: Medusa, policy: Policy | None = None) -> None:
        self.heads = heads
        self.policy = policy or static([3, 2, 1], rule="top-k")

    def start(
        self,
        verifier: Verifier,
        prompts: Sequence[Sequence[int]],
        capacity: int,
        policy: Policy,
        sampling: Sampling,
    ) -> MedusaSession:
        """Raises SpecdecError when the heads do not fit the verifier, or the tree is too deep for them."""
        if self.heads.hidden != verifier.config.hidden:
            raise SpecdecError(
                f"the heads read hidden states of size {self.heads.hidden}, but the verifier's have "
                f"{verifier.config.hidden}: use heads that were trained on this verifier"
            )
        if policy.depth > (count := len(self.heads.medusa_head)):
            raise SpecdecError(
                f"the policy drafts {policy.depth} tokens ahead, but there are {count} heads: use a policy "
                f"of depth {count} or less"
            )
        return MedusaSession(self.heads, verifier, policy, sampling, len(prompts))


class MedusaSession:
    """The hidden state that the heads look at: that of the position before the newest token."""

    def __init__(
        self, heads: Medusa, verifier: Verifier, policy: Policy, sampling: Sampling, batch: int
    ) -> None:
        self.heads, self.size = heads, verifier.config.vocab_size
        self.sampling = sampling if policy.rule == "sampled" else Sampling(1.0)
        self.hidden = verifier.embedding.new_zeros(batch, heads.hidden)
        self.prompts: list[Tensor] = []

    def read(self, tokens: Tensor, found: Pass) -> None:
        self.prompts.append(found.hidden)

    def rollback(self, lengths: Sequence[int]) -> None:
        if self.prompts:
            last = torch.tensor(lengths, device=self.hidden.device) - 1
            self.hidden = row_of(torch.cat(self.prompts, dim=1), last.clamp(min=0))
            self.prompts = []

    @torch.no_grad()
    def propose(self, policy: Policy, newest: Tensor, coins: Tensor | None) -> Growth:
        p = probabilities(self.heads(self.hidden), self.sampling)  # [B, k, Vd]

        def step(fed: DraftTree, new: int) -> Tensor:
            return p[:, fed.depth : fed.depth + 1].expand(-1, new, -1)

        return grow(policy, p[:, 0], step, coins, Vocabulary(self.heads.vocabulary, self.size))

    def accept(self, growth: Growth, verdict: Verdict, found: Pass) -> Tensor:
        last = verdict.path[:, -1]  # the last accepted row, repeated to fill up
        self.hidden = row_of(found.hidden, last)
        return verdict.accepted

    def settle(self, emitted: Sequence[Sequence[int]], going: Sequence[bool], told: Sequence[int]) -> None:
        pass
