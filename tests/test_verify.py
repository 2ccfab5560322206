"""The tensor rule: exact on grids of coins, equal to the scalar rule of the theory, greedy as its limit."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec.sampling import Sampling, draw, nucleus, probabilities
from specdec.theory import rejection
from specdec.verify import accept_chain, accept_greedy, final_weights, verify_chain

pytestmark = pytest.mark.usefixtures("one_thread")


# -- helpers ---------------------------------------------------------------------------------------


def eighths(generator, *shape):
    """Random distributions [*shape, V] of multiples of 1/8: every threshold below is then a fraction."""
    *rows, vocabulary = shape
    picks = torch.randint(vocabulary, (*rows, 8), generator=generator)
    return torch.nn.functional.one_hot(picks, vocabulary).sum(-2).double() / 8


def grid(*sizes):
    """Every combination of coins (i + 1/2) / size, one column per size: [product, len(sizes)]."""
    axes = [(torch.arange(size).double() + 0.5) / size for size in sizes]
    return torch.cartesian_prod(*axes).reshape(-1, len(sizes))


# Thresholds of the acceptance coins are a / b with a <= 8 and b in 1..8; those of the final coin are
# multiples of 1 / Z, Z in 1..8. 840 is divisible by all of them, so a grid of 840 coins splits exactly in the
# proportions of the interval.
FINE = 840


def joint(q, p, one_hot, rule=accept_chain):
    """Exact distribution [V, V] of two tokens: one step with a single draft, completed with q's own.

    q: q[()] [V] and q[x] [V] for each first token x, as a tensor [V + 1, V] (row 0 is the first); p [V].
    """
    vocabulary = len(p)
    total = torch.zeros(vocabulary, vocabulary, dtype=torch.float64)
    coins = grid(FINE, FINE)
    for x in range(vocabulary):
        weight = 1.0 if one_hot and x == p.argmax() else 0.0 if one_hot else p[x].item()
        if weight == 0:
            continue
        rows = torch.stack([q[0], q[1 + x]]).expand(len(coins), 2, vocabulary)
        drafts = torch.full((len(coins), 1), x)
        verdict = rule(rows, drafts, coins, None if one_hot else p.expand(len(coins), 1, vocabulary))
        kept = verdict.accepted == 1
        total[x] += weight * torch.bincount(verdict.token[kept], minlength=vocabulary) / len(coins)
        corrections = torch.bincount(verdict.token[~kept], minlength=vocabulary) / len(coins)
        total += weight * corrections[:, None] * q[1:]
    return total


distributions = st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any)


def normalised(counts):
    array = np.array(counts, dtype=np.float64)
    return array / array.sum(-1, keepdims=True)


# -- exactness -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("one_hot", [False, True])
def test_every_coin_of_a_grid_together_gives_exactly_the_verifiers_distribution(seed, one_hot):
    generator = torch.Generator().manual_seed(seed)
    q, p = eighths(generator, 4, 3), eighths(generator, 3)
    expected = q[0][:, None] * q[1:]
    assert (joint(q, p, one_hot) - expected).abs().sum() / 2 < 1e-12


def test_a_correction_drawn_from_q_is_caught_by_the_same_grid():
    def wrong(q, drafts, coins, p):
        verdict = accept_chain(q, drafts, coins, p)
        return verdict._replace(token=draw(q[torch.arange(len(q)), verdict.accepted], coins[:, -1]))

    generator = torch.Generator().manual_seed(1)
    q, p = eighths(generator, 4, 3), eighths(generator, 3)
    expected = q[0][:, None] * q[1:]
    assert (joint(q, p, False, wrong) - expected).abs().sum() / 2 > 0.05


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(0, 3))
def test_a_batch_of_chains_decides_as_the_scalar_rule_does_with_the_same_coins(data, n):
    batch = 5
    rows = [
        [[data.draw(distributions) for _ in range(n + 1)], [data.draw(distributions) for _ in range(n)]]
        for _ in range(batch)
    ]
    q = np.array([normalised(row[0]) for row in rows])
    p = np.array([normalised(row[1]) for row in rows]).reshape(batch, n, 4)
    coins = np.array([[data.draw(st.floats(0, 0.999)) for _ in range(n + 1)] for _ in range(batch)])
    drafts = np.array(
        [[data.draw(st.sampled_from(np.flatnonzero(p_i).tolist())) for p_i in p_b] for p_b in p], dtype=int
    )
    drafts = drafts.reshape(batch, n)
    verdict = accept_chain(*(torch.from_numpy(x) for x in (q, drafts, coins, p)))
    for b in range(batch):
        step = rejection.verify_chain(q[b], p[b], drafts[b].tolist(), coins[b, :-1].tolist(), coins[b, -1])
        assert verdict.accepted[b] == step.accepted
        assert [*drafts[b][: step.accepted], verdict.token[b]] == step.tokens


@settings(max_examples=100, deadline=None)
@given(distributions, st.integers(0, 3), st.floats(0, 0.999), st.floats(0, 0.999))
def test_no_p_means_a_one_hot_p(counts, x, coin, final):
    q = torch.from_numpy(normalised([counts, counts[::-1]]))[None]
    one_hot = torch.nn.functional.one_hot(torch.tensor([[x]]), 4).double()
    coins, drafts = torch.tensor([[coin, final]], dtype=torch.float64), torch.tensor([[x]])
    assert accept_chain(q, drafts, coins) == accept_chain(q, drafts, coins, one_hot)


def test_a_token_that_the_verifier_never_says_is_rejected_by_every_coin_zero_included():
    q = torch.tensor([[[0.0, 0.4, 0.6], [1.0, 0.0, 0.0]]])
    for p in (None, torch.tensor([[[1.0, 0.0, 0.0]]])):
        verdict = accept_chain(q, torch.tensor([[0]]), torch.zeros(1, 2, dtype=torch.float64), p)
        assert verdict.accepted.item() == 0
        assert verdict.token.item() == 1


def test_where_rounding_leaves_no_residual_the_correction_comes_from_q():
    q = torch.tensor([[0.5, 0.5], [0.5, 0.5]])[None]
    p = q[:, :1] + 1e-8
    weights = final_weights(q, torch.tensor([[0]]), torch.tensor([0]), p)
    assert weights.tolist() == [[0.5, 0.5]]


# -- greedy ----------------------------------------------------------------------------------------


def test_greedy_keeps_drafts_while_each_is_the_most_likely_token():
    best = [3, 1, 2, 0]
    logits = torch.nn.functional.one_hot(torch.tensor([best] * 4), 5).float()
    drafts = torch.tensor([[3, 1, 2], [3, 1, 0], [3, 0, 2], [0, 1, 2]])
    verdict = accept_greedy(logits, drafts)
    assert verdict.accepted.tolist() == [3, 2, 1, 0]
    assert verdict.token.tolist() == [0, 2, 1, 3]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 4))
def test_greedy_is_the_limit_of_the_sampling_rule(seed, n):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(6, n + 1, 4, generator=generator)
    drafts = torch.randint(4, (6, n), generator=generator)
    coins = torch.rand(6, n + 1, dtype=torch.float64, generator=generator)
    greedy = verify_chain(logits, drafts, Sampling(), coins)
    cold = verify_chain(logits, drafts, Sampling(temperature=1e-9), coins)
    one_hot = accept_chain(probabilities(logits, Sampling()), drafts, coins)
    for other in (cold, one_hot):
        assert other.accepted.tolist() == greedy.accepted.tolist()
        assert other.token.tolist() == greedy.token.tolist()


def test_the_rule_runs_on_tensors_without_values_so_it_never_reads_one():
    for sampling in (Sampling(), Sampling(1.0, top_k=5, top_p=0.9), Sampling(1.0, top_p=0.9)):
        verdict = verify_chain(
            torch.empty(2, 4, 16, device="meta"),
            torch.empty(2, 3, dtype=torch.long, device="meta"),
            sampling,
            torch.empty(2, 4, dtype=torch.float64, device="meta"),
            torch.empty(2, 3, 16, device="meta"),
        )
        assert verdict.accepted.shape == verdict.token.shape == (2,)


@pytest.mark.parametrize(
    ("logits", "drafts", "coins", "p", "named"),
    [
        ((1, 3, 4), (1, 3), (1, 4), None, "logits"),
        ((1, 4, 4), (1, 3), (1, 3), None, "coins"),
        ((1, 4, 4), (1, 3), (1, 4), (1, 4, 4), "p has shape"),
        ((4, 4), (3,), (4,), None, "drafts must be"),
    ],
)
def test_shapes_that_do_not_belong_together_are_named(logits, drafts, coins, p, named):
    with pytest.raises(ValueError, match=named):
        verify_chain(
            torch.zeros(logits),
            torch.zeros(drafts, dtype=torch.long),
            Sampling(),
            torch.zeros(coins),
            None if p is None else torch.zeros(p),
        )


# -- sampling --------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1e-38, 1e-8, 0.1, 0.3, 1.0]), min_size=1, max_size=12).filter(any),
    st.sampled_from([0.0, 0.5, 1 - 2**-24, 1 - 2**-53]),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_a_token_of_weight_zero_is_never_drawn_whatever_the_coin(weights, coin, dtype):
    token = draw(torch.tensor([weights], dtype=dtype), torch.tensor([coin], dtype=torch.float64)).item()
    assert weights[token] > 0


def test_every_token_of_a_long_flat_tail_can_be_drawn():
    # Near 1 a float32 CDF moves in steps of 6e-8: of tokens with 1e-8 each, five in six would never come out.
    weights = torch.cat([torch.tensor([1 - 1e-5]), torch.full((1000,), 1e-8)])
    exact = weights.double()
    coins = (exact.cumsum(0) - exact / 2) / exact.sum()
    assert draw(weights.expand(1001, -1), coins).tolist() == list(range(1001))


def slow_probabilities(logits, sampling):
    """Temperature, then top-k, then top-p, one token at a time in float64."""
    order = sorted(range(len(logits)), key=lambda t: -logits[t])
    weights = {t: np.exp((logits[t] - max(logits)) / sampling.temperature) for t in order}
    kept = order[: sampling.top_k] if sampling.top_k else order
    total = sum(weights[t] for t in kept)
    nucleus, mass = [], 0.0
    for t in kept:
        nucleus.append(t)
        mass += weights[t] / total
        if mass >= sampling.top_p < 1:
            break
    total = sum(weights[t] for t in nucleus)
    return [weights[t] / total if t in nucleus else 0.0 for t in range(len(logits))]


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.3, 1.0, 2.0]),
    st.sampled_from([0, 1, 3, 50]),
    st.sampled_from([0.05, 0.5, 0.9, 1.0]),
)
def test_temperature_top_k_and_top_p_agree_with_a_slow_implementation(seed, temperature, top_k, top_p):
    logits = torch.randn(2, 3, 20, generator=torch.Generator().manual_seed(seed)) * 3
    sampling = Sampling(temperature, top_k, top_p)
    q = probabilities(logits, sampling)
    for b, i in itertools.product(range(2), range(3)):
        expected = slow_probabilities(logits[b, i].double().tolist(), sampling)
        assert np.abs(q[b, i].numpy() - expected).max() < 1e-5
        assert (q[b, i] > 0).tolist() == [x > 0 for x in expected]


def test_top_p_keeps_tokens_that_are_exactly_as_likely_as_the_last_one_kept():
    assert nucleus(torch.tensor([0.4, 0.2, 0.2, 0.2]), 0.5).tolist() == pytest.approx([0.4, 0.2, 0.2, 0.2])
    assert nucleus(torch.tensor([0.5, 0.25, 0.25, 0.0]), 0.5).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_a_tiny_temperature_is_greedy_and_not_a_nan():
    q = probabilities(torch.tensor([[1.0, 3.0, 2.0]]) * 1e4, Sampling(temperature=1e-300))
    assert q.tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("top_p", float("nan")),
        ("seed", -1),
        ("seed", 2**63),
    ],
)
def test_a_sampling_value_out_of_range_is_named(field, value):
    with pytest.raises(ValueError, match=f"{field} is {value}"):
        Sampling(**{field: value})
