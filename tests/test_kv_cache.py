"""The caches' interface: sizes, room, what waits, what is refused, and what is not copied."""

import pytest
import torch
from tiny_verifier import tiny_verifier

from specdec.errors import SpecdecError
from specdec.kv_cache import KVCache, ScratchKVCache
from specdec.ledger import Work
from specdec.slots import mask_beside, put, take, tree_mask
from specdec.tree import DraftTree

VERIFIER = tiny_verifier()
V = VERIFIER.config.vocab_size
both = pytest.mark.parametrize("kind", [KVCache, ScratchKVCache])
# The newest token 0 has the children 1 and 2, and 3 is a child of 1.
TREE = torch.tensor([[[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]]], dtype=torch.bool)


def sequence(length: int, seed: int = 0, batch: int = 1) -> torch.Tensor:
    return torch.randint(V, (batch, length), generator=torch.Generator().manual_seed(seed))


def filled(kind, length: int, batch: int = 1, capacity: int = 8):
    cache = kind(VERIFIER.config, batch, capacity)
    VERIFIER.forward(sequence(length, batch=batch), cache)
    return cache


def contents(cache) -> tuple[torch.Tensor, torch.Tensor]:
    return cache.keys.clone(), cache.values.clone()


def unchanged(cache, before) -> bool:
    return all(torch.equal(x, y) for x, y in zip(contents(cache), before, strict=True))


# -- sizes ---------------------------------------------------------------------------------------------------


@both
def test_a_new_cache_has_one_slot_per_layer_sequence_head_and_token_and_holds_none(kind):
    cache = kind(VERIFIER.config, batch=3, capacity=10)
    assert cache.keys.shape == cache.values.shape == (2, 3, 2, 10, 8)
    assert (cache.batch, cache.capacity, cache.length, cache.lengths) == (3, 10, 0, [0, 0, 0])
    assert kind(VERIFIER.config).capacity == VERIFIER.config.context_length


@both
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"batch": 0}, "batch of at least 1, got 0"),
        ({"capacity": 0}, "from 1 to the context length 256, got 0"),
        ({"capacity": 257}, "from 1 to the context length 256, got 257"),
        ({"batch": 10**12}, r"1000000000000 sequences of 256 tokens takes [\d,]+\.\d GB, more than there is"),
    ],
)
def test_a_cache_of_impossible_size_is_refused_with_the_number(kind, arguments, sentence):
    with pytest.raises(SpecdecError, match=sentence):
        kind(VERIFIER.config, **arguments)


def test_a_scratch_without_rows_and_a_pass_of_more_rows_than_it_has_are_refused():
    with pytest.raises(SpecdecError, match="room for at least 1 row, got 0"):
        ScratchKVCache(VERIFIER.config, scratch=0)
    cache = ScratchKVCache(VERIFIER.config, capacity=16, scratch=3)
    VERIFIER.forward(sequence(4), cache)  # kept at once: it does not pass through the scratch
    with pytest.raises(SpecdecError, match="room for 3 rows and 4 would wait in it"):
        VERIFIER.forward(sequence(4), cache, wait=True)
    assert cache.length == 4


# -- room ----------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("wait", [False, True])
def test_overflow_names_the_numbers_and_leaves_the_cache_as_it_was(kind, wait):
    cache = filled(kind, 6)
    before = contents(cache)
    with pytest.raises(SpecdecError, match="holds 6 of 8 tokens and 3 more do not fit"):
        VERIFIER.forward(sequence(3, seed=1), cache, wait=wait)
    assert cache.length == 6
    assert unchanged(cache, before)
    VERIFIER.forward(sequence(2, seed=1), cache)
    assert cache.length == 8


@both
def test_the_longest_running_sequence_decides_whether_a_batch_overflows(kind):
    cache = filled(kind, 7, batch=3)
    cache.rollback([2, 7, 1])
    with pytest.raises(SpecdecError, match="holds 7 of 8 tokens in sequence 1 and 2 more"):
        VERIFIER.forward(sequence(2, batch=3), cache)
    assert cache.lengths == [2, 7, 1]
    cache.ledger.end(1)
    VERIFIER.forward(sequence(2, batch=3), cache)
    assert cache.lengths == [4, 7, 3]


@both
@pytest.mark.parametrize("options", [{}, {"wait": True}, {"ancestors": TREE.expand(2, -1, -1)}])
def test_what_a_sequence_that_ended_at_the_end_of_the_context_computes_harms_nobody(kind, options):
    """Rows for slots and positions that do not exist: the sequence stays as it is, the other is right."""
    verifier = tiny_verifier(context=8)
    cache = kind(verifier.config, batch=2)
    verifier.forward(sequence(8, batch=2), cache)
    cache.rollback([8, 2])
    cache.ledger.end(0)
    before = cache.keys[:, 0].clone()
    rows = sequence(4, seed=1, batch=2)
    found = verifier.forward(rows, cache, **options).logits
    assert found.isfinite().all()
    if options:
        cache.accept(
            torch.tensor([[0, 1, 3], [0, 1, 3]]) if "ancestors" in options else None, torch.tensor([2, 2])
        )
    assert cache.lengths == [8, 4 if options else 6]
    assert torch.equal(cache.keys[:, 0], before)
    alone = torch.cat((sequence(8, batch=2)[1, :2], rows[1, :2]))[None]
    torch.testing.assert_close(found[1, :2], verifier.forward(alone).logits[0, 2:])


@both
def test_room_that_the_host_only_underestimates_is_found_by_reading_the_lengths(kind):
    """Two rounds whose counts the host never learned: as far as it knows, eight tokens may be cached."""
    cache = kind(VERIFIER.config, capacity=8)
    for _ in range(2):
        VERIFIER.forward(sequence(4), cache, wait=True)
        cache.accept(None, torch.tensor([1]))
    assert cache.ledger.bound == 8
    VERIFIER.forward(sequence(5), cache)
    assert cache.length == 7


@both
def test_a_batch_that_is_not_the_caches_is_refused(kind):
    with pytest.raises(
        SpecdecError, match=r"the cache is for 3 sequences in torch.float32, but the pass has 2"
    ):
        VERIFIER.forward(sequence(2, batch=2), kind(VERIFIER.config, 3, 8))


# -- waiting and acceptance ----------------------------------------------------------------------------------


@both
def test_rows_that_wait_are_not_cached_until_they_are_accepted(kind):
    cache = filled(kind, 2)
    VERIFIER.forward(sequence(4, seed=1), cache, ancestors=TREE)
    assert cache.length == 2
    cache.accept(torch.tensor([[0, 1, 3]]), torch.tensor([2]))
    assert cache.length == 4
    assert cache.ledger.work == Work([6], [4], [2])


@both
def test_the_ledger_counts_what_each_sequence_kept_and_discarded(kind):
    cache = filled(kind, 2, batch=2)
    VERIFIER.forward(sequence(3, batch=2), cache, wait=True)
    cache.accept(None, torch.tensor([3, 1]))
    assert cache.ledger.work == Work([5, 5], [5, 3], [0, 2])
    cache.rollback([4, 3])
    assert cache.ledger.work == Work([5, 5], [4, 3], [1, 2])
    VERIFIER.forward(sequence(2, batch=2), cache, wait=True)
    assert cache.ledger.work == Work([5, 5], [4, 3], [1, 2])  # undecided yet
    cache.rollback([4, 3])
    assert cache.ledger.work == Work([7, 7], [4, 3], [3, 4])


@both
def test_a_sequence_that_has_ended_keeps_its_length_whatever_is_accepted(kind):
    cache = filled(kind, 2, batch=2)
    cache.ledger.end(0)
    VERIFIER.forward(sequence(2, batch=2), cache, wait=True)
    cache.accept(None, torch.tensor([2, 2]))
    cache.ledger.settle([2, 2])
    assert cache.lengths == cache.ledger.cached.tolist() == [2, 4]
    VERIFIER.forward(sequence(1, batch=2), cache)
    assert cache.lengths == cache.ledger.cached.tolist() == [2, 5]
    assert cache.ledger.work == Work([5, 5], [2, 5], [3, 0])
    cache.ledger.end(1)
    with pytest.raises(SpecdecError, match="all 2 sequences have ended"):
        VERIFIER.forward(sequence(1, batch=2), cache)
    with pytest.raises(SpecdecError, match="sequences 0 to 1, got 2"):
        cache.ledger.end(2)


@both
def test_a_chain_is_accepted_in_place_and_moves_nothing_in_the_logical_length_cache(kind):
    cache = filled(kind, 2)
    VERIFIER.forward(sequence(4, seed=1), cache, wait=True)
    before = contents(cache)
    cache.accept(None, torch.tensor([3]))
    assert unchanged(cache, before) == (kind is KVCache)


def test_nothing_that_waits_touches_the_scratch_caches_slots_until_it_is_accepted():
    cache = filled(ScratchKVCache, 3)
    before = contents(cache)
    VERIFIER.forward(sequence(4, seed=1), cache, ancestors=TREE)
    assert unchanged(cache, before)
    cache.accept(torch.tensor([[0, 1, 3]]), torch.tensor([2]))
    assert not unchanged(cache, before)


@both
@pytest.mark.parametrize("wait", [False, True])
def test_write_returns_views_of_the_cache_and_not_copies(kind, wait):
    cache = filled(kind, 2)
    cache.start(3, wait)
    keys, values = cache.write(1, torch.ones(1, 2, 3, 8), torch.full((1, 2, 3, 8), 2.0))
    assert keys.shape == values.shape == (1, 2, 5, 8)
    for view, store in ((keys, cache.keys), (values, cache.values)):
        assert view.untyped_storage().data_ptr() == store.untyped_storage().data_ptr()
    assert (keys == 1).sum() == 3 * 2 * 8
    assert (values == 2).sum() == 3 * 2 * 8


# -- what is refused -----------------------------------------------------------------------------------------


@both
def test_a_pass_while_rows_wait_and_an_acceptance_while_none_do_are_refused(kind):
    cache = filled(kind, 2)
    with pytest.raises(SpecdecError, match="nothing to accept"):
        cache.accept(None, torch.tensor([1]))
    VERIFIER.forward(sequence(2), cache, wait=True)
    with pytest.raises(SpecdecError, match="left 2 rows waiting"):
        VERIFIER.forward(sequence(1), cache)
    cache.accept(None, torch.tensor([0]))
    VERIFIER.forward(sequence(1), cache)
    assert cache.length == 3


@both
@pytest.mark.parametrize(
    ("path", "counts", "sentence"),
    [
        (torch.tensor([0, 1]), torch.tensor([1, 1]), r"path must be \[B, D \+ 1\] with B = 2, got \[2\]"),
        (torch.zeros(3, 2).long(), torch.tensor([1, 1]), r"with B = 2, got \[3, 2\]"),
        (
            torch.zeros(2, 4).long(),
            torch.tensor([1, 1]),
            r"a path of 1 to 3 rows, got counts \[2\] and 4 rows",
        ),
        (torch.zeros(2, 2).long(), torch.tensor([1]), r"counts \[2\] .* got counts \[1\]"),
    ],
)
def test_a_path_or_counts_of_another_shape_are_refused_and_the_rows_still_wait(kind, path, counts, sentence):
    cache = filled(kind, 2, batch=2)
    VERIFIER.forward(sequence(3, batch=2), cache, wait=True)
    with pytest.raises(SpecdecError, match=sentence):
        cache.accept(path, counts)
    cache.accept(None, torch.tensor([1, 2]))
    assert cache.lengths == [3, 4]


@both
@pytest.mark.parametrize("counts", [[1], [4, 0], [-1, 0]])
def test_the_host_cannot_settle_counts_that_were_impossible(kind, counts):
    cache = filled(kind, 2, batch=2)
    VERIFIER.forward(sequence(3, batch=2), cache, wait=True)
    cache.accept(None, torch.tensor([1, 2]))
    with pytest.raises(SpecdecError, match=r"0 to 3 rows of 2 sequences, got counts"):
        cache.ledger.settle(counts)
    assert cache.lengths == [3, 4]


@both
@pytest.mark.parametrize(
    ("lengths", "sentence"),
    [
        (5, "sequence 0 has 4 cached tokens and cannot be rolled back to 5"),
        (-1, "cannot be rolled back to -1"),
        ([4, 9], "sequence 1 has 4 cached tokens and cannot be rolled back to 9"),
        ([1, 2, 3], "one length for each of 2 sequences, got 3"),
    ],
)
def test_a_rollback_that_is_no_rollback_is_refused_and_changes_nothing(kind, lengths, sentence):
    cache = filled(kind, 4, batch=2)
    with pytest.raises(SpecdecError, match=sentence):
        cache.rollback(lengths)
    assert cache.lengths == cache.ledger.cached.tolist() == [4, 4]


@both
def test_one_length_of_sequences_that_differ_is_refused(kind):
    cache = filled(kind, 4, batch=2)
    cache.rollback([4, 3])
    with pytest.raises(SpecdecError, match=r"different lengths \[4, 3\]"):
        _ = cache.length


@both
@pytest.mark.parametrize("span", [3, 7])
def test_a_span_that_hides_cached_slots_or_leaves_no_room_is_refused(kind, span):
    with pytest.raises(SpecdecError, match=rf"span must be from 4, .*, to 6, .* got {span}"):
        VERIFIER.forward(sequence(2), filled(kind, 4), span=span)


# -- slots and masks -----------------------------------------------------------------------------------------


def test_the_masks_of_a_tree_are_those_drawn_in_their_docstrings():
    cached = torch.tensor([2])
    ancestors = torch.tensor([[[1, 0, 0], [1, 1, 0], [1, 0, 1]]], dtype=torch.bool)
    assert tree_mask(cached, ancestors, span=3).int().tolist() == [
        [[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 1, 0]]
    ]
    assert mask_beside(cached, ancestors, span=3).int().tolist() == [
        [[1, 0, 0, 1, 1, 0], [1, 1, 0, 1, 1, 0], [1, 0, 1, 1, 1, 0]]
    ]


def test_taking_and_putting_slots_equals_a_loop_over_the_batch():
    generator = torch.Generator().manual_seed(0)
    store, rows = torch.randn(2, 3, 2, 9, 4, generator=generator), torch.randn(2, 3, 2, 2, 4)
    slots = torch.tensor([[1, 5], [0, 8], [7, 2]])
    expected = store.clone()
    for b in range(3):
        for i in range(2):
            expected[:, b, :, slots[b, i]] = rows[:, b, i]
    put(store, slots, rows)
    assert torch.equal(store, expected)
    assert torch.equal(take(store, slots), rows)


# -- rows that are reopened, slots to spare ----------------------------------------------------------------


@both
def test_rows_are_reopened_only_when_none_wait_and_only_if_there_are_any(kind):
    cache = kind(VERIFIER.config, 1, 8)
    with pytest.raises(SpecdecError, match="0 rows cannot be reopened"):
        cache.reopen(0)
    VERIFIER.forward(torch.tensor([[1, 2]]), cache, wait=True)
    with pytest.raises(SpecdecError, match="1 rows cannot be reopened while 2 rows wait"):
        cache.reopen(1)


def test_more_rows_than_the_scratch_holds_are_not_reopened():
    cache = ScratchKVCache(VERIFIER.config, 1, 8, scratch=2)
    VERIFIER.forward(torch.tensor([[1, 2, 3]]), cache)
    with pytest.raises(SpecdecError, match="room for 2 rows and 3 would wait"):
        cache.reopen(3)
    assert cache.lengths == [3]


@both
def test_spare_slots_take_a_tree_behind_a_text_that_fills_the_context(kind):
    context = VERIFIER.config.context_length
    cache = kind(VERIFIER.config, 1, None, spare=3)
    assert cache.capacity == context + 3
    VERIFIER.forward(torch.ones(1, context - 1, dtype=torch.long), cache)
    star = DraftTree.from_lists([[4, 5, 6]], [[0, 0, 0]])
    VERIFIER.forward(star.by_row(torch.tensor([2])), cache, ancestors=star.ancestors)
    cache.accept(torch.tensor([[0, 2]]), torch.tensor([1]))
    assert cache.lengths == [context]


def test_the_host_tells_one_length_per_sequence():
    cache = KVCache(VERIFIER.config, 2, 8)
    with pytest.raises(SpecdecError, match="one length for each of 2 sequences, got 1"):
        cache.ledger.tell([0])
