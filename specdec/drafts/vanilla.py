"""The vanilla draft: a small Llama of its own, trained on the verifier's text (Leviathan et al. 2023).

It reads tokens and nothing of what the verifier computed. What makes it small is its vocabulary: a table of
256 channels for the verifier's 49,152 tokens would be 25 MB in bf16. So it has rows for `vocabulary` alone,
the most frequent tokens of the training text, which are the ones that it can propose, and one row more,
"other", as which it reads every token else. The table is input and output matrix (tied); the other row is
never proposed.

Its sizes: two layers, because one cannot look up what followed an earlier occurrence of the newest token
(induction takes two: Olsson et al. 2022), and more would be slower, as every token that it drafts is a pass
of its own. Width 256: with a table of 4,096 tokens that is 3.0 million parameters, 6 MB in bf16.

In training, here, a whole text is one causal pass. In drafting it is run by Verifier, with a cache
(small_lm.py): names and shapes of the tensors are those of Hugging Face's Llama.

Layout: tokens [B, n] are the verifier's; hidden states [B, n, H]; logits [B, n, Vd] over the vocabulary.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specdec.checkpoint import LlamaConfig
from specdec.drafts.layer import HeadConfig, Layer, Norm
from specdec.verifier import rope_tables

FAMILY = "vanilla"
LAYERS = 2


def sizes_like(config: LlamaConfig) -> HeadConfig:
    """Sizes of its layers, for a verifier of this shape: only the context is the verifier's."""
    return HeadConfig(
        hidden=256,
        intermediate=1024,
        heads=4,
        kv_heads=2,
        head_size=64,
        rope_base=10_000.0,
        norm_eps=config.norm_eps,
        context_length=config.context_length,
    )


def own_ids(vocabulary: Tensor, target_size: int) -> Tensor:
    """The row of its table for each of the verifier's tokens, `[V]` int64: that of "other" for most."""
    ids = torch.full((target_size,), len(vocabulary), dtype=torch.long, device=vocabulary.device)
    ids[vocabulary] = torch.arange(len(vocabulary), device=vocabulary.device)
    return ids


class Block(Layer):
    """One layer of a Llama: normalised before attention, too."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__(config, config.hidden)
        self.input_layernorm = Norm(config.hidden, config.norm_eps)


class Llama(nn.Module):
    """The parameters below `model.`."""

    def __init__(self, config: HeadConfig, layers: int, rows: int) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(rows, config.hidden)
        self.layers = nn.ModuleList([Block(config) for _ in range(layers)])
        self.norm = Norm(config.hidden, config.norm_eps)


class Vanilla(nn.Module):
    """`vocabulary [Vd]`: the target ids that it knows, rising, of the verifier's `target_size`."""

    family = FAMILY
    taps: tuple[int, ...] = ()

    def __init__(
        self, config: HeadConfig, vocabulary: Tensor, target_size: int, layers: int = LAYERS
    ) -> None:
        super().__init__()
        self.config, self.target_size = config, target_size
        self.model = Llama(config, layers, len(vocabulary) + 1)
        # As large as Llama models begin, so that the first logits are small.
        nn.init.normal_(self.model.embed_tokens.weight, std=0.02)
        self.vocabulary: Tensor
        self.ids: Tensor
        self.register_buffer("vocabulary", vocabulary)
        self.register_buffer("ids", own_ids(vocabulary, target_size), persistent=False)

    @property
    def llama(self) -> LlamaConfig:
        """What Verifier is to make of its tensors."""
        layers, rows = len(self.model.layers), len(self.vocabulary) + 1
        return replace(self.config.llama(layers), vocab_size=rows)

    def read(self, tokens: Tensor) -> Tensor:
        """Hidden states after the final norm, each having read the tokens up to its own."""
        n = tokens.shape[1]
        x = self.model.embed_tokens(self.ids[tokens])
        cos, sin = (table.to(x) for table in rope_tables(replace(self.llama, context_length=n)))
        for layer in self.model.layers:
            assert isinstance(layer, Block)
            q, k, v = layer.self_attn.split(layer.input_layernorm(x), cos, sin)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = layer.finish(x, mixed.transpose(1, 2).flatten(2))
        return self.model.norm(x)

    def score(self, hidden: Tensor) -> Tensor:
        """Logits over the vocabulary from hidden states."""
        return F.linear(hidden, self.model.embed_tokens.weight[:-1])
