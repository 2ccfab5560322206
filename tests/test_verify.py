"""Verification of trees: the scalar rules with the same coins, greedy vectors, faults, no host reads."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tree import parent_lists

from specdec.errors import SpecdecError
from specdec.grow import grow
from specdec.parents import ABSENT
from specdec.policy import chain, dynamic, static
from specdec.sampling import Sampling, probabilities
from specdec.theory import rejection
from specdec.tree import DraftTree
from specdec.verify import raise_faults, verify_tree

VECTORS = json.loads((Path(__file__).parent / "data" / "vectors.json").read_text(encoding="utf-8"))
VOCABULARY = 5
HOT = Sampling(1.0)


@st.composite
def rounds(draw, max_batch=3):
    """Trees whose siblings differ, logits, a p with all tokens, and coins."""
    # few different parents, so that rows have several children
    batch = [
        limit([min(parent, 2) for parent in draw(parent_lists(7))])
        for _ in range(draw(st.integers(1, max_batch)))
    ]
    seed = draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    tokens = [distinct(parents, rng) for parents in batch]
    tree = DraftTree.from_lists(tokens, batch, VOCABULARY)
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(batch), tree.rows, VOCABULARY, generator=generator) * 2
    p = torch.randn(len(batch), tree.rows, VOCABULARY, generator=generator).softmax(-1)
    coins = torch.rand(len(batch), tree.depth * tree.branching + 1, generator=generator, dtype=torch.float64)
    return tree, logits, p, coins


def limit(parents):
    """Nodes whose parent has V children already, or is missing, become absent."""
    kept: list[int] = []
    for parent in parents:
        gone = parent > 0 and kept[parent - 1] == ABSENT
        kept.append(ABSENT if gone or kept.count(parent) == VOCABULARY else parent)
    return kept


def distinct(parents, rng):
    order = {row: rng.permutation(VOCABULARY).tolist() for row in range(len(parents) + 1)}
    return [0 if parent == ABSENT else order[parent].pop() for parent in parents]


def slow_walk(b, tree, q, p, coins):
    """One sequence by rejection.verify_children, row by row: path and token. p None for one-hot."""
    row, path = 0, [0]
    for depth in range(tree.depth + 1):
        children = [r for r in tree.children[b, row].tolist() if r > 0]
        x = [tree.by_row()[b, r].item() for r in children]
        proposals = (
            rejection.one_hot(x, VOCABULARY) if p is None else rejection.without_replacement(p[row], x)
        )
        mine = coins[depth * tree.branching :][: len(x)]
        step = rejection.verify_children(q[row], proposals, x, mine, coins[-1])
        if step.child is None:
            return path, step.token
        row = children[step.child]
        path.append(row)
    raise AssertionError("a tree deeper than its depth")


# -- the rules ---------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(rounds(), st.sampled_from(["sampled", "top-k"]), st.sampled_from([0.5, 1.0, 2.0]))
def test_a_batch_of_trees_decides_as_the_scalar_rule_does_with_the_same_coins(case, rule, temperature):
    tree, logits, p, coins = case
    sampling = Sampling(temperature)
    verdict = verify_tree(logits, tree, sampling, coins, p if rule == "sampled" else None)
    q = (logits.double() / temperature).softmax(-1).numpy()
    p = p.double() / p.double().sum(-1, keepdim=True)
    for b in range(len(logits)):
        path, token = slow_walk(b, tree, q[b], p[b].numpy() if rule == "sampled" else None, coins[b].tolist())
        n = len(path)
        assert verdict.path[b].tolist() == path + path[-1:] * (tree.depth + 1 - n)
        assert verdict.accepted[b] == n - 1
        assert verdict.token[b] == token
        drafts = [tree.by_row()[b, row].item() for row in path[1:]]
        assert verdict.emitted[b].tolist() == [*drafts, token] + [-1] * (tree.depth + 1 - n)
    assert (verdict.bad_logits == -1).all()
    assert (verdict.bad_p == -1).all()


@settings(max_examples=100, deadline=None)
@given(rounds())
def test_greedy_follows_the_most_likely_token_as_long_as_a_child_has_it(case):
    tree, logits, p, coins = case
    best = logits.argmax(-1)
    for given_p in (None, p):
        verdict = verify_tree(logits, tree, Sampling(), coins, given_p)
        for b in range(len(logits)):
            row, expected = 0, []
            while True:
                expected.append(best[b, row].item())
                below = [
                    r for r in tree.children[b, row].tolist() if r and tree.by_row()[b, r] == expected[-1]
                ]
                if not below:
                    break
                row = below[0]
            assert verdict.emitted[b].tolist() == expected + [-1] * (tree.depth + 1 - len(expected))
            assert verdict.path[b, -1] == row


@settings(max_examples=100, deadline=None)
@given(rounds(), st.booleans())
def test_greedy_is_the_limit_of_both_sampling_rules(case, sampled):
    tree, logits, p, coins = case
    greedy = verify_tree(logits, tree, Sampling(), coins)
    cold = verify_tree(logits, tree, Sampling(temperature=1e-6), coins, p if sampled else None)
    assert torch.equal(cold.path, greedy.path)
    assert torch.equal(cold.emitted, greedy.emitted)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 4), st.booleans(), st.integers(0, 3))
def test_a_chain_is_verified_as_by_leviathans_rule_with_the_same_coins(seed, n, sampled, top_k):
    generator = torch.Generator().manual_seed(seed)
    sampling = Sampling(1.0, top_k)
    logits = torch.randn(6, n + 1, VOCABULARY, generator=generator)
    p = torch.randn(6, n, VOCABULARY, generator=generator).softmax(-1)
    drafts = torch.randint(VOCABULARY, (6, n), generator=generator)
    one_hot = torch.nn.functional.one_hot(drafts, VOCABULARY).double()
    coins = torch.rand(6, n + 1, dtype=torch.float64, generator=generator)
    found = verify_tree(logits, DraftTree.chain(drafts), sampling, coins, p if sampled and n else None)
    q = probabilities(logits, sampling).double()
    for b in range(6):
        law = (p if sampled else one_hot)[b].double()
        step = rejection.verify_chain(
            (q[b] / q[b].sum(-1, keepdim=True)).numpy(),
            (law / law.sum(-1, keepdim=True)).numpy(),
            drafts[b].tolist(),
            coins[b, :-1].tolist(),
            float(coins[b, -1]),
        )
        assert found.accepted[b] == step.accepted
        assert found.emitted[b, : step.accepted + 1].tolist() == step.tokens


@settings(max_examples=50, deadline=None)
@given(rounds())
def test_a_sequence_gets_in_a_batch_what_it_gets_alone(case):
    tree, logits, p, coins = case
    together = verify_tree(logits, tree, HOT, coins, p)
    for b in range(len(logits)):
        own = slice(b, b + 1)
        part = DraftTree(tree.tokens[own], tree.parents[own], tree.depth, tree.branching)
        alone = verify_tree(logits[own], part, HOT, coins[own], p[own])
        assert torch.equal(alone.emitted, together.emitted[own])
        assert torch.equal(alone.path, together.path[own])


def test_a_token_that_the_verifier_never_says_is_rejected_by_every_coin_zero_included():
    logits = torch.tensor([[[9.0, 8.0, -1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]])
    tree = DraftTree.from_lists([[2, 1]], [[0, 0]])
    p = torch.tensor([[[0.1, 0.1, 0.8]]])
    for given_p in (None, p):
        verdict = verify_tree(logits, tree, Sampling(1.0, top_k=2), torch.zeros(1, 3).double(), given_p)
        assert verdict.emitted[0, 0] == 1


def test_children_that_cover_all_that_the_verifier_says_are_never_all_rejected():
    """Top-2 leaves q two tokens, both are children: whatever the coins, one of them comes out."""
    logits = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(3))
    x = logits[0, 0].topk(2).indices.tolist()
    tree = DraftTree.from_lists([x], [[0, 0]])
    coins = torch.cartesian_prod(*[torch.tensor([0.0, 0.5, 1 - 2**-53], dtype=torch.float64)] * 3)
    many = DraftTree(tree.tokens.expand(27, -1), tree.parents.expand(27, -1), 1, 2)
    verdict = verify_tree(logits.expand(27, -1, -1), many, Sampling(1.0, top_k=2), coins)
    assert verdict.accepted.tolist() == [1] * 27


@pytest.mark.parametrize("sampled", [False, True])
def test_where_rounding_leaves_a_little_less_than_nothing_the_token_is_still_one_that_the_verifier_says(
    sampled,
):
    """Logits so far apart that sums of q round, children that cover q and more, and the largest coins."""
    batch, covered = 20_000, 4
    logits = torch.randn(batch, 1, 8, generator=torch.Generator().manual_seed(0)) * 12
    q = probabilities(logits[:, 0], Sampling(1.0, top_k=covered))
    x = logits[:, 0].topk(6).indices  # the last two have q = 0
    tree = DraftTree(x, torch.zeros_like(x), depth=1, branching=6)
    coins = torch.full((batch, 7), 1 - 2**-53, dtype=torch.float64)
    p = logits[:, :1].softmax(-1) + 1e-6 if sampled else None
    verdict = verify_tree(logits.expand(-1, 7, -1), tree, Sampling(1.0, top_k=covered), coins, p)
    assert (q.gather(1, verdict.emitted[:, :1]) > 0).all()


# -- the vectors of a serving engine's kernel --------------------------------------------------------------


def from_siblings(next_token, next_sibling):
    """Parents from first-child and next-sibling pointers; node 0 is the newest token, so nodes are rows."""
    parents = [ABSENT] * len(next_token)
    for row, child in enumerate(next_token):
        while child != -1:
            parents[child] = row
            child = next_sibling[child]
    return parents[1:]


def test_a_published_greedy_round_is_reproduced():
    vectors = VECTORS["tree_verify_greedy"]
    nodes, vocabulary = 6, 20
    parents = [
        from_siblings(*links) for links in zip(vectors["next_token"], vectors["next_sibling"], strict=True)
    ]
    tree = DraftTree.from_lists([tokens[1:] for tokens in vectors["candidates"]], parents, vocabulary)
    logits = torch.ones(2, nodes, vocabulary)
    special = {(0, 0): 3, (0, 3): 4, (0, 4): 5, (1, 0): 11, (1, 4): 12}  # as the vectors' text says
    for b in range(2):
        for row in range(nodes):
            logits[b, row, special.get((b, row), 18)] = 10.0
    coins = torch.zeros(2, tree.depth * tree.branching + 1, dtype=torch.float64)
    verdict = verify_tree(logits, tree, Sampling(), coins)
    assert verdict.accepted.tolist() == vectors["accepted"]
    predicts = torch.full((2 * nodes,), -1)
    for b, kept in enumerate(verdict.accepted.tolist()):
        rows = [b * nodes + row for row in verdict.path[b, : kept + 1].tolist()]
        assert rows == [i for i in vectors["accept_index"][b] if i != -1]
        predicts[rows] = verdict.emitted[b, : kept + 1]
    assert predicts.tolist() == vectors["predicts"]


# -- no host reads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", [Sampling(), HOT, Sampling(1.0, 5, 0.9)])
@pytest.mark.parametrize(
    "policy", [chain(0), chain(3), static([2, 2, 2]), static([3, 1], rule="top-k"), dynamic(4, 3, 8)]
)
def test_a_round_runs_on_tensors_without_values_so_nothing_is_read(policy, sampling):
    def empty(*shape, dtype=torch.float32):
        return torch.empty(*shape, dtype=dtype, device="meta")

    coins = empty(2, policy.coins, dtype=torch.float64)
    growth = grow(policy, empty(2, 16), lambda fed, new: empty(2, new, 16), coins)
    tree = growth.tree
    coins = empty(2, tree.depth * tree.branching + 1, dtype=torch.float64)
    verdict = verify_tree(empty(2, tree.rows, 16), tree, sampling, coins, growth.p)
    assert all(x.is_meta for x in verdict)
    assert verdict.path.shape == verdict.emitted.shape == (2, tree.depth + 1)
    assert verdict.accepted.shape == verdict.token.shape == (2,)


# -- faults ------------------------------------------------------------------------------------------------


def chain_round(n=3):
    """Logits for which every coin accepts the chain 1, 1, ...; p says the same."""
    logits = torch.zeros(1, n + 1, 3)
    logits[..., 1] = 30.0
    tree = DraftTree.chain(torch.ones(1, n, dtype=torch.long))
    p = torch.tensor([0.0, 1.0, 0.0]).expand(1, n, 3).clone()
    return logits, tree, torch.full((1, n + 1), 0.5, dtype=torch.float64), p


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("sampling", [Sampling(), HOT, Sampling(1.0, 2, 0.9)])
@pytest.mark.parametrize("row", range(4))
def test_logits_that_are_no_numbers_are_named_by_position_and_give_a_token_of_the_vocabulary(
    value, sampling, row
):
    logits, tree, coins, p = chain_round()
    logits[0, row, 2] = value
    for given_p in (None, p):
        verdict = verify_tree(logits, tree, sampling, coins, given_p)
        assert verdict.bad_logits.tolist() == [row]
        assert 0 <= verdict.token.item() < 3
        with pytest.raises(
            SpecdecError, match=f"logits at position {100 + row} of sequence 0 are NaN or infinite"
        ):
            raise_faults(verdict.bad_logits.tolist(), verdict.bad_p.tolist(), [100])


def test_logits_of_rows_that_no_walk_visits_do_not_matter():
    logits, tree, coins, _ = chain_round()
    logits[0, 1] = torch.tensor([30.0, 0.0, 0.0])  # rejects the second draft
    logits[0, 2:] = float("nan")
    verdict = verify_tree(logits, tree, HOT, coins)
    assert (verdict.accepted.item(), verdict.bad_logits.item()) == (1, -1)


@pytest.mark.parametrize(
    "wrong",
    [
        [0.0, 1.1, 0.0],
        [0.0, 0.9, 0.0],
        [-0.1, 1.1, 0.0],
        [float("nan"), 1.0, 0.0],
        [1.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
    ],
)
@pytest.mark.parametrize("row", range(3))
def test_a_p_that_its_children_cannot_come_from_is_named_by_position(wrong, row):
    logits, tree, coins, p = chain_round()
    p[0, row] = torch.tensor(wrong)
    verdict = verify_tree(logits, tree, HOT, coins, p)
    assert verdict.bad_p.tolist() == [row]
    assert 0 <= verdict.token.item() < 3
    with pytest.raises(
        SpecdecError, match=f"draft's p at position {7 + row} of sequence 0 is not what its children"
    ):
        raise_faults(verdict.bad_logits.tolist(), verdict.bad_p.tolist(), [7])


def test_a_round_without_faults_raises_nothing():
    logits, tree, coins, p = chain_round()
    verdict = verify_tree(logits, tree, HOT, coins, p)
    assert verdict.accepted.item() == 3
    raise_faults(verdict.bad_logits.tolist(), verdict.bad_p.tolist(), [100])


def test_bfloat16_logits_and_probabilities_pass():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 3, 1000, generator=generator).bfloat16()
    p = torch.randn(1, 1, 1000, generator=generator).softmax(-1).bfloat16()
    tree = DraftTree.from_lists([[1, 2]], [[0, 0]])
    verdict = verify_tree(logits, tree, HOT, torch.rand(1, 3, dtype=torch.float64, generator=generator), p)
    assert (verdict.bad_logits.item(), verdict.bad_p.item()) == (-1, -1)


@pytest.mark.parametrize(
    ("logits", "coins", "p", "reason"),
    [
        ((1, 3, 4), (1, 5), None, r"logits has shape \[1, 3, 4\], but 1 trees of 3 nodes"),
        ((2, 4, 4), (1, 5), None, r"logits has shape \[2, 4, 4\]"),
        ((1, 4, 4), (1, 4), None, r"coins has shape \[1, 4\].* need \[1, 5\]"),
        ((1, 4, 4), (1, 5), (1, 5, 4), r"p has shape \[1, 5, 4\].* need \[1, 4, 4\]"),
        ((1, 4, 4), (1, 5), (1, 2, 3), r"p has shape \[1, 2, 3\]"),
        ((4, 4), (1, 5), None, r"logits must be \[B, m \+ 1, V\]"),
    ],
)
def test_shapes_that_do_not_belong_together_are_named(logits, coins, p, reason):
    tree = DraftTree.from_lists([[1, 2, 3]], [[0, 0, 1]])
    with pytest.raises(SpecdecError, match=reason):
        verify_tree(torch.zeros(logits), tree, HOT, torch.zeros(coins), None if p is None else torch.zeros(p))


def test_probabilities_are_made_of_visited_rows_only(monkeypatch):
    """D + 1 rows of m + 1: with top-p a distribution costs more than all else in a round."""
    seen = []

    def counted(logits, sampling):
        seen.append(tuple(logits.shape))
        return probabilities(logits, sampling)

    monkeypatch.setattr("specdec.verify.probabilities", counted)
    tree = DraftTree.from_lists([[1, 2, 1, 2, 1, 2]], [[0, 0, 1, 1, 2, 2]])
    verify_tree(torch.zeros(1, 7, 4), tree, HOT, torch.zeros(1, 5).double())
    assert seen == [(1, 4)] * 3
