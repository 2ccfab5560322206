"""A small language model as draft: a Llama-family checkpoint of the verifier's vocabulary, or a part of it.

It proposes what it would itself say next, and needs a cache of its own, which is rolled back like the
verifier's and by the same class. Two things differ from the verifier's side:

- A tree is read in several passes, level by level, each level's rows kept. When the verifier has chosen, all
  these rows are reopened, and the accepted path stays.
- The deepest node is proposed and never read. After full acceptance the draft's cache therefore lacks one
  token more than the verifier's: the last draft and the newest token. The next round begins with one pass
  over both. That pass always has two rows, so that its shape does not depend on what was accepted; where only
  the newest token is missing, the second row is forgotten.

A model of a part of the vocabulary (vanilla.py) has a table of its own: all that it reads goes through `ids`,
which takes the tokens that it does not know to one row behind those that it does; that row is never proposed.

Layout: as in grow.py and kv_cache.py. `fed` rows are those of the tree that the draft has read, row 0 first.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdec.drafts.vanilla import own_ids
from specdec.errors import SpecdecError
from specdec.grow import Growth, Vocabulary, grow
from specdec.policy import Policy, chain
from specdec.sampling import Sampling, probabilities
from specdec.slots import tree_mask
from specdec.tree import DraftTree
from specdec.verifier import Pass, Verifier
from specdec.verify import Verdict, row_of


class SmallLM:
    """`model` is loaded like a verifier: `SmallLM(Verifier.load(folder))`.

    vocabulary  [Vd]: the verifier's id of each of the model's tokens but its last, as which the model reads
                every other token. None: the two vocabularies are one.
    """

    taps: tuple[int, ...] = ()
    samples = True

    def __init__(
        self,
        model: Verifier,
        policy: Policy | None = None,
        vocabulary: Tensor | None = None,
        name: str = "small_lm",
    ) -> None:
        self.model = model
        self.name = name
        self.policy = policy or chain(4)
        self.vocabulary = vocabulary

    def start(
        self,
        verifier: Verifier,
        prompts: Sequence[Sequence[int]],
        capacity: int,
        policy: Policy,
        sampling: Sampling,
    ) -> SmallLMSession:
        """Raises SpecdecError when the vocabularies differ or the texts exceed the draft's context."""
        own, its = self.model.config, verifier.config
        if self.vocabulary is not None:
            known = Vocabulary(self.vocabulary, its.vocab_size)
        elif own.vocab_size == its.vocab_size:
            known = None
        else:
            raise SpecdecError(
                f"the draft has a vocabulary of {own.vocab_size} tokens and the verifier one of "
                f"{its.vocab_size}: use a draft that shares the verifier's tokenizer"
            )
        if capacity > own.context_length:
            raise SpecdecError(
                f"the texts may reach {capacity} tokens, but the draft's context holds {own.context_length}: "
                "ask for fewer new tokens, shorten the prompts or use another draft"
            )
        return SmallLMSession(self.model, prompts, capacity, policy, sampling, known)


class SmallLMSession:
    """The draft's cache, and which token it has yet to read besides the newest."""

    def __init__(
        self,
        model: Verifier,
        prompts: Sequence[Sequence[int]],
        capacity: int,
        policy: Policy,
        sampling: Sampling,
        known: Vocabulary | None = None,
    ) -> None:
        self.model, self.known = model, known
        self.ids = None if known is None else own_ids(known.tokens, known.size)  # [V]
        # Sampled children come from the distribution that verification is told about. Children chosen without
        # chance are ranked by the model's own, which knows a second choice at temperature 0, too.
        self.sampling = sampling if policy.rule == "sampled" else Sampling(1.0)
        self.cache = model.new_cache(len(prompts), capacity, spare=policy.reads + 2)
        self.missing = torch.zeros(len(prompts), dtype=torch.long, device=self.cache.keys.device)
        self.lacks = self.missing > 0  # [B]: whether the accepted token before the newest was never read
        self.fed = 1

    def read(self, tokens: Tensor, found: Pass) -> None:
        self.model.forward(self.own(tokens), self.cache, logits_from=-1, check=False)

    def rollback(self, lengths: Sequence[int]) -> None:
        self.cache.rollback(lengths)

    def propose(self, policy: Policy, newest: Tensor, coins: Tensor | None) -> Growth:
        rows = torch.stack((self.missing.where(self.lacks, newest), newest), dim=1)  # [B, 2]
        count = 1 + self.lacks.long()
        found = self.model.forward(self.own(rows), self.cache, wait=True, check=False)
        self.cache.accept(None, count)
        self.fed = 1
        base = self.cache.ledger.cached - 1  # [B]: position of the newest token, row 0

        def step(fed: DraftTree, new: int) -> Tensor:
            self.fed = fed.rows
            span = self.cache.ledger.bound + new - fed.rows
            level = self.model.forward(
                self.own(fed.tokens[:, -new:]),
                self.cache,
                positions=fed.positions(base)[:, -new:].clamp(max=self.model.config.context_length - 1),
                mask=tree_mask(base, fed.ancestors, span)[:, -new:],
                check=False,
            )
            return self.p(level.logits)

        return grow(policy, self.p(row_of(found.logits, count - 1)), step, coins, self.known)

    def accept(self, growth: Growth, verdict: Verdict, found: Pass) -> Tensor:
        depth = max(growth.tree.depth, 1)  # the rows of a path that can have been read: all but the last
        fed = growth.fed.gather(1, verdict.path[:, :depth])
        place = torch.arange(depth, device=fed.device)
        read = ((fed >= 0) & (place <= verdict.accepted.unsqueeze(-1))).sum(-1)  # [B]
        self.cache.reopen(self.fed)
        self.cache.accept(fed.clamp(min=0) if growth.tree.branching > 1 else None, read)
        self.lacks = read < verdict.accepted + 1
        self.missing = row_of(verdict.emitted, (verdict.accepted - 1).clamp(min=0))
        return self.cache.ledger.cached

    def settle(self, emitted: Sequence[Sequence[int]], going: Sequence[bool], told: Sequence[int]) -> None:
        self.cache.ledger.tell(told)
        for b, goes_on in enumerate(going):
            if not goes_on:
                self.cache.ledger.end(b)

    # -- the vocabulary ----------------------------------------------------------------------------------

    def own(self, tokens: Tensor) -> Tensor:
        """The model's ids of the verifier's tokens."""
        return tokens if self.ids is None else self.ids[tokens]

    def p(self, logits: Tensor) -> Tensor:
        """The draft's distribution over the tokens that it knows, from all of its logits."""
        return probabilities(logits if self.known is None else logits[..., :-1], self.sampling)
