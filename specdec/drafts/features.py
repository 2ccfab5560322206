"""Drafting with a feature head (EAGLE-1, EAGLE-3): its cache, its rollback, and trees grown from it.

The head reads rows of (feature of position i, token i + 1). Where the verifier has been, the feature is its
own; further on, along a tree, each node's row takes its parent's output for it. Rows with such stand-ins are
never kept: when the verifier has chosen a path, its true features of that path are at hand, and the next
round begins with one pass over them. So at the beginning of every round the head's cache holds what one fresh
pass over true features would leave, one row less than the text has tokens, like the verifier's.

That first pass has a fixed number of rows, whatever was accepted: those beyond the accepted path are
forgotten at once.

Layout: as in grow.py. pending_tokens [B, n] and pending_features [B, n, H] are the rows to be read next, of
which the first pending_count [B] are real.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from specdec.drafts.layer import HeadConfig, Layer
from specdec.errors import SpecdecError
from specdec.grow import Growth, Vocabulary, grow
from specdec.kv_cache import KVCache
from specdec.policy import Policy, dynamic
from specdec.sampling import Sampling, probabilities
from specdec.slots import slots_behind, tree_mask
from specdec.tree import DraftTree
from specdec.verifier import Pass, Verifier, attention, attention_bias, rope_tables
from specdec.verify import Verdict, row_of


class Head(Protocol):
    """What drafting asks of a head; eagle1.py and eagle3.py are such."""

    family: str
    config: HeadConfig
    taps: tuple[int, ...]

    @property
    def layer(self) -> Layer: ...

    @property
    def vocabulary(self) -> Tensor: ...

    def fuse(self, found: Pass) -> Tensor: ...

    def enter(self, embedded: Tensor, feature: Tensor) -> tuple[Tensor, Tensor]: ...

    def score(self, out: Tensor) -> Tensor: ...


class FeatureDraft:
    """A head with a default policy; `head` must have the verifier's dtype and device."""

    samples = True

    def __init__(self, head: Head, policy: Policy | None = None) -> None:
        self.head = head
        self.name = head.family
        self.taps = head.taps
        self.policy = policy or dynamic(depth=4, top_k=3, total=8)

    def start(
        self,
        verifier: Verifier,
        prompts: Sequence[Sequence[int]],
        capacity: int,
        policy: Policy,
        sampling: Sampling,
    ) -> FeatureSession:
        """Raises SpecdecError when the head was made for a verifier of another shape or vocabulary."""
        config = verifier.config
        if self.head.config.hidden != config.hidden:
            raise SpecdecError(
                f"the head reads features of size {self.head.config.hidden}, but the verifier's have "
                f"{config.hidden}: use a head that was trained on this verifier"
            )
        if max(self.taps, default=0) >= config.layers:
            raise SpecdecError(
                f"the head reads the input of layer {max(self.taps)}, but the verifier has {config.layers} "
                "layers: use a head that was trained on this verifier"
            )
        return FeatureSession(self.head, verifier, len(prompts), capacity, policy, sampling)


class FeatureSession:
    """The head's cache and what it is to read next."""

    def __init__(
        self,
        head: Head,
        verifier: Verifier,
        batch: int,
        capacity: int,
        policy: Policy,
        sampling: Sampling,
    ) -> None:
        self.head, self.embedding, self.size = head, verifier.embedding, verifier.config.vocab_size
        self.sampling = sampling if policy.rule == "sampled" else Sampling(1.0)
        config, device = head.config, self.embedding.device
        spare = policy.reads + policy.depth + 1
        self.cache = KVCache(config.llama(), batch, capacity, self.embedding.dtype, device, spare)
        tables = rope_tables(config.llama())
        self.cos, self.sin = (table.to(self.embedding) for table in tables)  # [context, head]
        self.last: Tensor | None = None  # [B, 1, H]: the feature before the next chunk of the prompts
        self.prompt_features: list[Tensor] = []  # until `rollback` says how long the prompts are
        self.pending_tokens: Tensor | None = None  # None: the newest tokens alone
        self.pending_features = self.embedding.new_zeros(batch, 1, config.hidden)
        self.pending_count = torch.zeros(batch, dtype=torch.long, device=device)
        self.fed = 0

    # -- the prompts -------------------------------------------------------------------------------------

    @torch.no_grad()
    def read(self, tokens: Tensor, found: Pass) -> None:
        """Read every token whose feature is known: that of the position before it."""
        features = self.head.fuse(found)
        if self.last is None:
            after, before = tokens[:, 1:], features[:, :-1]
        else:
            after, before = tokens, torch.cat((self.last, features[:, :-1]), dim=1)
        if after.shape[1]:
            self.rows(after, before)
        self.last = features[:, -1:]
        self.prompt_features.append(features)

    def rollback(self, lengths: Sequence[int]) -> None:
        """The prompts without their newest tokens, which are to be read with the last feature of each."""
        self.cache.rollback([max(length - 1, 0) for length in lengths])
        if self.prompt_features:
            last = torch.tensor(lengths, device=self.pending_count.device) - 1
            features = torch.cat(self.prompt_features, dim=1)
            self.pending_features = row_of(features, last.clamp(min=0)).unsqueeze(1)
            self.pending_count = (last >= 0).long()  # a prompt of one token has no feature before it
            self.prompt_features = []

    # -- rounds ------------------------------------------------------------------------------------------

    @torch.no_grad()
    def propose(self, policy: Policy, newest: Tensor, coins: Tensor | None) -> Growth:
        tokens = newest.unsqueeze(1) if self.pending_tokens is None else self.pending_tokens
        out = self.rows(tokens, self.pending_features, wait=True)
        self.cache.accept(None, self.pending_count)
        root = row_of(out, (self.pending_count - 1).clamp(min=0)).unsqueeze(1)  # [B, 1, H]
        known = [root]  # outputs of the rows of the tree that were read, row 0 first
        base = self.cache.ledger.cached - 1  # [B]: position of row 0
        self.fed = 0

        def step(fed: DraftTree, new: int) -> Tensor:
            self.fed = fed.rows - 1
            up = fed.parents[:, -new:].clamp(min=0).unsqueeze(-1)
            outs = torch.cat(known, dim=1)
            feature = outs.gather(1, up.expand(-1, -1, outs.shape[-1]))
            span = self.cache.ledger.bound + new - fed.rows
            mask = tree_mask(base, fed.ancestors, span)[:, -new:]
            known.append(self.rows(fed.tokens[:, -new:], feature, fed.positions(base)[:, -new:], mask))
            return self.p(known[-1])

        vocabulary = Vocabulary(self.head.vocabulary, self.size)
        return grow(policy, self.p(root).squeeze(1), step, coins, vocabulary)

    @torch.no_grad()
    def accept(self, growth: Growth, verdict: Verdict, found: Pass) -> Tensor:
        if self.fed:
            self.cache.reopen(self.fed)
            self.cache.accept(None, torch.zeros_like(verdict.accepted))
        features = self.head.fuse(found)  # [B, m + 1, H]
        path = verdict.path.unsqueeze(-1).expand(-1, -1, features.shape[-1])
        self.pending_features = features.gather(1, path)  # [B, D + 1, H]
        self.pending_tokens = verdict.emitted.clamp(min=0)  # what came after each row of the path
        self.pending_count = verdict.accepted + 1
        return self.cache.ledger.cached

    def settle(self, emitted: Sequence[Sequence[int]], going: Sequence[bool], told: Sequence[int]) -> None:
        self.cache.ledger.tell(told)
        for b, goes_on in enumerate(going):
            if not goes_on:
                self.cache.ledger.end(b)

    # -- the head ----------------------------------------------------------------------------------------

    def rows(
        self,
        tokens: Tensor,
        features: Tensor,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        wait: bool = False,
    ) -> Tensor:
        """Outputs `[B, n, H]` of new rows; positions and mask as for `Verifier.forward`."""
        n, config = tokens.shape[1], self.head.config
        self.cache.start(n, wait)
        if positions is None:
            positions = slots_behind(self.cache.ledger.cached, n, config.context_length - 1)
        at = positions.clamp(0, config.context_length - 1)
        attended, residual = self.head.enter(self.embedding[tokens], features)
        layer = self.head.layer
        q, k, v = layer.self_attn.split(attended, self.cos[at][:, None], self.sin[at][:, None])
        k, v = self.cache.write(0, k, v)
        seen = self.cache.mask() if mask is None else mask
        bias = attention_bias(seen, q.dtype)
        out = layer.finish(residual, attention(q, k, v, bias))
        self.cache.finish()
        return out

    def p(self, out: Tensor) -> Tensor:
        """The draft's distribution over its vocabulary, `[B, n, Vd]`."""
        return probabilities(self.head.score(out), self.sampling)
