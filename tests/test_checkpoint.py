"""Reading checkpoints: what transformers saved comes back, what does not fit is refused in one sentence."""

import json

import gguf
import numpy as np
import pytest
import torch
from random_llama import SHAPES, random_llama, some_tokens
from safetensors.torch import load_file, save_file

from specdec import weights
from specdec.checkpoint import load_folder, load_gguf, open_gguf, read_config
from specdec.errors import SpecdecError
from specdec.verifier import Verifier


def assert_same_logits(path, theirs):
    tokens = some_tokens(2, 100)
    with torch.no_grad():
        expected = theirs(tokens).logits
    torch.testing.assert_close(Verifier.load(path).forward(tokens).logits, expected, rtol=1e-4, atol=1e-4)


# --- folders in Hugging Face layout ---


@pytest.mark.parametrize("shape", SHAPES)
def test_a_folder_saved_by_transformers_gives_the_logits_of_transformers(tmp_path, shape):
    theirs = random_llama(**SHAPES[shape])
    theirs.save_pretrained(tmp_path)
    assert_same_logits(tmp_path, theirs)


def test_a_folder_in_shards_is_put_together_by_its_index(tmp_path):
    theirs = random_llama(tie_word_embeddings=False)
    theirs.save_pretrained(tmp_path, max_shard_size="100KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    assert_same_logits(tmp_path, theirs)


@pytest.mark.parametrize("form", ["rope_theta and rope_scaling", "rope_parameters"])
def test_both_ways_to_write_the_rotations_down_mean_the_same(tmp_path, form):
    """`rope_parameters` is what transformers writes since version 5; checkpoints on the hub have the older
    two keys."""
    theirs = random_llama(**SHAPES["rotations stretched as in Llama 3.1"])
    theirs.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["rope_parameters"]["rope_theta"] == 20_000.0
    if form == "rope_theta and rope_scaling":
        config["rope_scaling"] = config.pop("rope_parameters")
        config["rope_theta"] = config["rope_scaling"].pop("rope_theta")
        (tmp_path / "config.json").write_text(json.dumps(config))
    assert_same_logits(tmp_path, theirs)


def test_keys_that_a_config_leaves_out_take_the_defaults_of_transformers(tmp_path):
    from transformers import LlamaConfig as TheirConfig

    needed = {"vocab_size": 7, "hidden_size": 32, "intermediate_size": 5, "num_hidden_layers": 1}
    needed["num_attention_heads"] = 4
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **needed}))
    ours, theirs = read_config(tmp_path), TheirConfig(**needed)
    assert ours.kv_heads == theirs.num_key_value_heads
    assert ours.head_size == theirs.head_dim
    assert ours.context_length == theirs.max_position_embeddings
    assert ours.rope_base == theirs.rope_parameters["rope_theta"]
    assert ours.norm_eps == theirs.rms_norm_eps
    assert ours.tied == theirs.tie_word_embeddings


def test_half_precision_is_read_in_the_precision_asked_for(tmp_path):
    random_llama().to(torch.bfloat16).save_pretrained(tmp_path)
    assert {t.dtype for t in load_folder(tmp_path)[1].values()} == {torch.float32}
    assert {t.dtype for t in load_folder(tmp_path, torch.bfloat16)[1].values()} == {torch.bfloat16}


@pytest.fixture
def folder(tmp_path):
    random_llama().save_pretrained(tmp_path)
    return tmp_path


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def change_state(folder, change):
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors")


BROKEN = {
    "no config": (lambda f: (f / "config.json").unlink(), "lacks config.json, expected a checkpoint folder"),
    "no JSON": (lambda f: (f / "config.json").write_text("{"), "config.json is not a readable JSON file"),
    "another family": (lambda f: change_config(f, model_type="gpt2"), "model_type 'gpt2', expected 'llama'"),
    "another activation": (
        lambda f: change_config(f, hidden_act="gelu"),
        "hidden_act 'gelu', expected 'silu'",
    ),
    "another rope type": (
        lambda f: change_config(f, rope_parameters={"rope_type": "yarn", "rope_theta": 1e4}),
        "rope type 'yarn', expected 'default' or 'llama3'",
    ),
    "heads that do not divide": (lambda f: change_config(f, num_key_value_heads=3), "must be a multiple"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "lacks the weights file model.safetensors"),
    "cut off weights": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:5000]),
        "model.safetensors is not a readable safetensors file",
    ),
    "a missing tensor": (
        lambda f: change_state(f, lambda s: s.pop("model.layers.1.mlp.up_proj.weight")),
        r"lacks the tensor model.layers.1.mlp.up_proj.weight of shape \[96, 64\]",
    ),
    "a tensor of another shape": (
        lambda f: change_state(f, lambda s: s.update({"model.norm.weight": torch.ones(65)})),
        r"model.norm.weight of shape \[65\], expected \[64\]",
    ),
    "biases": (
        lambda f: change_state(
            f, lambda s: s.update({"model.layers.0.self_attn.q_proj.bias": torch.ones(64)})
        ),
        "1 tensors that a Llama model without biases has not, such as model.layers.0.self_attn.q_proj.bias",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_folder_is_refused_in_one_sentence_that_names_the_fault(folder, fault):
    spoil, sentence = BROKEN[fault]
    spoil(folder)
    with pytest.raises(SpecdecError, match=sentence) as caught:
        Verifier.load(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_key_of_the_config_is_named(folder):
    config = json.loads((folder / "config.json").read_text())
    del config["num_hidden_layers"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(SpecdecError, match=r"config.json lacks the key 'num_hidden_layers'"):
        load_folder(folder)


def test_a_missing_shard_is_named(folder):
    random_llama().save_pretrained(folder / "sharded", max_shard_size="100KB")
    next((folder / "sharded").glob("model-00002-*")).unlink()
    with pytest.raises(SpecdecError, match="lacks the weights file model-00002"):
        load_folder(folder / "sharded")


# --- GGUF ---


def permute(weight: np.ndarray, heads: int) -> np.ndarray:
    """Row order of llama.cpp, channel by channel: pair (i, i + head/2) of a head becomes neighbours."""
    head = weight.shape[0] // heads
    order = [
        h * head + i + half * head // 2 for h in range(heads) for i in range(head // 2) for half in (0, 1)
    ]
    return weight[order]


def write_gguf(path, theirs, quantised=None, architecture="llama", drop=(), extra=()):
    """A GGUF file of a transformers model, as llama.cpp's converter would write it."""
    c, state = theirs.config, {name: t.numpy() for name, t in theirs.state_dict().items()}
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_vocab_size(c.vocab_size)
    writer.add_embedding_length(c.hidden_size)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_block_count(c.num_hidden_layers)
    writer.add_head_count(c.num_attention_heads)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_rope_dimension_count(c.head_dim)
    writer.add_context_length(c.max_position_embeddings)
    writer.add_rope_freq_base(c.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    tensors = {
        "token_embd.weight": state["model.embed_tokens.weight"],
        "output_norm.weight": state["model.norm.weight"],
    }
    if not c.tie_word_embeddings:
        tensors["output.weight"] = state["lm_head.weight"]
    for i in range(c.num_hidden_layers):
        theirs_, ours_ = f"model.layers.{i}.", f"blk.{i}."
        tensors |= {
            ours_ + "attn_norm.weight": state[theirs_ + "input_layernorm.weight"],
            ours_ + "attn_q.weight": permute(
                state[theirs_ + "self_attn.q_proj.weight"], c.num_attention_heads
            ),
            ours_ + "attn_k.weight": permute(
                state[theirs_ + "self_attn.k_proj.weight"], c.num_key_value_heads
            ),
            ours_ + "attn_v.weight": state[theirs_ + "self_attn.v_proj.weight"],
            ours_ + "attn_output.weight": state[theirs_ + "self_attn.o_proj.weight"],
            ours_ + "ffn_norm.weight": state[theirs_ + "post_attention_layernorm.weight"],
            ours_ + "ffn_gate.weight": state[theirs_ + "mlp.gate_proj.weight"],
            ours_ + "ffn_up.weight": state[theirs_ + "mlp.up_proj.weight"],
            ours_ + "ffn_down.weight": state[theirs_ + "mlp.down_proj.weight"],
        }
    tensors |= {name: np.zeros(4, dtype=np.float32) for name in extra}
    for name, tensor in tensors.items():
        if name in drop:
            continue
        if quantised is not None and tensor.ndim == 2:
            packed = gguf.quants.quantize(np.ascontiguousarray(tensor), quantised)
            writer.add_tensor(name, packed, raw_dtype=quantised)
        else:
            writer.add_tensor(name, np.ascontiguousarray(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("tied", [True, False])
def test_a_gguf_file_with_llama_cpps_row_order_gives_the_logits_of_the_model_it_was_made_from(tmp_path, tied):
    theirs = random_llama(tie_word_embeddings=tied)
    write_gguf(tmp_path / "model.gguf", theirs)
    assert_same_logits(tmp_path / "model.gguf", theirs)


@pytest.mark.parametrize(("kind", "step"), [("Q8_0", 1 / 127), ("Q4_1", 1 / 15)])
def test_quantised_blocks_come_back_within_half_a_step_of_their_grid(tmp_path, kind, step):
    """32 weights share a scale: Q8_0 has 127 steps from 0 to the largest, Q4_1 15 steps from smallest to
    largest."""
    theirs = random_llama()
    write_gguf(tmp_path / "model.gguf", theirs, quantised=gguf.GGMLQuantizationType[kind])
    _, found = load_gguf(tmp_path / "model.gguf")
    for name in ("model.layers.0.mlp.up_proj.weight", "model.layers.2.self_attn.v_proj.weight"):
        exact = theirs.state_dict()[name]
        blocks = exact.view(exact.shape[0], -1, 32)
        span = blocks.abs().amax(-1) if kind == "Q8_0" else blocks.amax(-1) - blocks.amin(-1)
        error = (found[name] - exact).view(blocks.shape).abs().amax(-1)
        assert (
            error <= 0.52 * step * span + 1e-3
        ).all()  # the scales themselves are stored in half precision
        assert error.max() > 0


FAULTS = {
    "another architecture": ({"architecture": "gpt2"}, "has architecture 'gpt2', expected 'llama'"),
    "a missing tensor": (
        {"drop": ("blk.1.attn_v.weight",)},
        "lacks the tensor model.layers.1.self_attn.v_proj",
    ),
    "an unknown tensor": ({"extra": ("rope_freqs.weight",)}, "a Llama model without biases has not"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_gguf_file_that_is_no_llama_model_is_refused_in_one_sentence(tmp_path, fault):
    options, sentence = FAULTS[fault]
    write_gguf(tmp_path / "model.gguf", random_llama(), **options)
    with pytest.raises(SpecdecError, match=sentence):
        load_gguf(tmp_path / "model.gguf")


def test_a_file_that_is_missing_or_no_gguf_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(SpecdecError, match=r"cannot read .*none.gguf: No such file"):
        open_gguf(tmp_path / "none.gguf")
    for content in (b"", b"GG", b"not a model at all" * 100):
        (tmp_path / "text.gguf").write_bytes(content)
        with pytest.raises(SpecdecError, match=r"text.gguf is not a readable GGUF file"):
            open_gguf(tmp_path / "text.gguf")


@pytest.mark.weights
def test_a_gguf_file_cut_off_at_any_place_is_refused_in_one_sentence(tmp_path):
    whole = weights.ensure().read_bytes()
    for size in (30, 5000, 1_500_000, 50_000_000):
        (tmp_path / "cut.gguf").write_bytes(whole[:size])
        with pytest.raises(SpecdecError, match=r"cut.gguf is not a readable GGUF file"):
            load_gguf(tmp_path / "cut.gguf")
    (tmp_path / "cut.gguf").unlink()
