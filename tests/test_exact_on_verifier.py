"""Exactness on the real verifier: greedy output token for token, sampled output in distribution."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from specdec import verify
from specdec.decode import generate
from specdec.drafts.ngram import NgramDraft
from specdec.exactness import compare_with_plain
from specdec.policy import chain
from specdec.sampling import Sampling, probabilities
from specdec.theory.stats import limits_power, outside
from specdec.tokenizer import load_tokenizer
from specdec.tree import DraftTree
from specdec.verifier import Verifier

pytestmark = pytest.mark.weights

ROOT = Path(__file__).resolve().parents[1]
PROMPTS = json.loads((ROOT / "benchmarks" / "prompts.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def verifier():
    return Verifier.load()


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer()


# -- greedy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["chat", "code", "summary"])
def test_greedy_output_equals_plain_output_token_for_token_up_to_near_ties(verifier, tokenizer, kind):
    prompt = tokenizer.chat(next(p["prompt"] for p in PROMPTS if p["kind"] == kind))
    found = generate(verifier, NgramDraft(), [prompt], max_new_tokens=40, eos_ids=tokenizer.eos_ids)
    comparison = compare_with_plain(verifier, prompt, found.tokens, 40, tokenizer.eos_ids)
    assert len(prompt) >= 64
    assert comparison.identical, f"differs at new token {comparison.first_difference}"
    # A near-tie comes about once in 2,000 positions; five in 40 would mean that the comparison has been
    # emptied.
    assert len(comparison.near_ties) < 5
    assert sum(r.accepted for r in found.rounds) > 0


# -- sampling --------------------------------------------------------------------------------------


# The draft has seen what boys are and proposes " happy." for girls; the verifier finds that likely, not sure.
PREFIX = "The boy is happy. The girl is"
N = 2
SAMPLES = 2000  # the wrong rules below pass this many with a probability below 1e-6
FIRST, SECOND = 6, 5  # cells: so many likely first tokens, each with so many likely second ones, and the rest


class Chains:
    """A draft and the verifier's logits along it, from one pass: what a round after `tokens` works on."""

    def __init__(self, verifier, tokens):
        self.drafts = NgramDraft().propose(tokens, N)
        self.logits = verifier.forward(torch.tensor([tokens + self.drafts])).logits[:, len(tokens) - 1 :]

    def verify(self, coins):
        """One speculative round per row of coins [B, n + 1], by the code that `generate` runs."""
        drafts = torch.tensor([self.drafts], dtype=torch.long).expand(len(coins), -1)
        logits = self.logits.expand(len(coins), -1, -1)
        return verify.verify_tree(logits, DraftTree.chain(drafts), Sampling(1.0), coins)


@pytest.fixture(scope="module")
def prefix(tokenizer):
    return tokenizer.encode(PREFIX)


@pytest.fixture(scope="module")
def laws(verifier, prefix):
    """The exact q after the prefix, and after the prefix and each likely first token; from plain passes."""

    def law(tokens):
        return probabilities(verifier.forward(torch.tensor([tokens])).logits[0, -1], Sampling(1.0)).double()

    first = law(prefix)
    likely = first.topk(FIRST).indices.tolist()
    return first, {x: law([*prefix, x]) for x in likely}


@pytest.fixture(scope="module")
def rounds(verifier, prefix, laws):
    """What the loop meets: the chain after the prefix (key None), and after each likely first token."""
    chains = {x: Chains(verifier, [*prefix, x]) for x in laws[1]}
    return {None: Chains(verifier, prefix), **chains}


def cells(exact, drawn):
    """Probabilities of the cells (x1, x2), (x1, any other) and (any other, any) under the `drawn` laws.

    Which cells there are depends on the exact laws: a pair expected less than 20 times is an "other".
    """
    (q_first, q_second), (first, second) = exact, drawn
    table = {}
    for x, q in q_second.items():
        often = [y for y in q.topk(SECOND).indices.tolist() if q_first[x] * q[y] * SAMPLES >= 20]
        for y in often:
            table[x, y] = float(first[x] * second[x][y])
        table[x, None] = float(first[x] * (1 - second[x][often].sum()))
    table[None, None] = 1 - sum(table.values())
    return table


def two_tokens(rounds, coins):
    """The loop's first two tokens per row of coins [B, 2, N + 1]; behind an unlikely first, no second."""
    verdict = rounds[None].verify(coins[:, 0])
    drafts = rounds[None].drafts
    pairs = [
        [*drafts[:accepted], token][:2] + [None] * (accepted == 0)
        for accepted, token in zip(verdict.accepted.tolist(), verdict.token.tolist(), strict=True)
    ]
    for x, round_ in rounds.items():
        rows = [i for i, pair in enumerate(pairs) if pair == [x, None]]
        if x is None or not rows:
            continue
        again = round_.verify(coins[rows, 1, -len(round_.drafts) - 1 :])
        for i, accepted, token in zip(rows, again.accepted.tolist(), again.token.tolist(), strict=True):
            pairs[i] = [x, round_.drafts[0] if accepted else token]
    return pairs


def count(rounds, table, seed):
    """Counts of SAMPLES pairs in the cells of `table`."""
    generator = torch.Generator().manual_seed(seed)
    counts: Counter = Counter()
    for _ in range(SAMPLES):  # row by row: 49,152 probabilities stay in the processor's cache
        coins = torch.rand(1, 2, N + 1, dtype=torch.float64, generator=generator)
        [(x, y)] = two_tokens(rounds, coins)
        counts[(x, y) if (x, y) in table else (x, None) if (x, None) in table else (None, None)] += 1
    return [counts[cell] for cell in table]


def test_the_loop_with_a_seed_gives_the_tokens_that_its_coins_give(verifier, prefix, rounds):
    """Ties the many rounds below to the real loop: same coins, same tokens."""
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)
        coins = torch.zeros(1, 2, N + 1, dtype=torch.float64)
        coins[0, 0] = torch.rand(N + 1, dtype=torch.float64, generator=generator)
        first = rounds[None].verify(coins[:, 0])
        if first.token.item() in rounds and first.accepted == 0:
            n = len(rounds[first.token.item()].drafts)
            again = torch.rand(N + 1, dtype=torch.float64, generator=generator)
            coins[0, 1, -n - 1 :] = torch.cat((again[:n], again[-1:]))
        expected = two_tokens(rounds, coins)[0]
        found = generate(verifier, NgramDraft(), [prefix], chain(N), Sampling(1.0, seed=seed), 4).tokens
        assert found[: 1 if expected[1] is None else 2] == [t for t in expected if t is not None]


def test_two_sampled_tokens_follow_the_verifiers_exact_probabilities(one_thread, rounds, laws):
    table = cells(laws, laws)
    assert outside(count(rounds, table, seed=1), list(table.values()), false_fail=1e-6).size == 0


def correction_from_q(q, x, exists):
    return q


def accept_everything(q, x, exists, coins):
    return exists


def wrong_cells(laws, rounds, law_of):
    """The cells under a rule that turns q and the proposed token into `law_of(q, token)`."""

    def drawn(q, chain):
        return law_of(q, chain.drafts[0]) if chain.drafts else q

    first, second = laws
    return cells(laws, (drawn(first, rounds[None]), {x: drawn(law, rounds[x]) for x, law in second.items()}))


def one_hot(q, x):
    return torch.nn.functional.one_hot(torch.tensor(x), len(q)).double()


WRONG = {
    # Accepted with q(x), and after a rejection drawn from q again: x comes out with q(x) + (1 - q(x)) q(x).
    "correction sampled from q": (
        "owed_top_k",
        correction_from_q,
        lambda q, x: q * (1 - q[x]) + q[x] * one_hot(q, x),
    ),
    "every draft accepted": ("keep_top_k", accept_everything, one_hot),
}


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_is_caught_with_the_same_number_of_samples(one_thread, rounds, laws, monkeypatch, rule):
    name, replacement, law_of = WRONG[rule]
    table = cells(laws, laws)
    alternative = wrong_cells(laws, rounds, law_of)
    assert limits_power(SAMPLES, list(table.values()), list(alternative.values())) > 1 - 1e-6
    monkeypatch.setattr(verify, name, replacement)
    counts = count(rounds, table, seed=1)
    assert outside(counts, list(table.values())).size > 0
    # And it is this wrong rule that was run: its own distribution is not ruled out.
    assert outside(counts, np.array(list(alternative.values())).clip(0)).size == 0
