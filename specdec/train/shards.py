"""Token shards: the verifier's answers on disk, a file for every batch of prompts, whole or not there at all.

A shard is an `.npz` file (compressed, written by NumPy, read without torch) with

    tokens          uint16 [T]   all sequences one behind the other, each a chat prompt and then its answer
    lengths         int32 [n]    tokens of each sequence
    prompt_lengths  int32 [n]    how many of them are the prompt
    ids             int32 [n]    number of the prompt in the run's list
    kinds           text [n]     kind of the prompt
    temperatures    float32 [n]  that the answer was sampled at; 0 is greedy
    run             text []      the run's settings as JSON, the seed of every draw among them

Token i of a sequence belongs to the answer, and counts in the loss, from i = prompt length on: the first
answer token does, and so does the end-of-sequence token, which an answer that was cut off does not have. The
draws of prompt number i come from the generator seeded with [seed, i] (data.py). uint16 holds vocabularies of
up to 65,536 tokens.

Beside the shards lies `data.json` with the same settings. Both are made under another name and renamed into
place, so a run that is killed leaves whole shards, and at most one file `*.part` that the next run replaces.
"""

import json
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specdec.errors import SpecdecError
from specdec.files import write_json, write_whole

FORMAT = 1
RUN_FILE = "data.json"
LARGEST_VOCABULARY = 2**16
ARRAYS = {
    "tokens": np.uint16,
    "lengths": np.int32,
    "prompt_lengths": np.int32,
    "ids": np.int32,
    "temperatures": np.float32,
}
# What NumPy and zipfile raise, depending on which bytes of a file are wrong.
DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    RuntimeError,
    MemoryError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class Shard:
    """The arrays of one file, see above."""

    tokens: np.ndarray  # uint16 [T]
    lengths: np.ndarray  # int32 [n]
    prompt_lengths: np.ndarray  # int32 [n]
    ids: np.ndarray  # int32 [n]
    kinds: np.ndarray  # str [n]
    temperatures: np.ndarray  # float32 [n]
    run: dict[str, Any]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def starts(self) -> np.ndarray:
        """Where in `tokens` each sequence begins, int64 [n]."""
        return np.cumsum(self.lengths, dtype=np.int64) - self.lengths

    @property
    def answer_tokens(self) -> int:
        return int((self.lengths - self.prompt_lengths).sum())

    def sequence(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Token ids int64 [n] of sequence i, and its loss mask bool [n]: True for the answer's."""
        start, length = self.starts[i], self.lengths[i]
        mask = np.arange(length) >= self.prompt_lengths[i]
        return self.tokens[start : start + length].astype(np.int64), mask


def make_shard(
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    ids: Sequence[int],
    kinds: Sequence[str],
    temperatures: Sequence[float],
    run: dict[str, Any],
) -> Shard:
    """A shard from token lists. Raises SpecdecError when a token id does not fit into 16 bits."""
    flat = [token for pair in zip(prompts, answers, strict=True) for part in pair for token in part]
    if max(flat) >= LARGEST_VOCABULARY:
        raise SpecdecError(
            f"token id {max(flat)} does not fit into 16 bits: shards hold vocabularies of up to "
            f"{LARGEST_VOCABULARY:,} tokens"
        )
    lengths = [len(p) + len(a) for p, a in zip(prompts, answers, strict=True)]
    return Shard(
        tokens=np.array(flat, np.uint16),
        lengths=np.array(lengths, np.int32),
        prompt_lengths=np.array([len(p) for p in prompts], np.int32),
        ids=np.array(ids, np.int32),
        kinds=np.array(kinds, np.str_),
        temperatures=np.array(temperatures, np.float32),
        run=run,
    )


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"shard-{number:05d}.npz"


def shard_paths(folder: Path) -> list[Path]:
    """The shards in a folder, in order; raises SpecdecError when there is none."""
    paths = sorted(folder.glob("shard-*.npz"))
    if not paths:
        raise SpecdecError(f"there are no token shards in {folder}: make some with `specdec data {folder}`")
    return paths


def write_shard(path: Path, shard: Shard) -> None:
    """Write the file atomically, its bytes decided by the arrays alone. OSError as the system raises it."""
    arrays = {name: getattr(shard, name) for name in [*ARRAYS, "kinds"]}
    run = np.array(json.dumps(shard.run, sort_keys=True))
    write_whole(path, lambda file: np.savez_compressed(file, run=run, **arrays))


def read_shard(path: Path) -> Shard:
    """Read one file; raises SpecdecError when it is cut off, damaged, or not a shard of this format."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in [*ARRAYS, "kinds"]}
            run = json.loads(str(stored["run"]))
    except FileNotFoundError:
        raise SpecdecError(f"there is no shard {path}") from None
    except DAMAGE as error:
        raise SpecdecError(
            f"{path} is not a whole token shard ({error}): delete it and run the same `specdec data` again"
        ) from None
    if run.get("format") != FORMAT:
        raise SpecdecError(f"{path} has format {run.get('format')}, and this version reads format {FORMAT}")
    lengths, prompts = arrays["lengths"], arrays["prompt_lengths"]
    alike = len({len(arrays[name]) for name in [*ARRAYS, "kinds"] if name != "tokens"}) == 1
    typed = all(arrays[name].dtype == kind for name, kind in ARRAYS.items())
    if not (alike and typed and lengths.sum() == len(arrays["tokens"]) and (prompts < lengths).all()):
        raise SpecdecError(
            f"the arrays of {path} do not fit together: delete it and run `specdec data` again"
        )
    return Shard(run=run, **arrays)


def read_shards(folder: Path) -> list[Shard]:
    """All shards of a folder, in order; raises SpecdecError as `read_shard`, or when there is none."""
    return [read_shard(path) for path in shard_paths(folder)]


def open_run(folder: Path, settings: dict[str, Any]) -> None:
    """Make `folder` the place of a run with these settings, or check that it is one.

    Raises SpecdecError when it holds a run with other settings: two runs in a folder would mix.
    """
    path = folder / RUN_FILE
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        if next(folder.glob("shard-*.npz"), None):
            raise SpecdecError(f"{folder} has shards but no {RUN_FILE}: choose another folder")
        write_json(path, settings)
        return
    found = read_settings(path)
    for name, value in settings.items():
        if found.get(name) != value:
            raise SpecdecError(
                f"{folder} holds data made with {name.replace('_', ' ')} {found.get(name)}, not {value}: "
                "repeat the options to continue it, or choose another folder"
            )


def read_settings(path: Path) -> dict[str, Any]:
    """The object in a JSON file; raises SpecdecError when there is none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecdecError(f"there is no {path.name} in {path.parent}") from None
    except ValueError as error:
        raise SpecdecError(f"{path} is not readable JSON ({error}): delete it and start again") from None
    if not isinstance(found, dict):
        raise SpecdecError(f"{path} is not a JSON object: delete it and start again")
    return found
