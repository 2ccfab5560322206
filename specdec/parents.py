"""The shape of a tree as a plain list: the parent row of each node.

Row 0 is the root and entry i of `parents` belongs to row i + 1, as in tree.py, which is this in tensors. A
parent stands before its children, so a list can neither loop nor point forward. -1 marks an absent node.
"""

from collections.abc import Sequence

from specdec.errors import SpecdecError

ABSENT = -1


def depths_of(parents: Sequence[int]) -> list[int]:
    """Depth of each row, row 0 first, of checked parents; absent rows have depth 0."""
    depths = [0]
    for parent in parents:
        depths.append(0 if parent == ABSENT else depths[parent] + 1)
    return depths


def check_parents(parents: Sequence[int], where: str) -> None:
    """Raise SpecdecError unless every parent is row 0, an earlier node that is present, or ABSENT."""
    for i, parent in enumerate(parents):
        if parent == ABSENT:
            continue
        if not 0 <= parent <= i:
            raise SpecdecError(
                f"row {i + 1} of {where} has row {parent} as its parent, but a parent must stand before its "
                f"child, in rows 0..{i} ({ABSENT} for an absent node): number the nodes from the root"
            )
        if parent > 0 and parents[parent - 1] == ABSENT:
            raise SpecdecError(
                f"row {i + 1} of {where} has row {parent} as its parent, which is absent: leave out its "
                "children too"
            )


def check_tokens(tokens: Sequence[int], parents: Sequence[int], vocabulary: int | None, where: str) -> None:
    """Raise SpecdecError unless tokens lie in the vocabulary and siblings differ."""
    seen: dict[tuple[int, int], int] = {}
    for i, (token, parent) in enumerate(zip(tokens, parents, strict=True), 1):
        if token < 0 or (vocabulary is not None and token >= vocabulary):
            span = "0 and up" if vocabulary is None else f"0..{vocabulary - 1}"
            raise SpecdecError(f"row {i} of {where} is token {token}, outside the vocabulary {span}")
        if parent == ABSENT:
            continue
        twin = seen.setdefault((parent, token), i)
        if twin != i:
            raise SpecdecError(
                f"rows {twin} and {i} of {where} are both token {token} after row {parent}: siblings must "
                "propose different tokens"
            )


def paths_of(parents: Sequence[int]) -> list[list[int]]:
    """The rows of every root-to-leaf path of checked parents: row 0 first, in the order of the leaves."""
    found = []
    for leaf, parent in enumerate([0, *parents]):
        if parent == ABSENT or leaf in parents:
            continue
        path = [leaf]
        while path[-1] != 0:
            path.append(parents[path[-1] - 1])
        found.append(path[::-1])
    return found
