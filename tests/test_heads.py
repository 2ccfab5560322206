"""Feature heads as drafts, with random weights: exact output, caches that hold true features only, and p as a
slow forward pass without caches has it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_heads import tiny_eagle1, tiny_eagle3, tiny_medusa, tiny_vanilla
from tiny_verifier import tiny_verifier

from specdec.decode import Coins, generate, prefill, speculative_round
from specdec.drafts.features import FeatureDraft
from specdec.drafts.medusa import MedusaDraft
from specdec.drafts.small_lm import SmallLM
from specdec.drafts.store import as_model
from specdec.errors import SpecdecError
from specdec.exactness import compare_with_plain
from specdec.generation import Stopwatch
from specdec.policy import chain, dynamic, static
from specdec.sampling import Sampling, probabilities
from specdec.verifier import rms_norm, rotate

pytestmark = pytest.mark.usefixtures("one_thread")

VERIFIER = tiny_verifier(layers=2)
V = VERIFIER.config.vocab_size
HEADS = {
    "eagle3": tiny_eagle3(VERIFIER),
    "eagle3, whole vocabulary": tiny_eagle3(VERIFIER, seed=1, every=1),
    "eagle1": tiny_eagle1(VERIFIER),
    "eagle1, half the vocabulary": tiny_eagle1(VERIFIER, seed=1, every=2),
}
VANILLA = tiny_vanilla(VERIFIER)
DRAFTS = {name: FeatureDraft(head) for name, head in HEADS.items()} | {
    "vanilla": SmallLM(as_model(VANILLA), vocabulary=VANILLA.vocabulary),
    "medusa": MedusaDraft(tiny_medusa(VERIFIER)),
    "medusa, half the vocabulary": MedusaDraft(tiny_medusa(VERIFIER, every=2)),
}
POLICIES = {
    "chain(3)": chain(3),
    "static([2, 2, 2])": static([2, 2, 2]),
    "static([3, 1]), top-k": static([3, 1], rule="top-k"),
    "dynamic(3, 2, 5)": dynamic(3, 2, 5),
    "dynamic(4, 3, 8)": dynamic(4, 3, 8),
}
texts = st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=8), min_size=1, max_size=3)
some_draft = st.sampled_from(sorted(DRAFTS))
some_policy = st.sampled_from(sorted(POLICIES))


# -- exactness -------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(texts, st.integers(1, 16), some_draft, some_policy)
def test_greedy_output_of_every_head_over_every_tree_is_plain_output(prompts, length, draft, policy):
    done = generate(VERIFIER, DRAFTS[draft], prompts, POLICIES[policy], max_new_tokens=length)
    for prompt, text in zip(prompts, done.sequences, strict=True):
        assert compare_with_plain(VERIFIER, prompt, text.tokens, length).identical


# -- the head itself, slowly -----------------------------------------------------------------------------


def slow_rows(head, tokens, features, sees):
    """Outputs of rows (token, feature) at `positions`, each seeing the rows that `sees` lists, one by one.

    sees[i]: the (position, row) pairs that row i attends to, itself included. No cache, no mask, no batch.
    """
    c = head.config
    attended, residual = head.enter(VERIFIER.embedding[torch.tensor(tokens)][None], features[None])
    attention = head.layer.self_attn
    outs = []
    frequency = c.rope_base ** -(torch.arange(0, c.head_size, 2).float() / c.head_size)

    def turned(x, position):
        angle = torch.cat((position * frequency,) * 2)
        return rotate(x[None, :, None], angle.cos(), angle.sin())[0, :, 0]

    def heads_of(project, row):
        return project(attended[0, row]).view(-1, c.head_size)

    for i, rows in enumerate(sees):
        own = next(position for position, row in rows if row == i)
        q = turned(heads_of(attention.q_proj, i), own)
        mixed = []
        for h in range(c.heads):
            kv = h // (c.heads // c.kv_heads)
            keys = torch.stack([turned(heads_of(attention.k_proj, r), p)[kv] for p, r in rows])
            values = torch.stack([heads_of(attention.v_proj, r)[kv] for _, r in rows])
            mixed.append(((keys @ q[h]) / c.head_size**0.5).softmax(0) @ values)
        x = residual[0, i] + attention.o_proj(torch.cat(mixed))
        normed = rms_norm(x, head.layer.post_attention_layernorm.weight, c.norm_eps)
        outs.append(x + head.layer.mlp(normed))
    return torch.stack(outs)


def true_features(head, tokens):
    """The feature of every token, from one plain verifier pass."""
    return head.fuse(VERIFIER.forward(torch.tensor([tokens]), taps=head.taps))[0]


def slow_p(head, tokens, path):
    """p after `tokens` and a drafted `path`: true features for the tokens, the head's own outputs beyond."""
    features = true_features(head, tokens)[:-1]
    read = tokens[1:]
    for step in range(len(path) + 1):
        sees = [[(j, j) for j in range(i + 1)] for i in range(len(read))]
        outs = slow_rows(head, read, features, sees)
        if step < len(path):
            read = [*read, path[step]]
            features = torch.cat((features, outs[-1:]))
    return probabilities(head.score(outs[-1]), Sampling(1.0))


@pytest.mark.parametrize("name", sorted(HEADS))
def test_p_of_every_node_is_that_of_a_slow_pass_with_true_features_and_then_the_heads_own(name):
    head, policy = HEADS[name], static([2, 2, 2])
    prompt = [3, 1, 4, 1, 5, 9]
    draft = FeatureDraft(head)
    cache = VERIFIER.new_cache(1, 60, spare=policy.nodes)
    session = draft.start(VERIFIER, [prompt], 60, policy, Sampling(1.0))
    newest = prefill(VERIFIER, cache, session, [prompt], draft.taps)
    text, coins = list(prompt), Coins(2, 1)
    for _ in range(3):
        outcome = speculative_round(
            VERIFIER, cache, session, policy, newest, Sampling(1.0), coins, draft, Stopwatch()
        )
        tree, p = outcome.growth.tree, outcome.growth.p
        for row in range(p.shape[1]):
            if not bool((tree.parents[0] == row).any()):
                continue
            path, at = [], row
            while at:
                path.insert(0, int(tree.tokens[0, at - 1]))
                at = int(tree.parents[0, at - 1])
            expected = slow_p(head, text, path)
            assert (p[0, row, head.vocabulary] - expected).abs().max() < 1e-4
            assert p[0, row].sum() == pytest.approx(1.0, abs=1e-5)
        newest = outcome.verdict.token
        accepted = int(outcome.verdict.accepted)
        text += outcome.verdict.emitted[0, : accepted + 1].tolist()
        cache.ledger.settle([accepted + 1])
        session.settle([[]], [True], outcome.told.tolist())


# -- the head's cache ------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(data=st.data(), prompts=texts, policy=some_policy, temperature=st.sampled_from([0.0, 1.0]))
def test_between_rounds_the_heads_cache_holds_rows_with_true_features_only(
    data, prompts, policy, temperature
):
    """It equals that of a fresh pass over the text and the verifier's features, whatever was accepted."""
    head = HEADS[data.draw(st.sampled_from(sorted(HEADS)))]
    sampling = Sampling(temperature, seed=data.draw(st.integers(0, 99)))
    policy = POLICIES[policy].for_sampling(sampling)
    draft = FeatureDraft(head)
    cache = VERIFIER.new_cache(len(prompts), 60, spare=policy.nodes)
    session = draft.start(VERIFIER, prompts, 60, policy, sampling)
    newest = prefill(VERIFIER, cache, session, prompts, draft.taps)
    written, coins = [list(prompt) for prompt in prompts], Coins(sampling.seed, len(prompts))
    for _ in range(4):
        outcome = speculative_round(
            VERIFIER, cache, session, policy, newest, sampling, coins, draft, Stopwatch()
        )
        newest = outcome.verdict.token
        counts = [a + 1 for a in outcome.verdict.accepted.tolist()]
        cache.ledger.settle(counts)
        told = outcome.told.tolist()
        session.settle([[]] * len(prompts), [True] * len(prompts), told)
        for b, text in enumerate(written):
            # Every token but the first has a row; those of this round are read at the start of the next.
            assert session.cache.lengths[b] == told[b] == len(text) - 1
            if len(text) > 1:
                fresh = draft.start(VERIFIER, [text], 60, policy, sampling)
                fresh.rows(torch.tensor([text[1:]]), true_features(head, text)[None, :-1])
                for kind in ("keys", "values"):
                    used, expected = (getattr(c, kind) for c in (session.cache, fresh.cache))
                    difference = used[:, b, :, : len(text) - 1] - expected[:, 0, :, : len(text) - 1]
                    assert difference.abs().max() < 1e-4
            text += outcome.verdict.emitted[b, : counts[b]].tolist()


# -- Medusa ----------------------------------------------------------------------------------------------


def test_medusas_nodes_of_one_depth_share_the_p_of_their_head_on_the_last_verified_hidden_state():
    heads, prompt, policy = tiny_medusa(VERIFIER, every=2), [3, 1, 4, 1, 5], static([2, 2, 1])
    draft = MedusaDraft(heads)
    cache = VERIFIER.new_cache(1, 60, spare=policy.nodes)
    session = draft.start(VERIFIER, [prompt], 60, policy, Sampling(1.0))
    newest = prefill(VERIFIER, cache, session, [prompt])
    text, coins = list(prompt), Coins(0, 1)
    for _ in range(4):
        outcome = speculative_round(
            VERIFIER, cache, session, policy, newest, Sampling(1.0), coins, draft, Stopwatch()
        )
        hidden = VERIFIER.forward(torch.tensor([text[:-1]])).hidden[0, -1]
        depths = outcome.growth.tree.depths[0].tolist()
        for row, p in enumerate(outcome.growth.p[0]):
            if bool((outcome.growth.tree.parents[0] == row).any()):
                block = heads.medusa_head[depths[row]][0].linear
                out = hidden + torch.nn.functional.silu(block(hidden))
                expected = (heads.rows @ out).softmax(-1)
                assert (p[heads.vocabulary] - expected).abs().max() < 1e-5
        newest = outcome.verdict.token
        accepted = int(outcome.verdict.accepted)
        text += outcome.verdict.emitted[0, : accepted + 1].tolist()
        cache.ledger.settle([accepted + 1])
        session.settle([[]], [True], [0])


# -- what does not fit -----------------------------------------------------------------------------------


def test_heads_of_another_verifier_are_refused():
    other = tiny_verifier(layers=1)
    with pytest.raises(SpecdecError, match="reads the input of layer 1, but the verifier has 1"):
        generate(other, DRAFTS["eagle3"], [[1, 2]], chain(2))


def test_a_policy_deeper_than_there_are_medusa_heads_is_refused():
    with pytest.raises(SpecdecError, match="drafts 5 tokens ahead, but there are 4 heads"):
        generate(VERIFIER, DRAFTS["medusa"], [[1, 2]], chain(5))


@pytest.mark.parametrize("name", ["eagle3", "eagle1", "medusa"])
def test_a_round_with_a_head_reads_nothing_from_the_device(name):
    from test_batches import on_meta

    verifier = on_meta(VERIFIER)
    draft = DRAFTS[name]
    model = draft.heads if name == "medusa" else draft.head
    from copy import deepcopy

    model = deepcopy(model).to("meta")
    draft = MedusaDraft(model) if name == "medusa" else FeatureDraft(model)
    for policy in (chain(3), static([2, 2]), dynamic(3, 2, 5)):
        for sampling in (Sampling(), Sampling(1.0)):
            tree = policy.for_sampling(sampling)
            cache = verifier.new_cache(2, 40, spare=tree.nodes)
            session = draft.start(verifier, [[0] * 4] * 2, 40, tree, sampling)
            rows = torch.zeros(2, 4, dtype=torch.long, device="meta")
            session.read(rows, verifier.forward(rows, cache, taps=draft.taps, check=False))
            newest = torch.zeros(2, dtype=torch.long, device="meta")
            coins = Coins(0, 2, "meta")
            for _ in range(2):
                args = (verifier, cache, session, tree, newest, sampling, coins, draft, Stopwatch())
                outcome = speculative_round(*args)
                newest = outcome.verdict.token
