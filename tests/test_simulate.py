"""The vectorised simulator against the rule coin by coin, against enumeration, and against the clock."""

import time

import numpy as np
import pytest

from specdec.theory import rejection
from specdec.theory.exact import markov_table, verifier_distribution
from specdec.theory.simulate import COIN_STREAM, perturbed_draft, simulate, toy_verifier
from specdec.theory.stats import limits_power, outside

Q = toy_verifier(8)
P = perturbed_draft(Q, 1.0)


def sparse_tables(vocab, seed):
    """A verifier and a draft that exclude many tokens, different ones."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(vocab, 0.3), size=(2, vocab))
    rows[rows < 0.05] = 0.0
    return rows / rows.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("tables", [(Q, P), sparse_tables(5, 0), sparse_tables(3, 1)], ids=["full", "5", "3"])
def test_every_sequence_is_the_rejection_rule_coin_by_coin(n, tables):
    q, p = tables
    sequences, rounds = 50, 6
    simulated = simulate(q, p, n, sequences * rounds, seed=3, rounds=rounds, start=1)

    rng = np.random.default_rng((3, COIN_STREAM))
    expected = [[1] for _ in range(sequences)]
    for r in range(rounds):
        coins = rng.random((2 * n + 1, sequences))
        for s, tokens in enumerate(expected):
            context, drafts = [tokens[-1]], []
            for i in range(n):
                drafts.append(rejection.draw(p[context[-1]], coins[2 * i, s]))
                context.append(drafts[-1])
            step = rejection.verify_chain(q[context], p[context[:-1]], drafts, coins[1::2, s], coins[-1, s])
            tokens += step.tokens
            assert simulated.ledger.accepted[r, s] == step.accepted
    for s, tokens in enumerate(expected):
        assert simulated.tokens[s, : simulated.length[s]].tolist() == tokens


@pytest.mark.parametrize("n", [0, 1, 5])
def test_first_tokens_and_pairs_are_distributed_as_the_verifiers_own(n):
    simulated = simulate(Q, P, n, steps=100_000, seed=1, rounds=2)
    assert outside(simulated.first_counts, Q[0]).size == 0
    assert outside(simulated.pair_counts, verifier_distribution(markov_table(Q, 0, 2))).size == 0


def test_the_sample_is_large_enough_to_notice_a_draft_that_is_close():
    close = perturbed_draft(Q, 0.2)
    assert limits_power(50_000, Q[0], close[0]) > 1 - 1e-6


@pytest.mark.parametrize("amplitude", [0.3, 1.5])
def test_acceptance_per_position_is_that_of_the_exact_recursion(amplitude):
    """The chance to keep i + 1 drafts is that of i, carried through min(p, q) from token to token."""
    p, n, steps = perturbed_draft(Q, amplitude), 5, 200_000
    carried, reach = np.eye(8)[0], [1.0]
    for _ in range(n):
        carried = carried @ np.minimum(p, Q)
        reach.append(carried.sum())
    simulated = simulate(Q, p, n, steps, seed=2)
    for i in range(1, n + 1):
        kept = np.count_nonzero(simulated.ledger.accepted >= i)
        assert outside([kept, steps - kept], [reach[i], 1 - reach[i]]).size == 0
    np.testing.assert_allclose(simulated.acceptance, np.divide(reach[1:], reach[:-1]), atol=0.01)
    assert simulated.tokens_per_call == pytest.approx(sum(reach), abs=0.02)
    assert simulated.calls == steps


def test_pooled_alpha_is_accepted_over_reached():
    simulated = simulate(Q, P, 3, 2000, seed=4)
    accepted = simulated.ledger.accepted.ravel().tolist()
    assert simulated.alpha == sum(accepted) / sum(min(a + 1, 3) for a in accepted)
    assert np.isnan(simulate(Q, P, 0, 10).alpha)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_one_position_fewer_than_tokens_is_cached_after_every_round(n):
    simulated = simulate(Q, P, n, steps=10_000, seed=5, rounds=50)
    ledger = simulated.ledger
    assert ledger.tokens.shape == (50, 200)
    assert (ledger.cached == ledger.tokens - 1).all()
    assert ledger.holds()
    before = np.vstack([np.zeros((1, 200), dtype=int), ledger.cached[:-1]])
    assert (ledger.written == before + n + 1).all()
    assert (ledger.written - ledger.cached == n - ledger.accepted).all()


def test_a_ledger_that_caches_the_newest_token_does_not_hold():
    ledger = simulate(Q, P, 3, 10).ledger
    assert not ledger._replace(cached=ledger.cached + 1).holds()


def test_the_cache_holds_the_tokens_of_the_sequence_up_to_the_newest():
    simulated = simulate(Q, P, 4, steps=5000, seed=6, rounds=50)
    assert simulated.cache_is_valid()
    one_more = simulated.ledger._replace(cached=simulated.ledger.cached + 1)
    assert not simulated._replace(ledger=one_more).cache_is_valid()


def test_a_perfect_draft_is_always_accepted_and_a_disjoint_one_never():
    assert simulate(Q, Q, 5, 1000).tokens_per_call == 6.0
    never = simulate([[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]], 5, 1000)
    assert never.tokens_per_call == 1.0
    assert never.first_counts.tolist() == [1000, 0]
    assert np.isnan(never.acceptance[1:]).all()


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    first, again, other = (simulate(Q, P, 5, 1000, seed=s).tokens for s in (8, 8, 9))
    assert (first == again).all()
    assert (first != other).any()


def test_a_larger_amplitude_makes_a_worse_draft():
    rates = [
        rejection.acceptance_rate(Q[0], perturbed_draft(Q, a)[0]) for a in (0.0, 0.3, 0.6, 1.0, 1.5, 2.5)
    ]
    assert rates[0] == pytest.approx(1.0)
    assert (np.diff(rates) < 0).all()


def test_a_draft_made_from_a_verifier_with_impossible_tokens_keeps_them_impossible():
    draft = perturbed_draft([[0.5, 0.5, 0.0]] * 3, 1.0)
    assert (draft[:, 2] == 0).all()
    np.testing.assert_allclose(draft.sum(axis=1), 1)


def test_fifty_thousand_steps_of_five_drafts_take_less_than_three_tenths_of_a_second():
    seconds = []
    for _ in range(3):
        started = time.process_time()
        simulate(Q, P, 5, 50_000)
        seconds.append(time.process_time() - started)
    assert min(seconds) < 0.3


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((Q, Q[:4, :4] / Q[:4, :4].sum(1, keepdims=True), 5, 100), "one vocabulary, got 8 and 4"),
        ((Q[0], P, 5, 100), r"q must be a table \[V, V\], one row per last token, got shape \(8,\)"),
        ((Q, 2 * P, 5, 100), r"p\[0\] sums to 2"),
        ((Q, P, -1, 100), "N must be at least 0"),
        ((Q, P, 5, 0), "steps a multiple of rounds, got N = 5, 0 steps"),
        ((Q, P, 5, 100, 0, 3), "steps a multiple of rounds"),
        ((Q, P, 5, 100, 0, 1, 8), r"start is token 8, outside the vocabulary 0\.\.7"),
    ],
)
def test_what_cannot_be_simulated_is_refused(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        simulate(*arguments)


def test_pairs_need_two_rounds():
    with pytest.raises(ValueError, match="at least rounds=2"):
        _ = simulate(Q, P, 2, 1000).pair_counts
