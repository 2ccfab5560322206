"""Small random draft heads for the tiny verifier, peaked enough to be right now and then."""

import torch

from specdec.drafts.eagle1 import Eagle1
from specdec.drafts.eagle3 import Eagle3
from specdec.drafts.layer import HeadConfig
from specdec.drafts.medusa import Medusa
from specdec.drafts.vanilla import Vanilla
from specdec.verifier import Verifier


def randomised(head, seed: int, spread: float = 0.3):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
    return head.eval().requires_grad_(False)


def vocabulary(verifier: Verifier, every: int) -> torch.Tensor:
    return torch.arange(0, verifier.config.vocab_size, every)


def tiny_eagle3(verifier: Verifier, seed: int = 0, every: int = 2, taps=(0, 1, 1)) -> Eagle3:
    config = HeadConfig.like(verifier.config)
    head = Eagle3(config, vocabulary(verifier, every), verifier.config.vocab_size, taps)
    return randomised(head, seed)


def tiny_eagle1(verifier: Verifier, seed: int = 0, every: int = 1) -> Eagle1:
    """Of smaller weights: nothing normalises what it feeds itself, and rounding would grow with it."""
    known = vocabulary(verifier, every)
    head = Eagle1(HeadConfig.like(verifier.config), known, verifier.output[known])
    return randomised(head, seed, spread=0.15)


def tiny_medusa(verifier: Verifier, seed: int = 0, every: int = 1, count: int = 4) -> Medusa:
    known = vocabulary(verifier, every)
    return randomised(Medusa(verifier.config.hidden, count, known, verifier.output[known]), seed)


def tiny_vanilla(verifier: Verifier, seed: int = 0, every: int = 2) -> Vanilla:
    """Narrower than the verifier, and of other numbers of heads."""
    config = HeadConfig(
        24, 40, heads=3, kv_heads=1, head_size=8, rope_base=5_000.0, norm_eps=1e-5, context_length=256
    )
    return randomised(Vanilla(config, vocabulary(verifier, every), verifier.config.vocab_size), seed)
