"""Rules for whole trees in the theory: the exact ones are exact, the wrong ones have a distance."""

from functools import partial

import numpy as np
import pytest

from specdec.theory import exact, trees

SEEDS = range(20)


def random_pair(vocab, n, seed):
    rng = np.random.default_rng(seed)
    return exact.random_table(vocab, n + 1, rng), exact.random_table(vocab, n, rng)


@pytest.mark.parametrize(
    "children", [exact.sampled_children, exact.top_k_children], ids=lambda rule: rule.__name__
)
@pytest.mark.parametrize("branching", [[1], [3], [2, 2], [3, 1, 2], [2, 2, 2]], ids=str)
def test_a_tree_is_exact_when_the_rule_for_its_children_is(branching, children):
    q, p = random_pair(4, len(branching), seed=1)
    rule = partial(trees.level_by_level, branching=branching, children=children)
    assert exact.distance(q, p, rule) < 1e-12


def test_a_tree_with_one_child_per_node_is_a_chain():
    q, p = random_pair(3, 3, seed=2)
    rule = partial(trees.level_by_level, branching=[1, 1, 1])
    np.testing.assert_allclose(
        exact.chain_distribution(q, p, rule), exact.chain_distribution(q, p), atol=1e-15
    )


def test_a_node_gets_no_more_children_than_p_has_tokens():
    q, _ = random_pair(3, 2, seed=3)
    p = [np.array([0.0, 1.0, 0.0]), np.tile([0.5, 0.0, 0.5], (3, 1))]
    assert exact.distance(q, p, partial(trees.level_by_level, branching=[3, 3])) < 1e-12


DISTANCES = {  # all of 20 random [2, 2] trees, V = 3, lie between these
    partial(trees.best_accepted_path, branching=[2, 2]): (0.05, 0.5),
    partial(trees.level_by_level, branching=[2, 2], children=trees.same_q_for_siblings): (0.01, 0.3),
    partial(trees.level_by_level, branching=[2, 2], children=trees.top_k_as_if_sampled): (0.05, 0.7),
    partial(trees.level_by_level, branching=[2, 2], children=exact.top_k_children_softmax_p): (0.05, 0.8),
}


@pytest.mark.parametrize(
    "rule", DISTANCES, ids=lambda rule: rule.keywords.get("children", rule.func).__name__
)
def test_a_wrong_tree_rule_is_told_from_an_exact_one_by_its_distance(rule):
    distances = [exact.distance(*random_pair(3, 2, seed), rule) for seed in SEEDS]
    lowest, highest = DISTANCES[rule]
    assert lowest < min(distances)
    assert max(distances) < highest


def test_siblings_checked_against_the_same_q_worked_by_hand():
    """q = (2/3, 1/3, 0), p uniform, k = 2. First child 0 or 1: accepted surely. First child 2: never; the
    second is 0, accepted surely, or 1, accepted with (1/3) / (1/2) = 2/3, else the residual says 0. Token 1
    comes out with 1/3 + 1/3 * 1/2 * 2/3 = 4/9 instead of 1/3."""
    q = [2 / 3, 1 / 3, 0.0]
    law = exact.children_distribution(q, [1 / 3] * 3, 2, trees.same_q_for_siblings)
    assert law == pytest.approx([5 / 9, 4 / 9, 0.0], abs=1e-15)


def test_the_best_of_two_accepted_paths_worked_by_hand():
    """q = p = (3/4, 1/4), k = 2: both tokens are drawn. 0 first (3/4) is accepted surely and wins. 1 first is
    accepted surely, 0 then with 3/4, and wins. So 0 comes out with 3/4 + 1/4 * 3/4 = 15/16 instead of 3/4."""
    q, p = [np.array([0.75, 0.25]), np.full((2, 2), 0.5)], [np.array([0.75, 0.25])]
    for branching, distance in (([1], 0.0), ([2], 3 / 16)):
        rule = partial(trees.best_accepted_path, branching=branching)
        assert exact.distance(q, p, rule) == pytest.approx(distance, abs=1e-15)
