"""The output distribution of the tensor code, by enumeration: exact where it should be, and only there."""

from functools import partial

import numpy as np
import pytest
import torch

from specdec.enumerate_tree import World, enumerate_tree, exact_probabilities, random_world
from specdec.parents import ABSENT
from specdec.policy import chain, dynamic, static
from specdec.sampling import Sampling, draw, probabilities
from specdec.theory import exact, trees
from specdec.theory.stats import total_variation
from specdec.tree import DraftTree
from specdec.verify import verify_tree

EXACT = 1e-6  # float32 probabilities
PLAIN = Sampling(1.0)
SAMPLINGS = [
    Sampling(0.5),
    PLAIN,
    Sampling(2.0),
    Sampling(0.5, top_k=3),
    Sampling(1.0, top_p=0.8),
    Sampling(2.0, top_k=3, top_p=0.7),
]


def is_exact(found):
    return found.distance < EXACT and found.torn < 1e-12 and np.abs(found.volume - 1).max() < 1e-12


# -- exact -------------------------------------------------------------------------------------------------

POLICIES = {
    "chain": chain(3),
    "chain, top-k": chain(3, "top-k"),
    "[2, 2, 2]": static([2, 2, 2]),
    "[2, 2, 2], top-k": static([2, 2, 2], rule="top-k"),
    "[4, 1, 2]": static([4, 1, 2]),
    "uneven": static(parents=[0, 0, 0, 1, 1, 2, 4, 4]),
    "uneven, top-k": static(parents=[0, 0, 0, 1, 1, 2, 4, 4], rule="top-k"),
    "dynamic": dynamic(3, 3, 8),
    "dynamic, deep and narrow": dynamic(4, 2, 6),
    "nothing": chain(0),
}


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_emits_the_verifiers_own_joint_distribution(name, sampling):
    policy = POLICIES[name]
    found = enumerate_tree(random_world(4, 4, policy.depth, 0, sampling), policy)
    assert is_exact(found)
    assert found.boxes >= 4


@pytest.mark.parametrize("vocabulary", [2, 3, 4, 5])
def test_all_coins_of_a_2_2_tree_give_what_the_coins_of_the_visited_paths_give(vocabulary):
    world = random_world(1, vocabulary, 2, vocabulary, PLAIN)
    whole = enumerate_tree(world, static([2, 2]), whole=True)
    visited = enumerate_tree(world, static([2, 2]))
    assert is_exact(whole)
    assert is_exact(visited)
    assert total_variation(whole.joint[0], visited.joint[0]) < 1e-12
    assert whole.boxes > visited.boxes


@pytest.mark.parametrize("sampling", SAMPLINGS[3:], ids=str)
def test_all_coins_of_a_2_2_tree_are_exact_where_top_k_and_top_p_leave_fewer_tokens_than_children(sampling):
    assert is_exact(enumerate_tree(random_world(3, 4, 2, 1, sampling), static([2, 2]), whole=True))


def test_all_coins_of_a_2_2_2_tree_over_3_tokens_are_exact():
    found = enumerate_tree(random_world(1, 3, 3, 0, PLAIN), static([2, 2, 2]), whole=True, both_corners=False)
    assert is_exact(found)
    assert found.boxes > 1_000_000


def test_a_draft_that_agrees_with_the_verifier_is_exact_and_one_that_never_does_too():
    world = random_world(2, 4, 2, 0, PLAIN)
    for p in (world.q, -10 * world.q):
        for policy in (static([2, 2]), static([2, 2], rule="top-k"), dynamic(2, 2, 4)):
            assert is_exact(enumerate_tree(World(world.q, p, 2, PLAIN), policy))


def test_a_draft_with_a_reduced_vocabulary_is_exact():
    world = random_world(3, 5, 2, 0, PLAIN)
    p = world.p.clone()
    p[:, [1, 4]] = -1e9
    assert probabilities(p, PLAIN)[:, [1, 4]].abs().max() == 0
    for policy in (static([4, 2]), static([4, 2], rule="top-k"), dynamic(2, 4, 7)):
        assert is_exact(enumerate_tree(World(world.q, p, 3, PLAIN), policy))


def test_the_enumeration_judges_by_probabilities_of_its_own():
    """Worked by hand: logits log(4, 2, 1, 1) at T = 1; top-3 leaves 4:2:1, top-p 0.8 of it two tokens."""
    logits = np.log(np.array([[4.0, 2.0, 1.0, 1.0]]))
    assert exact_probabilities(logits, PLAIN)[0] == pytest.approx([1 / 2, 1 / 4, 1 / 8, 1 / 8])
    assert exact_probabilities(logits, Sampling(1.0, 3))[0] == pytest.approx([4 / 7, 2 / 7, 1 / 7, 0])
    assert exact_probabilities(logits, Sampling(1.0, 3, 0.8))[0] == pytest.approx([2 / 3, 1 / 3, 0, 0])
    assert exact_probabilities(logits, Sampling(0.5))[0] == pytest.approx([16 / 22, 4 / 22, 1 / 22, 1 / 22])


def test_rule_b_is_exact_for_any_tree_sampled_or_pruned_by_what_was_sampled_too():
    """It takes the children as given, and so is exact whatever gave them; but it accepts fewer of them."""
    world = random_world(2, 4, 2, 0, PLAIN)
    for prune in (partial(keep_likeliest, 3), partial(keep_likeliest, 6)):
        assert is_exact(enumerate_tree(world, static([2, 2]), whole=True, verified="top-k", prune=prune))


# -- not exact ---------------------------------------------------------------------------------------------


def keep_likeliest(n, growth):
    """EAGLE-2's choice applied to sampled nodes: the n most probable of the drawn nodes stay."""
    tree, tokens = growth.tree, growth.tree.by_row()
    value = torch.zeros(tokens.shape, dtype=torch.float64)
    for row in range(1, tree.rows):
        parent = tree.up[:, row]
        p = growth.p[torch.arange(len(tokens)), parent.clamp(max=growth.p.shape[1] - 1)]
        own = p.double().gather(1, tokens[:, row : row + 1]).squeeze(1).log()
        value[:, row] = (value.gather(1, parent.unsqueeze(1)).squeeze(1) + own).where(
            tree.present[:, row], -torch.inf
        )
    kept = value[:, 1:].sort(dim=1, descending=True, stable=True).indices[:, :n]
    stays = torch.zeros_like(tree.parents, dtype=torch.bool).scatter(1, kept, True)
    return DraftTree(
        tree.tokens.where(stays, 0), tree.parents.where(stays, ABSENT), tree.depth, tree.branching
    )


@pytest.mark.parametrize(("policy", "n"), [(static([3]), 1), (static([3]), 2), (static([2, 2]), 3)])
def test_a_tree_pruned_by_the_values_of_sampled_tokens_is_not_exact(policy, n):
    world = random_world(5, 4, policy.depth, 0, PLAIN)
    found = enumerate_tree(world, policy, whole=True, prune=partial(keep_likeliest, n))
    assert found.torn < 1e-12  # the boxes are right, the distribution is not
    assert found.distances.max() > 0.05
    assert found.distances.min() > 0.01
    assert is_exact(enumerate_tree(world, policy, whole=True, prune=partial(keep_likeliest, policy.nodes)))


def test_most_likely_children_verified_as_if_they_had_been_sampled_are_not_exact():
    world = random_world(20, 4, 2, 0, PLAIN)
    found = enumerate_tree(world, static([2, 2], rule="top-k"), verified="sampled")
    assert found.torn < 1e-12
    assert found.distances.max() > 0.3


def test_an_implementation_that_strays_from_its_rule_shows_in_the_distance():
    """The correction drawn from q instead of from what is owed: caught at both corners and at one."""

    def wrong(logits, tree, sampling, coins, p):
        verdict = verify_tree(logits, tree, sampling, coins, p)
        q = probabilities(logits[torch.arange(len(logits)), verdict.path[:, -1]], sampling)
        place = verdict.accepted.unsqueeze(1)
        return verdict._replace(
            emitted=verdict.emitted.scatter(1, place, draw(q, coins[:, -1:].squeeze(1)).unsqueeze(1))
        )

    for both in (True, False):
        found = enumerate_tree(random_world(5, 4, 1, 0, PLAIN), static([2]), verify=wrong, both_corners=both)
        assert found.distance > 0.1


# -- the published distances -------------------------------------------------------------------------------


def published_world():
    """The 200 random (p, q) over 5 tokens of test_exact.py; what follows a first token does not matter."""
    rng = np.random.default_rng(0)
    q, p = np.stack([rng.dirichlet(np.ones(5), size=2) for _ in range(200)], axis=1)
    rest = np.full((1000, 5), 0.2)
    tables = [torch.from_numpy(np.log(np.concatenate([rows, rest]))).float() for rows in (q, p)]
    return World(*tables, 200, PLAIN), q, p


def test_three_children_of_one_node_have_the_published_distances():
    """Both exact rules: 0 (in float64 3e-16 and 2e-16). Top-k children as if sampled: theory's distance."""
    world, q, p = published_world()
    assert is_exact(enumerate_tree(world, static([3])))
    assert is_exact(enumerate_tree(world, static([3], rule="top-k")))
    wrong = enumerate_tree(world, static([3], rule="top-k"), verified="sampled")
    expected = [
        total_variation(exact.children_distribution(q_i, p_i, 3, trees.top_k_as_if_sampled), q_i)
        for q_i, p_i in zip(q, p, strict=True)
    ]
    np.testing.assert_allclose(wrong.distances, expected, atol=1e-6)
    assert wrong.distances.max() > 0.6
