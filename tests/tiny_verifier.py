"""A small random verifier for tests of the loop: milliseconds per pass, a vocabulary of a few tokens."""

import torch

from specdec.checkpoint import LlamaConfig, expected_shapes
from specdec.verifier import Verifier


def tiny_verifier(vocabulary: int = 16, seed: int = 0, layers: int = 2, context: int = 256) -> Verifier:
    """Random weights, peaked enough that greedy decoding does not hang on near-ties."""
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden=32,
        intermediate=48,
        layers=layers,
        heads=4,
        kv_heads=2,
        head_size=8,
        context_length=context,
        rope_base=10_000.0,
        norm_eps=1e-5,
        tied=False,
    )
    generator = torch.Generator().manual_seed(seed)
    state = {
        name: torch.randn(shape, generator=generator) * (0.3 if len(shape) > 1 else 1.0)
        for name, shape in expected_shapes(config).items()
    }
    return Verifier.from_state(config, state)
