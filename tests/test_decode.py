"""The loop on small random verifiers: ledger, cache, ends, greedy equality, and the sampled distribution."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_verifier import tiny_verifier

from specdec import decode, verify
from specdec.decode import generate
from specdec.drafts.ngram import NgramDraft
from specdec.exactness import compare_with_plain, plain_greedy
from specdec.parents import depths_of
from specdec.policy import chain, dynamic, static
from specdec.sampling import Sampling, probabilities
from specdec.theory.stats import limits_power, outside

VERIFIER = tiny_verifier()
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]

pytestmark = pytest.mark.usefixtures("one_thread")


class Script(NgramDraft):
    """A draft that knows a text and proposes it, with every `wrong`-th token replaced by the next one."""

    def __init__(self, text, vocabulary=16, wrong=0):
        super().__init__()
        self.text = [
            (t + 1) % vocabulary if wrong and i % wrong == wrong - 1 else t for i, t in enumerate(text)
        ]

    def propose(self, tokens, n):
        return self.text[len(tokens) : len(tokens) + n]


class Noise(NgramDraft):
    """A draft that proposes random tokens, and now and then none."""

    def __init__(self, seed):
        super().__init__()
        self.random = np.random.default_rng(seed)

    def propose(self, tokens, n):
        return self.random.integers(0, 16, self.random.integers(0, n + 1)).tolist()


def plain(prompt, n, verifier=VERIFIER, eos_ids=()):
    return [best for _, best, _ in plain_greedy(verifier, prompt, n, eos_ids)]


@pytest.fixture
def caches(monkeypatch):
    """Every cache that the verifier hands out."""
    handed_out = []
    make = type(VERIFIER).new_cache

    def new_cache(self, *args, **kwargs):
        handed_out.append(make(self, *args, **kwargs))
        return handed_out[-1]

    monkeypatch.setattr(type(VERIFIER), "new_cache", new_cache)
    return handed_out


# -- greedy equality -------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 15), min_size=1, max_size=12),
    st.integers(1, 40),
    st.integers(1, 6),
    st.sampled_from(["ngram", "noise", "script"]),
    st.integers(0, 1000),
)
def test_whatever_the_draft_proposes_greedy_output_is_plain_output(prompt, length, n, kind, seed):
    drafts: dict[str, decode.Draft] = {
        "ngram": NgramDraft(),
        "noise": Noise(seed),
        "script": Script(prompt + plain(prompt, length), wrong=1 + seed % 5),
    }
    found = generate(VERIFIER, drafts[kind], [prompt], chain(n), max_new_tokens=length)
    assert len(found.tokens) == length
    assert compare_with_plain(VERIFIER, prompt, found.tokens, length).identical


def test_plain_decoding_is_the_same_loop_with_tau_of_exactly_one():
    found = generate(VERIFIER, None, [PROMPT], max_new_tokens=20)
    assert found.tokens == plain(PROMPT, 20)
    assert (found.verifier_calls, found.tau) == (20, 1.0)


def test_a_draft_that_knows_the_text_gets_n_plus_one_tokens_per_call():
    text = plain(PROMPT, 20)
    found = generate(VERIFIER, Script(PROMPT + text), [PROMPT], chain(4), max_new_tokens=20)
    assert found.tokens == text
    assert (found.verifier_calls, found.tau) == (4, 5.0)
    assert [(r.proposed, r.accepted) for r in found.rounds] == [(4, 4)] * 4


def test_a_prompt_longer_than_one_prefill_chunk_gives_the_same_text(monkeypatch):
    expected = generate(VERIFIER, None, [PROMPT * 4], max_new_tokens=12).tokens
    monkeypatch.setattr(decode, "PREFILL_CHUNK", 5)
    assert generate(VERIFIER, None, [PROMPT * 4], max_new_tokens=12).tokens == expected


# -- the ledger and the cache ----------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 1000), st.sampled_from([0.0, 1.0]))
def test_after_every_round_all_tokens_but_the_newest_are_cached(length, n, seed, temperature):
    prompt = PROMPT[: 1 + seed % 8]
    sampling = Sampling(temperature, seed=seed)
    found = generate(VERIFIER, Noise(seed), [prompt], chain(n), sampling, length)
    tokens = len(prompt)
    for r in found.rounds:
        assert len(r.emitted) == r.accepted + 1
        tokens += len(r.emitted)
        assert r.cached == tokens - 1
    assert [t for r in found.rounds for t in r.emitted] == found.tokens


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_when_the_text_is_done_the_cache_equals_that_of_one_fresh_pass(caches, temperature):
    found = generate(VERIFIER, Noise(5), [PROMPT], chain(4), Sampling(temperature, seed=5), 30)
    cache = caches[0]
    fresh = VERIFIER.new_cache()
    VERIFIER.forward(torch.tensor([(PROMPT + found.tokens)[:-1]]), fresh)
    assert cache.length == fresh.length == len(PROMPT) + 29
    for name in ("keys", "values"):
        used, expected = (getattr(c, name)[:, :, :, : fresh.length] for c in (cache, fresh))
        assert (used - expected).abs().max() < 1e-4


# -- where the text ends ---------------------------------------------------------------------------


@pytest.mark.parametrize("length", range(1, 13))
def test_max_new_tokens_inside_a_path_gives_exactly_the_plain_tokens(length):
    text = plain(PROMPT, 12)
    found = generate(VERIFIER, Script(PROMPT + text), [PROMPT], chain(5), max_new_tokens=length)
    assert found.tokens == text[:length]
    assert not found.ended
    assert found.rounds[-1].cached == len(PROMPT) + length - 1


def test_an_end_of_sequence_inside_an_accepted_path_ends_the_text_and_the_cache_there(caches):
    text = plain(PROMPT, 12)
    for position in range(12):
        eos = text[position]
        expected = text[: text.index(eos) + 1]
        found = generate(
            VERIFIER, Script(PROMPT + text), [PROMPT], chain(5), max_new_tokens=12, eos_ids=[eos]
        )
        assert found.tokens == expected == plain(PROMPT, 12, eos_ids=[eos])
        assert found.ended
        assert found.rounds[-1].cached == caches[-2].length == len(PROMPT) + len(expected) - 1


def test_tokens_are_handed_over_round_by_round_with_the_number_of_accepted_drafts():
    handed = []
    text = plain(PROMPT, 10)
    generate(
        VERIFIER,
        Script(PROMPT + text, wrong=4),
        [PROMPT],
        chain(3),
        max_new_tokens=10,
        on_tokens=lambda tokens, accepted: handed.append((tokens, accepted)),
    )
    assert [t for tokens, _ in handed for t in tokens] == text
    # Every fourth token of the script is wrong, counted from the first of the prompt's eight: 3 right, then a
    # correction.
    assert handed == [(text[0:4], 3), (text[4:8], 3), (text[8:10], 1)]


# -- sampling --------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_text_and_another_seed_another():
    texts = [
        generate(VERIFIER, NgramDraft(), [PROMPT], sampling=Sampling(1.0, seed=s)).tokens for s in (7, 7, 8)
    ]
    assert texts[0] == texts[1] != texts[2]


def pair_law(verifier, prompt, sampling):
    """Exact distribution [V, V] of the next two tokens, from one plain pass per first token."""

    def law(tokens):
        return (
            probabilities(verifier.forward(torch.tensor([tokens])).logits[0, -1], sampling).double().numpy()
        )

    first = law(prompt)
    return first[:, None] * np.array([law([*prompt, x]) for x in range(len(first))])


SMALL = tiny_verifier(vocabulary=5, seed=3, layers=1)
SMALL_PROMPT = [0, 1, 2, 0, 1]
SMALL_SAMPLES = 1500


def count_pairs(policy=chain(3)):  # noqa: B008  # a policy is a constant
    """The first two tokens of a batch of equal prompts, each with a seed of its own."""
    done = generate(SMALL, NgramDraft(), [SMALL_PROMPT] * SMALL_SAMPLES, policy, Sampling(1.0, seed=0), 2)
    counts = np.zeros((5, 5), dtype=int)
    for sequence in done.sequences:
        counts[tuple(sequence.tokens)] += 1
    return counts


def correction_from_q(q, x, exists):
    return q


def accept_everything(q, x, exists, coins):
    return exists


def test_two_sampled_tokens_are_distributed_as_the_verifiers_own_and_two_wrong_rules_are_caught(monkeypatch):
    law = pair_law(SMALL, SMALL_PROMPT, Sampling(1.0))
    assert outside(count_pairs(), law).size == 0
    # The draft proposes token 2; the first wrong rule gives it q + (1 - q) q instead of q, the second always.
    q_x = law[2].sum()
    assert limits_power(SMALL_SAMPLES, [q_x, 1 - q_x], [q_x * (2 - q_x), 1 - q_x * (2 - q_x)]) > 0.999
    with monkeypatch.context() as patch:
        patch.setattr(verify, "owed_top_k", correction_from_q)
        assert outside(count_pairs(), law).size > 0
    with monkeypatch.context() as patch:
        patch.setattr(verify, "keep_top_k", accept_everything)
        assert outside(count_pairs(), law).size > 0


# -- the n-gram draft ------------------------------------------------------------------------------


def slow_lookup(tokens, n, max_ngram, min_ngram):
    for length in range(max_ngram, min_ngram - 1, -1):
        for start in range(len(tokens) - length - 1, -1, -1):
            if tokens[start : start + length] == tokens[len(tokens) - length :]:
                return tokens[start + length : start + length + n]
    return []


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 3), max_size=30),
    st.integers(1, 5),
    st.sampled_from([(3, 1), (2, 2), (4, 2), (1, 1)]),
)
def test_the_ngram_draft_continues_the_longest_then_the_most_recent_match(tokens, n, sizes):
    assert NgramDraft(*sizes).propose(tokens, n) == slow_lookup(tokens, n, *sizes)


def test_a_text_without_a_match_gets_no_proposal_and_still_one_token_per_round():
    assert NgramDraft().propose([1, 2, 3], 4) == NgramDraft().propose([], 4) == []
    assert generate(VERIFIER, NgramDraft(), [[1, 2, 3]], max_new_tokens=1).tau == 1


@pytest.mark.parametrize("sizes", [(3, 0), (2, 3), (0, 0)])
def test_ngram_sizes_that_make_no_sense_are_named(sizes):
    with pytest.raises(ValueError, match=f"min_ngram is {sizes[1]} and max_ngram {sizes[0]}"):
        NgramDraft(*sizes)


def slow_tree(tokens, policy, sizes):
    """The tree of a fixed shape, by its definition: each row's children are the next tokens, in the order of
    the matches, of those continuations that go through the row."""
    follows = []
    for length in range(sizes[0], sizes[1] - 1, -1):
        for end in range(len(tokens) - 1, 0, -1):
            if end >= length and tokens[end - length : end] == tokens[-length:] and end not in follows:
                follows.append(end)
    found = {}  # path -> place among its siblings

    def grow(path, row):
        children = [r for r, parent in enumerate(policy.parents, 1) if parent == row]
        following = []
        for follow in follows:
            rest = tuple(tokens[follow : follow + policy.depth])
            if rest[: len(path)] == path and len(rest) > len(path) and rest[len(path)] not in following:
                following.append(rest[len(path)])
        for place, (token, child) in enumerate(zip(following, children, strict=False)):
            found[(*path, token)] = place
            grow((*path, token), child)

    grow((), 0)
    return found


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=30),
    st.sampled_from([static([2, 2, 2]), static([3, 1, 2]), static(parents=[0, 0, 1, 1, 3]), static([4])]),
    st.sampled_from([(3, 1), (2, 2), (4, 2), (1, 1)]),
)
def test_an_ngram_tree_holds_the_continuations_that_its_shape_has_room_for(tokens, policy, sizes):
    found, parents = NgramDraft(*sizes).tree(tokens, policy)
    paths, places, seen = [()], {}, [0]
    for token, parent in zip(found, parents, strict=True):
        paths.append((*paths[parent], token))
        seen.append(0)
        places[paths[-1]] = seen[parent]
        seen[parent] += 1
    assert places == slow_tree(tokens, policy, sizes)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 4), st.integers(1, 3))
def test_an_ngram_tree_of_a_dynamic_policy_keeps_to_its_numbers_and_takes_the_best_match_first(
    tokens, depth, top_k
):
    policy = dynamic(depth, top_k, total=5)
    found, parents = NgramDraft().tree(tokens, policy)
    first = NgramDraft().propose(tokens, depth)[:5]
    assert (found[: len(first)], parents[: len(first)]) == (first, list(range(len(first))))
    assert len(found) <= 5
    assert max(depths_of(parents)) <= depth
    assert all(parents.count(row) <= top_k for row in parents)


def test_a_tree_of_two_continuations_saves_a_round_where_the_second_goes_on():
    """After `1 2` came `3` last and `4` before; the verifier says 4."""
    text = [1, 2, 4, 0, 1, 2, 3, 0, 1, 2]
    assert NgramDraft().tree(text, static([2, 2])) == ([3, 0, 4, 0], [0, 1, 0, 3])


# -- comparison with plain decoding ----------------------------------------------------------------


def test_an_output_with_one_wrong_token_differs_there():
    text = plain(PROMPT, 10)
    for position in range(10):
        changed = [*text[:position], (text[position] + 1) % 16, *text[position + 1 :]]
        assert compare_with_plain(VERIFIER, PROMPT, changed, 10).first_difference == position


def test_an_output_that_stops_early_or_runs_on_differs_at_its_end():
    text = plain(PROMPT, 10)
    eos = text[5]
    until = text[: text.index(eos) + 1]
    assert compare_with_plain(VERIFIER, PROMPT, text[:7], 10).first_difference == 7
    assert compare_with_plain(VERIFIER, PROMPT, until, 10, [eos]).identical
    assert compare_with_plain(VERIFIER, PROMPT, text, 10, [eos]).first_difference == len(until)
    assert compare_with_plain(VERIFIER, PROMPT, until[:-1], 10, [eos]).first_difference == len(until) - 1


def test_a_near_tie_may_go_either_way_and_the_rest_follows_the_way_it_went():
    verifier = tiny_verifier(seed=4)
    best = plain(PROMPT, 12, verifier)[3]
    twin = next(t for t in range(16) if t not in plain(PROMPT, 12, verifier))
    verifier.output[twin] = verifier.output[
        best
    ]  # same logits, another embedding: an exact tie wherever it is best
    text = plain(PROMPT, 12, verifier)
    position = next(i for i, t in enumerate(text) if t in (best, twin))
    other = twin if text[position] == best else best
    prefix = [*text[:position], other]
    turned = prefix + plain(PROMPT + prefix, 12 - len(prefix), verifier)

    assert turned[position + 1 :] != text[position + 1 :]
    found = compare_with_plain(verifier, PROMPT, turned, 12)
    assert found.identical
    assert (found.parted[0].position, found.parted[0].gap, found.parted[0].emitted) == (position, 0.0, other)
    kept = compare_with_plain(verifier, PROMPT, text, 12)
    assert kept.identical
    assert position in [tie.position for tie in kept.near_ties]
    assert kept.parted == []
    assert turned[-1] not in (best, twin)
    wrong = [*turned[:-1], (turned[-1] + 1) % 16]
    assert compare_with_plain(verifier, PROMPT, wrong, 12).first_difference == 11


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "options", "sentence"),
    [
        ([], {}, "the prompt has no tokens"),
        ([1, 16], {}, "token 16 at place 1 of the prompt is not in the vocabulary of 16 tokens"),
        ([1, -1], {}, "token -1 at place 1"),
        ([1] * 256, {}, "the prompt has 256 tokens, but the verifier's context holds 256"),
        (
            [1] * 250,
            {"max_new_tokens": 7},
            "250 tokens and 7 new ones exceed the verifier's context of 256.*at most 6",
        ),
        ([1], {"max_new_tokens": 0}, "max_new_tokens is 0"),
        ([1], {"stop": [""], "to_text": str}, "a stop string is empty"),
        ([1], {"stop": ["a"]}, "stop strings need `to_text`"),
    ],
)
def test_a_request_that_cannot_be_decoded_is_refused_with_its_numbers(prompt, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        generate(VERIFIER, NgramDraft(), [prompt], **options)


def test_a_request_that_fills_the_context_to_the_last_token_is_decoded():
    assert len(generate(VERIFIER, NgramDraft(), [[1] * 250], max_new_tokens=6).tokens) == 6
