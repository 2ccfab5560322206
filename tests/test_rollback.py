"""Rollback, for both caches: whatever is accepted, the cache equals that of one fresh pass.

A machine of hypothesis interleaves passes, acceptance, rollback and early ends on a batch of sequences. After
every step the keys and values of each sequence are compared with those of one plain pass over its tokens
alone, and the ledger with a count kept here."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from random_llama import SHAPES, ours, random_llama
from tiny_verifier import tiny_verifier

from specdec.checkpoint import expected_shapes
from specdec.errors import SpecdecError
from specdec.kv_cache import KVCache, ScratchKVCache
from specdec.ledger import Work
from specdec.sampling import Sampling
from specdec.tree import DraftTree
from specdec.verifier import Verifier
from specdec.verify import verify_tree

CAPACITY = 20  # also the context, so that a sequence that has ended may stand at the end of both
VERIFIER = tiny_verifier(context=CAPACITY)
V = VERIFIER.config.vocab_size
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
both = pytest.mark.parametrize("kind", [KVCache, ScratchKVCache])

some_tokens = st.lists(st.integers(0, V - 1), min_size=1, max_size=5)


@st.composite
def trees(draw, nodes: int):
    """Tokens and parents of a tree: any, absent nodes included."""
    parents = [draw(st.integers(-1 if i else 0, i)) for i in range(nodes)]
    for i, parent in enumerate(parents):
        if parent > 0 and parents[parent - 1] == -1:
            parents[i] = 0
    tokens = draw(st.lists(st.integers(0, V - 1), min_size=nodes, max_size=nodes))
    return tokens, parents


def path_to(parents: list[int], row: int) -> list[int]:
    """The rows from 0 to `row`, by climbing."""
    path = [row]
    while path[0] > 0:
        path.insert(0, parents[path[0] - 1])
    return path


class Batch(RuleBasedStateMachine):
    """`tokens[b]` is what sequence b consists of; all but its newest token should be cached."""

    kind: type = KVCache

    @initialize(
        prompts=st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=6), min_size=1, max_size=3)
    )
    def prefill(self, prompts):
        """Prompts of unequal length in one padded pass; what was padded is rolled back."""
        self.cache = self.kind(VERIFIER.config, len(prompts), CAPACITY)
        self.tokens = [list(p) for p in prompts]
        self.ended = [False] * len(prompts)
        self.computed = 0
        longest = max(len(p) for p in prompts) - 1
        if longest:
            padded = torch.tensor([(p[:-1] + [0] * longest)[:longest] for p in prompts])
            VERIFIER.forward(padded, self.cache)
            self.cache.rollback([len(p) - 1 for p in prompts])
            self.computed += longest

    # -- passes ----------------------------------------------------------------------------------------

    def run(self, tokens: list[list[int]], **options):
        """A pass behind the newest tokens, or None where it cannot fit, which must change nothing."""
        rows = torch.tensor([[own[-1], *new] for own, new in zip(self.tokens, tokens, strict=True)])
        n = rows.shape[1]
        longest = max(len(own) - 1 for own, ended in zip(self.tokens, self.ended, strict=True) if not ended)
        if longest + n > CAPACITY:
            before = self.cache.keys.clone(), self.cache.values.clone()
            with pytest.raises(
                SpecdecError, match=f"{longest} of {CAPACITY} tokens.* and {n} more do not fit"
            ):
                VERIFIER.forward(rows, self.cache, **options)
            assert torch.equal(self.cache.keys, before[0])
            assert torch.equal(self.cache.values, before[1])
            return None
        self.computed += n
        return VERIFIER.forward(rows, self.cache, **options)

    @precondition(lambda self: not all(self.ended))
    @rule(data=st.data(), n=st.integers(0, 4))
    def go_on(self, data, n):
        """More text that all sequences keep, as in a conversation's next turn."""
        new = [
            data.draw(st.lists(st.integers(0, V - 1), min_size=n + 1, max_size=n + 1)) for _ in self.tokens
        ]
        if self.run([x[:-1] for x in new]) is not None:
            for own, x, ended in zip(self.tokens, new, self.ended, strict=True):
                own += [] if ended else x

    @precondition(lambda self: not all(self.ended))
    @rule(data=st.data(), n=st.integers(0, 4), settle=st.booleans(), room=st.integers(0, 3))
    def verify_chain(self, data, n, settle, room):
        """A chain of n drafts, of which each sequence keeps any number; 0 rows forgets even the newest."""
        drafts = [data.draw(st.lists(st.integers(0, V - 1), min_size=n, max_size=n)) for _ in self.tokens]
        span = self.cache.ledger.bound + room
        found = self.run(drafts, wait=True, span=span if span + n + 1 <= CAPACITY else None)
        if found is not None:
            counts = [data.draw(st.integers(0, n + 1)) for _ in self.tokens]
            self.accept(
                None, [d[: max(c - 1, 0)] for d, c in zip(drafts, counts, strict=True)], counts, settle
            )

    @precondition(lambda self: not all(self.ended))
    @rule(data=st.data(), n=st.integers(0, 6), settle=st.booleans(), check=st.booleans())
    def verify_tree(self, data, n, settle, check):
        """A tree per sequence, of which each keeps any beginning of any path."""
        drawn = [data.draw(trees(n)) for _ in self.tokens]
        tokens, parents = (torch.tensor(x, dtype=torch.int64) for x in zip(*drawn, strict=True))
        tree = DraftTree(tokens, parents, depth=n, branching=n)
        found = self.run([t for t, _ in drawn], ancestors=tree.ancestors, check=check)
        if found is None:
            return
        paths, kept, counts = [], [], []
        for b, (tokens, parents) in enumerate(drawn):
            row = data.draw(st.sampled_from([0, *(i + 1 for i, p in enumerate(parents) if p >= 0)]))
            path = path_to(parents, row)
            drafts = [tokens[r - 1] for r in path[1:]]
            if not self.ended[b]:
                alone = VERIFIER.forward(torch.tensor([self.tokens[b] + drafts])).logits[0]
                torch.testing.assert_close(found.logits[b, path], alone[len(self.tokens[b]) - 1 :], **CLOSE)
            counts.append(data.draw(st.integers(0, len(path))))
            kept.append(drafts[: max(counts[b] - 1, 0)])
            paths.append(path + [path[-1]] * (n + 1 - len(path)))
        self.accept(torch.tensor(paths), kept, counts, settle)

    @precondition(lambda self: not all(self.ended))
    @rule(data=st.data(), levels=st.lists(st.integers(1, 3), min_size=1, max_size=3), settle=st.booleans())
    def read_in_levels_and_choose_afterwards(self, data, levels, settle):
        """A draft's way: several passes whose rows are kept, all of them reopened, some of them accepted."""
        n = sum(levels) - 1
        drafts = [data.draw(st.lists(st.integers(0, V - 1), min_size=n, max_size=n)) for _ in self.tokens]
        rows = torch.tensor([[own[-1], *new] for own, new in zip(self.tokens, drafts, strict=True)])
        longest = max(len(t) - 1 for t, ended in zip(self.tokens, self.ended, strict=True) if not ended)
        if longest + n + 1 > CAPACITY:
            return
        for level in rows.split(levels, dim=1):
            VERIFIER.forward(level, self.cache)
        self.computed += n + 1
        self.cache.reopen(n + 1)
        counts = [data.draw(st.integers(0, n + 1)) for _ in self.tokens]
        path = data.draw(st.sampled_from([None, torch.arange(n + 1).expand(len(counts), -1)]))
        kept = [new[: max(count - 1, 0)] for new, count in zip(drafts, counts, strict=True)]
        self.accept(path, kept, counts, settle)

    def accept(self, path, kept, counts, settle):
        """Counts of 0 leave the newest token uncomputed; else a bonus or correction follows what was kept."""
        self.cache.accept(path, torch.tensor(counts))
        if settle:
            self.cache.ledger.settle(counts)
        for own, new, count, ended in zip(self.tokens, kept, counts, self.ended, strict=True):
            if count and not ended:
                own += [*new, (sum(own) + 1) % V]

    # -- between passes --------------------------------------------------------------------------------

    @rule(data=st.data())
    def take_back(self, data):
        """A stop string takes tokens back from some sequences."""
        lengths = [data.draw(st.integers(max(1, len(own) - 3), len(own))) for own in self.tokens]
        self.cache.rollback([length - 1 for length in lengths])
        self.tokens = [own[:length] for own, length in zip(self.tokens, lengths, strict=True)]

    @rule(data=st.data())
    def end(self, data):
        b = data.draw(st.integers(0, len(self.tokens) - 1))
        self.ended[b] = True
        self.cache.ledger.end(b)

    # -- what must hold after every step ---------------------------------------------------------------

    @invariant()
    def all_tokens_but_the_newest_are_cached_as_by_one_fresh_pass(self):
        # The device's numbers: asking for `lengths` would tell the host what it is not to know.
        assert self.cache.ledger.cached.tolist() == [len(own) - 1 for own in self.tokens]
        for b, own in enumerate(self.tokens):
            if cached := len(own) - 1:
                fresh = KVCache(VERIFIER.config)
                VERIFIER.forward(torch.tensor([own[:-1]]), fresh)
                for used, expected in ((self.cache.keys, fresh.keys), (self.cache.values, fresh.values)):
                    torch.testing.assert_close(used[:, b, :, :cached], expected[:, 0, :, :cached], **CLOSE)

    @invariant()
    def every_computed_row_was_kept_once_or_discarded_once(self):
        """What is kept is what is cached, so no accepted token was ever computed twice."""
        kept = [len(own) - 1 for own in self.tokens]
        assert self.cache.ledger.work == Work(
            [self.computed] * len(kept), kept, [self.computed - k for k in kept]
        )

    def teardown(self):
        if hasattr(self, "cache"):
            assert self.cache.lengths == [len(own) - 1 for own in self.tokens]


class ScratchBatch(Batch):
    kind = ScratchKVCache


often = settings(max_examples=60, stateful_step_count=12, deadline=None)
TestInPlace = Batch.TestCase
TestInPlace.settings = often
TestScratch = ScratchBatch.TestCase
TestScratch.settings = often


# -- trees in one pass -----------------------------------------------------------------------------------


def assert_nodes_equal_their_paths_alone(verifier, cache, prefix: list[int], tokens, parents, tolerance=1e-4):
    """One pass over a tree behind a cached prefix, against a plain pass for every root-to-leaf path."""
    verifier.forward(torch.tensor([prefix[:-1]]), cache)
    tree = DraftTree.from_lists([tokens], [parents])
    found = verifier.forward(tree.by_row(torch.tensor(prefix[-1:])), cache, ancestors=tree.ancestors).logits[
        0
    ]
    for path in tree.paths():
        drafts = [tokens[row - 1] for row in path[1:]]
        alone = verifier.forward(torch.tensor([prefix + drafts])).logits[0, len(prefix) - 1 :]
        torch.testing.assert_close(found[path], alone, rtol=tolerance, atol=tolerance)


LLAMAS = {shape: ours(random_llama(**changes)) for shape, changes in SHAPES.items()}


@both
@settings(max_examples=40, deadline=None)
@given(
    shape=st.sampled_from(list(SHAPES)),
    prefix=st.lists(st.integers(0, 49), min_size=2, max_size=20),
    tokens=st.lists(st.integers(0, 49), min_size=1, max_size=12, unique=True),
    data=st.data(),
)
def test_the_logits_of_every_node_equal_those_of_a_plain_pass_over_its_path(
    kind, shape, prefix, tokens, data
):
    verifier = LLAMAS[shape]
    parents = [data.draw(st.integers(0, i)) for i in range(len(tokens))]
    assert_nodes_equal_their_paths_alone(verifier, kind(verifier.config, 1, 40), prefix, tokens, parents)


@pytest.fixture(scope="module")
def real():
    return Verifier.load()


@pytest.mark.weights
@both
def test_the_logits_of_every_node_of_a_tree_on_the_real_verifier_equal_those_of_its_path(kind, real):
    generator = torch.Generator().manual_seed(0)
    prefix = torch.randint(real.config.vocab_size, (60,), generator=generator).tolist()
    tokens = torch.randint(real.config.vocab_size, (14,), generator=generator).tolist()
    cache = kind(real.config, 1, 80)
    assert_nodes_equal_their_paths_alone(
        real, cache, prefix, tokens, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    )


# -- nothing is read by the host ---------------------------------------------------------------------------


def on_meta() -> Verifier:
    """A verifier whose tensors have shapes and no values, so that any read raises."""
    state = {
        name: torch.empty(shape, device="meta") for name, shape in expected_shapes(VERIFIER.config).items()
    }
    return Verifier.from_state(VERIFIER.config, state)


@both
@pytest.mark.parametrize("batch", [1, 3])
def test_a_round_of_pass_verdict_and_acceptance_reads_nothing_from_the_device(kind, batch):
    verifier = on_meta()
    cache = kind(verifier.config, batch, CAPACITY, device="meta")
    verifier.forward(
        torch.zeros(batch, 5, dtype=torch.int64, device="meta"), cache, logits_from=-1, check=False
    )
    assert cache.lengths == [5] * batch  # known to the host without reading
    parents = torch.tensor([[0, 0, 1, 1, 2]]).expand(batch, 5).to("meta")
    newest = torch.zeros(batch, dtype=torch.int64, device="meta")
    for wait in (True, False, False):
        tree = DraftTree(
            torch.zeros(batch, 5, dtype=torch.int64, device="meta"), parents, depth=2, branching=2
        )
        found = verifier.forward(tree.by_row(newest), cache, ancestors=tree.ancestors, check=False)
        coins = torch.zeros(batch, 5, dtype=torch.float64, device="meta")
        verdict = verify_tree(found.logits, tree, Sampling(1.0), coins)
        cache.accept(verdict.path, verdict.accepted + 1)
        newest = verdict.token
        if wait:
            chain = torch.stack((newest, newest), dim=1)
            assert (
                verifier.forward(chain, cache, wait=True, span=12, check=False).finite.device.type == "meta"
            )
            cache.accept(None, newest)
    assert cache.ledger.bound == 5 + 3 + 2 + 3 + 3
    with pytest.raises(NotImplementedError):
        _ = cache.lengths
    with pytest.raises((NotImplementedError, RuntimeError)):
        verifier.forward(chain, cache)
