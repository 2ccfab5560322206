"""The training-time test against a slow forward pass that builds the whole mask, and the shifts of its
targets against a loop."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_heads import tiny_eagle1, tiny_eagle3
from tiny_verifier import tiny_verifier

from specdec.train.losses import (
    Batch,
    acceptance,
    cross_entropy,
    regression,
    shifted,
    verifier_laws,
)
from specdec.train.unroll import attend, unroll
from specdec.verifier import rope_tables, rotate

VERIFIER = tiny_verifier()
V, H = VERIFIER.config.vocab_size, VERIFIER.config.hidden
VECTORS = Path(__file__).parent / "data" / "vectors.json"

pytestmark = pytest.mark.usefixtures("one_thread")


def whole_mask(n, steps):
    """[steps * n, steps * n]: query row (k, i) over key (l, j): causal at l = 0, diagonal at 1 <= l <= k."""
    return torch.tensor(
        [
            [(l == 0 and j <= i) or (1 <= l <= k and j == i) for l in range(steps) for j in range(n)]
            for k in range(steps)
            for i in range(n)
        ]
    )


def test_the_mask_of_three_positions_and_two_steps_is_the_published_one():
    rows = json.loads(VECTORS.read_text())["ttt_mask"]["rows"]
    expected = [[c == "1" for c in row.replace("|", "")] for row in rows]
    assert whole_mask(3, 2)[3:].tolist() == expected


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 99))
def test_attention_without_the_mask_equals_attention_under_the_whole_mask(n, steps, seed):
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(2, heads, steps * n, 8, generator=generator) for heads in (4, 2, 2))
    scores = q @ k.repeat_interleave(2, 1).transpose(-1, -2) / 8**0.5
    scores = scores.masked_fill(~whole_mask(n, steps), -torch.inf)
    expected = (scores.softmax(-1) @ v.repeat_interleave(2, 1)).transpose(1, 2).flatten(2)
    for step in range(steps):
        rows = slice(step * n, (step + 1) * n)
        found = attend(
            q[:, :, rows],
            [k[:, :, i * n : (i + 1) * n] for i in range(step + 1)],
            [v[:, :, i * n : (i + 1) * n] for i in range(step + 1)],
        )
        assert (found - expected[:, rows]).abs().max() < 1e-5


def features_of(head, tokens):
    found = VERIFIER.forward(tokens, taps=head.taps)
    return head.fuse(found)


@pytest.mark.parametrize("head", [tiny_eagle3(VERIFIER), tiny_eagle1(VERIFIER)], ids=["eagle3", "eagle1"])
def test_step_k_at_row_i_is_what_drafting_k_right_tokens_from_there_would_give(head):
    """Drafting after `text[: i + 2]` with true features, then its own: the session's code, token by token."""
    from specdec.drafts.features import FeatureDraft
    from specdec.policy import chain
    from specdec.sampling import Sampling

    text = torch.randint(V, (1, 9), generator=torch.Generator().manual_seed(3))
    steps, n = 3, 8
    features = features_of(head, text)
    tokens = torch.cat((text[:, 1:], text.new_zeros(1, steps)), dim=1)
    outs = list(unroll(head, VERIFIER.embedding, tokens, features[:, :n], steps))
    for i in range(n - steps + 1):
        session = FeatureDraft(head).start(VERIFIER, [text[0].tolist()], 30, chain(1), Sampling())
        out = session.rows(text[:, 1 : i + 2], features[:, : i + 1])[:, -1:]
        assert (outs[0][:, i : i + 1] - out).abs().max() < 1e-4
        for k in range(1, steps):
            out = session.rows(text[:, i + 1 + k : i + 2 + k], out)
            assert (outs[k][:, i : i + 1] - out).abs().max() < 1e-4


def test_a_query_at_step_k_sits_at_position_i_plus_k():
    """The rotation that `split` gets: turning back by i + k gives what no rotation would have given."""
    head = tiny_eagle3(VERIFIER)
    seen = []
    split = head.midlayer.self_attn.split

    def watched(x, cos, sin):
        seen.append((split(x, cos, sin)[0], split(x, torch.ones_like(cos), torch.zeros_like(sin))[0]))
        return split(x, cos, sin)

    head.midlayer.self_attn.split = watched
    text = torch.randint(V, (1, 7), generator=torch.Generator().manual_seed(3))
    tokens = torch.cat((text[:, 1:], text.new_zeros(1, 3)), dim=1)
    list(unroll(head, VERIFIER.embedding, tokens, features_of(head, text)[:, :6], 3))
    cos, sin = rope_tables(head.config.llama())
    for k, (turned, plain) in enumerate(seen):
        for i in range(6):
            expected = rotate(plain[:, :, i : i + 1], cos[i + k], sin[i + k])
            assert (turned[:, :, i : i + 1] - expected).abs().max() < 1e-5


# -- targets ---------------------------------------------------------------------------------------------


def a_batch(length=10, answers=((3, 10), (5, 8)), seed=0):
    """Two texts, the second padded behind its eighth token; answers begin at tokens 3 and 5."""
    tokens = torch.randint(V, (2, length), generator=torch.Generator().manual_seed(seed))
    mask = torch.zeros(2, length, dtype=torch.bool)
    for b, (first, end) in enumerate(answers):
        mask[b, first:end] = True
    found = VERIFIER.forward(tokens, taps=(0, 1))
    return Batch(
        tokens,
        mask,
        torch.stack([found.taps[0], found.taps[1]], dim=2),
        found.hidden,
        found.logits.argmax(-1),
        found.logits.logsumexp(-1),
    ), found.logits


@pytest.mark.parametrize("ahead", [1, 2, 3, 5])
@pytest.mark.parametrize("every", [1, 2])
def test_targets_tokens_and_mask_of_a_row_belong_to_the_same_token(ahead, every):
    """Row i stands for token i + ahead: an off-by-one in any of the three would show here."""
    batch, logits = a_batch()
    vocabulary = torch.arange(0, V, every)
    known = torch.zeros(V, dtype=torch.bool)
    known[vocabulary] = True
    target = shifted(batch, ahead, verifier_laws(batch, VERIFIER.output[vocabulary]), known)
    assert target.counts.shape == (2, 10 - ahead)  # a row for every token of the text that it can stand for
    for b in range(2):
        for i, j in enumerate(range(ahead, 10)):
            law = logits[b, j - 1].softmax(-1)
            assert target.counts[b, i] == batch.mask[b, j]
            assert target.tokens[b, i] == batch.tokens[b, j]
            assert target.best[b, i] == law.argmax()
            assert target.learnable[b, i] == (batch.mask[b, j] and law.argmax() % every == 0)
            assert torch.allclose(target.q[b, i], law[vocabulary] / law[vocabulary].sum(), atol=1e-5)
            assert torch.allclose(target.mass[b, i], law[vocabulary].sum(), atol=1e-5)


def test_the_loss_and_the_acceptance_are_the_sums_of_their_definitions():
    batch, logits = a_batch()
    vocabulary = torch.arange(0, V, 2)
    known = torch.arange(V) % 2 == 0
    target = shifted(batch, 2, verifier_laws(batch, VERIFIER.output[vocabulary]), known)
    guesses = torch.randn(2, 8, 8, generator=torch.Generator().manual_seed(1))
    loss, sampled, greedy, rows = 0.0, 0.0, 0, 0
    for b in range(2):
        for i in range(8):
            p = guesses[b, i].softmax(-1)
            q = logits[b, i + 1].softmax(-1)
            if target.learnable[b, i]:
                loss -= float((q[vocabulary] / q[vocabulary].sum() * p.log()).sum())
            if target.counts[b, i]:
                rows += 1
                sampled += float(torch.minimum(p, q[vocabulary]).sum())
                greedy += int(2 * p.argmax() == q.argmax())
    assert float(cross_entropy(guesses[target.learnable], target)) == pytest.approx(loss, rel=1e-5)
    found = acceptance(guesses, target, vocabulary)
    assert int(found.rows) == rows == target.counts.sum()
    assert float(found.sampled) == pytest.approx(sampled, rel=1e-5)
    assert int(found.greedy) == greedy


def test_a_draft_that_is_the_verifier_has_no_excess_loss_and_is_always_accepted():
    batch, logits = a_batch()
    target = shifted(batch, 1, verifier_laws(batch, VERIFIER.output), torch.ones(V, dtype=torch.bool))
    found = acceptance(logits[:, :9], target, torch.arange(V))
    assert float(found.sampled / found.rows) == pytest.approx(1.0, abs=1e-5)
    assert found.greedy == found.rows
    entropy = -(target.q * target.q.log()).sum(-1)[target.counts].sum()
    assert float(cross_entropy(logits[:, :9][target.learnable], target)) == pytest.approx(
        float(entropy), rel=1e-5
    )


def test_the_gradient_of_the_cross_entropy_is_that_of_its_definition(monkeypatch):
    monkeypatch.setattr("specdec.train.losses.ROWS", 3)  # seven rows and three do not divide
    batch, _ = a_batch()
    target = shifted(batch, 2, verifier_laws(batch, VERIFIER.output), torch.ones(V, dtype=torch.bool))
    rows = target.learnable
    logits = torch.randn(int(rows.sum()), V, generator=torch.Generator().manual_seed(0))
    ours, theirs = (logits.clone().requires_grad_() for _ in range(2))
    (3 * cross_entropy(ours, target)).backward()
    (3 * -(target.q[rows] * theirs.log_softmax(-1)).sum()).backward()
    assert (ours.grad - theirs.grad).abs().max() < 1e-6


def test_the_feature_loss_counts_the_rows_of_answers_only():
    out, features = torch.zeros(1, 3, 4), torch.full((1, 3, 4), 3.0)
    counts = torch.tensor([[True, False, True]])
    assert float(regression(out, features, counts)) == pytest.approx(2 * 2.5)  # |x| - 1/2 beyond 1
