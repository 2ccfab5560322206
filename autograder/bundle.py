"""Makes dist/specdec-student.zip: what a student needs on their own machine, from a list of what may go in.

Nothing is left out by a rule that could miss something new: a file is in the bundle only if the list or the
record of the last release names it. Hidden checks (autograder/) and solutions are on no line of it.
"""

import os
import zipfile
from pathlib import Path

from autograder.errors import GraderError
from autograder.exercises import ROOT
from autograder.release import checksum_of, read_record

NAME = "specdec-student.zip"
FOLDER = "specdec-student"
WHEN = (2025, 1, 1, 0, 0, 0)  # the same files make the same bytes
READ_ME = Path(__file__).with_name("student_readme.md")
# Patterns under the repository root. One that finds nothing is an error.
REQUIRED = (
    "LICENSE",
    "constraints.txt",
    "environment.yml",
    "notebooks/*.ipynb",
    "pyproject.toml",
    "requirements-student.txt",
    "specdec/**/*.py",
)
# Results that chapters show where a reader has no verifier; a young repository may have none.
OPTIONAL = ("benchmarks/results/*.json",)


def bundled_files(root: Path = ROOT) -> dict[str, Path]:
    """{path inside the bundle: file}; GraderError names what is missing or out of date."""
    found: dict[str, Path] = {"README.md": READ_ME}
    for pattern in (*REQUIRED, *OPTIONAL):
        paths = [path for path in sorted(root.glob(pattern)) if path.is_file()]
        if not paths and pattern in REQUIRED:
            raise GraderError(
                f"No bundle: there is no {pattern} in {root}; put it there (make sync makes chapters)."
            )
        found |= {path.relative_to(root).as_posix(): path for path in paths}
    record = read_record(root / "notebooks")
    if not record:
        raise GraderError("No bundle: the exercises have not been released; run `make release` first.")
    for name, expected in record.items():
        path = root / "notebooks" / name
        if checksum_of(path) != expected:
            raise GraderError(f"No bundle: notebooks/{name} is not as it was released; run `make release`.")
        found[f"notebooks/{name}"] = path
    return found


def make_bundle(out: Path, root: Path = ROOT) -> Path:
    """Write the zip into the folder `out`, as a whole or not at all, and return its path."""
    files = bundled_files(root)
    out.mkdir(parents=True, exist_ok=True)
    target = out / NAME
    part = out / f".{NAME}.part"
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(files):
                entry = zipfile.ZipInfo(f"{FOLDER}/{name}", WHEN)
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, files[name].read_bytes())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return target
