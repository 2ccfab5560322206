"""The KV cache: rollback is exact, overflow is refused before anything is written."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_verifier import tiny_verifier

from specdec.errors import SpecdecError
from specdec.kv_cache import KVCache

VERIFIER = tiny_verifier()
V = VERIFIER.config.vocab_size


def sequence(length: int, seed: int = 0, batch: int = 1) -> torch.Tensor:
    return torch.randint(V, (batch, length), generator=torch.Generator().manual_seed(seed))


def test_a_new_cache_has_one_slot_per_layer_sequence_head_and_token_and_holds_none():
    cache = KVCache(VERIFIER.config, batch=3, capacity=10)
    assert cache.keys.shape == cache.values.shape == (2, 3, 2, 10, 8)
    assert (cache.batch, cache.capacity, cache.length, cache.lengths) == (3, 10, 0, [0, 0, 0])


@given(
    steps=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), min_size=1, max_size=8),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_after_any_mix_of_passes_and_rollbacks_keys_and_values_equal_those_of_one_fresh_pass(steps, seed):
    """Each step writes n tokens and takes the last r of them back; what remains is the sequence."""
    cache = VERIFIER.new_cache(capacity=64)
    kept: list[int] = []
    for step, (n, rejected) in enumerate(steps):
        new = sequence(n, seed + step)
        VERIFIER.forward(new, cache)
        keep = n - min(rejected, n)
        kept += new[0, :keep].tolist()
        cache.rollback(len(kept))
    assert cache.length == len(kept)
    if kept:
        fresh = VERIFIER.new_cache(capacity=64)
        VERIFIER.forward(torch.tensor([kept]), fresh)
        for used, expected in ((cache.keys, fresh.keys), (cache.values, fresh.values)):
            torch.testing.assert_close(used[..., : len(kept), :], expected[..., : len(kept), :])


def test_sequences_of_one_batch_roll_back_to_their_own_lengths_and_go_on_as_if_alone():
    first, second = sequence(6, batch=3), sequence(4, seed=1, batch=3)
    cache = VERIFIER.new_cache(batch=3, capacity=16)
    VERIFIER.forward(first, cache)
    cache.rollback([6, 3, 0])
    logits = VERIFIER.forward(second, cache).logits
    assert cache.lengths == [10, 7, 4]
    for b, kept in enumerate([6, 3, 0]):
        alone = torch.cat((first[b, :kept], second[b]))[None]
        torch.testing.assert_close(logits[b], VERIFIER.forward(alone).logits[0, kept:])
    with pytest.raises(SpecdecError, match=r"different lengths \[10, 7, 4\]"):
        _ = cache.length


def test_overflow_names_the_numbers_and_leaves_the_cache_as_it_was():
    cache = VERIFIER.new_cache(capacity=8)
    VERIFIER.forward(sequence(6), cache)
    before = cache.keys.clone(), cache.values.clone()
    with pytest.raises(SpecdecError, match="holds 6 of 8 tokens and 3 more do not fit"):
        VERIFIER.forward(sequence(3, seed=1), cache)
    assert cache.length == 6
    assert torch.equal(cache.keys, before[0])
    assert torch.equal(cache.values, before[1])
    VERIFIER.forward(sequence(2, seed=1), cache)
    assert cache.length == 8


def test_append_alone_refuses_an_overflow_before_it_writes():
    cache = KVCache(VERIFIER.config, capacity=4)
    with pytest.raises(SpecdecError, match="holds 0 of 4 tokens and 5 more do not fit"):
        cache.append(0, torch.ones(1, 2, 5, 8), torch.ones(1, 2, 5, 8))
    with pytest.raises(SpecdecError, match="holds 0 of 4 tokens and 5 more do not fit"):
        cache.advance(5)
    assert not cache.keys.any()
    assert cache.length == 0


def test_the_longest_sequence_decides_whether_a_batch_overflows():
    cache = VERIFIER.new_cache(batch=2, capacity=8)
    VERIFIER.forward(sequence(7, batch=2), cache)
    cache.rollback([7, 1])
    with pytest.raises(SpecdecError, match="holds 7 of 8 tokens and 2 more"):
        VERIFIER.forward(sequence(2, batch=2), cache)
    assert cache.lengths == [7, 1]


def test_append_returns_views_of_the_cache_and_not_copies():
    cache = KVCache(VERIFIER.config, capacity=8)
    new = torch.ones(1, 2, 3, 8)
    keys, values = cache.append(1, new, 2 * new)
    assert keys.shape == values.shape == (1, 2, 3, 8)
    assert keys.data_ptr() == cache.keys[1].data_ptr()
    assert values.data_ptr() == cache.values[1].data_ptr()
    assert cache.length == 0  # not counted until advance
    cache.advance(3)
    assert cache.length == 3


@pytest.mark.parametrize(
    ("lengths", "sentence"),
    [
        (5, "sequence 0 has 4 cached tokens and cannot be rolled back to 5"),
        (-1, "cannot be rolled back to -1"),
        ([4, 9], "sequence 1 has 4 cached tokens and cannot be rolled back to 9"),
        ([1, 2, 3], "one length for each of 2 sequences, got 3"),
    ],
)
def test_a_rollback_that_is_no_rollback_is_refused_and_changes_nothing(lengths, sentence):
    cache = VERIFIER.new_cache(batch=2, capacity=8)
    VERIFIER.forward(sequence(4, batch=2), cache)
    with pytest.raises(SpecdecError, match=sentence):
        cache.rollback(lengths)
    assert cache.lengths == [4, 4]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"batch": 0}, "batch of at least 1, got 0"),
        ({"capacity": 0}, "from 1 to the context length 256, got 0"),
        ({"capacity": 257}, "from 1 to the context length 256, got 257"),
    ],
)
def test_a_cache_of_impossible_size_is_refused_with_the_number(arguments, sentence):
    with pytest.raises(SpecdecError, match=sentence):
        KVCache(VERIFIER.config, **arguments)
