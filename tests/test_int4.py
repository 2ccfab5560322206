"""4-bit weights: the file's codes, unchanged, and products within what rounding to bf16 allows.

bf16 keeps 8 significant bits, so rounding to the nearest moves a number by at most 2^-8 of it. The expected
numbers come from `gguf.dequantize`, the file format's own reference.
"""

import os
import subprocess
import sys

import gguf
import numpy as np
import pytest
import torch
from random_llama import random_llama, some_tokens
from test_checkpoint import write_gguf
from test_verifier import TEXT

from specdec import weights
from specdec.checkpoint import load_gguf, load_gguf_codes, open_gguf, unpermute
from specdec.errors import SpecdecError
from specdec.int4 import READERS, Codes, StoredCodes, pack, stack
from specdec.linear import linear, prepare
from specdec.verifier import Verifier

ROUNDING = 2.0**-8  # of a number, by bf16
KINDS = ("Q4_1", "Q8_0")


def quantised(kind, rows=48, columns=96, seed=0, spread=1.0):
    """Random weights in the file's bytes, and the numbers that the format says these are."""
    random = np.random.default_rng(seed)
    matrix = (spread * random.standard_normal((rows, columns)) + 0.3).astype(np.float32)
    data = gguf.quants.quantize(matrix, gguf.GGMLQuantizationType[kind])
    exact = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
    return torch.tensor(data), torch.tensor(exact)


def weight_bound(codes: Codes) -> torch.Tensor:
    """How far rounding scale and zero may move each weight, [out, in]."""
    groups = codes.codes.float().view(*codes.scale.shape, 32).abs()
    if codes.bits == 8:  # 16 high + low, all times the one rounded scale
        return (ROUNDING * groups * codes.scale.abs()[..., None]).view(codes.shape)
    moved = groups * codes.scale.abs()[..., None] + codes.zero.abs()[..., None]
    return (ROUNDING * moved).view(codes.shape)


@pytest.mark.parametrize("kind", KINDS)
def test_codes_and_scales_are_those_of_the_file(kind):
    data, exact = quantised(kind)
    codes = READERS[kind](data)
    torch.testing.assert_close(codes.dequantise(), exact, rtol=1e-6, atol=1e-6)
    assert codes.shape == exact.shape


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 4, 5, 17])
def test_a_product_differs_from_the_exact_one_by_rounding_to_bf16_alone(kind, n):
    data, exact = quantised(kind, rows=208, columns=160)
    codes = READERS[kind](data)
    x = torch.randn(2, n, 160, generator=torch.Generator().manual_seed(n)).bfloat16()
    found = linear(x, pack(codes))
    assert found.shape == (2, n, 208)
    assert found.dtype == torch.bfloat16
    wanted = x.double() @ exact.double().T
    bound = x.double().abs() @ weight_bound(codes).double().T
    bound += ROUNDING * (wanted.abs() + bound) + 1e-4  # the result is rounded, too
    assert ((found.double() - wanted).abs() <= bound).all()


@pytest.mark.parametrize("kind", KINDS)
def test_without_rounding_in_scales_the_weights_come_out_of_the_kernel_bit_for_bit(kind):
    """Scales that are powers of two, and a one-hot input for every column."""
    random = torch.Generator().manual_seed(0)
    low, high = (-8, 8) if kind == "Q4_1" else (-128, 128)
    codes = torch.randint(low, high, (32, 64), generator=random, dtype=torch.int8)
    codes[0, :2] = torch.tensor([low, high - 1])
    scale = torch.full((32, 2), 0.25)
    matrix = Codes(8 if kind == "Q8_0" else 4, codes, scale, torch.zeros(32, 2))
    found = linear(torch.eye(64).bfloat16(), pack(matrix))
    assert torch.equal(found.float().T, codes.float() * 0.25)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_the_product_does_not_depend_on_the_rows_beside_it(kind):
    matrix = pack(READERS[kind](quantised(kind)[0]))
    x = torch.randn(23, 96, generator=torch.Generator().manual_seed(0)).bfloat16()
    together = linear(x, matrix)
    alone = torch.cat([linear(x[i : i + 1], matrix) for i in range(len(x))])
    assert torch.equal(together, alone)


def test_matrices_packed_as_one_give_the_products_of_each():
    parts = [READERS["Q4_1"](quantised("Q4_1", rows, 64, seed=rows)[0]) for rows in (64, 16, 32)]
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    together = linear(x, prepare(parts, torch.bfloat16))
    assert torch.equal(together, torch.cat([linear(x, pack(part)) for part in parts], dim=-1))


def test_a_matrix_of_many_rows_is_packed_in_pieces_that_fit_together():
    data, exact = quantised("Q4_1", rows=4096 + 16, columns=32)
    found = linear(torch.eye(32).bfloat16(), pack(READERS["Q4_1"](data))).float().T
    torch.testing.assert_close(found, exact, rtol=2.0**-7, atol=2.0**-5)


@pytest.mark.parametrize("capability", ["avx2", "default"])
def test_without_avx512_the_kernel_gives_the_same_numbers(capability):
    """Set when torch starts, so in processes of their own; elsewhere than on x86 both are the plain path."""
    script = (
        "import torch; from specdec.int4 import Codes, pack\n"
        "random = torch.Generator().manual_seed(0)\n"
        "codes = torch.randint(-8, 8, (64, 96), generator=random, dtype=torch.int8)\n"
        "scale, zero = torch.randn(2, 64, 3, generator=random)\n"
        "x = torch.randn(7, 96, generator=random).bfloat16()\n"
        "product = pack(Codes(4, codes, scale, zero)).multiply(x)\n"
        "print(torch.backends.cpu.get_cpu_capability(), product.float().tolist())\n"
    )
    results = {}
    for name in (None, capability):
        env = os.environ | ({"ATEN_CPU_CAPABILITY": name} if name else {})
        done = subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True
        )
        results[name] = done.stdout.split(" ", 1)
    used = results[capability][0]
    assert used in ("AVX2", "DEFAULT", "NO AVX"), used
    here, there = (torch.tensor(eval(results[name][1])) for name in (None, capability))
    # Sums in another order may round to the neighbouring bf16 number.
    torch.testing.assert_close(there, here, rtol=2 * ROUNDING, atol=2.0**-7)


# --- the forward pass ---


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tied", [True, False])
def test_a_4_bit_verifier_agrees_with_the_dequantised_one(tmp_path, kind, tied):
    """Row order of queries and keys, fused matrices and the output matrix included."""
    theirs = random_llama(vocab_size=64, tie_word_embeddings=tied, initializer_range=0.1)
    write_gguf(tmp_path / "model.gguf", theirs, quantised=gguf.GGMLQuantizationType[kind])
    tokens = some_tokens(2, 40)
    exact = Verifier.load(tmp_path / "model.gguf").forward(tokens).logits
    bf16 = Verifier.load(tmp_path / "model.gguf", "bf16").forward(tokens).logits
    found = Verifier.load(tmp_path / "model.gguf", "int4").forward(tokens).logits
    assert found.dtype == torch.float32
    # The same size of error as bf16 of the same weights, which has as many significant bits everywhere.
    assert (found - exact).square().mean().sqrt() < 3 * (bf16 - exact).square().mean().sqrt()


@pytest.mark.weights
def test_all_210_q4_1_matrices_of_the_verifier_keep_their_codes():
    """Read back through the kernel with one-hot inputs: every weight is where rounding its group allows."""
    path = weights.ensure()
    _, reader = open_gguf(path)
    config, exact = load_gguf(path)
    _, coded = load_gguf_codes(path)
    assert sum(t.tensor_type.name == "Q4_1" for t in reader.tensors) == 210
    bits = {name: w.read().bits for name, w in coded.items() if isinstance(w, StoredCodes)}
    assert sum(n == 4 for n in bits.values()) == 210
    assert [name for name, n in bits.items() if n == 8] == ["model.embed_tokens.weight"]
    for name in [
        f"model.layers.{i}.{part}.weight"
        for i in (0, 17)
        for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.o_proj", "mlp.down_proj")
    ]:
        codes = coded[name].read()
        torch.testing.assert_close(codes.dequantise(), exact[name], rtol=1e-5, atol=1e-6)
        found = linear(torch.eye(codes.shape[1]).bfloat16(), pack(codes)).float().T
        bound = weight_bound(codes)
        bound += ROUNDING * (exact[name].abs() + bound) + 1e-6
        assert ((found - exact[name]).abs() <= bound).all()
    by_name = {tensor.name: tensor for tensor in reader.tensors}
    raw = torch.tensor(by_name["blk.0.attn_q.weight"].data)
    nibbles = torch.cat((raw.view(576, 18, 20)[..., 4:] & 15, raw.view(576, 18, 20)[..., 4:] >> 4), -1)
    mine = coded["model.layers.0.self_attn.q_proj.weight"].read().codes + 8
    assert torch.equal(mine, unpermute(nibbles.view(576, 576), config.heads).to(torch.int8))


@pytest.mark.weights
def test_4_bit_logits_are_as_close_to_the_dequantised_fp32_model_as_those_of_bf16():
    from specdec.tokenizer import load_tokenizer

    tokens = torch.tensor([load_tokenizer().encode(TEXT)])
    exact = Verifier.load().forward(tokens).logits
    q = exact.log_softmax(-1)
    error, divergence, agreement = {}, {}, {}
    for precision in ("bf16", "int4"):
        logits = Verifier.load(precision=precision).forward(tokens).logits
        error[precision] = (logits - exact).abs().mean()
        divergence[precision] = (q.exp() * (q - logits.log_softmax(-1))).sum(-1).mean()
        agreement[precision] = (logits.argmax(-1) == exact.argmax(-1)).float().mean()
    # Both round every activation to bf16; the 4-bit form rounds two numbers per group instead of 32 weights.
    assert error["int4"] < 1.5 * error["bf16"] < 0.3
    assert divergence["int4"] < 2 * divergence["bf16"] < 0.01  # nats
    assert agreement["int4"] > 0.93


# --- what cannot be had in 4 bits ---


def test_a_folder_and_plain_tensors_have_no_codes(tmp_path):
    theirs = random_llama()
    theirs.save_pretrained(tmp_path)
    with pytest.raises(SpecdecError, match=r"takes its codes from a GGUF file, and .* is a folder: use bf16"):
        Verifier.load(tmp_path, "int4")
    write_gguf(tmp_path / "model.gguf", theirs)
    config, state = load_gguf(tmp_path / "model.gguf")
    with pytest.raises(SpecdecError, match=r"takes its codes from a GGUF file: use Verifier.load"):
        Verifier.from_state(config, state, "int4")


def test_a_file_with_other_codes_is_refused_by_name(tmp_path):
    write_gguf(tmp_path / "m.gguf", random_llama(), quantised=gguf.GGMLQuantizationType.Q5_0)
    with pytest.raises(SpecdecError, match=r"codes of Q4_1 and Q8_0, but .* has token_embd.weight in Q5_0"):
        Verifier.load(tmp_path / "m.gguf", "int4")


def test_shapes_and_mixtures_that_the_kernel_cannot_take_are_refused():
    with pytest.raises(SpecdecError, match=r"multiple of 16, got \[40, 64\]: use precision bf16"):
        pack(READERS["Q4_1"](quantised("Q4_1", 40, 64)[0]))
    with pytest.raises(SpecdecError, match="mixes 4-bit and 8-bit codes"):
        stack([READERS[kind](quantised(kind)[0]) for kind in KINDS])
