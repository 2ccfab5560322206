"""Draft trees: what is derived from parents, against slow loops; what is not a tree is refused."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec.errors import SpecdecError
from specdec.parents import ABSENT
from specdec.tree import DraftTree

VOCABULARY = 50


@st.composite
def parent_lists(draw, max_nodes=9, absent=True):
    """Parents of up to max_nodes nodes in rows, some of them absent."""
    parents: list[int] = []
    for i in range(draw(st.integers(0, max_nodes))):
        present = [0, *(row for row in range(1, i + 1) if parents[row - 1] != ABSENT)]
        parents.append(draw(st.sampled_from([*present, ABSENT] if absent else present)))
    return parents


def tree_of(*parents):
    """Trees with these parents; every node has a token of its own."""
    return DraftTree.from_lists([list(range(len(p))) for p in parents], parents, VOCABULARY)


def slow_path(parents, row):
    """The rows from row 0 to `row`, by climbing."""
    path = [row]
    while path[0] != 0 and parents[path[0] - 1] != ABSENT:
        path.insert(0, parents[path[0] - 1])
    return path


def padded(parents, tree):
    return [*parents, *[ABSENT] * (tree.rows - 1 - len(parents))]


# -- invariants --------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(parent_lists(), min_size=1, max_size=3))
def test_ancestors_are_the_transitive_closure_of_the_parents(batch):
    tree = tree_of(*batch)
    for b, parents in enumerate(batch):
        closure = {(i, i) for i in range(tree.rows)}
        closure |= {(i + 1, parent) for i, parent in enumerate(parents) if parent != ABSENT}
        while True:
            more = {(i, k) for i, j in closure for j2, k in closure if j == j2} - closure
            if not more:
                break
            closure |= more
        found = {(i, j) for i, j in tree.ancestors[b].nonzero().tolist()}
        assert found == closure


@settings(deadline=None)
@given(st.lists(parent_lists(), min_size=1, max_size=3))
def test_depths_count_the_steps_to_row_0_and_positions_start_at_the_cached_length(batch):
    tree = tree_of(*batch)
    cached = torch.arange(len(batch)) * 100
    for b, parents in enumerate(batch):
        steps = [len(slow_path(padded(parents, tree), row)) - 1 for row in range(tree.rows)]
        assert tree.depths[b].tolist() == steps
        assert tree.positions(cached)[b].tolist() == [100 * b + d for d in steps]
    assert tree.depth == tree.depths.max()


@settings(deadline=None)
@given(st.lists(parent_lists(), min_size=1, max_size=3))
def test_children_are_the_rows_that_have_a_row_as_parent_in_order(batch):
    tree = tree_of(*batch)
    for b, parents in enumerate(batch):
        for row in range(tree.rows):
            own = [i + 1 for i, parent in enumerate(parents) if parent == row]
            assert tree.children[b, row].tolist() == own + [0] * (tree.branching - len(own))


@settings(deadline=None)
@given(st.lists(parent_lists(), min_size=1, max_size=3), st.data())
def test_the_path_to_a_row_is_its_ancestors_in_order_and_the_row_again(batch, data):
    tree = tree_of(*batch)
    rows = [data.draw(st.integers(0, tree.rows - 1)) for _ in batch]
    paths = tree.path(torch.tensor(rows)).tolist()
    for parents, row, path in zip(batch, rows, paths, strict=True):
        slow = slow_path(padded(parents, tree), row)
        assert path == slow + [row] * (tree.depth + 1 - len(slow))


@settings(deadline=None)
@given(parent_lists())
def test_root_to_leaf_paths_cover_every_node_that_is_present_and_end_at_the_leaves(parents):
    tree = tree_of(parents)
    paths = tree.paths()
    leaves = [
        row for row in range(tree.rows) if row not in parents and (row == 0 or parents[row - 1] != ABSENT)
    ]
    assert [path[-1] for path in paths] == leaves
    assert all(path == slow_path(parents, path[-1]) for path in paths)
    assert {row for path in paths for row in path} == set(tree.present[0].nonzero().flatten().tolist())


def test_a_drawn_tree_has_the_mask_of_the_docstring():
    tree = tree_of([0, 0, 1])
    assert tree.ancestors[0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]]


def test_a_chain_is_a_tree_whose_mask_is_lower_triangular():
    tree = DraftTree.chain(torch.tensor([[7, 7, 7], [1, 2, 3]]))
    assert (tree.depth, tree.branching, tree.rows) == (3, 1, 4)
    assert torch.equal(tree.ancestors, torch.ones(2, 4, 4, dtype=torch.bool).tril())
    assert tree.paths(1) == [[0, 1, 2, 3]]
    assert tree.by_row(torch.tensor([9, 8])).tolist() == [[9, 7, 7, 7], [8, 1, 2, 3]]
    tree.check(8)


def test_without_nodes_a_tree_is_plain_decoding():
    for tree in (
        DraftTree.chain(torch.zeros(2, 0, dtype=torch.long)),
        DraftTree.from_lists([[], []], [[], []]),
    ):
        assert (tree.depth, tree.branching, tree.rows) == (0, 0, 1)
        assert tree.ancestors.tolist() == [[[True]]] * 2
        assert tree.children.shape == (2, 1, 0)
        assert tree.path(torch.tensor([0, 0])).tolist() == [[0], [0]]
        assert tree.paths() == [[0]]


def test_trees_of_different_size_share_a_batch_and_absent_nodes_see_only_themselves():
    tree = DraftTree.from_lists([[5, 6, 7], [8]], [[0, 1, 2], [0]], VOCABULARY)
    assert tree.tokens.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert tree.present.tolist() == [[True] * 4, [True, True, False, False]]
    assert tree.ancestors[1, 2:].int().tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]]
    assert tree.paths(1) == [[0, 1]]


def test_everything_derived_exists_on_tensors_without_values():
    tree = DraftTree(*torch.empty(2, 2, 5, dtype=torch.long, device="meta"), depth=3, branching=2)
    row = torch.empty(2, dtype=torch.long, device="meta")
    shapes = {
        tree.ancestors: (2, 6, 6),
        tree.depths: (2, 6),
        tree.positions(row): (2, 6),
        tree.children: (2, 6, 2),
        tree.path(row): (2, 4),
        tree.present: (2, 6),
        tree.by_row(row): (2, 6),
    }
    for derived, shape in shapes.items():
        assert derived.is_meta
        assert derived.shape == shape


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "parents", "reason"),
    [
        (
            [1, 2],
            [0, 2],
            "row 2 of sequence 0 has row 2 as its parent, but a parent must stand before its child",
        ),
        ([1, 2, 3], [0, 3, 2], "row 2 of sequence 0 has row 3 as its parent"),  # 2 -> 3 -> 2, a cycle
        ([1, 2], [2, 0], "row 1 of sequence 0 has row 2 as its parent"),
        ([1], [-2], "row 1 of sequence 0 has row -2 as its parent"),
        ([1, 2], [-1, 1], "row 2 of sequence 0 has row 1 as its parent, which is absent"),
        ([1, 50], [0, 1], r"row 2 of sequence 0 is token 50, outside the vocabulary 0\.\.49"),
        ([-1], [0], r"row 1 of sequence 0 is token -1, outside the vocabulary"),
        ([4, 5, 4], [0, 0, 0], "rows 1 and 3 of sequence 0 are both token 4 after row 0"),
        ([1, 2], [0], "a tree needs one parent per token"),
    ],
)
def test_what_is_not_a_tree_is_refused_in_one_sentence(tokens, parents, reason):
    with pytest.raises(SpecdecError, match=reason) as caught:
        DraftTree.from_lists([tokens], [parents], VOCABULARY)
    assert "\n" not in str(caught.value)


def test_the_refusal_names_the_sequence():
    with pytest.raises(SpecdecError, match="row 1 of sequence 1 is token 99"):
        DraftTree.from_lists([[1], [99]], [[0], [0]], VOCABULARY)


def test_a_batch_without_sequences_is_refused():
    with pytest.raises(SpecdecError, match="at least one sequence"):
        DraftTree.from_lists([], [])


@pytest.mark.parametrize(("depth", "branching"), [(1, 2), (2, 1)])
def test_a_tree_beyond_its_declared_bounds_is_refused(depth, branching):
    tree = DraftTree(torch.tensor([[1, 2, 3]]), torch.tensor([[0, 0, 1]]), depth, branching)
    with pytest.raises(SpecdecError, match="has depth 2 and up to 2 children per row, but was declared"):
        tree.check(VOCABULARY)


def test_tokens_and_parents_of_different_shape_are_refused():
    with pytest.raises(SpecdecError, match=r"must both be \[B, m\], but have shapes \[1, 2\] and \[1, 1\]"):
        DraftTree(torch.zeros(1, 2).long(), torch.zeros(1, 1).long(), 1, 2).check()
