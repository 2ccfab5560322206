"""Stored features: the inputs of the named layers and the last hidden state, at every position, once."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from random_llama import ours, random_llama

from specdec.drafts.eagle3 import tapped_layers
from specdec.errors import SpecdecError
from specdec.train import features as module
from specdec.train.features import Features, compute, extract, features_path
from specdec.train.shards import FORMAT, make_shard, read_shard, shard_path, write_shard

pytestmark = pytest.mark.usefixtures("one_thread")
LAYERS = (2, 4, 5)  # of eight
ROUNDING = 2**-8  # of bfloat16, relative


@pytest.fixture(scope="module")
def theirs():
    return random_llama(seed=1, num_hidden_layers=8, initializer_range=0.1)


@pytest.fixture(scope="module")
def verifier(theirs):
    return ours(theirs)


def sequences(seed, count):
    generator = np.random.default_rng(seed)
    prompts = [generator.integers(50, size=generator.integers(1, 9)).tolist() for _ in range(count)]
    answers = [generator.integers(50, size=generator.integers(1, 30)).tolist() for _ in range(count)]
    return prompts, answers


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for number in range(3):
        prompts, answers = sequences(number, 5)
        run = {"format": FORMAT}
        shard = make_shard(prompts, answers, range(5), ["code"] * 5, [0.0] * 5, run)
        write_shard(shard_path(folder, number), shard)
    return folder


@pytest.fixture(scope="module")
def stored(data, verifier, tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    extract(data, folder, verifier, "abc")
    return folder


def near(found, expected):
    return torch.allclose(found.float(), expected, rtol=ROUNDING, atol=1e-5)


# -- what they are -----------------------------------------------------------------------------------------


def test_the_layers_are_the_second_the_middle_and_the_last_but_two():
    assert tapped_layers(30) == (2, 15, 27)
    assert tapped_layers(8) == LAYERS


@torch.no_grad()
def test_features_are_the_inputs_of_the_layers_in_transformers_and_no_neighbours(data, stored, theirs):
    """hidden_states[k] is the input of layer k; the last of them is behind the final norm."""
    found = Features(data, stored)
    assert found.layers == LAYERS
    assert len(found) == 15
    for i in range(len(found)):
        example = found[i]
        states = theirs(example.tokens[None], output_hidden_states=True).hidden_states
        assert len(states) == 9
        for at, k in enumerate(LAYERS):
            assert near(example.features[:, at], states[k][0])
            assert not near(example.features[:, at], states[k - 1][0])
            assert not near(example.features[:, at], states[k + 1][0])
        assert near(example.features[:, -1], states[-1][0])


@torch.no_grad()
def test_features_are_before_any_norm_and_the_last_state_gives_the_logits(data, stored, theirs):
    example = Features(data, stored)[0]
    layer = theirs.model.layers[LAYERS[0]]
    normed = layer.input_layernorm(example.features[:, 0].float())
    assert not torch.allclose(normed, example.features[:, 0].float(), rtol=0.1, atol=0.1)
    logits = theirs(example.tokens[None]).logits[0]
    assert torch.allclose(theirs.lm_head(example.features[:, -1].float()), logits, rtol=0.05, atol=0.05)


def test_stored_features_equal_a_fresh_pass_over_the_sequence_alone(data, stored, verifier):
    found = Features(data, stored)
    for i in range(len(found)):
        example = found[i]
        fresh = verifier.forward(example.tokens[None], taps=LAYERS)
        for at, k in enumerate(LAYERS):
            assert near(example.features[:, at], fresh.taps[k][0])
        assert near(example.features[:, -1], fresh.hidden[0])


def test_tokens_and_masks_are_those_of_the_shards(data, stored):
    found = Features(data, stored)
    i = 0
    for number in range(3):
        for prompt, answer in zip(*sequences(number, 5), strict=True):
            assert found[i].tokens.tolist() == prompt + answer
            assert found[i].mask.tolist() == [False] * len(prompt) + [True] * len(answer)
            assert found[i].features.shape == (len(prompt + answer), 4, 64)
            assert found[i].features.dtype == torch.bfloat16
            i += 1


def test_passes_of_few_tokens_give_what_one_pass_gives(data, verifier, monkeypatch):
    shard = read_shard(shard_path(data, 0))
    together = compute(verifier, shard, LAYERS)
    monkeypatch.setattr(module, "PASS_TOKENS", 1)
    alone = compute(verifier, shard, LAYERS)
    assert torch.allclose(alone.float(), together.float(), rtol=2 * ROUNDING, atol=1e-5)  # both are rounded


def test_a_view_is_mapped_and_writing_to_it_does_not_reach_the_file(data, stored):
    before = features_path(stored, shard_path(data, 0)).read_bytes()
    found = Features(data, stored)
    assert isinstance(found.stored[0], np.memmap)
    found[0].features.zero_()
    assert features_path(stored, shard_path(data, 0)).read_bytes() == before


# -- the manifest, and continuing ---------------------------------------------------------------------------


def test_the_manifest_says_what_is_stored(data, stored):
    manifest = json.loads((stored / "features.json").read_text())
    assert manifest["verifier_sha256"] == "abc"
    assert manifest["layers"] == list(LAYERS)
    assert (manifest["dtype"], manifest["shape"]) == ("bfloat16", ["tokens", 4, 64])
    total = sum(len(p) + len(a) for n in range(3) for p, a in zip(*sequences(n, 5), strict=True))
    assert manifest["tokens"] == total
    sizes = [features_path(stored, shard_path(data, n)).stat().st_size for n in range(3)]
    assert sum(sizes) == total * 4 * 64 * 2 + 3 * 128  # two bytes a number, and NumPy's header


def test_an_interrupted_extraction_continues_to_the_same_bytes(data, stored, verifier, tmp_path):
    def press(tokens, new):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(data, tmp_path, verifier, "abc", on_shard=press)
    assert len(list(tmp_path.glob("*.npy"))) == 1
    reports = []
    extract(data, tmp_path, verifier, "abc", on_shard=lambda tokens, new: reports.append(new))
    assert reports == [False, True, True]
    for path in stored.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_shards_that_came_later_are_added(stored, data, verifier, tmp_path):
    part, folder = tmp_path / "part", tmp_path / "features"
    part.mkdir()
    for number in range(2):
        shard_path(part, number).write_bytes(shard_path(data, number).read_bytes())
    extract(part, folder, verifier, "abc")
    shard_path(part, 2).write_bytes(shard_path(data, 2).read_bytes())
    extract(part, folder, verifier, "abc")
    assert len(Features(part, folder)) == 15


# -- refusals ----------------------------------------------------------------------------------------------


def test_other_verifiers_layers_and_shards_are_refused(data, stored, verifier, tmp_path):
    with pytest.raises(SpecdecError, match="holds features with verifier sha256 abc, not def"):
        extract(data, stored, verifier, "def")
    with pytest.raises(SpecdecError, match=r"holds features with layers \[2, 4, 5\], not \[1, 4, 5\]"):
        extract(data, stored, verifier, "abc", (1, 4, 5))
    with pytest.raises(SpecdecError, match="come from another verifier"):
        Features(data, stored, checksum="def")
    other = shard_path(tmp_path, 0)
    write_shard(other, make_shard([[1]], [[2]], [0], ["code"], [0.0], {"format": FORMAT}))
    with pytest.raises(SpecdecError, match=r"holds features of another shard-00000\.npz"):
        extract(tmp_path, stored, verifier, "abc")


@pytest.mark.parametrize("layers", [(2, 2, 5), (5, 2), (0, 8), (-1, 2)])
def test_layers_out_of_range_or_order_are_refused(data, verifier, tmp_path, layers):
    with pytest.raises(SpecdecError, match="layers must rise from 0 to 7"):
        extract(data, tmp_path, verifier, "abc", layers)


def test_a_disk_that_is_too_small_is_refused_beforehand(data, verifier, tmp_path, monkeypatch):
    monkeypatch.setattr(module.shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    with pytest.raises(SpecdecError, match=r"the features take 0\.0 GB more and .* has 0\.0 GB free"):
        extract(data, tmp_path, verifier, "abc")
    assert not list(tmp_path.glob("*.npy"))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
def test_a_file_that_was_cut_off_is_refused(data, verifier, tmp_path, share):
    extract(data, tmp_path, verifier, "abc")
    path = features_path(tmp_path, shard_path(data, 1))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(SpecdecError, match=r"features-00001\.npy is not a whole file of features") as found:
        Features(data, tmp_path)
    assert "\n" not in str(found.value)


def test_a_missing_file_or_manifest_is_named(data, verifier, tmp_path):
    with pytest.raises(SpecdecError, match=r"there is no features\.json in"):
        Features(data, tmp_path)
    extract(data, tmp_path, verifier, "abc")
    features_path(tmp_path, shard_path(data, 2)).unlink()
    with pytest.raises(SpecdecError, match=r"features-00002\.npy is missing: run the same"):
        Features(data, tmp_path)


def test_a_file_of_another_shape_is_refused(data, verifier, tmp_path):
    extract(data, tmp_path, verifier, "abc")
    np.save(features_path(tmp_path, shard_path(data, 0)), np.zeros((2, 4, 64), np.uint16))
    with pytest.raises(SpecdecError, match=r"has uint16 \[2, 4, 64\], expected uint16"):
        Features(data, tmp_path)
