"""Draft trees: what a draft proposes in one round, as tensors that the verifier reads in one pass.

A verifier pass has m + 1 rows. Row 0 is the newest token, which has not been through the verifier yet; rows
1..m are the nodes of the draft tree. A node knows the row of its parent, and everything else follows from
that: depth, position, children, and the ancestor mask, with which each row sees only the path it continues. A
chain is a tree whose every node has one child, and m = 0 is plain decoding.

Nodes may be absent (parent -1, token 0): a batch holds trees of different sizes in one shape, and a draft may
find fewer children than the shape has room for. An absent row is computed with the others, is nobody's child,
and no path leads to it. It counts as depth 0 and sees itself only, so that nothing in it is undefined.

Siblings are tried in the order of their rows. Which tree a draft grows is policy.py's business, and which
nodes survive is verify.py's.

Layout: B sequences, m nodes. `tokens [B, m]` and `parents [B, m]` int64; node i of them is row i + 1, and a
parent stands before its children: parents[b, i] <= i. All that is derived has static shape and is never read
by the host, so it works on `meta` tensors too; `check`, `paths` and `from_lists` are for the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specdec.errors import SpecdecError
from specdec.parents import ABSENT, check_parents, check_tokens, depths_of, paths_of


@dataclass(frozen=True, eq=False)
class DraftTree:
    """Tokens and parents of B trees of m nodes, with two bounds that fix the shapes of everything else.

    depth      D: no node is deeper (row 0 has depth 0).
    branching  K: no row has more children.

    Not checked here, because that would read the tensors: `check` does, and `from_lists` calls it.
    """

    tokens: Tensor  # [B, m]
    parents: Tensor  # [B, m]
    depth: int
    branching: int

    # -- made from ---------------------------------------------------------------------------------------

    @staticmethod
    def chain(tokens: Tensor) -> DraftTree:
        """The tree of N drafts in a row, `tokens [B, N]` int64. N may be 0."""
        batch, n = tokens.shape
        parents = torch.arange(n, device=tokens.device).expand(batch, n)
        return DraftTree(tokens, parents, depth=n, branching=min(n, 1))

    @staticmethod
    def from_lists(
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        vocabulary: int | None = None,
        device: torch.device | str = "cpu",
    ) -> DraftTree:
        """One tree per sequence from lists, which may differ in length; the shorter get absent nodes.

        parents hold rows: 0 for the newest token, i + 1 for node i. Raises SpecdecError as `check` does.
        """
        sizes = [(len(t), len(p)) for t, p in zip(tokens, parents, strict=False)]
        if len(tokens) != len(parents) or any(t != p for t, p in sizes):
            raise SpecdecError(
                f"a tree needs one parent per token, got {[len(t) for t in tokens]} tokens and "
                f"{[len(p) for p in parents]} parents"
            )
        if not sizes:
            raise SpecdecError("a batch of trees needs at least one sequence, got none")
        m = max(t for t, _ in sizes)
        for b, row in enumerate(parents):
            check_parents(row, f"sequence {b}")
        depth = max(max(depths_of(row)) for row in parents)
        branching = max((list(row).count(r) for row in parents for r in row if r != ABSENT), default=0)
        tree = DraftTree(
            torch.tensor([[*row, *[0] * (m - len(row))] for row in tokens], device=device).long(),
            torch.tensor([[*row, *[ABSENT] * (m - len(row))] for row in parents], device=device).long(),
            depth,
            branching,
        )
        tree.check(vocabulary)
        return tree

    # -- on the device -----------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """m + 1: the newest token and the nodes."""
        return self.tokens.shape[1] + 1

    @cached_property
    def present(self) -> Tensor:
        """`[B, m + 1]` bool: false for absent nodes."""
        return torch.nn.functional.pad(self.parents != ABSENT, (1, 0), value=True)

    @cached_property
    def up(self) -> Tensor:
        """`[B, m + 1]`: the row one step nearer to row 0; row 0 and absent rows stay where they are."""
        own = torch.arange(1, self.rows, device=self.parents.device)
        return torch.nn.functional.pad(self.parents.where(self.parents != ABSENT, own), (1, 0))

    @cached_property
    def ancestors(self) -> Tensor:
        """`[B, m + 1, m + 1]` bool: [b, i, j] says that row i sees row j, itself or one on its path.

        For the tree 0 - (1 - 3, 2):
            1 . . .
            1 1 . .
            1 . 1 .
            1 1 . 1
        """
        columns = torch.arange(self.rows, device=self.parents.device)
        row = columns.expand(self.parents.shape[0], -1)
        seen = row.unsqueeze(-1) == columns
        for _ in range(self.depth):
            row = self.up.gather(1, row)
            seen = seen | (row.unsqueeze(-1) == columns)
        return seen

    @cached_property
    def depths(self) -> Tensor:
        """`[B, m + 1]`: steps from row 0."""
        return self.ancestors.sum(-1) - 1

    def positions(self, cached: Tensor) -> Tensor:
        """`[B, m + 1]`: each row's place in its sequence, whose first `cached [B]` tokens are cached."""
        return cached.unsqueeze(-1) + self.depths

    @cached_property
    def children(self) -> Tensor:
        """`[B, m + 1, K]`: the rows of each row's children, in order, then 0: no row is a parent of row 0."""
        batch, m = self.parents.shape
        parent, node = self.parents.sort(dim=1, stable=True)  # siblings stand together, in order
        rows = torch.arange(self.rows, device=parent.device).expand(batch, -1).contiguous()
        first = torch.searchsorted(parent, rows)
        place = (first.unsqueeze(-1) + torch.arange(self.branching, device=parent.device)).flatten(1)
        found = place.clamp(max=m - 1)
        own = (parent.gather(1, found) == rows.repeat_interleave(self.branching, dim=1)) & (place < m)
        return (node.gather(1, found) + 1).where(own, 0).view(batch, self.rows, self.branching)

    def by_row(self, newest: Tensor | None = None) -> Tensor:
        """`[B, m + 1]`: the token of each row, `newest [B]` (or 0 where it does not matter) at row 0."""
        if newest is None:
            newest = self.tokens.new_zeros(self.tokens.shape[0])
        return torch.cat([newest.unsqueeze(-1), self.tokens], dim=1)

    def path(self, row: Tensor) -> Tensor:
        """`[B, D + 1]`: the rows from row 0 to `row [B]`, which is repeated to fill up."""
        climb = [row]
        for _ in range(self.depth):
            climb.append(self.up.gather(1, climb[-1].unsqueeze(-1)).squeeze(-1))
        depth = self.depths.gather(1, row.unsqueeze(-1))  # [B, 1]
        steps = depth - torch.arange(self.depth + 1, device=row.device)
        return torch.stack(climb, dim=1).gather(1, steps.clamp(min=0))

    # -- on the host -------------------------------------------------------------------------------------

    def paths(self, sequence: int = 0) -> list[list[int]]:
        """The rows of every root-to-leaf path of one tree: row 0 first, in the order of the leaves."""
        return paths_of(self.parents[sequence].tolist())

    def check(self, vocabulary: int | None = None) -> None:
        """Read the tensors and raise SpecdecError, naming the node, unless these are trees.

        A parent must stand before its child (which rules out cycles) and be present, siblings must propose
        different tokens, tokens must lie in 0..vocabulary - 1, and the bounds D and K must hold.
        """
        if self.tokens.shape != self.parents.shape or self.tokens.dim() != 2:
            raise SpecdecError(
                "tokens and parents of a tree must both be [B, m], but have shapes "
                f"{list(self.tokens.shape)} and {list(self.parents.shape)}"
            )
        for b, (tokens, parents) in enumerate(zip(self.tokens.tolist(), self.parents.tolist(), strict=True)):
            where = f"sequence {b}"
            check_parents(parents, where)
            check_tokens(tokens, parents, vocabulary, where)
            deepest = max(depths_of(parents))
            widest = max((parents.count(r) for r in parents if r != ABSENT), default=0)
            if deepest > self.depth or widest > self.branching:
                raise SpecdecError(
                    f"the tree of {where} has depth {deepest} and up to {widest} children per row, but was "
                    f"declared with depth {self.depth} and branching {self.branching}"
                )
