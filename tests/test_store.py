"""Heads on disk: what is saved comes back, and what does not fit is refused before anything is decoded."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_heads import tiny_eagle1, tiny_eagle3, tiny_medusa
from tiny_verifier import tiny_verifier

from specdec.decode import generate
from specdec.drafts.features import FeatureDraft
from specdec.drafts.medusa import MedusaDraft
from specdec.drafts.store import load_head, policy_from_json, policy_to_json, save_head
from specdec.errors import SpecdecError
from specdec.policy import chain, dynamic, static

VERIFIER = tiny_verifier()
HEADS = {
    "eagle3": tiny_eagle3(VERIFIER),
    "eagle1": tiny_eagle1(VERIFIER, every=2),
    "medusa": tiny_medusa(VERIFIER, every=2),
}
POLICY = dynamic(3, 2, 5)


@pytest.fixture(params=sorted(HEADS))
def saved(request, tmp_path):
    save_head(tmp_path / "head", HEADS[request.param], VERIFIER, POLICY)
    return request.param, tmp_path / "head"


@pytest.fixture
def eagle3(tmp_path):
    save_head(tmp_path / "head", HEADS["eagle3"], VERIFIER, POLICY)
    return tmp_path / "head"


def edit(folder, **tensors):
    state = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        name = name.replace("__", ".")
        if tensor is None:
            del state[name]
        else:
            state[name] = tensor
    save_file(state, folder / "model.safetensors")


def configure(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    config.update(changes)
    (folder / "config.json").write_text(json.dumps(config))


def test_a_saved_head_comes_back_rounded_to_bf16_and_decodes(saved):
    family, folder = saved
    draft = load_head(folder, VERIFIER)
    head = draft.heads if family == "medusa" else draft.head
    for name, tensor in HEADS[family].state_dict().items():
        expected = tensor.bfloat16().to(tensor.dtype) if tensor.is_floating_point() else tensor
        assert torch.equal(head.state_dict()[name], expected)
    assert (draft.name, draft.policy, draft.taps) == (family, POLICY, HEADS[family].taps)
    done = generate(VERIFIER, draft, [[1, 2, 3]], chain(3), max_new_tokens=8)
    assert done.tokens == generate(VERIFIER, None, [[1, 2, 3]], max_new_tokens=8).tokens
    original = (MedusaDraft if family == "medusa" else FeatureDraft)(HEADS[family])
    assert type(draft) is type(original)
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", "model.safetensors"]


def test_an_eagle3_head_has_the_public_layout(eagle3):
    state = load_file(eagle3 / "model.safetensors")
    hidden, vocabulary = VERIFIER.config.hidden, VERIFIER.config.vocab_size
    parts = ("gate", "up", "down")
    assert set(state) == {
        "fc.weight",
        *(f"midlayer.{n}.weight" for n in ("hidden_norm", "input_layernorm", "post_attention_layernorm")),
        *(f"midlayer.self_attn.{n}_proj.weight" for n in "qkvo"),
        *(f"midlayer.mlp.{n}_proj.weight" for n in parts),
        "norm.weight",
        "lm_head.weight",
        "d2t",
        "t2d",
    }
    assert state["fc.weight"].shape == (hidden, 3 * hidden)
    assert state["midlayer.self_attn.q_proj.weight"].shape[1] == 2 * hidden
    assert (state["d2t"].dtype, state["t2d"].dtype, state["fc.weight"].dtype) == (
        torch.int64,
        torch.bool,
        torch.bfloat16,
    )
    targets = torch.arange(len(state["d2t"])) + state["d2t"]
    assert targets.tolist() == state["t2d"].nonzero().flatten().tolist() == list(range(0, vocabulary, 2))
    config = json.loads((eagle3 / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert (config["draft_vocab_size"], config["rope_theta"]) == (vocabulary // 2, 10_000.0)


@pytest.mark.parametrize("policy", [chain(3), static([2, 2], rule="top-k"), dynamic(3, 2, 5)])
def test_a_policy_goes_through_json_unchanged(policy):
    assert policy_from_json(json.loads(json.dumps(policy_to_json(policy)))) == policy


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        ({"d2t": None}, "draft vocabulary of 8 tokens, but its table d2t is missing"),
        (
            {"d2t": torch.zeros(8, dtype=torch.long)},
            "does not name 8 different tokens of 16 .it is all zero.",
        ),
        ({"d2t": torch.zeros(7, dtype=torch.long)}, "its table d2t has 7 entries"),
        ({"d2t": torch.tensor([1, 0, 0, 0, 0, 0, 0, 0])}, "does not name 8 different tokens"),
        ({"d2t": torch.arange(8) + 5}, "does not name 8 different tokens of 16"),
        ({"t2d": torch.ones(16, dtype=torch.bool)}, "d2t and t2d of the head in .* contradict"),
        ({"fc__weight": None}, "lacks the tensor fc.weight"),
        (
            {"fc__weight": torch.zeros(32, 64)},
            r"fc.weight of the head in .* is \[32, 64\], but must be \[32, 96\]",
        ),
        ({"embed": torch.zeros(1)}, "has a tensor embed that its family does not know"),
    ],
)
def test_tensors_that_do_not_fit_are_named(eagle3, tensors, sentence):
    edit(eagle3, **tensors)
    with pytest.raises(SpecdecError, match=sentence):
        load_head(eagle3, VERIFIER)


def test_a_head_of_another_verifier_is_refused_by_its_shape_and_by_its_checksum(eagle3):
    with pytest.raises(SpecdecError, match="verifier with vocab_size 16, but this one has 20"):
        load_head(eagle3, tiny_verifier(vocabulary=20))
    configure(eagle3, specdec={"family": "eagle3", "taps": [0, 1, 1], "verifier_sha256": "a" * 64})
    other = tiny_verifier()
    other.checksum = "b" * 64
    with pytest.raises(SpecdecError, match=r"sha256 aaaaaaaaaaaa..., but this one has bbbbbbbbbbbb"):
        load_head(eagle3, other)


def test_files_that_are_missing_or_broken_are_named(eagle3):
    (eagle3 / "model.safetensors").write_bytes(b"no")
    with pytest.raises(SpecdecError, match=r"model.safetensors cannot be read as safetensors"):
        load_head(eagle3, VERIFIER)
    (eagle3 / "model.safetensors").unlink()
    with pytest.raises(SpecdecError, match=r"model.safetensors is missing"):
        load_head(eagle3, VERIFIER)
    with pytest.raises(SpecdecError, match=r"config.json is missing|model.safetensors is missing"):
        load_head(eagle3 / "nowhere", VERIFIER)


def test_a_config_without_family_and_one_without_sizes_are_refused(eagle3):
    config = json.loads((eagle3 / "config.json").read_text())
    configure(eagle3, specdec={})
    with pytest.raises(SpecdecError, match="does not say which family"):
        load_head(eagle3, VERIFIER)
    del config["head_dim"]
    (eagle3 / "config.json").write_text(json.dumps(config))
    with pytest.raises(SpecdecError, match="lacks 'head_dim'"):
        load_head(eagle3, VERIFIER)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecdecError, match=r"cannot write the head to .*file"):
        save_head(tmp_path / "file", HEADS["medusa"], VERIFIER, POLICY)
