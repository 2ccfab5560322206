"""Policies and how trees are grown by them: shapes, draws without replacement, EAGLE-2's search."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec.errors import SpecdecError
from specdec.grow import grow, sample_children
from specdec.parents import ABSENT
from specdec.policy import Dynamic, chain, dynamic, static
from specdec.sampling import Sampling
from specdec.theory.rejection import without_replacement


class TableDraft:
    """A draft whose p is a random function of the prefix, and that remembers what it was fed."""

    def __init__(self, vocabulary, seed, zeros=0.0, levels=None):
        self.vocabulary, self.seed, self.zeros, self.levels = vocabulary, seed, zeros, levels
        self.fed = []

    def p(self, b, prefix):
        rng = np.random.default_rng([self.seed, b, *(t + 1 for t in prefix)])
        weights = rng.dirichlet(np.ones(self.vocabulary))
        weights[rng.random(self.vocabulary) < self.zeros] = 0.0
        weights[rng.integers(self.vocabulary)] += 1e-3
        if self.levels:  # few different values, so that there are ties
            weights = np.ceil(weights * self.levels)
        return weights / weights.sum()

    def root(self, batch):
        return torch.tensor(np.array([self.p(b, ()) for b in range(batch)]))

    def step(self, fed, new):
        """Reads the fed tree by its paths, and so checks it, as a draft with a cache would."""
        fed.check(self.vocabulary)
        self.fed.append(fed)
        tokens = fed.by_row()
        rows = []
        for b in range(len(tokens)):
            parents = fed.parents[b].tolist()
            rows.append([self.p(b, prefix(tokens[b].tolist(), parents, r)) for r in range(fed.rows)[-new:]])
        return torch.tensor(np.array(rows))

    def grow(self, policy, batch=1, coins=None):
        if policy.coins and coins is None:
            generator = torch.Generator().manual_seed(self.seed)
            coins = torch.rand(batch, policy.coins, dtype=torch.float64, generator=generator)
        return grow(policy, self.root(batch), self.step, coins)


def prefix(tokens, parents, row):
    """The tokens from row 1 on the path to `row`, it included; tokens by row."""
    path = []
    while row > 0:
        path.insert(0, tokens[row])
        row = parents[row - 1]
    return tuple(path)


def nodes(growth, b=0):
    """(prefix, row) of every node that is present."""
    tokens, parents = growth.tree.by_row()[b].tolist(), growth.tree.parents[b].tolist()
    return [
        (prefix(tokens, parents, row), row)
        for row in range(1, growth.tree.rows)
        if parents[row - 1] != ABSENT
    ]


# -- shapes ------------------------------------------------------------------------------------------------


def test_shapes_are_numbered_level_by_level():
    assert chain(3).parents == (0, 1, 2)
    assert static([2, 2, 2]).parents == (0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6)
    assert static([3, 1]).parents == (0, 0, 0, 1, 2, 3)
    assert static(parents=[0, 1, 2, 0, 4]).parents == (0, 0, 1, 2, 3)
    assert chain(0).parents == static([]).parents == ()


@pytest.mark.parametrize(
    ("policy", "numbers"),
    [
        (chain(0), (0, 0, 0, 0)),
        (chain(4), (4, 4, 1, 4)),
        (static([2, 2, 2]), (14, 3, 2, 14)),
        (static([2, 2, 2], rule="top-k"), (14, 3, 2, 0)),
        (static(parents=[0, 0, 0, 1]), (4, 2, 3, 4)),
        (dynamic(4, 3, 8), (8, 4, 3, 0)),
        (dynamic(1, 4, 9), (4, 1, 4, 0)),
        (dynamic(2, 2, 99), (6, 2, 2, 0)),
    ],
)
def test_a_policy_knows_its_numbers_before_anything_is_grown(policy, numbers):
    assert (policy.nodes, policy.depth, policy.branching, policy.coins) == numbers
    growth = TableDraft(7, seed=0).grow(policy)
    assert (growth.tree.rows - 1, growth.tree.depth, growth.tree.branching) == numbers[:3]


def test_a_shallower_tree_keeps_the_upper_levels():
    assert static([2, 2, 2]).up_to(2) == static([2, 2])
    assert static([2, 2]).up_to(5) == static([2, 2])
    assert chain(4).up_to(0) == chain(0)
    assert dynamic(4, 3, 8).up_to(2) == dynamic(2, 3, 8)
    assert dynamic(4, 3, 8).up_to(0).nodes == 0


def test_at_temperature_0_children_are_the_most_likely_ones():
    assert static([2, 2]).for_sampling(Sampling()) == static([2, 2], rule="top-k")
    assert static([2, 2]).for_sampling(Sampling(1.0)) == static([2, 2])
    assert dynamic(3, 2, 5).for_sampling(Sampling()) == dynamic(3, 2, 5)


# -- growing a fixed shape ---------------------------------------------------------------------------------

SHAPES = st.sampled_from(
    [chain(3), static([2, 2, 2]), static([3, 1, 2]), static(parents=[0, 0, 0, 1, 1, 3, 4, 7])]
)


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.integers(0, 1000), st.sampled_from([0.0, 0.4, 0.8]), st.integers(3, 6))
def test_sampled_children_are_drawn_one_after_the_other_from_what_is_left_of_p(
    policy, seed, zeros, vocabulary
):
    """Each by a slow inverse CDF with its own coin; as many as p has, and none below an absent one."""
    draft = TableDraft(vocabulary, seed, zeros)
    coins = np.random.default_rng(seed).random((2, policy.coins))
    growth = draft.grow(policy, 2, torch.from_numpy(coins))
    growth.tree.check(vocabulary)
    for b in range(2):
        tokens, parents = growth.tree.by_row()[b].tolist(), growth.tree.parents[b].tolist()
        for i, parent in enumerate(policy.parents):
            row = i + 1
            earlier = [r for r in range(1, row) if policy.parents[r - 1] == parent]
            if parent > 0 and parents[parent - 1] == ABSENT:
                assert parents[i] == ABSENT
                continue
            left = draft.p(b, prefix(tokens, parents, parent))
            taken = [tokens[r] for r in earlier if parents[r - 1] != ABSENT]
            left[taken] = 0.0
            if not left.any():
                assert (parents[i], tokens[row]) == (ABSENT, 0)
                continue
            cumulative = list(itertools.accumulate(left / left.sum()))
            expected = next(t for t, edge in enumerate(cumulative) if coins[b, i] * cumulative[-1] < edge)
            assert (parents[i], tokens[row]) == (parent, expected)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.integers(0, 1000), st.integers(2, 6))
def test_top_k_children_are_the_most_likely_tokens_in_order(policy, seed, vocabulary):
    draft = TableDraft(vocabulary, seed)
    growth = draft.grow(static(parents=policy.parents, rule="top-k"), 2)
    growth.tree.check(vocabulary)
    assert growth.p is None
    for b in range(2):
        tokens, parents = growth.tree.by_row()[b].tolist(), growth.tree.parents[b].tolist()
        for row in {0, *policy.parents}:
            if row > 0 and parents[row - 1] == ABSENT:
                continue
            own = [r for r in range(1, growth.tree.rows) if parents[r - 1] == row]
            best = np.argsort(-draft.p(b, prefix(tokens, parents, row)), kind="stable")
            assert len(own) == min(policy.parents.count(row), vocabulary)
            assert [tokens[r] for r in own] == best[: len(own)].tolist()


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.integers(0, 1000), st.sampled_from([0.0, 0.6]))
def test_p_is_given_row_by_row_and_only_rows_with_children_were_fed(policy, seed, zeros):
    draft = TableDraft(5, seed, zeros)
    growth = draft.grow(policy)
    tokens, parents = growth.tree.by_row()[0].tolist(), growth.tree.parents[0].tolist()
    fed_tokens = draft.fed[-1].by_row()[0].tolist() if draft.fed else [0]
    for row in range(growth.tree.rows):
        fed = growth.fed[0, row].item()
        assert (fed >= 0) == (row == 0 or row in policy.parents)
        if row == 0 or (fed >= 0 and parents[row - 1] != ABSENT):
            assert fed_tokens[fed] == tokens[row]
            np.testing.assert_array_equal(growth.p[0, row], draft.p(0, prefix(tokens, parents, row)))


def test_every_ordered_pair_of_siblings_comes_out_as_often_as_sampling_without_replacement_says():
    """A grid of coins: p = (1/6, 1/3, 1/2); the share of the pair (x, y) is p(x) p(y) / (1 - p(x))."""
    p = torch.tensor([1 / 6, 1 / 3, 1 / 2], dtype=torch.float64)
    n = 60  # a multiple of all denominators
    grid = torch.cartesian_prod(*[(torch.arange(n).double() + 0.5) / n] * 2)
    pairs, exists = sample_children(p.expand(n * n, -1), grid)
    assert exists.all()
    for x, y in itertools.permutations(range(3), 2):
        share = (pairs == torch.tensor([x, y])).all(1).double().mean().item()
        law = without_replacement(p.numpy(), [x, y])
        assert share == pytest.approx(law[0][x] * law[1][y], abs=1e-12)


def test_a_reduced_vocabulary_gives_as_many_children_as_it_has_tokens():
    p = torch.tensor([[0.0, 0.7, 0.0, 0.3]])
    tokens, exists = sample_children(p, torch.tensor([[0.9, 0.2, 0.5]], dtype=torch.float64))
    assert tokens[exists].tolist() == [3, 1]
    assert exists.tolist() == [[True, True, False]]


# -- growing by EAGLE-2's search ---------------------------------------------------------------------------


def slow_dynamic(draft, b, policy, vocabulary):
    """Prefixes of the best `total` nodes, by the search as it is told in words; values as in the tensors."""
    seen: list[tuple[float, tuple[int, ...]]] = []
    beam: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for _ in range(policy.depth):
        found = []
        for value, path in beam:
            p = draft.p(b, path)
            for t in sorted(range(vocabulary), key=lambda t, p=p: -p[t])[: policy.top_k]:
                found.append((value + (math.log(p[t]) if p[t] > 0 else -math.inf), (*path, t)))
        seen += found
        beam = sorted(found, key=lambda node: -node[0])[: policy.top_k]  # stable
    return sorted(seen, key=lambda node: -node[0])[: policy.total]


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 20), st.integers(0, 1000), st.integers(4, 7))
def test_a_dynamic_tree_is_the_best_of_the_search_and_keeps_ancestors(depth, top_k, total, seed, vocabulary):
    policy, draft = dynamic(depth, top_k, total), TableDraft(vocabulary, seed)
    growth = draft.grow(policy, 2)
    growth.tree.check(vocabulary)  # ancestors are there: a parent stands before its child
    for b in range(2):
        expected = slow_dynamic(draft, b, policy, vocabulary)
        found = nodes(growth, b)
        assert sorted(path for path, _ in found) == sorted(path for _, path in expected)
        paths = {path for path, _ in found}
        assert all(path[:-1] in paths or len(path) == 1 for path in paths)


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 4), st.integers(1, 3), st.integers(1, 12), st.integers(0, 1000), st.sampled_from([1, 2])
)
def test_with_ties_and_zeros_ancestors_are_still_kept(depth, top_k, total, seed, levels):
    draft = TableDraft(4, seed, zeros=0.7, levels=levels)
    growth = draft.grow(dynamic(depth, top_k, total))
    growth.tree.check(4)
    paths = {path for path, _ in nodes(growth)}
    assert len(paths) == len(slow_dynamic(draft, 0, dynamic(depth, top_k, total), 4))
    assert all(path[:-1] in paths or len(path) == 1 for path in paths)


def test_a_draft_that_breaks_down_still_gives_a_tree():
    p = torch.tensor([[0.5, float("nan"), 0.3, 0.2]])
    growth = grow(dynamic(3, 2, 6), p, lambda fed, new: p.unsqueeze(1).expand(-1, new, -1))
    growth.tree.check(4)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 12), st.integers(0, 1000))
def test_a_dynamic_tree_tells_the_draft_which_of_the_rows_it_was_fed_are_in_it(depth, top_k, total, seed):
    draft = TableDraft(5, seed)
    growth = draft.grow(dynamic(depth, top_k, total))
    assert len(draft.fed) == depth - 1  # one draft pass per level below the first
    tokens, parents = growth.tree.by_row()[0].tolist(), growth.tree.parents[0].tolist()
    fed = draft.fed[-1] if draft.fed else None
    for row in range(1, growth.tree.rows):
        at = growth.fed[0, row].item()
        if at >= 0:
            path = prefix(fed.by_row()[0].tolist(), fed.parents[0].tolist(), at)
            assert path == prefix(tokens, parents, row)
        else:
            assert row not in parents  # what has children was fed
    assert growth.fed[0, 0] == 0


def test_a_p_that_rounding_put_above_1_does_not_make_a_child_worth_more_than_its_parent():
    def p(depth):
        return torch.eye(4)[depth].unsqueeze(0) * (1 + 2e-7)

    growth = grow(dynamic(3, 1, 2), p(0), lambda fed, new: p(fed.depth).unsqueeze(1))
    assert growth.tree.tokens.tolist() == [[0, 1]]
    assert growth.tree.parents.tolist() == [[0, 1]]


def test_a_confident_draft_gets_a_deep_tree_and_an_uncertain_one_a_broad_one():
    """Probabilities 0.9, 0.06, 0.04: the chain of four is worth 0.66, more than any second choice (0.06)."""

    def depths(p):
        p = torch.tensor([p])
        growth = grow(dynamic(4, 3, 4), p, lambda fed, new: p.unsqueeze(1).expand(-1, new, -1))
        return growth.tree.depths[0].tolist()[1:]

    assert depths([0.9, 0.06, 0.04]) == [1, 2, 3, 4]
    assert depths([0.4, 0.35, 0.25]) == [1, 1, 1, 2]


# -- no host reads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [
        chain(0),
        chain(3),
        static([2, 2, 2]),
        static([2, 2], rule="top-k"),
        static(parents=[0, 0, 1]),
        dynamic(4, 3, 8),
    ],
)
def test_every_policy_grows_on_tensors_without_values_so_nothing_is_read(policy):
    def step(fed, new):
        assert fed.ancestors.is_meta
        return torch.empty(2, new, 16, device="meta")

    coins = torch.empty(2, policy.coins, dtype=torch.float64, device="meta")
    growth = grow(policy, torch.empty(2, 16, device="meta"), step, coins)
    assert growth.tree.tokens.shape == growth.tree.parents.shape == (2, policy.nodes)
    assert growth.fed.shape == (2, policy.nodes + 1)
    assert growth.tree.tokens.is_meta


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: dynamic(4, 3, 8, rule="sampled"), "exact with the rule 'top-k' only, got 'sampled'"),
        (lambda: Dynamic(4, 3, 8, "sampled"), "exact with the rule 'top-k' only, got 'sampled'"),
        (lambda: dynamic(0, 3, 8), "depth of a dynamic tree is 0"),
        (lambda: dynamic(4, 0, 8), "top_k of a dynamic tree is 0"),
        (lambda: dynamic(4, 3, 0), "total of a dynamic tree is 0"),
        (lambda: static([2, 0]), r"at least 1 child per node, got \[2, 0\]"),
        (lambda: static([2], rule="best"), "the rule of a tree is 'sampled' or 'top-k', got 'best'"),
        (lambda: static(parents=[0, 3, 2]), "row 2 of the policy has row 3 as its parent"),
        (lambda: static(parents=[0, -1]), "row 2 of the policy has no parent"),
        (lambda: static(), "give one of the two"),
        (lambda: static([2], parents=[0]), "give one of the two"),
        (lambda: chain(-1), "a chain has at least 0 drafts, got -1"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_in_one_sentence(make, reason):
    with pytest.raises(SpecdecError, match=reason):
        make()


def test_coins_and_p_of_the_wrong_shape_are_refused():
    p = torch.full((1, 4), 0.25)
    with pytest.raises(SpecdecError, match=r"2 sampled nodes need coins of shape \[1, 2\], got None"):
        grow(chain(2), p, lambda fed, new: p.unsqueeze(1))
    with pytest.raises(SpecdecError, match=r"need coins of shape \[1, 2\], got \[1, 3\]"):
        grow(chain(2), p, lambda fed, new: p.unsqueeze(1), torch.zeros(1, 3))
    with pytest.raises(
        SpecdecError, match=r"step returned p of shape \[1, 4\], but was asked for \[1, 1, 4\]"
    ):
        grow(chain(2), p, lambda fed, new: p, torch.zeros(1, 2, dtype=torch.float64))
    with pytest.raises(SpecdecError, match=r"root_p must be \[B, V\]"):
        grow(chain(2), p[0], lambda fed, new: p)
