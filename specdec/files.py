"""Files that are written whole or not at all: under another name first, then renamed into place."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from specdec.errors import SpecdecError


def write_whole(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Let `write` fill a file beside `path` and rename it into place; on any error nothing is left behind.

    An OSError without a file name gets that of `path`: the command line shows it.
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a small file, UTF-8."""
    write_whole(path, lambda file: file.write(text.encode()))


def write_json(path: Path, value: Any, indent: int | None = 1) -> None:
    """Write what JSON can hold, with a line break at the end."""
    write_text(path, json.dumps(value, indent=indent) + "\n")


def check_writable(file: Path) -> None:
    """Raise SpecdecError now if `file` cannot be written, rather than when all is computed."""
    if not file.parent.is_dir() or not os.access(file.parent, os.W_OK) or file.is_dir():
        raise SpecdecError(f"cannot write {file}: its folder must exist and be writable, and it no folder")
