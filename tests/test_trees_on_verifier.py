"""Trees on the real verifier: greedy output token for token, sampled output in distribution.

The draft is the verifier's own first layers, read by its own output matrix: a language model that often
agrees, and often does not.
"""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specdec import verify, weights
from specdec.checkpoint import load_gguf
from specdec.decode import Coins, generate
from specdec.drafts.ngram import NgramDraft
from specdec.drafts.small_lm import SmallLM
from specdec.exactness import compare_with_plain
from specdec.grow import grow
from specdec.policy import chain, dynamic, static
from specdec.sampling import Sampling, probabilities
from specdec.theory.stats import limits_power, outside
from specdec.tokenizer import load_tokenizer
from specdec.tree import DraftTree
from specdec.verifier import Verifier

pytestmark = [pytest.mark.weights, pytest.mark.usefixtures("one_thread")]

ROOT = Path(__file__).resolve().parents[1]
PROMPTS = json.loads((ROOT / "benchmarks" / "prompts.json").read_text(encoding="utf-8"))
DRAFT_LAYERS = 24


@pytest.fixture(scope="module")
def verifier():
    return Verifier.load()


@pytest.fixture(scope="module")
def draft():
    config, state = load_gguf(weights.ensure(), torch.float32)
    kept = {
        name: tensor
        for name, tensor in state.items()
        if not name.startswith("model.layers.") or int(name.split(".")[2]) < DRAFT_LAYERS
    }
    return SmallLM(Verifier.from_state(replace(config, layers=DRAFT_LAYERS), kept))


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer()


# -- greedy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "of", "policy"),
    [
        ("code", "ngram", static([2, 2, 1, 1])),
        ("summary", "ngram", dynamic(6, 3, 12)),
        ("chat", "layers", static([2, 2, 2])),
        ("chat", "layers", dynamic(4, 3, 8)),
        ("code", "layers", chain(4)),
    ],
)
def test_greedy_output_over_trees_equals_plain_output_up_to_near_ties(
    verifier, draft, tokenizer, kind, of, policy
):
    prompt = tokenizer.chat(next(p["prompt"] for p in PROMPTS if p["kind"] == kind))
    proposer = {"ngram": NgramDraft(), "layers": draft}[of]
    found = generate(verifier, proposer, [prompt], policy, max_new_tokens=24, eos_ids=tokenizer.eos_ids)
    comparison = compare_with_plain(verifier, prompt, found.tokens, 24, tokenizer.eos_ids)
    assert comparison.identical, f"differs at new token {comparison.first_difference}"
    assert len(comparison.near_ties) < 5
    assert sum(r.accepted for r in found.rounds) > 0


def test_a_batch_on_the_real_verifier_gives_each_text_what_plain_decoding_gives_it_alone(
    verifier, draft, tokenizer
):
    prompts = [tokenizer.chat(p["prompt"]) for p in PROMPTS[:3]]
    assert len(set(map(len, prompts))) == 3
    done = generate(verifier, draft, prompts, static([2, 1, 1]), max_new_tokens=12, eos_ids=tokenizer.eos_ids)
    for prompt, text in zip(prompts, done.sequences, strict=True):
        assert compare_with_plain(verifier, prompt, text.tokens, 12, tokenizer.eos_ids).identical


# -- sampling --------------------------------------------------------------------------------------


PREFIX = "The boy is happy. The girl is"
SAMPLING = Sampling(1.0, top_k=4)
POLICY = static([2, 2])  # sampled without replacement: rule (a)
SAMPLES = 20_000


class Tables:
    """Logits of verifier and draft after every path of up to two tokens that top-k lets happen.

    `tokens` are all that either can emit there; the logits are cut to them, which top-k does anyway. So
    thousands of rounds of the loop's own code run in one call.
    """

    def __init__(self, verifier, draft, prefix):
        models = {"q": verifier, "p": draft.model}
        logits = {name: {} for name in models}
        paths = [()]
        for _ in range(3):
            for name, model in models.items():
                rows = model.forward(torch.tensor([[*prefix, *path] for path in paths])).logits[:, -1]
                logits[name] |= dict(zip(paths, rows, strict=True))
            likely = {
                path: {t for name in models for t in logits[name][path].topk(SAMPLING.top_k).indices.tolist()}
                for path in paths
            }
            paths = [(*path, token) for path in paths for token in sorted(likely[path])]
        self.tokens = sorted({t for path in logits["q"] for t in path} | {t for p in paths for t in p})
        self.rows = {path: i for i, path in enumerate(logits["q"])}
        self.logits = {
            name: torch.stack([logits[name][path][self.tokens] for path in self.rows]) for name in models
        }
        place = {token: i for i, token in enumerate(self.tokens)}
        # next_row[row, x]: the row of the path that goes on with token number x; row 0 where none is kept
        self.next_row = torch.zeros(len(self.rows), len(self.tokens), dtype=torch.long)
        for path, row in self.rows.items():
            if path:
                self.next_row[self.rows[path[:-1]], place[path[-1]]] = row

    def law(self, name, rows):
        return probabilities(self.logits[name][rows], SAMPLING)

    def rows_of(self, tree: DraftTree, start):
        """The table's row of every row of the trees, `[B, m + 1]`, whose roots stand at `start [B]`."""
        rows = [start]
        for node in range(tree.rows - 1):
            up = torch.stack(rows, 1).gather(1, tree.parents[:, node : node + 1].clamp(min=0)).squeeze(1)
            rows.append(self.next_row[up, tree.tokens[:, node]])
        return torch.stack(rows, 1)

    def round(self, policy, start, draft_coins, coins):
        """One round per row of coins, by the code that `generate` runs: what was emitted, `[B, D + 1]`."""

        def step(fed, new):
            return self.law("p", self.rows_of(fed, start)[:, -new:])

        growth = grow(policy, self.law("p", start), step, draft_coins)
        logits = self.logits["q"][self.rows_of(growth.tree, start)]
        return verify.verify_tree(logits, growth.tree, SAMPLING, coins, growth.p).emitted


@pytest.fixture(scope="module")
def prefix(tokenizer):
    return tokenizer.encode(PREFIX)


@pytest.fixture(scope="module")
def tables(verifier, draft, prefix):
    return Tables(verifier, draft, prefix)


def two_tokens(tables, draw):
    """The loop's first two tokens of three, as numbers into `tables.tokens`, `[B, 2]`.

    draw(n): `[B, n]` coins. In the first round the tree is whole; where it emits one token only, a second
    round follows, whose tree is one level deep, for no more than two tokens are to come.
    """
    first_draft, first = draw(POLICY.coins), draw(POLICY.depth * POLICY.branching + 1)
    again = POLICY.up_to(1)
    second_draft, second = draw(again.coins), draw(again.depth * again.branching + 1)
    start = torch.zeros(len(first), dtype=torch.long)
    emitted = tables.round(POLICY, start, first_draft, first)
    x = emitted[:, 0]
    more = tables.round(again, tables.next_row[start, x], second_draft, second)
    return torch.stack((x, emitted[:, 1].where(emitted[:, 1] >= 0, more[:, 0])), dim=1)


def test_the_loop_with_a_seed_gives_the_tokens_that_its_coins_give(verifier, draft, prefix, tables):
    """Ties the many rounds below to the real loop: same coins, same tokens, on the whole vocabulary."""
    for seed in range(12):
        coins = Coins(seed, 1)
        expected = [tables.tokens[x] for x in two_tokens(tables, coins.draw)[0].tolist()]
        found = generate(verifier, draft, [prefix], POLICY, replace(SAMPLING, seed=seed), 3).tokens
        assert found[:2] == expected


def exact_pairs(tables):
    """{(x1, x2): probability}, from the verifier's own laws."""
    first = tables.law("q", torch.tensor(0)).double()
    pairs = {}
    for x in first.nonzero().flatten().tolist():
        second = tables.law("q", tables.next_row[0, x]).double()
        pairs |= {(x, y): float(first[x] * second[y]) for y in second.nonzero().flatten().tolist()}
    return pairs


def count(tables, pairs, seed):
    generator = torch.Generator().manual_seed(seed)

    def draw(n):
        return torch.rand(SAMPLES, n, dtype=torch.float64, generator=generator)

    drawn = Counter(map(tuple, two_tokens(tables, draw).tolist()))
    return [drawn[pair] for pair in pairs] + [sum(n for pair, n in drawn.items() if pair not in pairs)]


def test_two_tokens_sampled_over_trees_follow_the_verifiers_exact_probabilities(tables):
    pairs = exact_pairs(tables)
    assert len(pairs) == 16
    assert outside(count(tables, pairs, seed=1), [*pairs.values(), 0.0], false_fail=1e-6).size == 0


def correction_from_q(q, p, x, exists):
    return q


def without_update(q, p, x, exists):
    """Every sibling is judged against the same q and the same p."""
    s, r = q.double().sum(-1, keepdim=True), p.double().sum(-1, keepdim=True)
    for _ in range(x.shape[1] + 1):
        yield q.double(), s, p.double(), r


@pytest.mark.parametrize(
    ("name", "replacement"), [("owed_sampled", correction_from_q), ("rounds", without_update)]
)
def test_a_wrong_rule_over_trees_is_caught_with_the_same_number_of_samples(
    tables, monkeypatch, name, replacement
):
    pairs = exact_pairs(tables)
    monkeypatch.setattr(verify, name, replacement)
    first, second, fresh = (count(tables, pairs, seed) for seed in (1, 2, 3))
    assert outside(first, [*pairs.values(), 0.0], false_fail=1e-6).size > 0
    # Its own law, estimated from other samples, is so far off that the test could hardly have missed it.
    alternative = [(a + b) / (2 * SAMPLES) for a, b in zip(second, fresh, strict=True)]
    assert limits_power(SAMPLES, [*pairs.values(), 0.0], alternative) > 1 - 1e-6
