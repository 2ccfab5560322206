"""Small random Llama models built by Hugging Face transformers: an oracle without downloaded weights."""

import torch

from specdec.checkpoint import LlamaConfig, RopeScaling
from specdec.verifier import Verifier

SHAPES = {
    "one query head per key-value head, untied": {"num_key_value_heads": 4, "tie_word_embeddings": False},
    "four query heads share one, tied": {"num_key_value_heads": 1, "tie_word_embeddings": True},
    "a head size of its own": {"num_key_value_heads": 2, "head_dim": 24},
    "another rope base": {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}},
    "rotations stretched as in Llama 3.1": {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 20_000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
}


def random_llama(seed: int = 0, **changes):
    """A small LlamaForCausalLM of transformers with random weights large enough to make peaked
    distributions."""
    from transformers import LlamaConfig as TheirConfig
    from transformers import LlamaForCausalLM

    sizes = {
        "vocab_size": 50,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "initializer_range": 0.2,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(TheirConfig(**(sizes | changes))).eval()


def ours(theirs) -> Verifier:
    """The same model as a Verifier, by way of plain tensors."""
    c = theirs.config
    rope = c.rope_parameters
    scaling = None
    if rope["rope_type"] == "llama3":
        names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
        scaling = RopeScaling(*(rope[name] for name in names))
    config = LlamaConfig(
        vocab_size=c.vocab_size,
        hidden=c.hidden_size,
        intermediate=c.intermediate_size,
        layers=c.num_hidden_layers,
        heads=c.num_attention_heads,
        kv_heads=c.num_key_value_heads,
        head_size=c.head_dim,
        context_length=c.max_position_embeddings,
        rope_base=rope["rope_theta"],
        norm_eps=c.rms_norm_eps,
        tied=c.tie_word_embeddings,
        rope_scaling=scaling,
    )
    state = dict(theirs.state_dict())
    if config.tied:
        del state["lm_head.weight"]
    return Verifier.from_state(config, state)


def some_tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(50, shape, generator=torch.Generator().manual_seed(seed))
