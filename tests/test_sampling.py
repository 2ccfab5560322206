"""From logits to the distribution that is sampled, and from a distribution to a token."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec.sampling import Sampling, best_token, draw, nucleus, probabilities

pytestmark = pytest.mark.usefixtures("one_thread")


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


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 4.0]), st.floats(0.01, 0.999))
def test_top_p_of_a_whole_vocabulary_keeps_what_sorting_it_keeps(seed, spread, top_p):
    q = (torch.randn(1, 3000, generator=torch.Generator().manual_seed(seed)) * spread).softmax(-1)
    ordered = q.double().sort(descending=True).values.cumsum(-1)
    enough = int((ordered < top_p * ordered[..., -1]).sum()) + 1
    cut = q.sort(descending=True).values[0, min(enough, 3000) - 1]
    kept = nucleus(q, top_p) > 0
    # Where the running sum meets top_p to the last digits, either of two neighbours may be the last.
    slack = (ordered[0, enough - 1] - top_p).abs() < 1e-7 or (
        enough > 1 and abs(ordered[0, enough - 2] - top_p) < 1e-7
    )
    assert slack or torch.equal(kept, q >= cut)
    assert float(q[kept].sum()) >= top_p - 1e-6


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([256, 512, 1024, 300]), st.booleans())
def test_the_best_token_is_the_first_of_the_largest(seed, vocabulary, rounded):
    scores = torch.randn(2, 3, vocabulary, generator=torch.Generator().manual_seed(seed))
    if rounded:  # many ties
        scores = scores.mul(2).round()
    found = best_token(scores)
    for b, i in itertools.product(range(2), range(3)):
        row = scores[b, i].tolist()
        assert found[b, i] == row.index(max(row))
