"""The training text: prompts from our generators (prompts/), answered by the verifier, in shards on disk.

A run is decided by its settings: number of prompts, seed, batch size, and so on. The prompts are cut into
batches once, and each batch becomes one shard, computed from nothing but its prompts and their seeds. So a
run that was interrupted, at whatever moment, continues with the first shard that is not there, loses at most
one batch, and ends with the same bytes as one that was not.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from specdec.errors import SpecdecError
from specdec.sampling import LARGEST_SEED
from specdec.tokenizer import Tokenizer
from specdec.train.answer import answer
from specdec.train.prompts import Prompt
from specdec.train.shards import FORMAT, Shard, make_shard, open_run, read_shard, shard_path, write_shard
from specdec.verifier import Verifier

WINDOW = 16  # batches of prompts that are sorted by length together
TEMPERATURES = (0.7, 0.0)  # each prompt gets one of them, by its seed


@dataclass(frozen=True)
class Progress:
    """What a run reports while it works: counts since it was started."""

    ended: int  # answers that are complete
    tokens: int  # answer tokens, those of unfinished answers included


def settings(
    prompts: Sequence[Prompt], seed: int, batch: int, max_new_tokens: int, precision: str, checksum: str
) -> dict[str, Any]:
    """What decides a run, as it is stored beside and in its shards. `checksum` is the verifier's sha256.

    Raises SpecdecError when the batch or the number of new tokens is below 1, or the seed is out of range.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise SpecdecError(f"seed is {seed}, but must be an integer from 0 to {LARGEST_SEED}")
    if batch < 1 or max_new_tokens < 1:
        raise SpecdecError(f"batch and new tokens must be at least 1, got {batch} and {max_new_tokens}")
    texts = "\0".join(f"{prompt.kind}\0{prompt.text}" for prompt in prompts)
    return {
        "format": FORMAT,
        "prompts": len(prompts),
        "prompts_sha256": hashlib.sha256(texts.encode()).hexdigest(),
        "seed": seed,
        "batch": batch,
        "max_new_tokens": max_new_tokens,
        "temperatures": list(TEMPERATURES),
        "precision": precision,
        "verifier_sha256": checksum,
    }


def draws(seed: int, number: int, max_new_tokens: int) -> tuple[float, np.ndarray]:
    """The temperature of prompt `number`, and its coins, float64 [max_new_tokens] in [0, 1)."""
    generator = np.random.default_rng([seed, number])
    temperature = TEMPERATURES[int(generator.integers(len(TEMPERATURES)))]
    return temperature, generator.random(max_new_tokens)


def batches(lengths: Sequence[int], batch: int, seed: int) -> list[list[int]]:
    """Cut prompts of these lengths into batches: lists of prompt numbers, together every number once.

    Prompts of similar length stand together, because a batch attends over its longest; but only within
    windows of `WINDOW` batches, which are shuffled then, so that the first shards are not the short prompts.
    """
    cut: list[list[int]] = []
    generator = np.random.default_rng(seed)
    for start in range(0, len(lengths), WINDOW * batch):
        window = range(start, min(start + WINDOW * batch, len(lengths)))
        ordered = sorted(window, key=lambda number: (lengths[number], number))
        pieces = [ordered[at : at + batch] for at in range(0, len(ordered), batch)]
        cut += [pieces[i] for i in generator.permutation(len(pieces))]
    return cut


def generate(
    folder: Path,
    prompts: Sequence[Prompt],
    run: dict[str, Any],
    verifier: Verifier,
    tokenizer: Tokenizer,
    on_progress: Callable[[Progress], None] | None = None,
    on_shard: Callable[[int, int, Shard, bool], None] | None = None,
) -> list[Shard]:
    """Write the shards of a run that are not in `folder` yet, and return all of them.

    run          from `settings`, for these prompts.
    on_progress  called after each pass of the verifier.
    on_shard     called with a shard's number, how many there are, the shard, and whether it is new.

    Raises SpecdecError when the folder holds another run or a damaged shard, OSError when it cannot be
    written.
    """
    open_run(folder, run)
    tokens = [tokenizer.chat(prompt.text) for prompt in prompts]
    cut = batches([len(ids) for ids in tokens], run["batch"], run["seed"])
    ended = made = 0

    def step(rows: int, new: int) -> None:
        nonlocal ended, made
        ended, made = ended + rows, made + new
        if on_progress is not None:
            on_progress(Progress(ended, made))

    shards = []
    for number, members in enumerate(cut):
        path = shard_path(folder, number)
        new = not path.exists()
        if new:
            drawn = [draws(run["seed"], i, run["max_new_tokens"]) for i in members]
            answers = answer(
                verifier,
                [tokens[i] for i in members],
                [temperature for temperature, _ in drawn],
                torch.from_numpy(np.stack([coins for _, coins in drawn])),
                run["max_new_tokens"],
                tokenizer.eos_ids,
                step,
            )
            shard = make_shard(
                [tokens[i] for i in members],
                answers,
                members,
                [prompts[i].kind for i in members],
                [temperature for temperature, _ in drawn],
                run,
            )
            write_shard(path, shard)
        else:
            shard = read_shard(path)
            if shard.run != run or list(shard.ids) != members:
                raise SpecdecError(f"{path} belongs to another run: delete it, or choose another folder")
        shards.append(shard)
        if on_shard is not None:
            on_shard(number, len(cut), shard, new)
    return shards
