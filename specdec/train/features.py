"""The verifier's features at every position of the training text, computed once and memory-mapped.

A draft head reads what the verifier computed on the way: the inputs of a few layers (values of the residual
stream, before any norm; Hugging Face calls the input of layer k hidden_states[k]) and the last hidden state
after the final norm, which the output matrix reads. Storing them lets heads train without running the
verifier, and a shard is never read into memory as a whole.

Beside `features.json` (layers, shapes, checksums) lies one file `features-NNNNN.npy` per token shard:

    uint16 [T, K + 1, H]    the bits of bfloat16; the K tapped layers in rising order, then the last hidden
                            state; T the tokens of the shard, in the shard's order

With H = 576 and K = 3 that is 4.6 kB per token: 20 million tokens would be 92 GB, so on a GPU they are
computed on the fly instead.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from specdec.drafts.eagle3 import tapped_layers
from specdec.errors import SpecdecError
from specdec.files import write_json, write_whole
from specdec.train.shards import Shard, read_settings, read_shard, shard_paths
from specdec.verifier import Verifier

FORMAT = 1
MANIFEST = "features.json"
PASS_TOKENS = 4096  # of all rows of one pass together


class Example(NamedTuple):
    """One sequence for training."""

    tokens: Tensor  # int64 [n]
    mask: Tensor  # bool [n], True where the token belongs to the answer
    features: Tensor  # bf16 [n, K + 1, H], a view of the file


def features_path(folder: Path, shard: Path) -> Path:
    return folder / f"{shard.stem.replace('shard', 'features')}.npy"


def fingerprint(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe(
    verifier: Verifier, checksum: str, layers: Sequence[int], shards: Sequence[Path]
) -> dict[str, Any]:
    """The manifest of the features of these token shards. Raises SpecdecError for a layer out of range."""
    if list(layers) != sorted(set(layers)) or not all(0 <= k < verifier.config.layers for k in layers):
        raise SpecdecError(
            f"layers must rise from 0 to {verifier.config.layers - 1} at most, got {list(layers)}"
        )
    counts = {path.name: len(read_shard(path).tokens) for path in shards}
    return {
        "format": FORMAT,
        "verifier_sha256": checksum,
        "precision": verifier.precision,
        "layers": list(layers),
        "last": "hidden state after the final norm",
        "dtype": "bfloat16",
        "shape": ["tokens", len(layers) + 1, verifier.config.hidden],
        "tokens": sum(counts.values()),
        "shards": {path.name: {"tokens": counts[path.name], "sha256": fingerprint(path)} for path in shards},
    }


@torch.no_grad()
def compute(verifier: Verifier, shard: Shard, layers: Sequence[int]) -> Tensor:
    """Features of all positions of a shard, bf16 [T, K + 1, H], by fresh passes over its sequences."""
    width = verifier.config.hidden
    found = torch.empty(len(shard.tokens), len(layers) + 1, width, dtype=torch.bfloat16)
    for rows in _passes(shard.lengths):
        longest = int(shard.lengths[rows].max())
        tokens = torch.zeros(len(rows), longest, dtype=torch.int64)
        for at, row in enumerate(rows):
            tokens[at, : shard.lengths[row]] = torch.from_numpy(shard.sequence(row)[0])
        # Padding stands on the right, where nothing before it looks.
        tokens = tokens.to(verifier.embedding.device)
        seen = verifier.forward(tokens, taps=tuple(layers), logits_from=-1)
        stacked = torch.stack([*(seen.taps[k] for k in layers), seen.hidden], dim=2)
        stacked = stacked.bfloat16().cpu()  # [rows, n, K + 1, H]
        for at, row in enumerate(rows):
            start, length = shard.starts[row], shard.lengths[row]
            found[start : start + length] = stacked[at, :length]
    return found


def _passes(lengths: np.ndarray) -> Iterator[list[int]]:
    """Rows by rising length, as many at once as PASS_TOKENS allow."""
    rows: list[int] = []
    for row in np.argsort(lengths, kind="stable").tolist():
        if rows and (len(rows) + 1) * int(lengths[row]) > PASS_TOKENS:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows


def extract(
    data: Path,
    folder: Path,
    verifier: Verifier,
    checksum: str,
    layers: Sequence[int] | None = None,
    on_shard: Callable[[int, bool], None] | None = None,
    most: int | None = None,
) -> dict[str, Any]:
    """Compute and store the features of all token shards in `data` that `folder` lacks; returns the manifest.

    on_shard  called with the tokens of a shard and whether its features are new.
    most      take the first so many shards only.

    Interrupted, it continues with the next shard. Raises SpecdecError when the folder holds features of other
    shards, another verifier or other layers, or the disk is too small; OSError as the system raises it.
    """
    paths = shard_paths(data)[:most]
    layers = tapped_layers(verifier.config.layers) if layers is None else layers
    manifest = describe(verifier, checksum, layers, paths)
    _open(folder, manifest)
    shape = tuple(manifest["shape"][1:])
    missing = [path for path in paths if not features_path(folder, path).exists()]
    size = 2 * shape[0] * shape[1]
    needed = size * sum(manifest["shards"][path.name]["tokens"] for path in missing)
    if needed > (free := shutil.disk_usage(folder).free):
        raise SpecdecError(
            f"the features take {needed / 1e9:.1f} GB more and {folder} has {free / 1e9:.1f} GB free: free "
            "some space or choose another folder with --out"
        )
    for path in paths:
        new = path in missing
        shard = read_shard(path)
        if new:
            bits = compute(verifier, shard, layers).view(torch.uint16).numpy()
            write_whole(features_path(folder, path), partial(np.save, arr=bits))
        if on_shard is not None:
            on_shard(len(shard.tokens), new)
    return manifest


def _open(folder: Path, manifest: dict[str, Any]) -> None:
    """Make `folder` the place of these features, or check that it is, token shards added since included."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MANIFEST
    if path.exists():
        found = read_settings(path)
        for name in ("format", "verifier_sha256", "precision", "layers", "shape"):
            if found.get(name) != manifest[name]:
                raise SpecdecError(
                    f"{folder} holds features with {name.replace('_', ' ')} {found.get(name)}, not "
                    f"{manifest[name]}: choose another folder with --out"
                )
        for name, entry in found.get("shards", {}).items():
            if manifest["shards"].get(name, entry) != entry:
                raise SpecdecError(
                    f"{folder} holds features of another {name}: delete {folder} or choose another folder"
                )
    write_json(path, manifest)


class Features:
    """Token shards and their features, by sequence; `len` and `[i]`. Nothing is read before it is asked for.

    checksum, if given, must be that of the verifier they were computed with. Raises SpecdecError when the
    manifest, a shard or a file of features is missing, cut off or does not fit.
    """

    def __init__(self, data: Path, folder: Path, checksum: str | None = None) -> None:
        self.manifest = read_settings(folder / MANIFEST)
        if checksum is not None and self.manifest["verifier_sha256"] != checksum:
            raise SpecdecError(
                f"the features in {folder} come from another verifier (sha256 "
                f"{self.manifest['verifier_sha256'][:12]}...): compute them anew with `specdec features`"
            )
        self.layers: tuple[int, ...] = tuple(self.manifest["layers"])
        self.shards = []
        self.stored = []
        for name, entry in self.manifest["shards"].items():
            shard = read_shard(data / name)
            self.shards.append(shard)
            self.stored.append(_mapped(features_path(folder, data / name), entry["tokens"], self.manifest))
            if len(shard.tokens) != entry["tokens"]:
                raise SpecdecError(f"{data / name} is not the shard whose features are in {folder}")
        self._where = [(s, i) for s, shard in enumerate(self.shards) for i in range(len(shard))]

    def __len__(self) -> int:
        return len(self._where)

    def number(self, i: int) -> int:
        """Which prompt of the run sequence i answers, from 0: the prompts are in a random order of kinds."""
        shard, row = self._where[i]
        return int(self.shards[shard].ids[row])

    def __getitem__(self, i: int) -> Example:
        number, row = self._where[i]
        shard = self.shards[number]
        tokens, mask = shard.sequence(row)
        start = shard.starts[row]
        return Example(
            torch.from_numpy(tokens),
            torch.from_numpy(mask),
            torch.from_numpy(self.stored[number][start : start + len(tokens)]).view(torch.bfloat16),
        )


def _mapped(path: Path, tokens: int, manifest: dict[str, Any]) -> np.ndarray:
    """A file of features, mapped into memory so that changes never reach it."""
    try:
        stored = np.load(path, mmap_mode="c")
    except FileNotFoundError:
        raise SpecdecError(f"{path} is missing: run the same `specdec features` again") from None
    except (ValueError, EOFError, OSError) as error:
        raise SpecdecError(
            f"{path} is not a whole file of features ({error}): delete it and run `specdec features` again"
        ) from None
    expected = (tokens, *manifest["shape"][1:])
    if stored.shape != expected or stored.dtype != np.uint16:
        raise SpecdecError(
            f"{path} has {stored.dtype} {list(stored.shape)}, expected uint16 {list(expected)}: delete it "
            "and run `specdec features` again"
        )
    return stored
