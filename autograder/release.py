"""Makes notebooks/exN from solutions/exN through nbgrader, and never overwrites work.

notebooks/.release.json records the checksum of every file of the last release. A file in notebooks/ that is
neither what that release wrote nor what this one would write was edited by somebody: the release names it and
stops. The output depends on the sources alone (no timestamps, no new cell ids), so `autograder release
--check` can compare.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from autograder import course
from autograder.errors import GraderError
from autograder.exercises import ROOT, exercises, files_in
from autograder.report import write_atomically

RECORD = ".release.json"
NOTEBOOK_METADATA = ("kernelspec", "language_info")


def released_files() -> dict[str, bytes]:
    """What a release would write: {path under notebooks/: content}, in order."""
    chosen, files = exercises(), {}
    with course.scratch_course(chosen) as folder:
        interface = course.api(folder)
        for exercise in chosen:
            course.generate(interface, exercise)
            for path in files_in(folder / "notebooks" / exercise.name):
                content = path.read_bytes()
                if path.suffix == ".ipynb":
                    content = tidy(json.loads(content))
                files[f"{exercise.name}/{path.name}"] = content
    return files


def tidy(notebook: dict[str, Any]) -> bytes:
    """A notebook without outputs and without metadata that no reader needs, always in the same form."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    metadata = {key: notebook["metadata"][key] for key in NOTEBOOK_METADATA if key in notebook["metadata"]}
    metadata["language_info"] = {"name": "python"}
    notebook["metadata"] = metadata
    return (json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()


def make_release(root: Path = ROOT) -> list[str]:
    """Write the release under root/notebooks, return the paths written; GraderError names an edited file."""
    folder, files = root / "notebooks", released_files()
    record = read_record(folder)
    edited = [
        name
        for name, content in files.items()
        if checksum_of(folder / name) not in (None, record.get(name), checksum(content))
    ]
    if edited:
        raise GraderError(
            f"Not released: notebooks/{', notebooks/'.join(edited)} was edited since the last release; "
            f"move the changes to solutions/ or put the file back (git checkout), then release again."
        )
    for name, content in files.items():
        write_atomically(folder / name, content.decode())
    for name in set(record) - set(files):
        if checksum_of(folder / name) == record[name]:
            (folder / name).unlink()
    record = {name: checksum(content) for name, content in files.items()}
    write_atomically(folder / RECORD, json.dumps(record, indent=1, sort_keys=True) + "\n")
    return [f"notebooks/{name}" for name in files]


def check_release(root: Path = ROOT) -> list[str]:
    """One sentence for every difference between root/notebooks and what the sources would give."""
    folder, files = root / "notebooks", released_files()
    differences = [
        f"notebooks/{name} is not what solutions/ gives: run `make release`."
        for name, content in files.items()
        if checksum_of(folder / name) != checksum(content)
    ]
    for exercise in exercises():
        place = folder / exercise.name
        strangers = (
            [path for path in files_in(place) if f"{exercise.name}/{path.name}" not in files]
            if place.is_dir()
            else []
        )
        differences += [
            f"notebooks/{exercise.name}/{path.name} belongs to no release: remove it." for path in strangers
        ]
    if (
        read_record(folder) != {name: checksum(content) for name, content in files.items()}
        and not differences
    ):
        differences.append(f"notebooks/{RECORD} is not that of this release: run `make release`.")
    return differences


def read_record(folder: Path) -> dict[str, str]:
    """{path under notebooks/: checksum} of the last release; empty before the first one."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise GraderError(
            f"notebooks/{RECORD} is damaged: put it back (git checkout notebooks/{RECORD})."
        ) from None
    return record


def checksum(content: bytes) -> str:
    """Of the text, whatever the line ends: git may have changed these."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def checksum_of(path: Path) -> str | None:
    return checksum(path.read_bytes()) if path.is_file() else None
