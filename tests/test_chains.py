"""The rule for trees on the simplest of them: all coins of a grid together give exactly q."""

import pytest
import torch

from specdec import verify
from specdec.sampling import Sampling, draw
from specdec.tree import DraftTree

pytestmark = pytest.mark.usefixtures("one_thread")


def eighths(generator, *shape):
    """Random distributions [*shape, V] of multiples of 1/8: every threshold below is then a fraction."""
    *rows, vocabulary = shape
    picks = torch.randint(vocabulary, (*rows, 8), generator=generator)
    return torch.nn.functional.one_hot(picks, vocabulary).sum(-2).double() / 8


def grid(*sizes):
    """Every combination of coins (i + 1/2) / size, one column per size: [product, len(sizes)]."""
    axes = [(torch.arange(size).double() + 0.5) / size for size in sizes]
    return torch.cartesian_prod(*axes).reshape(-1, len(sizes))


# Thresholds of the acceptance coins are a / b with a <= 8 and b in 1..8; those of the final coin are
# multiples of 1 / Z, Z in 1..8. 840 is divisible by all of them, so a grid of 840 coins splits exactly in the
# proportions of the interval.
FINE = 840


def on_chain(q, drafts, coins, p):
    """The rule over trees, on chains and given q itself."""
    return verify.verify_tree(q.log(), DraftTree.chain(drafts), Sampling(1.0), coins, p)


def joint(q, p, one_hot, rule=on_chain):
    """Exact distribution [V, V] of two tokens: one step with a single draft, completed with q's own.

    q: q[()] [V] and q[x] [V] for each first token x, as a tensor [V + 1, V] (row 0 is the first); p [V].
    """
    vocabulary = len(p)
    total = torch.zeros(vocabulary, vocabulary, dtype=torch.float64)
    coins = grid(FINE, FINE)
    for x in range(vocabulary):
        weight = 1.0 if one_hot and x == p.argmax() else 0.0 if one_hot else p[x].item()
        if weight == 0:
            continue
        rows = torch.stack([q[0], q[1 + x]]).expand(len(coins), 2, vocabulary)
        drafts = torch.full((len(coins), 1), x)
        verdict = rule(rows, drafts, coins, None if one_hot else p.expand(len(coins), 1, vocabulary))
        kept = verdict.accepted == 1
        total[x] += weight * torch.bincount(verdict.token[kept], minlength=vocabulary) / len(coins)
        corrections = torch.bincount(verdict.token[~kept], minlength=vocabulary) / len(coins)
        total += weight * corrections[:, None] * q[1:]
    return total


# -- exactness -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("one_hot", [False, True])
def test_every_coin_of_a_grid_together_gives_exactly_the_verifiers_distribution(seed, one_hot):
    generator = torch.Generator().manual_seed(seed)
    q, p = eighths(generator, 4, 3), eighths(generator, 3)
    expected = q[0][:, None] * q[1:]
    assert (joint(q, p, one_hot) - expected).abs().sum() / 2 < 1e-12


def test_a_correction_drawn_from_q_is_caught_by_the_same_grid():
    def wrong(q, drafts, coins, p):
        verdict = on_chain(q, drafts, coins, p)
        return verdict._replace(token=draw(q[torch.arange(len(q)), verdict.accepted], coins[:, -1]))

    generator = torch.Generator().manual_seed(1)
    q, p = eighths(generator, 4, 3), eighths(generator, 3)
    expected = q[0][:, None] * q[1:]
    assert (joint(q, p, False, wrong) - expected).abs().sum() / 2 > 0.05
