"""The commands `data` and `features`: the training text of draft heads, and the verifier's features for it.

As in commands.py, nothing is decided here that the library does not decide. Both commands continue what an
interrupted one left, so the way to finish a run is to repeat it. The bar goes to stderr; where that is no
terminal, a line per shard does.
"""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from specdec.bench_command import at_least_one
from specdec.commands import Precision, app

if TYPE_CHECKING:
    from specdec.train import data as texts
    from specdec.train.shards import Shard


@app.command()
def data(
    folder: Annotated[
        Path | None, typer.Argument(help="Where the shards go; made if need be.", show_default=False)
    ] = None,
    prompts: Annotated[int, typer.Option(help="How many prompts.", callback=at_least_one)] = 6000,
    seed: Annotated[int, typer.Option(help="Seed of the prompts and of every random draw.")] = 0,
    batch: Annotated[int, typer.Option(help="Prompts answered together.", callback=at_least_one)] = 96,
    max_new_tokens: Annotated[
        int, typer.Option(help="Cut an answer after so many tokens.", callback=at_least_one)
    ] = 256,
    precision: Annotated[Precision, typer.Option(help="Of the verifier's weights.")] = Precision.bf16,
    prompts_only: Annotated[
        bool, typer.Option("--prompts-only", help="Print the prompts as JSON lines, and stop.")
    ] = False,
) -> None:
    """Let the verifier answer our own prompts, half at temperature 0.7 and half greedily: text to train on.

    Writes token shards with their loss mask. Repeat the command to continue after an interruption: the result
    is the same.
    """
    from specdec.train.prompts import make_prompts

    asked = make_prompts(prompts, seed)
    if prompts_only:
        for prompt in asked:
            print(json.dumps({"kind": prompt.kind, "text": prompt.text}, ensure_ascii=False))
        return
    if folder is None:
        raise typer.BadParameter("name the folder that the shards go to")

    from specdec import weights
    from specdec.tokenizer import load_tokenizer
    from specdec.train import data as texts
    from specdec.train.shards import open_run
    from specdec.verifier import Verifier

    run = texts.settings(asked, seed, batch, max_new_tokens, precision.value, weights.SHA256)
    tokenizer = load_tokenizer()
    open_run(folder, run)  # an unsuitable folder is refused before the verifier is loaded, which takes longer
    verifier = Verifier.load(precision=precision.value)
    with Bar(len(asked), "answers") as bar:
        shards = texts.generate(folder, asked, run, verifier, tokenizer, bar.on_progress, bar.on_shard)
    size = sum(file.stat().st_size for file in folder.glob("shard-*.npz"))
    print(
        f"{sum(map(len, shards)):,} answers, {sum(shard.answer_tokens for shard in shards):,} answer tokens "
        f"in {len(shards)} shards, {size / 1e6:.1f} MB, in {folder}"
    )


@app.command()
def features(
    data: Annotated[Path, typer.Argument(help="Folder of token shards that `specdec data` made.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Where they go; else DATA/features.", show_default=False),
    ] = None,
    precision: Annotated[Precision, typer.Option(help="Of the verifier's weights.")] = Precision.bf16,
    most: Annotated[
        int | None,
        typer.Option(
            "--shards",
            help="Of the first so many shards only, to try things on.",
            callback=at_least_one,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Store the verifier's hidden states for token shards, so that draft heads train without running it.

    Inputs of layers 2, 15 and 27 and the last hidden state, bf16, at every position: 4.6 kB per token. Repeat
    the command to continue after an interruption.
    """
    from specdec.train.shards import read_shards

    shards = read_shards(data)[:most]

    from specdec import weights
    from specdec.train.features import extract
    from specdec.verifier import Verifier

    folder = data / "features" if out is None else out
    verifier = Verifier.load(precision=precision.value)
    with Bar(sum(len(shard.tokens) for shard in shards), "tokens") as bar:
        manifest = extract(data, folder, verifier, weights.SHA256, on_shard=bar.on_features, most=most)
    print(
        f"{manifest['tokens']:,} tokens: inputs of layers {', '.join(map(str, manifest['layers']))} and the "
        f"last hidden state, in {folder}"
    )


class Bar:
    """Progress on stderr: a bar in a terminal, else a line per shard. What was there before counts too."""

    def __init__(self, total: int, what: str) -> None:
        console = Console(stderr=True)
        columns = (
            TextColumn(f"{what}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        self.lines = not console.is_terminal
        self.console = console
        self.bars = Progress(*columns, console=console, disable=self.lines)
        self.task = self.bars.add_task(what, total=total, rate="")
        self.found = self.done = self.tokens = 0  # found: there before we began
        self.total, self.what = total, what

    def __enter__(self) -> "Bar":
        self.began = time.perf_counter()
        self.bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bars.stop()

    @property
    def rate(self) -> str:
        return f"{self.tokens / max(time.perf_counter() - self.began, 1e-9):,.0f} tokens/s"

    def on_progress(self, made: "texts.Progress") -> None:
        self.done, self.tokens = made.ended, made.tokens
        self.bars.update(self.task, completed=self.found + self.done, rate=self.rate)

    def on_shard(self, number: int, count: int, shard: "Shard", new: bool) -> None:
        if not new:
            self.found += len(shard)
            self.bars.update(self.task, completed=self.found + self.done)
        if self.lines and new:
            state = f"{self.found + self.done:,} of {self.total:,} {self.what}"
            self.console.print(f"shard {number + 1} of {count}: {state}, {self.rate}", highlight=False)

    def on_features(self, tokens: int, new: bool) -> None:
        self.found += tokens
        self.tokens += tokens if new else 0
        self.bars.update(self.task, completed=self.found, rate=self.rate)
        if self.lines and new:
            self.console.print(f"{self.found:,} of {self.total:,} tokens, {self.rate}", highlight=False)
