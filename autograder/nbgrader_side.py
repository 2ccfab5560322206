"""The second opinion: nbgrader's score of the same submissions, from its hidden test cells.

nbgrader runs student code in a kernel that can reach the checks and the gradebook. So it runs on a throw-away
course folder, in the same kind of sandbox as the workers, with the checks mounted read-only, and what it says
is shown beside the score that counts, never mixed into it.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import course, sandbox
from autograder.exercises import ROOT, Exercise, template
from autograder.sandbox import Walls

INSIDE = "/course/work"
LIMITS = {"RLIMIT_AS": 8 << 30, "RLIMIT_FSIZE": 256 << 20, "RLIMIT_CORE": 0}


@dataclass(frozen=True)
class SecondOpinion:
    """nbgrader's points per check, or one sentence why there are none."""

    checks: dict[str, float]
    problem: str = ""

    @property
    def score(self) -> float | None:
        return None if self.problem else sum(self.checks.values())


class NbgraderRun:
    """nbgrader on {student: notebook} of one exercise, in a process of its own; a context manager that ends
    it.

    Its failure is a sentence in every opinion, not an exception.
    """

    def __init__(self, exercise: Exercise, notebooks: Mapping[str, Path], walls: Walls) -> None:
        self._exercise = exercise
        self._walls = walls
        self._names = {f"s{i:05d}": student for i, student in enumerate(notebooks)}
        self._notebooks = notebooks
        self._stack = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path()

    def __enter__(self) -> "NbgraderRun":
        if not self._names:
            return self
        self._folder = self._stack.enter_context(course.scratch_course([self._exercise]))
        for name, student in self._names.items():
            target = self._folder / "submitted" / name / self._exercise.name
            target.mkdir(parents=True)
            shutil.copyfile(self._notebooks[student], target / self._exercise.notebook.name)
        self._process = self._start()
        return self

    def _start(self) -> subprocess.Popen[bytes]:
        walls, folder = self._walls, self._folder
        fenced = walls.isolation == "bwrap"
        settings: dict[str, Any] = {"user": walls.user, "limits": dict(LIMITS)}
        if walls.counts_processes:
            settings["limits"]["RLIMIT_NPROC"] = 512
        where = INSIDE if fenced else str(folder)
        arguments = [json.dumps(settings), where, self._exercise.name, *self._names]
        line = [sys.executable, "-m", "autograder.nbgrader_child", *arguments]
        # the kernels inherit these streams: what students write to them must fill no pipe and no disk
        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        if not fenced:
            return subprocess.Popen(line, start_new_session=True, cwd=folder, **streams)
        if walls.user is not None:
            _give_away(folder)
        env = sandbox.environment("/tmp")
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        env["PYTHONPATH"] = str(ROOT)
        return sandbox.spawn(walls, line, _mounts(folder), env=env, scratch=256 << 20, **streams)

    def opinions(self) -> dict[str, SecondOpinion]:
        """Wait for nbgrader and return what it says about every student."""
        if self._process is None:
            return {}
        problem = "nbgrader did not report a score"
        try:
            # a cell that hangs costs CELL_SECONDS; one that hangs in every cell is not worth waiting for
            status = self._process.wait(timeout=120 + 120 * len(self._names))
            told = _read(self._folder / "scores.json", self._exercise)
            problem = f"nbgrader failed with status {status}" if status else problem
        except subprocess.TimeoutExpired:
            told, problem = {}, "nbgrader took too long"
        return {student: told.get(name, SecondOpinion({}, problem)) for name, student in self._names.items()}

    def __exit__(self, *exception: object) -> None:
        process = self._process
        if process and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                if self._walls.isolation == "bwrap":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._stack.close()


def _mounts(folder: Path) -> sandbox.Mounts:
    """Read-only: Python, its packages, grader, library and sources. Writable: the course folder alone."""
    parts = [
        sys.base_prefix,
        sys.prefix,
        *(str(ROOT / name) for name in ("autograder", "specdec", "solutions")),
    ]
    real = dict.fromkeys(part for part in parts if not part.startswith("/usr"))
    return sandbox.Mounts({part: part for part in real}, {INSIDE: str(folder)})


def _give_away(folder: Path) -> None:
    """Let the user of the sandbox own the course folder."""
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, sandbox.OUTSIDE, sandbox.OUTSIDE, follow_symlinks=False)


def _read(path: Path, exercise: Exercise) -> dict[str, SecondOpinion]:
    """The scores that the child wrote, as far as they are what they should be."""
    source = template(exercise)
    points = source.points | source.written
    try:
        if path.is_symlink() or path.stat().st_size > 32 << 20:
            return {}
        told = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    result = {}
    for name, one in told.items() if isinstance(told, dict) else ():
        if isinstance(one, dict) and isinstance(one.get("error"), str):
            result[name] = SecondOpinion({}, one["error"][:300])
        elif isinstance(one, dict) and isinstance(one.get("checks"), dict):
            checks = {
                check: float(value)
                for check, value in one["checks"].items()
                if check in points and isinstance(value, (int, float)) and 0 <= value <= points[check]
            }
            if len(checks) == len(points):
                result[name] = SecondOpinion(checks)
    return result
