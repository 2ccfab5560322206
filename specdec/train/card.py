"""A head's card, the README.md of its folder: written from `training.json` and `config.json`, never by hand.

It says what the head is, on what it was trained and for how long, what came of it on held-out text, under
which licence it stands, and with which commands it is made again. The facts are gathered where a training
ends (`facts`), with the losses thinned to a curve that can be committed.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import nn

from specdec import weights
from specdec.bench import machine
from specdec.errors import SpecdecError
from specdec.files import write_text
from specdec.train.batches import Texts
from specdec.train.families import trained_parameters
from specdec.train.shards import read_settings
from specdec.train.trainer import EVALUATED_TEXTS, Progress, TrainConfig

VERIFIER = "SmolLM2-135M-Instruct"
MOST_LOSSES = 200
FACTS, CARD = "training.json", "README.md"

ABOUT = {
    "eagle3": "An EAGLE-3 head (arXiv:2503.01840) in the public layout: one layer over three fused features, "
    "with an output matrix of its own for a reduced vocabulary.",
    "eagle1": "An EAGLE-1 head (arXiv:2401.15077): one layer that predicts the verifier's next feature; with "
    "a dynamic tree it is EAGLE-2. Its output matrix is the verifier's, of which it has the ids of the rows.",
    "medusa": "Medusa heads (arXiv:2401.10774) on the last hidden state, each for a token further ahead. "
    "Their output matrix is the verifier's, of which they have the ids of the rows.",
    "vanilla": "A small Llama of its own (arXiv:2211.17192), which reads tokens and none of the verifier's "
    "features. Along a text it has read the text's tokens at every depth, so all depths have one acceptance.",
}
# Options of `specdec data`, and of `specdec train` with a value.
DATA = ("prompts", "seed", "batch", "max_new_tokens", "precision")
TRAIN = (
    "updates",
    "batch_tokens",
    "learning_rate",
    "draft_vocabulary",
    "evaluate_every",
    "patience",
    "seed",
    "texts",
)


# -- the facts -------------------------------------------------------------------------------------------


def facts(
    config: TrainConfig, progress: Progress, head: nn.Module, texts: Texts, covered: float
) -> dict[str, Any]:
    """What the card is written from: the configuration, the data, what it cost and what came of it.

    covered: the share of held-out answer tokens that the draft vocabulary has.
    """
    every, losses = thinned(progress.losses)
    stored = texts.features
    return {
        "config": asdict(config),
        "data": stored.shards[0].run,
        "features_precision": stored.manifest["precision"],
        "texts": len(texts.training),
        "held_out_texts": len(texts.held_out),
        "answer_tokens": sum(int(stored[i].mask.sum()) for i in texts.training),
        "coverage": covered,
        "parameters": sum(parameter.numel() for parameter in trained_parameters(head)),
        "updates": progress.update,
        "answer_tokens_seen": progress.tokens,
        "seconds": round(progress.seconds, 1),
        "updates_per_loss": every,
        "losses": losses,
        "evaluations": progress.evaluations,
        "best": progress.best,
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "platform": platform.platform(),
        "date": date.today().isoformat(),
    }


def thinned(losses: Sequence[float], most: int = MOST_LOSSES) -> tuple[int, list[float]]:
    """The means of so many updates each that there are at most `most` of them: that number, and the means."""
    every = max(1, -(-len(losses) // most))
    return every, [round(fmean(losses[at : at + every]), 5) for at in range(0, len(losses), every)]


# -- the card --------------------------------------------------------------------------------------------


def write_card(folder: Path) -> None:
    """Write README.md beside the head in `folder`. Raises SpecdecError when its facts are missing."""
    config, found = read_settings(folder / "config.json"), read_settings(folder / FACTS)
    try:
        text = card(config, found, (folder / "model.safetensors").stat().st_size)
    except KeyError as error:
        raise SpecdecError(
            f"{folder / FACTS} lacks {error}: repeat the `specdec train` that made it, which finds its "
            "checkpoint"
        ) from None
    write_text(folder / CARD, text)


def card(config: dict[str, Any], found: dict[str, Any], size: int) -> str:
    """The card as Markdown, with the front matter of model hubs.

    config, found  the contents of config.json and training.json.
    size           bytes of model.safetensors.
    """
    family, name = config["specdec"]["family"], found["config"]["family"]
    best, machine = found["best"], found["machine"]
    depths = range(1, len(best["sampled"]) + 1)
    rows = [
        ("token drafted", *map(str, depths)),
        ("---", *("---:" for _ in depths)),
        ("accepted, sampled at temperature 1", *(f"{alpha:.3f}" for alpha in best["sampled"])),
        ("accepted, greedy", *(f"{alpha:.3f}" for alpha in best["greedy"])),
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    checksum = config["specdec"]["verifier_sha256"]
    return f"""---
license: apache-2.0
base_model: HuggingFaceTB/{VERIFIER}
tags: [speculative-decoding, {family}]
---

# {name}: a draft for {VERIFIER}

{ABOUT[family]}

- {found["parameters"]:,} trained parameters, {size / 1e6:.1f} MB in bf16. It proposes \
{config["draft_vocab_size"]:,} of the verifier's tokens, {found["coverage"]:.1%} of held-out answers.
- Made for the weights {weights.FILE} of the package {weights.REQUIREMENT} (sha256 `{checksum}`), \
and refused with others.
- Licence: Apache-2.0, that of the weights of {VERIFIER} on whose text and features it was trained. The text \
is that model's own answers to prompts from this repository's generators.

## Held-out acceptance

{table}

Measured along {min(found["held_out_texts"], EVALUATED_TEXTS)} held-out texts of the verifier, for each \
token given that all before it were the text's. A chain of {len(depths)} would emit \
{best["promise"]:.2f} tokens per verifier call at temperature 1.

## Training

- Data: {found["texts"]:,} texts with {found["answer_tokens"]:,} answer tokens; with repetition \
{found["answer_tokens_seen"]:,} were trained on.
- {found["updates"]:,} updates of up to {found["config"]["batch_tokens"]:,} tokens, seed \
{found["config"]["seed"]}; these are the weights of update {best["update"]:,}, the best on held-out text.
- {duration(found["seconds"])} on {machine["cpu"]} ({found["threads"]} threads, torch {machine["torch"]}), \
{found["date"]}. The loss curve is in {FACTS}.

## Again

```console
$ specdec fetch
$ specdec data DATA{options(found["data"], DATA)}
$ specdec features DATA --out FEATURES --precision {found["features_precision"]}
$ {train_command(found["config"])}
```
"""


def train_command(config: dict[str, Any]) -> str:
    """The command line that trains with this configuration."""
    name = config["family"]
    switches = "" if config["bf16"] else " --fp32"
    switches += "" if config["warm_start"] else " --cold"
    where = f"--data DATA --features FEATURES --out models/{name}"
    return f"specdec train {name} {where}{options(config, TRAIN)}{switches}"


def options(values: dict[str, Any], names: Sequence[str]) -> str:
    """Those of the names that have a value, as options of a command."""
    given = [(name, values[name]) for name in names if values.get(name) is not None]
    return "".join(f" --{name.replace('_', '-')} {value}" for name, value in given)


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
