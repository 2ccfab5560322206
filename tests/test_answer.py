"""Answers in batches: each row as if alone, whatever ends beside it, and drawn from the right softmax."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_verifier import tiny_verifier

from specdec.errors import SpecdecError
from specdec.train import answer as module
from specdec.train.answer import answer, narrowed, prefill, sample

VOCABULARY, END = 16, 3

pytestmark = pytest.mark.usefixtures("one_thread")


def slow_token(logits, temperature, coin):
    """Inverse CDF over the whole vocabulary, in float64; also how near the coin is to an edge of the CDF."""
    logits = np.asarray(logits, np.float64)
    if temperature == 0:
        return int(logits.argmax()), 1.0
    weights = np.exp((logits - logits.max()) / temperature)
    cdf = weights.cumsum() / weights.sum()
    return int(np.searchsorted(cdf, coin, side="right")), float(np.abs(cdf - coin).min())


def slow_answer(verifier, prompt, temperature, coins, eos_ids):
    """One prompt alone, without a cache."""
    tokens = list(prompt)
    for coin in coins:
        logits = verifier.forward(torch.tensor([tokens]), logits_from=-1).logits[0, -1]
        tokens.append(slow_token(logits, temperature, float(coin))[0])
        if tokens[-1] in eos_ids:
            break
    return tokens[len(prompt) :]


# -- drawing -----------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 1100), st.integers(0, 10**6), st.sampled_from([0.0, 0.05, 0.7, 1.0]), st.floats(0.1, 8))
def test_a_token_is_the_one_at_the_coin_in_the_running_sum_of_the_softmax(size, seed, temperature, spread):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(4, size, generator=generator) * spread
    coins = torch.rand(4, dtype=torch.float64, generator=generator)
    found = sample(logits.clone(), torch.full((4,), temperature), coins)
    for row in range(4):
        token, margin = slow_token(logits[row], temperature, float(coins[row]))
        assert found[row] == token or margin < 1e-6


def test_rows_may_have_different_temperatures():
    logits = torch.tensor([[0.0, 1.0, 0.5]]).repeat(3, 1)
    coins = torch.tensor([0.01, 0.01, 0.99], dtype=torch.float64)
    assert sample(logits, torch.tensor([0.0, 1.0, 1.0]), coins).tolist() == [1, 0, 2]


@pytest.mark.parametrize("coin", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("likely", [0, 255, 256, 299])
def test_a_token_of_no_weight_never_comes_out(coin, likely):
    logits = torch.full((1, 300), -1e4)
    logits[0, likely] = 0
    assert sample(logits, torch.ones(1), torch.tensor([coin], dtype=torch.float64)).tolist() == [likely]


def test_draws_have_the_frequencies_of_the_softmax():
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0])
    n, temperature = 20_000, 0.7
    coins = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = sample(logits.repeat(n, 1), torch.full((n,), temperature), coins).bincount(minlength=4)
    expected = np.exp(np.array([1.0, 0.0, -1.0, 2.0]) / temperature)
    expected *= n / expected.sum()
    chi_square = ((found.numpy() - expected) ** 2 / expected).sum()
    assert chi_square < 16.27  # 3 degrees of freedom: exceeded with probability 0.001, and the seed is fixed


# -- answers -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verifier():
    return tiny_verifier(VOCABULARY)


@settings(deadline=None, max_examples=15)
@given(st.data())
def test_each_answer_is_that_of_its_prompt_alone_without_a_cache(verifier, data):
    prompts = data.draw(
        st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9), min_size=1, max_size=9)
    )
    temperatures = [data.draw(st.sampled_from([0.0, 0.7])) for _ in prompts]
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    coins = torch.rand(len(prompts), 14, dtype=torch.float64, generator=generator)
    found = answer(verifier, prompts, temperatures, coins, 14, [END])
    for row, prompt in enumerate(prompts):
        assert found[row] == slow_answer(verifier, prompt, temperatures[row], coins[row], [END])


def test_rows_that_end_are_left_behind_and_the_end_is_part_of_the_answer(verifier, monkeypatch):
    widths = []
    forward = verifier.forward
    monkeypatch.setattr(
        verifier, "forward", lambda x, *a, **k: (widths.append(len(x)), forward(x, *a, **k))[1]
    )
    prompts = [[i, j] for i in range(6) for j in range(6)]
    coins = torch.rand(36, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    reports = []
    found = answer(verifier, prompts, [1.0] * 36, coins, 40, [END], lambda *report: reports.append(report))
    assert all(END not in tokens[:-1] for tokens in found)
    assert all(tokens[-1] == END or len(tokens) == 40 for tokens in found)
    assert any(len(tokens) < 40 for tokens in found)
    # Of the rows that a pass computes, three quarters are running, and the report counts each once.
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 36
    for width, (_, tokens) in zip(widths[1:], reports, strict=True):
        assert tokens >= math.floor(module.FULL * width)
    assert sum(ended for ended, _ in reports) == 36
    assert sum(tokens for _, tokens in reports) == sum(map(len, found))


def test_a_long_prompt_is_read_in_pieces(verifier, monkeypatch):
    prompts = [[1, 2, 3, 4, 5, 6, 7], [8, 9], [1]]
    coins = torch.rand(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    whole = answer(verifier, prompts, [0.7] * 3, coins, 5)
    monkeypatch.setattr(module, "PREFILL_TOKENS", 6)  # two columns of three rows
    assert answer(verifier, prompts, [0.7] * 3, coins, 5) == whole


def test_a_narrowed_cache_holds_the_rows_that_were_kept(verifier):
    cache = prefill(verifier, [[1, 2, 3, 4], [5, 6], [7, 8, 9]], 12)
    smaller = narrowed(verifier, cache, [2, 1])
    assert smaller.lengths == [2, 1]
    assert torch.equal(smaller.keys[:, 0, :, :2], cache.keys[:, 2, :, :2])
    assert torch.equal(smaller.values[:, 1, :, :1], cache.values[:, 1, :, :1])


def test_what_cannot_be_answered_is_refused(verifier):
    coins = torch.zeros(2, 4, dtype=torch.float64)
    with pytest.raises(SpecdecError, match="a prompt has no tokens"):
        answer(verifier, [[1], []], [0.0, 0.0], coins, 4)
    with pytest.raises(SpecdecError, match=r"a prompt of 253 tokens and 4 new ones exceed .* context of 256"):
        answer(verifier, [[1] * 253, [2]], [0.0, 0.0], coins, 4)
