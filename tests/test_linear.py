"""Forms of a weight matrix: each multiplies as the plain one does, and falls back to it where it must."""

import pytest
import torch
import torch.nn.functional as F
from test_int4 import quantised

from specdec import linear as forms
from specdec.int4 import READERS, Int4
from specdec.linear import NARROW, Blocked, ByWidth, block, blocks_bf16, linear, prepare

blocked = pytest.mark.skipif(not blocks_bf16(), reason="oneDNN multiplies no bf16 on this processor")


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@blocked
@pytest.mark.parametrize("n", [1, 2, 5, 16, 33])
@pytest.mark.parametrize(("rows", "columns"), [(48, 96), (50, 64), (576, 1536)])
def test_a_product_in_onednns_order_is_the_exact_one_rounded_to_bf16(n, rows, columns):
    weight, x = random(rows, columns).bfloat16(), random(2, n, columns, seed=1).bfloat16()
    matrix = block(weight)
    assert isinstance(matrix, Blocked)
    found, exact = linear(x, matrix), x.double() @ weight.double().T
    assert found.shape == (2, n, rows)
    assert found.dtype == torch.bfloat16
    # Summed in fp32, which moves a sum by far less than the rounding of the result, 2^-8 of it.
    assert ((found - exact).abs() <= 2.0**-8 * exact.abs() + 1e-3).all()
    torch.testing.assert_close(found, F.linear(x, weight), rtol=2.0**-7, atol=1e-3)


@blocked
def test_a_product_in_onednns_order_reads_rows_that_are_not_contiguous():
    weight, x = random(32, 64).bfloat16(), random(2, 6, 64, seed=1).bfloat16()
    torch.testing.assert_close(
        linear(x[:, 2:5], block(weight)), linear(x[:, 2:5].contiguous(), block(weight)), rtol=0, atol=0
    )


@blocked
def test_4_bit_codes_serve_few_rows_and_their_bf16_weights_serve_many():
    codes = READERS["Q4_1"](quantised("Q4_1", rows=64, columns=96)[0])
    matrix = prepare([codes], torch.bfloat16)
    assert isinstance(matrix, ByWidth)
    x = random(3 * NARROW, 96).bfloat16()
    few, many = x[:NARROW], x[: NARROW + 1]
    assert torch.equal(linear(few, matrix), linear(few, matrix.narrow))
    weights = codes.dequantise().bfloat16()
    torch.testing.assert_close(linear(many, matrix), F.linear(many, weights), rtol=2.0**-7, atol=1e-3)
    # It is the number of rows that counts, however they are shaped.
    batch = x.view(3, NARROW, 96)
    assert torch.equal(linear(batch, matrix), linear(batch, matrix.wide))


@blocked
def test_8_bit_codes_become_bf16_weights():
    data, exact = quantised("Q8_0", rows=64, columns=96)
    matrix = prepare([READERS["Q8_0"](data)], torch.bfloat16)
    x = random(3, 96).bfloat16()
    torch.testing.assert_close(linear(x, matrix), F.linear(x, exact.bfloat16()), rtol=2.0**-7, atol=1e-3)


def test_a_matrix_stays_as_it_is_in_fp32_and_on_another_device():
    assert isinstance(block(random(16, 32)), torch.Tensor)
    assert isinstance(block(torch.empty(16, 32, dtype=torch.bfloat16, device="meta")), torch.Tensor)


def test_without_onednn_bf16_stays_plain_and_codes_serve_every_width(monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not blocks_bf16()
    weight, x = random(48, 96).bfloat16(), random(7, 96, seed=1).bfloat16()
    matrix = prepare([weight], torch.bfloat16)
    assert matrix is weight
    assert torch.equal(linear(x, matrix), F.linear(x, weight))
    assert isinstance(prepare([READERS["Q4_1"](quantised("Q4_1")[0])], torch.bfloat16), Int4)


def test_a_torch_without_the_operators_is_noticed(monkeypatch):
    monkeypatch.setattr(forms, "OPERATORS", ("_no_such_operator",))
    assert not blocks_bf16()
