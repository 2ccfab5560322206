"""nbgrader's course: its configuration, throw-away copies of it, and the gradebook of the checkout.

nbgrader wants an assignment in its gradebook before it grades, and puts it there only while it writes a
release. So whatever needs a gradebook here makes the release in a scratch folder; notebooks/ is written by
`autograder release` alone. `nbgrader_config.py` in the repository root uses this module, so that `nbgrader
autograde`, typed by hand in a fresh clone, finds its gradebook.
"""

import contextlib
import hashlib
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.errors import GraderError
from autograder.exercises import ROOT, Exercise, exercises

CELL_SECONDS = 60
DIGEST_TABLE = "course_release"  # our own table in gradebook.db: which sources its assignments were made from


def configure(config: Any) -> None:
    """What every nbgrader run of this course has in common. `config` is a traitlets Config."""
    config.CourseDirectory.course_id = "specdec"
    config.CourseDirectory.source_directory = "solutions"
    config.CourseDirectory.release_directory = "notebooks"
    config.ExecutePreprocessor.timeout = CELL_SECONDS
    # the setup cell installs what a reader's machine lacks; a grader's lacks nothing
    config.ExecutePreprocessor.skip_cells_with_tag = "setup"


def find_programs() -> None:
    """nbgrader starts `alembic` by name: put the environment's programs on the PATH."""
    programs = str(Path(sys.executable).parent)
    if programs not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = programs + os.pathsep + os.environ.get("PATH", "")


@contextlib.contextmanager
def scratch_course(chosen: list[Exercise]) -> Iterator[Path]:
    """A temporary course folder that holds copies of the sources of these exercises and nothing else."""
    with tempfile.TemporaryDirectory(prefix="course-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for exercise in chosen:
            target = folder / "solutions" / exercise.name
            target.mkdir(parents=True)
            for path in _files(exercise):
                shutil.copyfile(path, target / path.name)
        yield folder


def api(folder: Path, database: Path | None = None) -> Any:
    """nbgrader's Python interface on a course folder."""
    find_programs()
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    config = Config()
    configure(config)
    config.CourseDirectory.root = str(folder)
    config.CourseDirectory.db_url = f"sqlite:///{database or folder / 'gradebook.db'}"
    return NbGraderAPI(config=config)


def generate(interface: Any, exercise: Exercise) -> None:
    """Make the release and the gradebook's entry of one exercise; GraderError if nbgrader refuses."""
    result = interface.generate_assignment(exercise.name, force=True, create=True)
    if not result["success"]:
        raise GraderError(f"nbgrader did not make {exercise.name}: {last_words(result)}.")


def last_words(result: dict[str, Any]) -> str:
    """The last line of what an nbgrader run that failed had to say."""
    said = str(result.get("error") or result.get("log") or "it gave no reason").strip().splitlines()
    return said[-1].strip().rstrip(".") if said else "it gave no reason"


# -- the gradebook of the checkout ---------------------------------------------------------------------------


def digest(chosen: list[Exercise]) -> str:
    """A fingerprint of the sources that the gradebook's assignments are made from."""
    total = hashlib.sha256()
    for exercise in chosen:
        for path in _files(exercise):
            total.update(f"{exercise.name}/{path.name}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()


def ensure_gradebook(root: Path = ROOT) -> bool:
    """Bring root/gradebook.db up to date with solutions/; True if there was something to do.

    Grades that are in it stay. notebooks/ is not touched.
    """
    chosen, database = exercises(), root / "gradebook.db"
    current = digest(chosen)
    if _recorded(database) == current:
        return False
    with scratch_course(chosen) as folder:
        interface = api(folder, database)
        for exercise in chosen:
            generate(interface, exercise)
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {DIGEST_TABLE} (digest TEXT)")
        connection.execute(f"DELETE FROM {DIGEST_TABLE}")
        connection.execute(f"INSERT INTO {DIGEST_TABLE} VALUES (?)", (current,))
    return True


def _recorded(database: Path) -> str | None:
    if not database.exists():
        return None
    with contextlib.closing(sqlite3.connect(database)) as connection:
        try:
            row = connection.execute(f"SELECT digest FROM {DIGEST_TABLE}").fetchone()
        except sqlite3.DatabaseError:
            return None
    return row[0] if row else None


def _files(exercise: Exercise) -> list[Path]:
    from autograder.exercises import files_in

    return files_in(exercise.folder)
