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


def test_an_eagle3_head_has_the_public_layout_its_names_types_and_shapes(eagle3):
    """Those that vLLM and SGLang read; the tiny verifier's sizes, and 8 of its 16 tokens."""
    h, wide, narrow, middle, vocabulary = 32, 32, 16, 48, 16
    expected = {
        "fc.weight": [h, 3 * h],
        "midlayer.hidden_norm.weight": [h],
        "midlayer.input_layernorm.weight": [h],
        "midlayer.post_attention_layernorm.weight": [h],
        "midlayer.self_attn.q_proj.weight": [wide, 2 * h],
        "midlayer.self_attn.k_proj.weight": [narrow, 2 * h],
        "midlayer.self_attn.v_proj.weight": [narrow, 2 * h],
        "midlayer.self_attn.o_proj.weight": [h, wide],
        "midlayer.mlp.gate_proj.weight": [middle, h],
        "midlayer.mlp.up_proj.weight": [middle, h],
        "midlayer.mlp.down_proj.weight": [h, middle],
        "norm.weight": [h],
        "lm_head.weight": [vocabulary // 2, h],
        "d2t": [vocabulary // 2],
        "t2d": [vocabulary],
    }
    state = load_file(eagle3 / "model.safetensors")
    assert {name: list(x.shape) for name, x in state.items()} == expected
    types = {"d2t": torch.int64, "t2d": torch.bool}
    assert all(x.dtype == types.get(name, torch.bfloat16) for name, x in state.items())
    targets = torch.arange(len(state["d2t"])) + state["d2t"]
    assert targets.tolist() == state["t2d"].nonzero().flatten().tolist() == list(range(0, vocabulary, 2))
    config = json.loads((eagle3 / "config.json").read_text())
    del config["specdec"]
    assert config == {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": h,
        "vocab_size": vocabulary,
        "draft_vocab_size": vocabulary // 2,
        "torch_dtype": "bfloat16",
        "num_hidden_layers": 1,
        "intermediate_size": middle,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rope_theta": 10_000.0,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 256,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    }


@pytest.mark.parametrize("family", ["eagle1", "medusa"])
def test_of_the_verifiers_output_matrix_only_the_ids_of_its_rows_are_stored(tmp_path, family):
    save_head(tmp_path, HEADS[family], VERIFIER, POLICY)
    state = load_file(tmp_path / "model.safetensors")
    assert state["vocabulary"].tolist() == list(range(0, 16, 2))
    parts = {
        "eagle1": {"fc.", "layers.0.self_attn.", "layers.0.mlp.", "layers.0.post_attention_layernorm."},
        "medusa": {f"medusa_head.{j}.0.linear." for j in range(4)},
    }[family]
    assert all(any(name.startswith(part) for part in parts) for name in state.keys() - {"vocabulary"})


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
