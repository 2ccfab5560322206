"""The trace of a decoding: what it says agrees with the texts, the distributions and the caches."""

import json

import numpy as np
import pytest
import torch
from tiny_verifier import tiny_verifier

from specdec.decode import generate
from specdec.drafts.ngram import NgramDraft
from specdec.drafts.small_lm import SmallLM
from specdec.errors import SpecdecError
from specdec.policy import chain, dynamic, static
from specdec.sampling import Sampling, probabilities
from specdec.theory import rejection
from specdec.trace import Trace

pytestmark = pytest.mark.usefixtures("one_thread")

VERIFIER = tiny_verifier(vocabulary=40)
SMALLER = tiny_verifier(vocabulary=40, layers=1)
PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6], [5, 3, 5]]
POLICIES = [chain(3), static([2, 2]), dynamic(3, 2, 5)]
SAMPLING = Sampling(1.5, seed=4)


@pytest.fixture(params=POLICIES, ids=["chain", "static", "dynamic"])
def traced(request):
    trace = Trace(full=True)
    done = generate(VERIFIER, SmallLM(SMALLER), PROMPTS, request.param, SAMPLING, 20, trace=trace)
    return trace, done


def law(tokens, model=VERIFIER):
    return probabilities(model.forward(torch.tensor([tokens])).logits[0, -1], SAMPLING).double().numpy()


def path_to(round_, row):
    path = []
    while row > 0:
        path.insert(0, round_.tokens[row - 1])
        row = round_.parents[row - 1]
    return path


def test_every_round_of_every_sequence_is_there_and_its_tokens_make_the_texts(traced):
    trace, done = traced
    assert trace.prompts == PROMPTS
    for b, sequence in enumerate(done.sequences):
        own = [r for r in trace.rounds if r.sequence == b]
        assert [r.emitted for r in own] == [r.emitted for r in sequence.rounds]
        assert [token for r in own for token in r.emitted] == sequence.tokens
    for i, r in enumerate(trace.rounds):
        prefix = trace.prefix(i)
        assert (len(prefix), prefix[-1]) == (r.prefix, r.newest)
        assert r.cached_before == r.prefix - 1
        assert r.cached_after == r.cached_before + len(r.emitted)
        assert [*path_to(r, r.path[-1]), r.token][: len(r.emitted)] == r.emitted
        assert r.bonus == (r.path[-1] not in r.parents)
        assert set(r.ms) == {"draft", "verify", "accept", "rollback"}


def test_q_of_every_row_is_the_verifiers_own_after_that_path(traced):
    trace, _ = traced
    for i, r in enumerate(trace.rounds[:6]):
        for row in range(len(r.tokens) + 1):
            if row and r.parents[row - 1] == -1:
                continue
            exact = law(trace.prefix(i) + path_to(r, row))
            assert np.abs(trace.arrays[f"q/{i}"][row] - exact).max() < 1e-4
            assert r.q[row]["p"][0] == pytest.approx(exact.max(), abs=1e-4)
            for token, q in zip(r.q[row]["tokens"], r.q[row]["p"], strict=True):
                assert q == pytest.approx(exact[token], abs=1e-4)


def test_a_law_keeps_sixteen_tokens_the_trees_own_and_the_mass_of_the_rest(traced):
    trace, _ = traced
    for i, r in enumerate(trace.rounds):
        for row, kept in enumerate(r.q):
            own = [t for t, parent in zip(r.tokens, r.parents, strict=True) if parent == row]
            assert 16 <= len(kept["tokens"]) <= 16 + len(own)
            assert set(own) <= set(kept["tokens"])
            assert kept["p"] == sorted(kept["p"], reverse=True)
            others = np.delete(trace.arrays[f"q/{i}"][row], kept["tokens"])
            assert kept["rest"] == pytest.approx(others.sum(), abs=1e-6)


def test_p_and_the_residual_of_sampled_children_are_the_drafts_and_those_of_the_textbook():
    trace = Trace(full=True)
    generate(VERIFIER, SmallLM(SMALLER), PROMPTS[:1], chain(3), SAMPLING, 20, trace=trace)
    for i, r in enumerate(trace.rounds):
        for row in range(len(r.tokens)):
            p = law(trace.prefix(i) + r.tokens[:row], SMALLER)
            assert np.abs(trace.arrays[f"p/{i}"][row] - p).max() < 1e-4
            q = law(trace.prefix(i) + r.tokens[:row])
            assert np.abs(trace.arrays[f"residual/{i}"][row] - rejection.residual(q, p)).max() < 1e-3
        # And the coins say what the path says.
        for row, coin in enumerate(r.coins[:-1]):
            x = r.tokens[row]
            q, p = trace.arrays[f"q/{i}"][row][x], trace.arrays[f"p/{i}"][row][x]
            if row < len(r.path):
                assert (coin < q / p) == (len(r.path) > row + 1)


def test_where_children_were_not_sampled_there_is_no_p_and_the_residual_lacks_them():
    trace = Trace(full=True)
    generate(VERIFIER, NgramDraft(), [[1, 2, 3] * 3], chain(3), SAMPLING, 12, trace=trace)
    assert any(r.tokens for r in trace.rounds)
    for i, r in enumerate(trace.rounds):
        assert r.p == [None] * (len(r.tokens) + 1)
        for row, x in enumerate(r.tokens):
            expected = trace.arrays[f"q/{i}"][row].astype(float)
            expected[x] = 0
            assert np.abs(trace.arrays[f"residual/{i}"][row] - expected / expected.sum()).max() < 1e-6


def test_a_trace_goes_through_json_unchanged_and_its_arrays_beside_it(traced, tmp_path):
    trace, _ = traced
    trace.save(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["version"] == 1
    again = Trace.load(tmp_path / "trace.json")
    assert again.rounds == trace.rounds
    assert again.prompts == trace.prompts
    assert set(again.arrays) == set(trace.arrays)
    assert all(np.array_equal(again.arrays[name], trace.arrays[name]) for name in trace.arrays)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["trace.json", "trace.npz"]


def test_a_trace_without_arrays_is_one_small_file(tmp_path):
    trace = Trace()
    generate(VERIFIER, None, PROMPTS, max_new_tokens=5, trace=trace)
    trace.save(tmp_path / "trace.json")
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]
    assert Trace.load(tmp_path / "trace.json").rounds == trace.rounds


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "cannot read a trace from .*trace.json"),
        ("[]", "is not a trace"),
        ('{"version": 99, "rounds": []}', "has version 99, and 1 is read here"),
        ('{"version": 1, "rounds": [{"a": 1}], "top": 16, "prompts": []}', "is not a trace"),
    ],
)
def test_what_is_no_trace_is_refused_in_a_sentence(tmp_path, content, sentence):
    (tmp_path / "trace.json").write_text(content)
    with pytest.raises(SpecdecError, match=sentence):
        Trace.load(tmp_path / "trace.json")


def test_tracing_changes_no_token():
    for policy in POLICIES:
        options = (SmallLM(SMALLER), PROMPTS, policy, SAMPLING, 20)
        plain, traced = generate(VERIFIER, *options), generate(VERIFIER, *options, trace=Trace())
        assert [s.tokens for s in plain.sequences] == [s.tokens for s in traced.sequences]
