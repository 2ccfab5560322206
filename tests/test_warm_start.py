"""A head starts as the verifier's last layer, in the coordinates of the features that it reads."""

import pytest
import torch
import torch.nn.functional as F
from tiny_verifier import tiny_verifier

from specdec.checkpoint import expected_shapes
from specdec.drafts.layer import HeadConfig
from specdec.drafts.vanilla import Block
from specdec.train.families import family, new_head
from specdec.verifier import rope_tables

VERIFIER = tiny_verifier(layers=6)
CONFIG = HeadConfig.like(VERIFIER.config)
LAST = f"model.layers.{VERIFIER.config.layers - 1}."


def state(norm: float):
    """Random tensors of the verifier's shapes; the final norm multiplies every channel by `norm`."""
    generator = torch.Generator().manual_seed(0)
    found = {
        name: torch.randn(shape, generator=generator) * (0.3 if len(shape) > 1 else 1.0)
        for name, shape in expected_shapes(VERIFIER.config).items()
    }
    found["model.norm.weight"] = torch.full((CONFIG.hidden,), norm)
    return found


def mixed(attention, rows, tables):
    q, k, v = attention.split(rows, *tables)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out.transpose(1, 2).flatten(2)


@pytest.mark.parametrize(("norm", "size"), [(1.0, 1.0), (2.5, 0.7), (0.4, 30.0)])
@torch.no_grad()
def test_the_layer_of_eagle1_does_behind_the_final_norm_what_the_verifiers_does_before_it(norm, size):
    tensors, n, hidden = state(norm), 5, CONFIG.hidden
    layer = Block(CONFIG)
    layer.load_state_dict({name[len(LAST) :]: x for name, x in tensors.items() if name.startswith(LAST)})
    # A residual stream x of rows whose root mean square is `size`, and what the final norm makes of it.
    x = torch.randn(1, n, hidden, generator=torch.Generator().manual_seed(1))
    x = size * x / x.pow(2).mean(-1, keepdim=True).sqrt()
    feature = norm * x / size
    tables = [table[:n] for table in rope_tables(CONFIG.llama())]
    right = layer.finish(x, mixed(layer.self_attn, layer.input_layernorm(x), tables)) * norm / size

    spread = torch.tensor([[size], [norm]]).expand(2, hidden)
    head = new_head(family("eagle1"), VERIFIER, tensors, torch.arange(8), seed=0, spread=spread)
    found = head.layer.finish(feature, mixed(head.layer.self_attn, feature, tables))
    torch.testing.assert_close(found, right, atol=2e-4 * norm, rtol=2e-4)


@torch.no_grad()
def test_without_stored_features_the_stream_is_taken_to_be_of_size_one():
    vocabulary, tensors = torch.arange(8), state(1.0)
    given = new_head(
        family("eagle1"), VERIFIER, tensors, vocabulary, seed=0, spread=torch.ones(2, CONFIG.hidden)
    )
    left_out = new_head(family("eagle1"), VERIFIER, tensors, vocabulary, seed=0)
    for ours, theirs in zip(given.parameters(), left_out.parameters(), strict=True):
        assert torch.equal(ours, theirs)
