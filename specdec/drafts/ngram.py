"""The n-gram draft (prompt lookup): what followed the last few tokens where they occurred before.

No model and almost no cost: good where the output repeats the prompt or itself (summaries, code edits,
quotes), useless elsewhere. A chain takes one continuation, that of the longest match and of equals the
most recent. A tree holds several: the next ones, in the same order, share the beginnings that they have in
common. Nothing is chosen by chance, so p is one-hot: child x is accepted with q(x) over what its earlier
siblings left of q, whichever rule the policy names. Source: Saxena 2023, "Prompt Lookup Decoding"; also
Yang et al. 2023, "Inference with Reference".

Layout: tokens are plain lists of token ids; trees as in tree.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specdec.policy import Dynamic, Policy, Static, chain
from specdec.sampling import Sampling

if TYPE_CHECKING:
    from torch import Tensor

    from specdec.grow import Growth
    from specdec.verifier import Pass, Verifier
    from specdec.verify import Verdict

DRAFT_LENGTH = 8  # N: the fastest on two cores over prompts of every kind, see benchmarks/LOG.md
MOST_MATCHES = 64  # matches of one ending that a tree is made of


class NgramDraft:
    """Looks for the last `max_ngram` tokens earlier in the text, then for fewer, down to `min_ngram`.

    Of several matches of the same length the most recent counts first. Raises ValueError unless 1 <=
    min_ngram <= max_ngram.
    """

    name = "ngram"
    policy: Policy = chain(DRAFT_LENGTH, "top-k")
    taps: tuple[int, ...] = ()
    samples = False

    def __init__(self, max_ngram: int = 3, min_ngram: int = 1) -> None:
        if not 1 <= min_ngram <= max_ngram:
            raise ValueError(
                f"min_ngram is {min_ngram} and max_ngram {max_ngram}, but must be 1 <= min_ngram <= max_ngram"
            )
        self.max_ngram = max_ngram
        self.min_ngram = min_ngram

    def propose(self, tokens: list[int], n: int) -> list[int]:
        """Up to `n` tokens that followed the match: fewer where the text ends first, none without a match."""
        return next((tokens[f : f + n] for f in self.find(tokens, most=1)), [])

    def tree(self, tokens: list[int], policy: Policy) -> tuple[list[int], list[int]]:
        """Tokens and parent rows of the tree that the matches fill of what `policy` has room for."""
        if policy.branching <= 1:
            drafts = self.propose(tokens, policy.depth)
            return drafts, list(range(len(drafts)))
        follows = self.find(tokens, MOST_MATCHES)
        return merge([tokens[f : f + policy.depth] for f in follows], policy)

    def find(self, tokens: list[int], most: int) -> list[int]:
        """Indices behind the earlier matches of the ending, longest first, of equals the most recent first.

        One walk from the end: most positions are dismissed by their last token alone.
        """
        last = len(tokens) - 1
        by_length: dict[int, list[int]] = {n: [] for n in range(self.max_ngram, self.min_ngram - 1, -1)}
        for end in range(last - 1, -1, -1):
            if tokens[end] != tokens[last]:
                continue
            length = 1
            while length < self.max_ngram and length <= end and tokens[end - length] == tokens[last - length]:
                length += 1
            if length >= self.min_ngram:
                by_length[length].append(end + 1)
                if len(by_length[self.max_ngram]) == most:
                    break
        return [follow for follows in by_length.values() for follow in follows][:most]

    def start(
        self,
        verifier: Verifier,
        prompts: Sequence[Sequence[int]],
        capacity: int,
        policy: Policy,
        sampling: Sampling,
    ) -> NgramSession:
        return NgramSession(self, prompts)


def merge(continuations: Sequence[list[int]], policy: Policy) -> tuple[list[int], list[int]]:
    """A tree of continuations, the first of them first: tokens, and the parent row of each node.

    A static policy lends its shape: the first token after a row takes its first child, the next other token
    the second. A dynamic one has room for `total` nodes of at most `top_k` children each.
    """
    tokens: list[int] = []
    parents: list[int] = []
    children: list[dict[int, int]] = [{}]  # of each row: token -> row
    room = Room(policy)
    for continuation in continuations:
        row = 0
        for token in continuation:
            known = children[row].get(token)
            if known is None:
                if not room.take(row, len(children[row])):
                    break
                tokens.append(token)
                parents.append(row)
                children.append({})
                known = children[row][token] = len(tokens)
            row = known
    return tokens, parents


class Room:
    """Which rows of a tree may still get a child. Rows are those of the tree being made."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.nodes = 0
        if isinstance(policy, Static):
            self.slots: list[list[int]] = [[] for _ in range(policy.nodes + 1)]  # children in the shape
            for node, parent in enumerate(policy.parents, 1):
                self.slots[parent].append(node)
            self.slot = [0]  # of each row of the tree: its row in the shape

    def take(self, row: int, has: int) -> bool:
        """Take room for one more child of `row`, which has `has` already; False if there is none."""
        if isinstance(self.policy, Dynamic):
            free = self.nodes < self.policy.total and has < self.policy.top_k
        else:
            free = has < len(self.slots[self.slot[row]])
            if free:
                self.slot.append(self.slots[self.slot[row]][has])
        self.nodes += free
        return free


class NgramSession:
    """The texts of a batch so far. All of it lives on the host."""

    def __init__(self, draft: NgramDraft, prompts: Sequence[Sequence[int]]) -> None:
        self.draft = draft
        self.texts = [list(prompt) for prompt in prompts]
        self.going = [True] * len(self.texts)

    def read(self, tokens: Tensor, found: Pass) -> None:
        pass

    def rollback(self, lengths: Sequence[int]) -> None:
        pass

    def propose(self, policy: Policy, newest: Tensor, coins: Tensor | None) -> Growth:
        import torch

        from specdec.grow import Growth
        from specdec.parents import ABSENT, depths_of
        from specdec.tree import DraftTree

        trees = [
            self.draft.tree(text, policy) if going else ([], [])
            for text, going in zip(self.texts, self.going, strict=True)
        ]
        m = max(len(tokens) for tokens, _ in trees)
        tokens = torch.tensor([t + [0] * (m - len(t)) for t, _ in trees], dtype=torch.long)
        parents = torch.tensor([p + [ABSENT] * (m - len(p)) for _, p in trees], dtype=torch.long)
        tokens, parents = tokens.to(newest.device), parents.to(newest.device)
        depth = max(max(depths_of(p)) for _, p in trees)
        branching = max((p.count(row) for _, p in trees for row in p), default=0)
        tree = DraftTree(tokens, parents, depth, branching)
        return Growth(tree, None, torch.full_like(tree.by_row(), -1))

    def accept(self, growth: Growth, verdict: Verdict, found: Pass) -> Tensor:
        return verdict.accepted

    def settle(self, emitted: Sequence[Sequence[int]], going: Sequence[bool], told: Sequence[int]) -> None:
        for text, new in zip(self.texts, emitted, strict=True):
            text += new
        self.going = list(going)
