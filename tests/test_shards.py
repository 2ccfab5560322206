"""Token shards on disk: what goes in comes out, the mask is exact, and a damaged file is refused."""

import errno
import resource

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec import cli
from specdec.errors import SpecdecError
from specdec.files import write_whole
from specdec.train.shards import (
    FORMAT,
    make_shard,
    open_run,
    read_shard,
    read_shards,
    shard_path,
    write_shard,
)

RUN = {"format": FORMAT, "seed": 5, "batch": 2}
TOKENS = st.lists(st.integers(0, 65_535), min_size=1, max_size=12)


def shard_of(prompts, answers, run=RUN):
    n = len(prompts)
    return make_shard(prompts, answers, list(range(n)), ["code"] * n, [0.7] * n, run)


@pytest.fixture
def stored(tmp_path):
    path = shard_path(tmp_path, 0)
    write_shard(path, shard_of([[1, 2, 3], [4]], [[5, 6], [7, 8, 9]]))
    return path


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(TOKENS, TOKENS), min_size=1, max_size=6))
def test_sequences_and_masks_come_back_as_they_went_in(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("shards") / "shard-00000.npz"
    write_shard(path, shard_of([p for p, _ in pairs], [a for _, a in pairs]))
    shard = read_shard(path)
    assert len(shard) == len(pairs)
    assert shard.answer_tokens == sum(len(a) for _, a in pairs)
    for i, (prompt, answer) in enumerate(pairs):
        tokens, mask = shard.sequence(i)
        assert tokens.tolist() == prompt + answer
        # The first answer token counts, the last (an end of sequence) too, and nothing of the prompt.
        assert mask.tolist() == [False] * len(prompt) + [True] * len(answer)


def test_everything_about_a_sequence_is_kept_and_the_bytes_depend_on_it_alone(tmp_path):
    shard = make_shard([[1], [2]], [[3], [4]], [7, 5], ["code", "españa"], [0.7, 0.0], RUN)
    for name in ("a.npz", "b.npz"):
        write_shard(tmp_path / name, shard)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    found = read_shard(tmp_path / "a.npz")
    assert (found.ids.tolist(), found.kinds.tolist()) == ([7, 5], ["code", "españa"])
    assert found.temperatures.tolist() == [np.float32(0.7), 0.0]
    assert found.run == RUN


def test_a_token_takes_less_than_two_bytes(tmp_path):
    """700,000 answer tokens and their prompts must fit into 5 MB."""
    generator = np.random.default_rng(0)
    text = (
        (49_152 * generator.random(40_000) ** 4).astype(int).tolist()
    )  # a few tokens are common, as in text
    prompts = [text[i : i + 50] for i in range(0, 20_000, 50)]
    answers = [text[i : i + 50] for i in range(20_000, 40_000, 50)]
    path = shard_path(tmp_path, 0)
    write_shard(path, shard_of(prompts, answers))
    assert path.stat().st_size < 2 * len(text)


def test_a_token_beyond_16_bits_is_refused():
    with pytest.raises(SpecdecError, match="token id 65536 does not fit into 16 bits"):
        shard_of([[1]], [[65_536]])


# -- damage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_shard_that_was_cut_off_is_refused_in_one_sentence(stored, share):
    whole = stored.read_bytes()
    stored.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(
        SpecdecError, match=r"shard-00000\.npz is not a whole token shard .*: delete it"
    ) as found:
        read_shard(stored)
    assert "\n" not in str(found.value)


def test_a_flipped_byte_is_found_or_changes_nothing(stored):
    whole, before = stored.read_bytes(), read_shard(stored)
    refused = 0
    for place in range(0, len(whole), 7):
        stored.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            found = read_shard(stored)
        except SpecdecError:
            refused += 1
        else:
            assert found.run == before.run
            assert all(np.array_equal(found.sequence(i), before.sequence(i)) for i in range(2))
    assert refused > 50


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04"])
def test_a_file_of_another_sort_is_refused(stored, content):
    stored.write_bytes(content)
    with pytest.raises(SpecdecError, match="is not a whole token shard"):
        read_shard(stored)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lengths": np.array([5, 5], np.int32)}, "do not fit together"),
        ({"prompt_lengths": np.array([5, 1], np.int32)}, "do not fit together"),
        ({"ids": np.array([1], np.int32)}, "do not fit together"),
        ({"tokens": np.arange(9)}, "do not fit together"),
        ({"run": np.array('{"format": 99}')}, "has format 99, and this version reads format 1"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(stored, changed, message):
    with np.load(stored) as arrays:
        content = dict(arrays)
    np.savez(stored, **(content | changed))
    with pytest.raises(SpecdecError, match=message):
        read_shard(stored)


def test_a_missing_shard_and_an_empty_folder_are_named(tmp_path):
    with pytest.raises(SpecdecError, match="there is no shard"):
        read_shard(tmp_path / "shard-00000.npz")
    with pytest.raises(SpecdecError, match="there are no token shards in"):
        read_shards(tmp_path)


# -- writing -----------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_what_was_there_and_nothing_else(tmp_path, stored):
    before = stored.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))  # the system's own way to stop a file from growing
    try:
        with pytest.raises(OSError, match="File too large") as found:
            write_shard(stored, shard_of([list(range(2000))], [[1]]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert found.value.filename == str(stored)
    assert stored.read_bytes() == before
    assert list(tmp_path.iterdir()) == [stored]


def test_no_space_is_said_with_the_file(tmp_path):
    def write(file):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space") as found:
        write_whole(tmp_path / "x", write)
    assert (
        cli.explain(found.value)
        == f"no space left on the device ({tmp_path / 'x'}): free some and run the command again"
    )
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_writing_leaves_nothing(tmp_path):
    def write(file):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "x", write)
    assert list(tmp_path.iterdir()) == []


# -- runs --------------------------------------------------------------------------------------------------


def test_a_folder_holds_one_run(tmp_path):
    open_run(tmp_path / "new" / "folder", RUN)
    open_run(tmp_path / "new" / "folder", dict(RUN))
    with pytest.raises(SpecdecError, match="holds data made with seed 5, not 6: repeat the options"):
        open_run(tmp_path / "new" / "folder", RUN | {"seed": 6})


def test_shards_without_their_settings_are_not_continued(stored):
    with pytest.raises(SpecdecError, match=r"has shards but no data\.json"):
        open_run(stored.parent, RUN)


@pytest.mark.parametrize("content", ["", "{", "[1]"])
def test_damaged_settings_are_refused(tmp_path, content):
    (tmp_path / "data.json").write_text(content)
    with pytest.raises(SpecdecError, match=r"data\.json is not"):
        open_run(tmp_path, RUN)
