"""Runs of `specdec data`: what is in the shards, and that no interruption changes them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from byte_tokenizer import VOCABULARY, byte_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from small_run import PROMPTS, SETTINGS, small_run
from test_cli import one_sentence
from tiny_verifier import tiny_verifier

from specdec import cli
from specdec.errors import SpecdecError
from specdec.train.data import TEMPERATURES, WINDOW, batches, draws, settings
from specdec.train.prompts import make_prompts
from specdec.train.shards import read_shards

pytestmark = pytest.mark.usefixtures("one_thread")
COMMAND = [sys.executable, "-m", "specdec.cli"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    small_run(folder)
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -- plans -------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 300), min_size=1, max_size=300), st.integers(1, 9), st.integers(0, 99))
def test_batches_hold_every_prompt_once_and_are_full_but_for_the_last_of_all(lengths, batch, seed):
    cut = batches(lengths, batch, seed)
    assert sorted(number for members in cut for number in members) == list(range(len(lengths)))
    sizes = sorted((len(members) for members in cut), reverse=True)
    assert sizes[:-1] == [batch] * (len(cut) - 1)
    assert cut == batches(lengths, batch, seed)


def test_batches_hold_prompts_of_like_length_and_do_not_begin_with_the_short_ones():
    lengths = np.random.default_rng(0).integers(1, 300, 4 * WINDOW * 10).tolist()
    cut = batches(lengths, 10, seed=0)
    spread = [max(lengths[i] for i in members) - min(lengths[i] for i in members) for members in cut]
    assert max(spread) < 60
    means = [np.mean([lengths[i] for i in members]) for members in cut[:WINDOW]]
    assert means != sorted(means)


def test_a_prompt_has_its_draws_whatever_the_batch_and_half_are_greedy():
    temperature, coins = draws(5, 17, 64)
    assert draws(5, 17, 64)[0] == temperature
    assert np.array_equal(draws(5, 17, 32)[1], coins[:32])
    assert not np.array_equal(draws(5, 18, 64)[1], coins)
    assert not np.array_equal(draws(6, 17, 64)[1], coins)
    counts = Counter(draws(0, number, 1)[0] for number in range(1000))
    assert set(counts) == set(TEMPERATURES)
    assert abs(counts[0.0] - 500) < 5 * 250**0.5  # 5 standard deviations


# -- content -----------------------------------------------------------------------------------------------


def test_every_prompt_is_answered_once_behind_its_chat_template(uninterrupted):
    tokenizer = byte_tokenizer()
    seen = []
    for shard in read_shards(uninterrupted):
        for i, number in enumerate(shard.ids):
            tokens, mask = shard.sequence(i)
            assert tokens[~mask].tolist() == tokenizer.chat(PROMPTS[number].text)
            assert mask[len(tokenizer.chat(PROMPTS[number].text)) :].all()
            assert shard.kinds[i] == PROMPTS[number].kind
            assert shard.temperatures[i] == np.float32(draws(9, number, 1)[0])
            seen.append(int(number))
    assert sorted(seen) == list(range(len(PROMPTS)))


def test_greedy_answers_are_the_verifiers_and_end_with_its_end_of_sequence(uninterrupted):
    verifier, end = tiny_verifier(VOCABULARY, context=128), byte_tokenizer().eos_ids[0]
    checked = 0
    for shard in read_shards(uninterrupted):
        for i in np.flatnonzero(shard.temperatures == 0):
            tokens, mask = shard.sequence(int(i))
            likeliest = verifier.forward(torch.from_numpy(tokens)[None]).logits[0].argmax(-1)
            assert np.array_equal(likeliest.numpy()[:-1][mask[1:]], tokens[1:][mask[1:]])
            checked += 1
        for i in range(len(shard)):
            tokens, mask = shard.sequence(i)
            assert end not in tokens[mask][:-1]
            assert tokens[-1] == end or mask.sum() == 12
    assert checked > 10


def test_settings_are_recorded_in_every_shard_and_beside_them(uninterrupted):
    assert json.loads((uninterrupted / "data.json").read_text()) == SETTINGS
    assert all(shard.run == SETTINGS for shard in read_shards(uninterrupted))
    assert (SETTINGS["seed"], SETTINGS["batch"], SETTINGS["prompts"]) == (9, 6, 40)


# -- interruptions -----------------------------------------------------------------------------------------


def test_a_run_interrupted_again_and_again_ends_with_the_same_bytes(tmp_path, uninterrupted):
    """Ctrl-C after 20 passes, which is in the second batch: every attempt gets one shard further."""
    attempts = 0
    while True:
        left = 20

        def press(progress):
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt

        attempts += 1
        try:
            small_run(tmp_path, on_progress=press)
            break
        except KeyboardInterrupt:
            assert not list(tmp_path.glob("*.part"))
    assert attempts > 3
    assert contents(tmp_path) == contents(uninterrupted)


def test_a_killed_run_continues_to_the_same_bytes(tmp_path, uninterrupted):
    script = Path(__file__).parent / "killed_run.py"
    found = subprocess.run([sys.executable, str(script), str(tmp_path), "30"], timeout=120)
    assert found.returncode == -signal.SIGKILL
    whole = contents(uninterrupted)
    left = contents(tmp_path)
    assert 1 < len(left) < len(whole)
    assert all(whole[name] == data for name, data in left.items())
    (tmp_path / "shard-00004.npz.part").write_bytes(b"half a shard")  # as if killed while writing
    reports = []
    small_run(tmp_path, on_shard=lambda number, count, shard, new: reports.append(new))
    assert contents(tmp_path) == whole
    assert reports.count(False) == len(left) - 1  # data.json is no shard


def test_a_complete_run_computes_nothing(uninterrupted):
    def never(progress):
        raise AssertionError("a pass was run")

    assert sum(map(len, small_run(uninterrupted, on_progress=never))) == len(PROMPTS)


# -- refusals ----------------------------------------------------------------------------------------------


def test_a_folder_of_another_run_is_refused(uninterrupted):
    other = settings(PROMPTS, seed=9, batch=7, max_new_tokens=12, precision="fp32", checksum="none")
    with pytest.raises(SpecdecError, match="holds data made with batch 6, not 7"):
        small_run(uninterrupted, other)


def test_a_shard_of_another_run_is_refused(tmp_path, uninterrupted):
    other = settings(PROMPTS, seed=8, batch=6, max_new_tokens=12, precision="fp32", checksum="none")
    (tmp_path / "data.json").write_text(json.dumps(other))
    (tmp_path / "shard-00000.npz").write_bytes((uninterrupted / "shard-00000.npz").read_bytes())
    with pytest.raises(SpecdecError, match=r"shard-00000\.npz belongs to another run: delete it"):
        small_run(tmp_path, other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "batch and new tokens must be at least 1, got 0 and 4"),
        ({"max_new_tokens": 0}, "batch and new tokens must be at least 1, got 2 and 0"),
        ({"seed": -1}, "seed is -1, but must be an integer from 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    options = {"seed": 0, "batch": 2, "max_new_tokens": 4, "precision": "fp32", "checksum": "none"} | changes
    with pytest.raises(SpecdecError, match=message):
        settings(PROMPTS, **options)


# -- the command -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["data", "--tepid"], "No such option: --tepid"),
        (["data"], "name the folder that the shards go to"),
        (["data", "x", "--prompts", "0"], "'--prompts': 0 is below 1"),
        (["data", "x", "--batch", "0"], "'--batch': 0 is below 1"),
        (["data", "x", "--max-new-tokens", "-1"], "'--max-new-tokens': -1 is below 1"),
        (["data", "x", "--seed", "-1", "--prompts", "2"], "seed is -1"),
        (["data", "x", "--precision", "fp8"], "'fp8' is not one of"),
        (["data", "/dev/null/x", "--prompts", "2"], "Not a directory (/dev/null/x"),
        (["features"], "Missing argument 'data'; see 'specdec features --help'"),
        (["features", "x", "--tepid"], "No such option: --tepid"),
        (["features", "no/such/folder"], "there are no token shards in no/such/folder"),
    ],
)
def test_bad_input_gets_one_sentence_and_status_two(capsys, tmp_path, monkeypatch, args, sentence):
    monkeypatch.chdir(tmp_path)
    assert cli.main(args) == 2
    captured = capsys.readouterr()
    assert sentence in one_sentence(captured.err)
    assert captured.out == ""
    assert list(tmp_path.rglob("*.npz")) == []


def test_without_the_weights_nothing_is_written(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECDEC_HOME", str(tmp_path / "home"))
    assert cli.main(["data", str(tmp_path / "run"), "--prompts", "2"]) == 2
    assert str(tmp_path / "home") in one_sentence(capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


def test_prompts_are_printed_as_json_lines_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None; from specdec.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    args = ["data", "--prompts-only", "--prompts", "50", "--seed", "2"]
    found = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, timeout=60)
    assert (found.returncode, found.stderr) == (0, b"")
    printed = [json.loads(line) for line in found.stdout.decode().splitlines()]
    assert printed == [{"kind": p.kind, "text": p.text} for p in make_prompts(50, 2)]


def test_a_damaged_shard_is_named_by_the_command(capsys, tmp_path):
    (tmp_path / "shard-00000.npz").write_bytes(b"PK")
    assert cli.main(["features", str(tmp_path)]) == 2
    assert "shard-00000.npz is not a whole token shard" in one_sentence(capsys.readouterr().err)


@pytest.mark.weights
def test_the_command_is_interrupted_and_continued_on_the_real_verifier(capsys, tmp_path):
    folder = tmp_path / "run"
    args = ["data", str(folder), "--prompts", "6", "--batch", "2", "--max-new-tokens", "8"]
    process = subprocess.Popen(
        [*COMMAND, *args],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not (folder / "shard-00000.npz").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert err.endswith(b"specdec: interrupted.\n")
    assert len(list(folder.iterdir())) < 4  # data.json and the shards that are complete

    assert cli.main(args) == 0
    assert capsys.readouterr().out.startswith("6 answers, ")
    shards = read_shards(folder)
    assert sorted(int(i) for shard in shards for i in shard.ids) == list(range(6))
    assert all(0 < length <= 8 for shard in shards for length in shard.lengths - shard.prompt_lengths)
