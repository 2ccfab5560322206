"""What is trained: for each family a fresh head, started from the verifier where shapes allow, and its loss.

    vanilla     a small Llama that reads tokens alone; token loss
    medusa      k heads on the last hidden state, each for a token further ahead
    eagle1      one layer; regression to the verifier's next feature, and a token loss of a tenth of it
    eagle3      one layer over three fused features; token loss alone, unrolled on its own output
    eagle3 without the training-time test   as eagle3, with one step
    eagle3 on the last feature              as eagle3, reading one layer
    eagle3 with the feature loss            as eagle3, plus EAGLE-1's regression at every step

Starting values: the layer is the verifier's last one, the fusion passes its latest feature through, the
output matrix holds the verifier's rows of the draft vocabulary. From random weights the same takes several
times as many tokens. The vanilla draft, which is narrower, gets its table alone: the verifier's embeddings
along the directions in which they vary most.

Layout: as in losses.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from specdec.checkpoint import State
from specdec.drafts.eagle1 import Eagle1
from specdec.drafts.eagle3 import Eagle3, tapped_layers
from specdec.drafts.layer import HeadConfig, Layer
from specdec.drafts.medusa import Medusa
from specdec.drafts.store import AnyHead
from specdec.drafts.vanilla import Vanilla, sizes_like
from specdec.errors import SpecdecError
from specdec.linear import as_tensor
from specdec.train.losses import Batch, cross_entropy, regression, shifted, verifier_laws
from specdec.train.unroll import unroll
from specdec.verifier import Verifier


@dataclass(frozen=True)
class Family:
    """How one family is trained."""

    name: str  # on the command line, and the folder in models/
    head: str  # "eagle3", "eagle1", "medusa" or "vanilla"
    steps: int  # how far a loss looks ahead: heads of Medusa, unrolled steps of the others
    taps: int = 3  # for eagle3: how many layers it reads, from the latest down
    token_weight: float = 1.0
    feature_weight: float = 0.0
    decay: float = 0.8  # weight of each step in units of the one before


EAGLE3 = Family("eagle3", "eagle3", steps=4)
FAMILIES = {
    family.name: family
    for family in (
        Family("vanilla", "vanilla", steps=1),
        Family("medusa", "medusa", steps=4),
        Family("eagle1", "eagle1", steps=1, token_weight=0.1, feature_weight=1.0),
        EAGLE3,
        replace(EAGLE3, name="eagle3-one-step", steps=1),
        replace(EAGLE3, name="eagle3-last-feature", taps=1),
        # The stream is about ten times as large as what the final norm makes of it, EAGLE-1's goal.
        replace(EAGLE3, name="eagle3-feature-loss", feature_weight=0.1),
    )
}


def family(name: str) -> Family:
    """The family of that name; raises SpecdecError, listing them, when there is none."""
    if name not in FAMILIES:
        raise SpecdecError(f"there is no family {name!r}: choose one of {', '.join(FAMILIES)}")
    return FAMILIES[name]


# -- a fresh head ----------------------------------------------------------------------------------------


def new_head(
    chosen: Family,
    verifier: Verifier,
    state: State,
    vocabulary: Tensor,
    seed: int,
    warm: bool = True,
    spread: Tensor | None = None,
) -> AnyHead:
    """A head to be trained, in fp32. `state`: the verifier's tensors; `vocabulary [Vd]`: target ids, rising.

    spread [features, H]: how large the channels of the stored features are (batches.py), 1 where not given.

    What has no counterpart in the verifier is random, drawn with `seed`; with `warm` false all of it is.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = HeadConfig.like(verifier.config)
        rows = verifier.output_rows(vocabulary).float()
        head: AnyHead
        if chosen.head == "medusa":
            head = Medusa(config.hidden, chosen.steps, vocabulary, rows)
        elif chosen.head == "vanilla":
            head = Vanilla(sizes_like(verifier.config), vocabulary, verifier.config.vocab_size)
        elif chosen.head == "eagle1":
            head = Eagle1(config, vocabulary, rows)
        else:
            taps = tapped_layers(verifier.config.layers)[-chosen.taps :]
            head = Eagle3(config, vocabulary, verifier.config.vocab_size, taps)
    if warm:
        with torch.no_grad():
            if isinstance(head, Vanilla):
                start_table(head, verifier)
            elif not isinstance(head, Medusa):
                start_from(head, verifier, state, rows)
                if isinstance(head, Eagle1):
                    after_the_norm(head, verifier, state, spread)
    return head


def start_table(head: Vanilla, verifier: Verifier) -> None:
    """Give the table the principal components of the verifier's embeddings, as many as there are channels.

    Products of rows come as near to the verifier's as this width allows, so tokens that are alike for the
    verifier are alike for the draft. The other row is the mean of the tokens that it stands for.
    """
    table = head.model.embed_tokens.weight
    embedding = verifier.embedding.float()
    known = embedding[head.vocabulary]
    others = torch.ones(len(embedding), dtype=torch.bool)
    others[head.vocabulary] = False
    if others.any():
        known = torch.cat((known, embedding[others].mean(0, keepdim=True)))
    centred = known - known.mean(0)
    directions = torch.linalg.eigh(centred.T @ centred).eigenvectors.flip(1)  # [H, H], the largest first
    found = (centred @ directions)[:, : table.shape[1]]
    table[: len(found), : found.shape[1]] = found * (0.02 / found.std())


def start_from(head: Eagle1 | Eagle3, verifier: Verifier, state: State, rows: Tensor) -> None:
    """Copy what the verifier has of the head's tensors into it."""
    last = f"model.layers.{verifier.config.layers - 1}"
    hidden = verifier.config.hidden

    def weight(name: str) -> Tensor:
        return as_tensor(state[f"{name}.weight"], torch.float32)

    layer: Layer = head.layer
    layer.self_attn.o_proj.weight.copy_(weight(f"{last}.self_attn.o_proj"))
    layer.post_attention_layernorm.weight.copy_(weight(f"{last}.post_attention_layernorm"))
    for part in ("gate_proj", "up_proj", "down_proj"):
        getattr(layer.mlp, part).weight.copy_(weight(f"{last}.mlp.{part}"))
    for part in ("q_proj", "k_proj", "v_proj"):
        # The half that reads the feature is the verifier's; that of the embedding starts small and random.
        getattr(layer.self_attn, part).weight[:, -hidden:] = weight(f"{last}.self_attn.{part}")
    head.fc.weight.mul_(0.1)
    head.fc.weight[:, -hidden:].add_(torch.eye(hidden))  # of the inputs that are joined, the latest feature
    if isinstance(head, Eagle3):
        head.midlayer.hidden_norm.weight.copy_(weight(f"{last}.input_layernorm"))
        head.norm.weight.copy_(weight("model.norm"))
        head.lm_head.weight.copy_(rows)


def after_the_norm(head: Eagle1, verifier: Verifier, state: State, spread: Tensor | None) -> None:
    """Make of a layer that works on the residual stream one that works on features behind the final norm.

    A feature is h = w x / |x|, w the norm's weight, x the stream and |.| a root mean square. What read x
    through a norm of its own now undoes w, and what was added to x is multiplied by w / |x|. For |x|, which
    the stored features do not tell, stands the stream's usual size in units of h / w.
    """
    last = f"model.layers.{verifier.config.layers - 1}"
    w = as_tensor(state["model.norm.weight"], torch.float32)
    before = as_tensor(state[f"{last}.input_layernorm.weight"], torch.float32)
    tap, last_hidden = spread[-2:] if spread is not None else torch.ones(2, len(w))
    added = w * (last_hidden / w / tap).median()
    layer = head.layer
    for part in ("q_proj", "k_proj", "v_proj"):
        getattr(layer.self_attn, part).weight.mul_(before / w)
    layer.post_attention_layernorm.weight.mul_(last_hidden.pow(2).mean().sqrt() / w)
    layer.self_attn.o_proj.weight.mul_(added.unsqueeze(1))
    layer.mlp.down_proj.weight.mul_(added.unsqueeze(1))


def trained_parameters(head: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in head.parameters() if parameter.requires_grad]


# -- running it over a batch -----------------------------------------------------------------------------


def outputs(
    chosen: Family, head: AnyHead, embedding: Tensor, batch: Batch, steps: int
) -> Iterator[tuple[int, Tensor, Tensor | None]]:
    """Per step: the first token that its rows stand for, what `head.score` reads, [B, n, H], and the features
    that this is to equal, if any.

    Row i of step k stands for token i + 2 + k: it has read token i + 1 + k. Rows that stand for no token of
    the text are left out.
    """
    n = batch.tokens.shape[1] - 1
    if isinstance(head, Vanilla):
        # It has nothing of its own to go on from: at every step it has read the text's tokens. So what step k
        # says of a token is what step 0 says of it.
        out = head.read(batch.tokens)
        for k in range(steps):
            yield k + 2, out[:, k + 1 : n], None
        return
    if isinstance(head, Medusa):
        for k in range(steps):
            yield k + 2, head.block(k)(batch.hidden[:, : n - 1 - k]), None
        return
    features = batch.hidden if isinstance(head, Eagle1) else fused(head, batch)
    tokens = torch.nn.functional.pad(batch.tokens[:, 1:], (0, steps))
    for k, out in enumerate(unroll(head, embedding, tokens, features[:, :n], steps)):
        yield k + 2, out[:, : n - 1 - k], features[:, k + 1 : n].detach()


def fused(head: Eagle3, batch: Batch) -> Tensor:
    """The features that an EAGLE-3 head reads, [B, T, H]; `batch.taps` holds all three layers."""
    chosen = batch.taps[:, :, -len(head.taps) :]
    return head.fc(chosen.flatten(2))


def loss_of(
    chosen: Family, head: AnyHead, embedding: Tensor, batch: Batch, rows: Tensor, known: Tensor
) -> tuple[Tensor, Tensor]:
    """The summed loss of a batch, and how many answer rows it is a sum over (step 0's), both numbers.

    rows [Vd, H]: the verifier's output rows for the draft vocabulary; known [V] bool.
    """
    total = batch.hidden.new_zeros((), dtype=torch.float32)
    count = batch.hidden.new_zeros((), dtype=torch.float32)
    laws = verifier_laws(batch, rows)
    for k, (ahead, out, goal) in enumerate(outputs(chosen, head, embedding, batch, chosen.steps)):
        target = shifted(batch, ahead, laws, known)
        loss = chosen.token_weight * cross_entropy(head.score(out[target.learnable]), target)
        if chosen.feature_weight and goal is not None:
            loss = loss + chosen.feature_weight * regression(out, goal, target.counts)
        total = total + chosen.decay**k * loss
        if k == 0:
            count = count + target.counts.sum()
    return total, count
