"""Many texts at once, over every draft and tree: each is what it is alone, and the caches agree."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_verifier import tiny_verifier

from specdec.decode import Coins, generate, speculative_round
from specdec.drafts.interface import NoDraft
from specdec.drafts.ngram import NgramDraft
from specdec.drafts.small_lm import SmallLM, SmallLMSession
from specdec.errors import SpecdecError
from specdec.exactness import compare_with_plain
from specdec.generation import Stopwatch
from specdec.policy import Static, chain, dynamic, static
from specdec.sampling import Sampling
from specdec.verifier import Verifier

pytestmark = pytest.mark.usefixtures("one_thread")

VERIFIER = tiny_verifier()
SMALLER = tiny_verifier(seed=0, layers=1)
OTHER = tiny_verifier(seed=7, layers=1)
V = VERIFIER.config.vocab_size
POLICIES = {
    "chain(3)": chain(3),
    "chain(5), top-k": chain(5, "top-k"),
    "static([2, 2, 2])": static([2, 2, 2]),
    "static([3, 1, 2]), top-k": static([3, 1, 2], rule="top-k"),
    "static by parents": static(parents=[0, 0, 1, 1, 3, 2]),
    "dynamic(3, 2, 5)": dynamic(3, 2, 5),
    "dynamic(4, 3, 8)": dynamic(4, 3, 8),
}
DRAFTS = {
    "none": None,
    "ngram": NgramDraft(),
    "its own first layer": SmallLM(SMALLER),
    "itself": SmallLM(VERIFIER),
    "another": SmallLM(OTHER),
}
prompts = st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=9), min_size=1, max_size=4)
some_policy = st.sampled_from(sorted(POLICIES))
some_draft = st.sampled_from(sorted(DRAFTS))


@pytest.fixture
def opened(monkeypatch):
    """Every draft session that is started, and every cache that the verifier hands out."""
    sessions, caches = [], []
    start, make = SmallLM.start, type(VERIFIER).new_cache

    def started(self, *args, **kwargs):
        sessions.append(start(self, *args, **kwargs))
        return sessions[-1]

    def new_cache(self, *args, **kwargs):
        caches.append((self, make(self, *args, **kwargs)))
        return caches[-1][1]

    monkeypatch.setattr(SmallLM, "start", started)
    monkeypatch.setattr(type(VERIFIER), "new_cache", new_cache)
    return sessions, caches


def assert_holds(model, cache, b, tokens):
    """Sequence b of the cache is what one fresh pass over `tokens` leaves behind, and no longer."""
    assert cache.lengths[b] == len(tokens)
    if tokens:
        fresh = model.new_cache()
        model.forward(torch.tensor([tokens]), fresh)
        for name in ("keys", "values"):
            used = getattr(cache, name)[:, b, :, : len(tokens)]
            assert (used - getattr(fresh, name)[:, 0, :, : len(tokens)]).abs().max() < 1e-4


# -- greedy ----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(prompts, st.integers(1, 20), some_policy, some_draft)
def test_a_batch_gives_each_text_the_same_tokens_as_plain_decoding_alone(texts, length, policy, draft):
    done = generate(VERIFIER, DRAFTS[draft], texts, POLICIES[policy], max_new_tokens=length)
    for prompt, sequence in zip(texts, done.sequences, strict=True):
        assert len(sequence.tokens) == length
        assert compare_with_plain(VERIFIER, prompt, sequence.tokens, length).identical


@settings(max_examples=30, deadline=None)
@given(prompts, st.integers(1, 15), some_policy, some_draft, st.integers(0, 99), st.sampled_from([0.0, 1.0]))
def test_a_text_draws_the_same_tokens_alone_as_in_a_batch(texts, length, policy, draft, seed, temperature):
    """Its coins are its own, until the last rounds, where it alone would draft less than in the batch."""
    length += POLICIES[policy].depth
    options = (POLICIES[policy], Sampling(temperature, seed=seed), length)
    together = generate(VERIFIER, DRAFTS[draft], texts, *options)
    alone = generate(VERIFIER, DRAFTS[draft], texts[:1], *options)
    same = length - POLICIES[policy].depth
    assert alone.tokens[:same] == together.sequences[0].tokens[:same]


def test_a_draft_that_is_the_verifier_is_accepted_to_the_end_in_every_shape():
    for policy in POLICIES.values():
        done = generate(VERIFIER, SmallLM(VERIFIER), [[3, 1, 4], [1, 5]], policy, max_new_tokens=24)
        assert set(done.alpha_by_depth) == {1.0}
        if isinstance(policy, Static):  # a dynamic tree may spend its nodes before its last depth
            assert len(done.alpha_by_depth) == policy.depth
            assert done.tau == pytest.approx(24 / -(-24 // (policy.depth + 1)))
        assert done.acceptance_by_rank[0] == 1.0


def test_a_sampled_draft_that_is_the_verifier_is_never_rejected():
    """q = p: every first child is accepted, whatever is sampled."""
    for seed in range(10):
        for policy in (chain(4), static([2, 2])):
            done = generate(
                VERIFIER, SmallLM(VERIFIER), [[3, 1, 4]], policy, Sampling(1.0, seed=seed), max_new_tokens=20
            )
            assert done.alpha_by_depth == [1.0] * policy.depth


# -- the caches ------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(data=st.data(), texts=prompts, policy=some_policy, temperature=st.sampled_from([0.0, 1.0]))
def test_after_every_round_both_caches_equal_those_of_a_fresh_pass(data, texts, policy, temperature):
    """For all acceptance counts, 0 and N included: a draft like the verifier, and one unlike it."""
    draft = data.draw(st.sampled_from([SMALLER, VERIFIER, OTHER]))
    policy = POLICIES[policy].for_sampling(
        sampling := Sampling(temperature, seed=data.draw(st.integers(0, 99)))
    )
    cache = VERIFIER.new_cache(len(texts), 60, spare=policy.nodes)
    small = SmallLM(draft)
    session = small.start(VERIFIER, texts, 60, policy, sampling)
    from specdec.decode import prefill

    newest = prefill(VERIFIER, cache, session, texts)
    texts = [list(text) for text in texts]
    coins = Coins(sampling.seed, len(texts))
    for _ in range(4):
        outcome = speculative_round(
            VERIFIER, cache, session, policy, newest, sampling, coins, small, Stopwatch()
        )
        newest = outcome.verdict.token
        counts = [a + 1 for a in outcome.verdict.accepted.tolist()]
        cache.ledger.settle(counts)
        emitted = [row[:n] for row, n in zip(outcome.verdict.emitted.tolist(), counts, strict=True)]
        session.settle(emitted, [True] * len(texts), outcome.told.tolist())
        for b, new in enumerate(emitted):
            texts[b] += new
            assert_holds(VERIFIER, cache, b, texts[b][:-1])
            # The draft lacks the last accepted node too where it never read it.
            read = session.cache.lengths[b]
            assert read in (len(texts[b]) - 1, len(texts[b]) - 2)
            assert_holds(draft, session.cache, b, texts[b][:read])
            if policy.branching == 1:
                assert read == len(texts[b]) - 1 - (len(new) == policy.depth + 1)


def test_the_work_of_a_draft_is_kept_or_discarded_once_and_accepted_rows_are_never_read_again(opened):
    sessions, _ = opened
    done = generate(VERIFIER, SmallLM(SMALLER), [[3, 1, 4, 1]], chain(4), max_new_tokens=30)
    work = sessions[0].cache.ledger.work
    assert work.computed == [k + d for k, d in zip(work.kept, work.discarded, strict=True)]
    assert work.kept == sessions[0].cache.lengths
    # Each round reads two rows at its start, one of them for nothing unless a draft was never read, and one
    # row per further draft; the last rounds draft less.
    assert work.computed[0] == 3 + sum(2 + max(r.proposed - 1, 0) for r in done.rounds)


# -- where texts end -------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(prompts, st.sets(st.integers(0, V - 1), max_size=3), some_policy, some_draft)
def test_texts_end_where_plain_decoding_ends_them_one_early_and_one_late(texts, eos, policy, draft):
    done = generate(VERIFIER, DRAFTS[draft], texts, POLICIES[policy], max_new_tokens=16, eos_ids=eos)
    for prompt, sequence in zip(texts, done.sequences, strict=True):
        assert compare_with_plain(VERIFIER, prompt, sequence.tokens, 16, eos).identical
        assert sequence.ended == (sequence.tokens[-1] in eos)
        assert sequence.rounds[-1].cached == len(prompt) + len(sequence.tokens) - 1


def test_when_all_texts_are_done_the_verifiers_cache_holds_all_of_each_but_its_newest_token(opened):
    _, caches = opened
    texts = [[3, 1, 4, 1, 5], [9], [2, 6, 5]]
    eos = generate(VERIFIER, None, texts, max_new_tokens=12).sequences[0].tokens[3]
    done = generate(VERIFIER, SmallLM(OTHER), texts, static([2, 2]), max_new_tokens=12, eos_ids=[eos])
    assert len({len(s.tokens) for s in done.sequences}) > 1
    cache = [cache for model, cache in caches if model is VERIFIER][-1]
    for b, sequence in enumerate(done.sequences):
        assert_holds(VERIFIER, cache, b, (sequence.prompt + sequence.tokens)[:-1])


def letters(tokens):
    return "".join("abcdefghijklmnop"[t] for t in tokens)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, V - 1), min_size=1, max_size=6), st.data(), some_policy)
def test_a_stop_string_ends_the_text_with_the_token_that_completes_it(prompt, data, policy):
    text = generate(VERIFIER, None, [prompt], max_new_tokens=20).tokens
    start = data.draw(st.integers(0, 19))
    stop = letters(text[start : start + data.draw(st.integers(1, 4))])
    expected = text[: letters(text).find(stop) + len(stop)]
    options = {"max_new_tokens": 20, "stop": [stop], "to_text": letters}
    done = generate(VERIFIER, SmallLM(VERIFIER), [prompt], POLICIES[policy], **options)
    assert done.tokens == expected
    assert done.sequences[0].reason == "stop"


# -- the device's part -----------------------------------------------------------------------------


def on_meta(verifier):
    from specdec.checkpoint import expected_shapes

    shapes = expected_shapes(verifier.config)
    return Verifier.from_state(
        verifier.config, {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    )


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("policy", ["plain", "chain(3)", "static([2, 2, 2])", "dynamic(3, 2, 5)"])
def test_a_round_reads_nothing_from_the_device_and_has_static_shapes(policy, batch):
    """On meta tensors any reading raises, and so does a shape that depends on values."""
    verifier, model = on_meta(VERIFIER), on_meta(SMALLER)
    for sampling in (Sampling(), Sampling(1.0), Sampling(0.7, top_k=3, top_p=0.8)):
        small = NoDraft() if policy == "plain" else SmallLM(model)
        tree = POLICIES.get(policy, small.policy).for_sampling(sampling)
        texts = [[0] * 5] * batch
        cache = verifier.new_cache(batch, 40, spare=tree.nodes)
        session = small.start(verifier, texts, 40, tree, sampling)
        rows = torch.zeros(batch, 5, dtype=torch.long, device="meta")
        session.read(rows, verifier.forward(rows, cache, check=False))
        newest = torch.zeros(batch, dtype=torch.long, device="meta")
        coins = Coins(0, batch, "meta")
        for _ in range(2):
            args = (verifier, cache, session, tree, newest, sampling, coins, small, Stopwatch())
            outcome = speculative_round(*args)
            assert outcome.verdict.emitted.shape == (batch, tree.depth + 1)
            assert outcome.told.shape == (batch,)
            newest = outcome.verdict.token


# -- bad input -------------------------------------------------------------------------------------


def test_a_draft_with_another_vocabulary_is_refused():
    with pytest.raises(SpecdecError, match="vocabulary of 17 tokens and the verifier one of 16"):
        generate(VERIFIER, SmallLM(tiny_verifier(vocabulary=17)), [[1, 2]])


def test_texts_longer_than_the_drafts_context_are_refused():
    with pytest.raises(SpecdecError, match="may reach 36 tokens, but the draft's context holds 32"):
        generate(VERIFIER, SmallLM(tiny_verifier(context=32)), [[1, 2]], max_new_tokens=34)


def test_what_is_said_of_one_text_is_not_said_of_several():
    done = generate(VERIFIER, None, [[1], [2]], max_new_tokens=1)
    with pytest.raises(SpecdecError, match="2 texts were decoded"):
        done.tokens  # noqa: B018
    with pytest.raises(SpecdecError, match="on_tokens follows one text"):
        generate(VERIFIER, None, [[1], [2]], on_tokens=print)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ([], "there is no prompt"),
        ([1, 2], "for one prompt pass \\[prompt\\]"),
        ([[1], []], "prompt 1 has no tokens"),
        ([[1], [2, 16]], "token 16 at place 1 of prompt 1"),
        ([[1], [1] * 250], "prompt 1's 250 tokens and 7 new ones exceed"),
    ],
)
def test_the_prompt_that_is_wrong_is_named(texts, sentence):
    with pytest.raises(SpecdecError, match=sentence):
        generate(VERIFIER, None, texts, max_new_tokens=7)


@pytest.mark.parametrize("b", [0, 1])
def test_a_verifier_that_gives_nan_is_reported_with_sequence_and_position(b):
    broken = tiny_verifier()
    broken.embedding[15] = torch.nan
    texts = [[1, 2, 3], [4, 5, 6]]
    texts[b][-1] = 15
    with pytest.raises(SpecdecError, match=f"logits at position 2 of sequence {b} are NaN or infinite"):
        generate(broken, None, texts, max_new_tokens=2)


def test_sessions_are_what_the_loop_asks_for():
    session = SmallLM(SMALLER).start(VERIFIER, [[1, 2]], 10, chain(2), Sampling())
    assert isinstance(session, SmallLMSession)
