"""The rejection rule: one token, one chain, the children of one node."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec.theory import rejection
from specdec.theory.rejection import accept, acceptance_rate, check_distribution, draw, residual

LAST_COIN = np.nextafter(1.0, 0.0)
coins = st.floats(0, 1, exclude_max=True)


@st.composite
def distributions(draw_value, count=1, min_size=1, max_size=8):
    """`count` distributions over one vocabulary, zeros included."""
    size = draw_value(st.integers(min_size, max_size))
    weights = st.lists(st.integers(0, 100), min_size=size, max_size=size).filter(any)
    return [np.array(w) / sum(w) for w in (draw_value(weights) for _ in range(count))]


# -- one token ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ([0.5, 0.6], "q sums to 1.1"),
        ([1.5, -0.5], "q is negative at token 1: -0.5"),
        ([0.5, float("nan")], "q is NaN or infinite at token 1"),
        ([[0.5, 0.5]], r"got shape \(1, 2\)"),
        ([], r"got shape \(0,\)"),
        (1.0, r"got shape \(\)"),
        ("even", "got 'even'"),
    ],
)
def test_what_is_not_a_distribution_is_named(bad, reason):
    with pytest.raises(ValueError, match=reason):
        check_distribution(bad, "q")


def test_a_distribution_off_by_float32_rounding_passes():
    row = np.full(3, 1 / 3, dtype=np.float32)
    assert check_distribution(row).dtype == np.float64


def test_acceptance_is_strict_at_the_ratio():
    assert not accept(0.25, 0.5, 0.5)
    assert accept(0.25, 0.5, np.nextafter(0.5, 0.0))


@pytest.mark.parametrize("u", [0.0, 0.5, LAST_COIN])
def test_a_token_the_verifier_never_says_is_rejected_by_every_coin(u):
    assert not accept(0.0, 0.3, u)
    assert not accept(0.0, 0.0, u)


@given(q_x=st.floats(0.0, 1.0), p_x=st.floats(0.0, 1.0), u=coins)
def test_a_token_the_verifier_likes_at_least_as_much_is_always_accepted(q_x, p_x, u):
    q_x, p_x = max(q_x, p_x), min(q_x, p_x)
    assert accept(q_x, p_x, u) == (q_x > 0)


@pytest.mark.parametrize("u", [-0.1, 1.0, float("nan")])
def test_a_coin_outside_the_half_open_unit_interval_is_refused(u):
    with pytest.raises(ValueError, match="a coin must lie in"):
        accept(0.5, 0.5, u)
    with pytest.raises(ValueError, match="a coin must lie in"):
        draw([0.5, 0.5], u)


def test_a_probability_above_one_is_refused():
    with pytest.raises(ValueError, match="q_x must be a probability"):
        accept(1.5, 0.5, 0.1)


def test_residual_of_a_small_case_worked_by_hand():
    assert residual([0.5, 0.3, 0.2], [0.2, 0.6, 0.2]).tolist() == [1.0, 0.0, 0.0]
    np.testing.assert_allclose(residual([0.6, 0.3, 0.1], [0.2, 0.1, 0.7]), [2 / 3, 1 / 3, 0.0])


def test_residual_is_q_itself_where_q_equals_p():
    q = np.array([0.1, 0.2, 0.7])
    out = residual(q, q)
    assert out.tolist() == q.tolist()
    out[0] = 9.0
    assert q[0] == 0.1


@given(distributions(count=2))
def test_accepted_mass_and_residual_add_up_to_q(pair):
    """The theorem for one token: min(p, q) + (1 - alpha) residual = q."""
    q, p = pair
    np.testing.assert_allclose(
        np.minimum(p, q) + (1 - acceptance_rate(q, p)) * residual(q, p), q, rtol=0, atol=1e-15
    )


@given(distributions(count=2))
def test_acceptance_rate_is_one_minus_the_total_variation(pair):
    q, p = pair
    assert acceptance_rate(q, p) == pytest.approx(1 - sum(abs(q - p)) / 2, abs=1e-12)


def test_distributions_of_different_size_are_refused():
    with pytest.raises(ValueError, match="one vocabulary, got 2 and 3"):
        residual([0.5, 0.5], [0.2, 0.3, 0.5])


def test_draw_gives_every_token_exactly_its_share_of_the_coins():
    picks = [draw([0.25, 0.0, 0.5, 0.25], k / 8) for k in range(8)]
    assert picks == [0, 0, 2, 2, 2, 2, 3, 3]


@given(distributions(), coins)
def test_draw_never_returns_a_token_of_probability_zero(row, u):
    (p,) = row
    for coin in (u, 0.0, LAST_COIN):
        assert p[draw(p, coin)] > 0


# -- one chain ---------------------------------------------------------------------------------------------

Q = [[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.0, 0.0, 1.0]]
P = [[0.25, 0.6, 0.15], [0.4, 0.4, 0.2]]


def test_a_chain_that_is_accepted_in_full_ends_with_a_bonus_from_the_row_after_it():
    step = rejection.verify_chain(Q, P, [0, 1], [LAST_COIN, LAST_COIN], 0.0)
    assert step == ([0, 1, 2], 2, "bonus")


def test_a_chain_stops_at_its_first_rejection_and_corrects_from_the_residual():
    # q/p of token 1 is 0.5; the residual of row 0 is (0.25, 0, 0.05) / 0.3; draft 1 would have been accepted
    assert rejection.verify_chain(Q, P, [1, 1], [0.5, 0.0], 0.83) == ([0], 0, "correction")
    assert rejection.verify_chain(Q, P, [1, 1], [0.5, 0.0], 0.84) == ([2], 0, "correction")
    # row 1: q/p of token 0 is 0.25, the residual is all on token 1
    assert rejection.verify_chain(Q, P, [0, 0], [0.0, 0.25], 0.99) == ([0, 1], 1, "correction")


def test_a_chain_without_drafts_is_plain_decoding():
    assert rejection.verify_chain(Q[:1], [], [], [], 0.6) == ([1], 0, "bonus")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            (Q[:2], P, [0, 1], [0.1, 0.1], 0.1),
            "2 drafts need 3 rows of q, 2 rows of p and 2 coins, got 2,",
        ),
        ((Q, P, [0, 3], [0.1, 0.1], 0.1), r"draft 1 is token 3, outside the vocabulary 0\.\.2"),
        ((Q, P, [-1, 0], [0.1, 0.1], 0.1), "draft 0 is token -1, outside"),
        ((Q, [[1, 0, 0], P[1]], [1, 0], [0.1, 0.1], 0.1), "draft 0 is token 1, which its p never proposes"),
        ((Q, [[1, 1, 0], P[1]], [1, 0], [0.1, 0.1], 0.1), r"p\[0\] sums to 2"),
        ((1.0, P, [0, 0], [0.1, 0.1], 0.1), "q must hold one row of probabilities per position"),
    ],
)
def test_a_malformed_chain_is_refused_in_one_sentence(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        rejection.verify_chain(*arguments)


def pieces(*breakpoints):
    """(length, midpoint) of the intervals that cut [0, 1) at the breakpoints, but for slivers of rounding."""
    cuts = np.unique(np.clip(np.concatenate([[0.0, 1.0], *breakpoints]), 0, 1))
    return [(b - a, (a + b) / 2) for a, b in itertools.pairwise(cuts) if b - a > 1e-15]


@pytest.mark.parametrize("seed", range(5))
def test_the_chain_integrated_over_all_coins_is_the_product_of_q(seed):
    """Coins only matter at q/p and at cumulative sums: between these the outcome is constant, so the integral
    over [0, 1)^3 is a finite sum. Emitted prefixes are completed with q."""
    rng, vocab = np.random.default_rng(seed), 3
    q0, p0 = rng.dirichlet(np.ones(vocab), 2)
    q1, p1 = rng.dirichlet(np.ones(vocab), (2, vocab))  # after each first token
    q2 = rng.dirichlet(np.ones(vocab), (vocab, vocab))  # after each pair
    joint = np.zeros((vocab, vocab, vocab))
    for x, y in itertools.product(range(vocab), repeat=2):
        q, p = np.array([q0, q1[x], q2[x, y]]), np.array([p0, p1[x]])
        owed = [np.maximum(q[i] - p[i], 0) for i in range(2)]
        ends = [np.cumsum(row / row.sum()) for row in (*owed, *q)]
        for (a, u), (b, v), (c, w) in itertools.product(
            pieces([q0[x] / p0[x]]), pieces([q1[x, y] / p1[x, y]]), pieces(*ends)
        ):
            share = p0[x] * p1[x, y] * a * b * c
            match rejection.verify_chain(q, p, [x, y], [u, v], w).tokens:
                case [i]:
                    joint[i] += share * q1[i][:, None] * q2[i]
                case [i, j]:
                    joint[i, j] += share * q2[i, j]
                case [i, j, k]:
                    joint[i, j, k] += share
    np.testing.assert_allclose(joint, q0[:, None, None] * q1[:, :, None] * q2, rtol=0, atol=1e-12)


# -- the children of one node ------------------------------------------------------------------------------


def integrated_over_coins(q, p_rows, children):
    """Distribution of the token that verify_children emits for given children, over all its coins."""
    emitted, owed, shares = np.zeros(q.size), q, []
    for x, p in zip(children, p_rows, strict=True):
        shares.append(pieces([owed[x] / p[x]]))
        left = np.maximum(owed - p, 0)
        owed = left / left.sum() if left.sum() > 0 else owed
    for *coin_pieces, (last, w) in itertools.product(*shares, pieces(np.cumsum(owed))):
        share = last * np.prod([length for length, _ in coin_pieces])
        step = rejection.verify_children(q, p_rows, children, [u for _, u in coin_pieces], w)
        assert step.child is None or children[step.child] == step.token
        emitted[step.token] += share
    return emitted


@pytest.mark.parametrize("seed", range(5))
def test_children_sampled_without_replacement_leave_q_unchanged(seed):
    q, p = np.random.default_rng(seed).dirichlet(np.ones(4), 2)
    emitted = np.zeros(4)
    for children in itertools.permutations(range(4), 3):
        rows = rejection.without_replacement(p, children)
        drawn = np.prod([row[x] for row, x in zip(rows, children, strict=True)])
        emitted += drawn * integrated_over_coins(q, rows, children)
    np.testing.assert_allclose(emitted, q, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_top_k_children_leave_q_unchanged(seed):
    q, p = np.random.default_rng(seed).dirichlet(np.ones(4), 2)
    children = np.argsort(-p)[:3].tolist()
    emitted = integrated_over_coins(q, rejection.one_hot(children, 4), children)
    np.testing.assert_allclose(emitted, q, rtol=0, atol=1e-12)


def test_without_replacement_renormalises_what_is_left():
    rows = rejection.without_replacement([0.5, 0.3, 0.2], [0, 2])
    np.testing.assert_allclose(rows, [[0.5, 0.3, 0.2], [0.0, 0.6, 0.4]])


def test_a_child_drawn_twice_or_never_drawable_is_refused():
    with pytest.raises(ValueError, match="child 1 is token 0, which its p never proposes"):
        rejection.without_replacement([0.5, 0.5, 0.0], [0, 0])
    with pytest.raises(ValueError, match="child 0 is token 2, which its p never proposes"):
        rejection.without_replacement([0.5, 0.5, 0.0], [2])
    with pytest.raises(ValueError, match=r"child 0 is token 3, outside the vocabulary 0\.\.2"):
        rejection.one_hot([3], 3)


def test_a_node_without_children_draws_from_q():
    assert rejection.verify_children([0.5, 0.5], np.empty((0, 2)), [], [], 0.7) == (1, None)


def test_children_rows_and_coins_must_match():
    with pytest.raises(ValueError, match="2 children need 2 rows of p and 2 coins, got 2 and 1"):
        rejection.verify_children([0.5, 0.5], rejection.one_hot([0, 1], 2), [0, 1], [0.5], 0.5)
