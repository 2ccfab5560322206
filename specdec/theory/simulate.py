"""Many speculative steps at once, on a toy verifier and a toy draft, with the KV ledger of every sequence.

Both models are Markov tables, rows [V, V]: row t is the distribution after token t, so p and q depend on the
context. All sequences advance together, one round at a time: N draft draws, one verification, 1 to N + 1 new
tokens each. Python loops over rounds and over N, never over sequences. The rule is that of `rejection.py`; a
test holds the two together coin by coin.

The ledger counts what a KV cache would hold. The verifier pass reads the newest token and the N drafts, so it
writes N + 1 positions; the rollback drops those of the rejected drafts. What is left is one fewer than the
tokens: the bonus or correction token was sampled *from* the pass and has not been through it.

Layout: S sequences, R rounds, V tokens. `tokens` [S, 1 + R (N + 1)] has each sequence in its first `length`
columns, the context token it starts from first; rejected drafts may be left beyond, as in a real cache.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec.errors import SpecdecError
from specdec.theory.rejection import check_distribution

# One seed serves three independent streams of random numbers.
VERIFIER_STREAM, DRAFT_STREAM, COIN_STREAM = 1, 2, 3


class Ledger(NamedTuple):
    """The bookkeeping of every round, arrays [R, S]: positions in the cache, tokens in the sequence."""

    accepted: NDArray[np.int64]  # drafts kept, 0..N
    written: NDArray[np.int64]  # cached positions right after the verifier pass
    cached: NDArray[np.int64]  # cached positions after the rollback
    tokens: NDArray[np.int64]  # tokens of the sequence after the round, the context token included

    def holds(self) -> bool:
        """cached == tokens - 1 after every round, in every sequence."""
        return bool((self.cached == self.tokens - 1).all())


class Simulation(NamedTuple):
    """What `simulate` saw. The properties sum it up; the arrays are there for anything else."""

    tokens: NDArray[np.int64]  # [S, 1 + R (N + 1)]
    cache: NDArray[np.int64]  # [S, 1 + R (N + 1)] the token whose K and V each position holds
    ledger: Ledger
    draft_length: int
    vocab: int

    @property
    def length(self) -> NDArray[np.int64]:
        """Tokens of each sequence [S], the context token included."""
        return self.ledger.tokens[-1]

    @property
    def calls(self) -> int:
        """Verifier calls, R S: one per speculative step."""
        return self.ledger.accepted.size

    @property
    def tokens_per_call(self) -> float:
        """tau: the accepted drafts and the one bonus or correction token, per verifier call."""
        return float(self.ledger.accepted.mean()) + 1.0

    @property
    def acceptance(self) -> NDArray[np.float64]:
        """alpha at each draft position [N]: accepted there / reached there; NaN where none was reached."""
        kept = np.array([np.count_nonzero(self.ledger.accepted >= i) for i in range(self.draft_length + 1)])
        with np.errstate(invalid="ignore"):
            return kept[1:] / kept[:-1]

    @property
    def alpha(self) -> float:
        """Accepted drafts / drafts that were reached, all positions together; NaN when N = 0."""
        accepted = self.ledger.accepted
        reached = np.minimum(accepted + 1, self.draft_length).sum()
        return float(accepted.sum() / reached) if reached else float("nan")

    @property
    def first_counts(self) -> NDArray[np.int64]:
        """Counts [V] of the first new token, one per sequence: independent, all from one context."""
        return np.bincount(self.tokens[:, 1], minlength=self.vocab)

    @property
    def pair_counts(self) -> NDArray[np.int64]:
        """Counts [V, V] of the first two new tokens; some steps emit only one, so it takes two rounds."""
        if self.length.min() < 3:
            raise SpecdecError("some sequences have one new token only: pairs need at least rounds=2.")
        pairs = self.tokens[:, 1] * self.vocab + self.tokens[:, 2]
        return np.bincount(pairs, minlength=self.vocab**2).reshape(self.vocab, self.vocab)

    def cache_is_valid(self) -> bool:
        """Every cached position holds the K and V of the token that the sequence really has there."""
        cached = np.arange(self.cache.shape[1]) < self.ledger.cached[-1][:, None]
        return bool((self.cache == self.tokens)[cached].all())


def simulate(
    q: ArrayLike, p: ArrayLike, draft_length: int, steps: int, seed: int = 0, rounds: int = 1, start: int = 0
) -> Simulation:
    """Run `steps` speculative steps of N = draft_length drafts: steps / rounds sequences of `rounds` rounds.

    q, p [V, V]: verifier and draft, row t for a context that ends in token t. All sequences start from the
    one token `start`, so with rounds = 1 the steps are independent and from one context. N = 0 is plain
    decoding. The same seed gives the same run. ValueError unless rows are distributions and steps is a
    multiple of rounds.
    """
    q, p, n = _table(q, "q"), _table(p, "p"), draft_length
    if p.shape != q.shape:
        raise SpecdecError(f"q and p must share one vocabulary, got {len(q)} and {len(p)} tokens.")
    if n < 0 or rounds < 1 or steps < rounds or steps % rounds:
        raise SpecdecError(
            "N must be at least 0 and steps a multiple of rounds, "
            f"got N = {n}, {steps} steps and {rounds} rounds."
        )
    if not 0 <= start < len(q):
        raise SpecdecError(f"start is token {start}, outside the vocabulary 0..{len(q) - 1}.")

    rng, sequences = np.random.default_rng((seed, COIN_STREAM)), steps // rounds
    each = np.arange(sequences)
    draft_cdf = np.cumsum(p, axis=1)
    last_cdf = np.cumsum(np.vstack([_residuals(q, p), q]), axis=1)  # rows 0..V-1 correct, V..2V-1 are a bonus
    tokens = np.full((sequences, 1 + rounds * (n + 1)), start)
    cache = np.full(tokens.shape, -1)
    length, cached = np.ones(sequences, dtype=np.int64), np.zeros(sequences, dtype=np.int64)
    ledger = Ledger(*(np.empty((rounds, sequences), dtype=np.int64) for _ in Ledger._fields))

    for r in range(rounds):
        going = np.ones(sequences, dtype=bool)  # no draft of this round was rejected yet
        accepted = np.zeros(sequences, dtype=np.int64)
        context = kept = cache[each, cached] = tokens[each, length - 1]
        for i in range(n):
            draft = _draw(draft_cdf, context, rng.random(sequences))
            tokens[each, length + i] = cache[each, cached + 1 + i] = draft
            going &= rng.random(sequences) * p[context, draft] < q[context, draft]
            accepted += going
            kept = np.where(going, draft, kept)
            context = draft
        last = _draw(last_cdf, kept + len(q) * (accepted == n), rng.random(sequences))
        tokens[each, length + accepted] = last
        length = length + accepted + 1
        written = cached + 1 + n
        cached = written - (n - accepted)
        for column, values in zip(ledger, (accepted, written, cached, length), strict=True):
            column[r] = values
    return Simulation(tokens, cache, ledger, n, len(q))


# -- toy models --------------------------------------------------------------------------------------------


def toy_verifier(vocab: int, seed: int = 0) -> NDArray[np.float64]:
    """Rows [V, V] with likely and unlikely tokens after each context, none below 0.1 / V."""
    logits = 1.5 * np.random.default_rng((seed, VERIFIER_STREAM)).standard_normal((vocab, vocab))
    return 0.9 * _softmax(logits) + 0.1 / vocab


def perturbed_draft(q: ArrayLike, amplitude: float, seed: int = 0) -> NDArray[np.float64]:
    """A draft, rows [V, V]: softmax(log q + amplitude * noise); at amplitude 0 the verifier itself.

    The noise is standard normal and depends on the seed alone: a larger amplitude goes further the same way.
    """
    q = _table(q, "q")
    noise = np.random.default_rng((seed, DRAFT_STREAM)).standard_normal(q.shape)
    with np.errstate(divide="ignore"):  # a token that the verifier never says stays impossible
        return _softmax(np.log(q) + amplitude * noise)


# -- rejection.py, for many sequences ----------------------------------------------------------------------


def _residuals(q: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """`rejection.residual`, row by row."""
    owed = np.maximum(0.0, q - p)
    total = owed.sum(axis=1, keepdims=True)
    return np.divide(owed, total, out=q.copy(), where=total > 0)


def _draw(cdf: NDArray[np.float64], rows: NDArray[np.int64], u: NDArray[np.float64]) -> NDArray[np.int64]:
    """`rejection.draw` for every sequence s: the first token of cdf[rows[s]] whose sum exceeds u[s]."""
    target = u * cdf[rows, -1]
    low, high = np.zeros(u.size, dtype=np.int64), np.full(u.size, cdf.shape[1] - 1)
    for _ in range((cdf.shape[1] - 1).bit_length()):  # bisection, so that a large vocabulary stays cheap
        middle = (low + high) // 2
        exceeds = cdf[rows, middle] > target
        low, high = np.where(exceeds, low, np.minimum(middle + 1, high)), np.where(exceeds, middle, high)
    return high


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _table(rows: ArrayLike, name: str) -> NDArray[np.float64]:
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1]:
        raise SpecdecError(f"{name} must be a table [V, V], one row per last token, got shape {table.shape}.")
    return np.array([check_distribution(row, f"{name}[{t}]") for t, row in enumerate(table)])
