"""An execution cache that knows what the pages ran on.

jupyter-cache recognises a page by its cells alone: change a function of `specdec` and the page would
keep its old numbers. So the cache folder's name carries a digest of everything that a cell can read:
`specdec/`, trained heads, committed results, published test vectors, pins, and the weights. The folder
is a Sphinx "env" setting, so a new digest makes Sphinx read every page again without further ado.

Left to others: what a whole build depends on (`tools/book.py`).
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

# What cells read. Folders are walked; a path that is not there is left out, so its arrival is noticed.
INPUTS = ("specdec", "models", "benchmarks/results", "tests/data", "constraints.txt")
CACHE = ".jupyter_cache"
KEEP = 3  # caches of the last few digests stay, so that switching branches back and forth costs nothing
SKIPPED = {"__pycache__", ".ipynb_checkpoints", ".DS_Store"}


def files_under(root: Path, names: Iterable[str]) -> Iterator[Path]:
    """The files that `names` (files or folders below `root`) stand for, in a fixed order."""
    for name in names:
        path = root / name
        if path.is_dir():
            for child in sorted(path.rglob("*")):
                if child.is_file() and not SKIPPED.intersection(child.relative_to(root).parts):
                    yield child
        elif path.is_file():
            yield path


def digest_of(root: Path, names: Iterable[str], *extra: str) -> str:
    """sha256 (hex) over relative paths and contents of the files, and over the `extra` strings."""
    total = hashlib.sha256()
    for path in files_under(root, names):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(root).as_posix()}\0{content}\n".encode())
    for text in extra:
        total.update(f"+{text}\n".encode())
    return total.hexdigest()


def weights_checksum() -> str:
    """sha256 of the verifier's weights file as it lies on this machine, or "absent"."""
    try:
        from specdec.weights import weights_path
    except ImportError:
        return "absent"
    path = Path(weights_path())
    if not path.is_file():
        return "absent"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def execution_digest(root: Path) -> str:
    """Digest of everything that an executed page can depend on besides its own cells."""
    return digest_of(root, INPUTS, weights_checksum(), sys.version)


def prune(caches: Path, current: Path, keep: int = KEEP) -> None:
    """Remove all but the `keep` most recently used folders of `caches`; `current` always stays."""
    others = [folder for folder in caches.iterdir() if folder.is_dir() and folder != current]
    others.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in others[keep - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)


def choose_cache(app: Sphinx, config: Config) -> None:
    """Before myst-nb reads its settings: point its cache at the folder of the current digest."""
    root = Path(app.srcdir)
    caches = (
        root / "_build" / CACHE
    )  # not beside the output, which `tools/book.py` writes into a scratch folder
    current = caches / execution_digest(root)[:20]
    current.mkdir(parents=True, exist_ok=True)
    os.utime(current)
    prune(caches, current)
    config.nb_execution_cache_path = str(current)


def steady_kernel() -> None:
    """Environment of the kernels: this interpreter's `python3`, two threads, no notes on stderr."""
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(min(2, os.cpu_count() or 1))


def setup(app: Sphinx) -> None:
    steady_kernel()
    app.connect("config-inited", choose_cache, priority=400)
