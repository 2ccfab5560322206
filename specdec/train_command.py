"""The command `train`: a draft head from stored text and features, with progress, checkpoints and a card.

As in commands.py, nothing is decided here that the library does not decide. An interrupted run is continued
by repeating it. Under `torchrun` every process takes its part of each batch.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from specdec.bench_command import at_least_one
from specdec.commands import app

if TYPE_CHECKING:
    from specdec.policy import Policy
    from specdec.train.trainer import Progress


@app.command()
def train(
    name: Annotated[
        str, typer.Argument(metavar="FAMILY", help="eagle3, eagle1, medusa, vanilla or an ablation.")
    ],
    data: Annotated[Path, typer.Option(help="Token shards, made by `specdec data`.")],
    features: Annotated[Path, typer.Option(help="Their features, made by `specdec features`.")],
    out: Annotated[Path, typer.Option(help="Folder for the head, its card and the checkpoint.")],
    updates: Annotated[int, typer.Option(help="Most updates.", callback=at_least_one)] = 3000,
    batch_tokens: Annotated[
        int, typer.Option(help="Padded tokens per update.", callback=at_least_one)
    ] = 2048,
    learning_rate: Annotated[float, typer.Option(help="Highest; warms up and falls as a cosine.")] = 1e-3,
    draft_vocabulary: Annotated[
        int, typer.Option(help="Most frequent tokens that are proposed.", callback=at_least_one)
    ] = 4096,
    evaluate_every: Annotated[
        int, typer.Option(help="Updates between evaluations and checkpoints.", callback=at_least_one)
    ] = 250,
    patience: Annotated[
        int, typer.Option(help="Evaluations without a better one before it stops.", callback=at_least_one)
    ] = 4,
    seed: Annotated[int, typer.Option(help="Of the starting weights and the order of texts.")] = 0,
    fp32: Annotated[bool, typer.Option("--fp32", help="Without bf16 autocast.")] = False,
    cold: Annotated[
        bool, typer.Option("--cold", help="From random weights, not the verifier's last layer.")
    ] = False,
    texts_wanted: Annotated[
        int | None,
        typer.Option(
            "--texts",
            help="Train on the texts of the first so many prompts; else on all. Held out are the same.",
            callback=at_least_one,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Train a draft head on the verifier's own text. Repeat the command to continue after an interruption."""
    from specdec.train.families import family

    chosen = family(name)
    import torch

    from specdec import weights
    from specdec.checkpoint import load_gguf
    from specdec.drafts.store import save_head
    from specdec.files import write_json
    from specdec.train.batches import Texts
    from specdec.train.card import FACTS, facts, write_card
    from specdec.train.families import new_head
    from specdec.train.features import Features
    from specdec.train.trainer import TrainConfig, place
    from specdec.train.trainer import train as run
    from specdec.train.vocabulary import coverage
    from specdec.train.vocabulary import draft_vocabulary as most_frequent
    from specdec.verifier import Verifier

    config = TrainConfig(
        name,
        updates=updates,
        batch_tokens=batch_tokens,
        learning_rate=learning_rate,
        draft_vocabulary=draft_vocabulary,
        evaluate_every=evaluate_every,
        patience=patience,
        seed=seed,
        bf16=not fp32,
        warm_start=not cold,
        texts=texts_wanted,
    )
    stored = Features(data, features, weights.SHA256)
    join_processes()
    console = Console(stderr=True, quiet=place()[0] > 0)
    verifier = Verifier.load()
    output = verifier.output_rows(torch.arange(verifier.config.vocab_size))
    texts = Texts(stored, features, output, most=texts_wanted)
    vocabulary = most_frequent(texts, draft_vocabulary, verifier.config.vocab_size)
    covered = coverage(texts, vocabulary, verifier.config.vocab_size)
    _, state = load_gguf(weights.ensure())
    head = new_head(chosen, verifier, state, vocabulary, seed, config.warm_start, texts.spread)
    rows = verifier.output_rows(vocabulary)
    console.print(
        f"{len(texts.training)} texts to train on, {len(texts.held_out)} held out; "
        f"{len(vocabulary)} tokens cover {covered:.1%} of held-out answers",
        highlight=False,
    )

    def shown(progress: "Progress") -> None:
        if progress.update % 20 and progress.update != config.updates:
            return
        line = f"update {progress.update}/{config.updates}  loss {progress.losses[-1]:.4f}"
        if progress.evaluations:
            last = progress.evaluations[-1]
            line += "  acceptance " + " ".join(f"{alpha:.3f}" for alpha in last["sampled"])
        console.print(f"{line}  {progress.seconds:.0f} s", highlight=False)

    progress = run(head, texts, verifier.embedding, rows, config, out, shown)
    first = place()[0] == 0
    leave_processes()
    if not first:
        return
    policy = default_policy(chosen.head)
    save_head(out, head, verifier, policy)
    found = facts(config, progress, head, texts, covered)
    write_json(out / FACTS, found)
    write_card(out)
    console.print(f"the best was update {progress.best['update']}; the head is in {out}", highlight=False)


def default_policy(head: str) -> "Policy":
    """The policy that is stored with a head of this kind, until a better one was measured."""
    from specdec.policy import chain, dynamic, static

    if head == "medusa":
        return static([3, 2, 1], rule="top-k")
    # A small model reads each level of a tree in a pass of its own, as the others do, but of several layers.
    return chain(4) if head == "vanilla" else dynamic(4, 3, 8)


def join_processes() -> None:
    """Under torchrun, take part in its group: gloo between CPUs, nccl between GPUs."""
    if "WORLD_SIZE" not in os.environ:
        return
    import torch
    from torch import distributed

    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")


def leave_processes() -> None:
    """Wait for the others and leave the group: who leaves early aborts the rest."""
    from torch import distributed

    if distributed.is_initialized():
        distributed.barrier()
        distributed.destroy_process_group()
