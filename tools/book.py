"""`make book`: the verifier's weights, then the rendered book, then the path to open.

Nothing is built when nothing changed. Otherwise the build is cold, as far as Sphinx goes: only the
outputs of executed pages are kept between builds (`_build/.jupyter_cache`, see `coursebook.freshness`).
Sphinx forgets a page's warnings once it has read the page, so on an incremental build a warning that
failed the first run would pass in the second. The new book is written beside the old one and takes its
place when it is complete and free of warnings.

Exit status: 0 built, 1 an error in the pages, 2 a condition outside them (weights, disk), 130
interrupted.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
HTML = BUILD / "html"
NEXT = BUILD / "next"  # the book being written; Jupyter Book adds its own _build/ inside
STAMP = BUILD / "book.json"
LOG = BUILD / "book.log"

sys.path.insert(0, str(ROOT / "book" / "_ext"))
from coursebook.freshness import digest_of, execution_digest  # noqa: E402

# All that a page can show besides what its cells read. notebooks/ is copied into the book for download.
SOURCES = ("book", "_config.yml", "_toc.yml", "notebooks", "tools/book.py")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
# Of a build's output a person wants to see its progress, and from a line of trouble on everything up to
# the next piece of routine, without the frames of Sphinx and nbclient. The whole of it is in LOG.
PROGRESS = re.compile(
    r"^(reading sources|writing output)\.\.\. +\[ *(\d+)%\] +(\S+)|Executed notebook in ([\d.]+) s"
)
TROUBLE = re.compile(r"(WARNING|ERROR|CRITICAL): |^\w*Error\b|Executing notebook failed")
ROUTINE = re.compile(
    r"\.\.\. |\[mystnb\]$|^\[IPKernelApp\]|^build (succeeded|finished)|^=====|^Building your book"
)
FRAMES = re.compile(r"^Traceback \(most recent call last\):")
END_OF_FRAMES = re.compile(r"^\S+(Error|Exception)\b")
SPHINX_GIVES_UP = "Exception occurred:"


def inputs_digest() -> str:
    """Digest of everything that a build depends on, installed packages included."""
    packages = sorted(f"{dist.name}=={dist.version}" for dist in importlib.metadata.distributions())
    return digest_of(ROOT, SOURCES, execution_digest(ROOT), *packages)


def output_digest() -> str:
    """Digest of the built files' names, sizes and times: notices a file that was removed or written anew."""
    total = hashlib.sha256()
    for path in sorted(HTML.rglob("*")):
        status = path.stat()
        if path.is_file():
            total.update(f"{path.relative_to(HTML)}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return total.hexdigest()


def is_current(inputs: str) -> bool:
    """Whether the last complete build saw the same inputs and its output is as it left it."""
    try:
        stamp = json.loads(STAMP.read_text())
        return stamp == {"inputs": inputs, "output": output_digest()}
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the build folder: a second build waits for the first and then finds it done."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another build is running; waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def worth_showing(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Of a build's output, (what to print, whether it is trouble) as it comes."""
    in_trouble = in_frames = given_up = False
    for line in lines:
        given_up = given_up or line.startswith(SPHINX_GIVES_UP)
        if given_up:
            continue
        in_frames = bool(FRAMES.match(line)) or (in_frames and not END_OF_FRAMES.match(line))
        if match := PROGRESS.search(line):
            in_trouble = False
            verb = "read" if (match[1] or "").startswith("reading") else "write"
            done = f"         executed in {float(match[4]):.1f} s" if match[4] else ""
            yield done or f"  {match[2]:>3}%  {verb:5} {match[3]}", False
        elif TROUBLE.search(line):
            in_trouble = True
            yield line, True
        else:
            in_trouble = in_trouble and not ROUTINE.search(line)
            if in_trouble and not in_frames:
                yield line, True


def run_sphinx() -> int:
    """Build into NEXT, showing progress; return the exit status of Jupyter Book."""
    jupyter_book = "from jupyter_book.cli.main import main; main()"  # it has no __main__
    command = [sys.executable, "-c", jupyter_book, "build", str(ROOT), "--path-output", str(NEXT)]
    command += ["--warningiserror", "--nitpick", "--keep-going"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )

    def logged() -> Iterator[str]:
        with LOG.open("w", encoding="utf-8") as log:
            for raw in process.stdout or ():
                line = ANSI.sub("", raw).rstrip()
                print(line, file=log, flush=True)
                yield line

    try:
        for line, trouble in worth_showing(logged()):
            print(line, file=sys.stderr if trouble else sys.stdout, flush=True)
    except KeyboardInterrupt:
        # Ctrl-C reached the child too; give it time to stop its kernel before insisting.
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(timeout=10)
        process.kill()
        raise
    code = process.wait()
    if code == -signal.SIGINT:
        raise KeyboardInterrupt
    return code


def build() -> int:
    """Build the book unless it is current; return the exit status."""
    with alone():
        inputs = inputs_digest()
        if not is_current(inputs):
            STAMP.unlink(missing_ok=True)
            shutil.rmtree(NEXT, ignore_errors=True)
            print("building the book (warnings are errors)", flush=True)
            try:
                if run_sphinx():
                    print(f"the book was not built: see above, or all of it in {LOG}", file=sys.stderr)
                    return 1
                shutil.rmtree(HTML, ignore_errors=True)
                (NEXT / "_build" / "html").rename(HTML)
            finally:
                shutil.rmtree(NEXT, ignore_errors=True)
            temporary = STAMP.with_suffix(".tmp")
            temporary.write_text(json.dumps({"inputs": inputs, "output": output_digest()}))
            temporary.replace(STAMP)
    index = HTML / "index.html"
    print(f"the book is built; open {index}\n  {index.as_uri()}")
    return 0


def main() -> int:
    try:
        from specdec.weights import fetch

        fetch()  # with its own progress bar; at once when the file is there
        return build()
    except KeyboardInterrupt:
        print(
            "interrupted; pages already executed are kept, the same command goes on from there",
            file=sys.stderr,
        )
        return 130
    except ValueError as error:  # SpecdecError: one sentence for the reader
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"the book could not be written: {error.strerror} ({error.filename})", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
