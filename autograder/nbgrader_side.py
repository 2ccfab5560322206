"""The second opinion: nbgrader's score of the same submissions, from its hidden test cells.

nbgrader runs student code in a kernel that can reach the checks and the gradebook. So it runs on a throw-away course
folder, in the same kind of sandbox as the workers, with the checks mounted read-only, and what it says is shown beside
the score that counts, never mixed into it.
"""

import contextlib
import json
import os
import shutil
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


def second_opinions(exercise: Exercise, notebooks: Mapping[str, Path], walls: Walls) -> dict[str, SecondOpinion]:
    """nbgrader's scores of {student: notebook} for one exercise. Its failure is a sentence, not an exception."""
    names = {f"s{i:05d}": student for i, student in enumerate(notebooks)}
    with course.scratch_course([exercise]) as folder:
        for name, student in names.items():
            target = folder / "submitted" / name / exercise.name
            target.mkdir(parents=True)
            shutil.copyfile(notebooks[student], target / exercise.notebook.name)
        problem = _run(folder, exercise, list(names), walls)
        told = _read(folder / "scores.json", exercise) if not problem else {}
    missing = SecondOpinion({}, problem or "nbgrader did not report a score")
    return {student: told.get(name, missing) for name, student in names.items()}


def _run(folder: Path, exercise: Exercise, names: list[str], walls: Walls) -> str:
    """Run nbgrader on the course folder; "" or what went wrong."""
    settings: dict[str, Any] = {"user": walls.user, "limits": dict(LIMITS)}
    if walls.counts_processes:
        settings["limits"]["RLIMIT_NPROC"] = 512
    fenced = walls.isolation == "bwrap"
    arguments = [json.dumps(settings), INSIDE if fenced else str(folder), exercise.name, *names]
    line = [sys.executable, "-m", "autograder.nbgrader_child", *arguments]
    streams: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.PIPE,
    }
    if fenced:
        if walls.user is not None:
            _give_away(folder)
        env = sandbox.environment("/tmp")
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        process = sandbox.spawn(walls, line, _mounts(folder), env=env, scratch=256 << 20, **streams)
    else:
        process = subprocess.Popen(line, start_new_session=True, cwd=folder, **streams)
    try:
        # each hanging cell costs CELL_SECONDS, and a submission that hangs in every one is not worth waiting for
        _, said = process.communicate(timeout=60 + 120 * len(names))
    except subprocess.TimeoutExpired:
        return "nbgrader took too long"
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill() if fenced else os.killpg(process.pid, 9)
            process.wait()
    if process.returncode:
        lines = said.decode(errors="replace").strip().splitlines()
        return f"nbgrader failed ({lines[-1][:200] if lines else f'status {process.returncode}'})"
    return ""


def _mounts(folder: Path) -> sandbox.Mounts:
    """Read-only: Python, its packages, the grader, the library and the sources. Writable: the course folder alone."""
    parts = [sys.base_prefix, sys.prefix, *(str(ROOT / name) for name in ("autograder", "specdec", "solutions"))]
    real = dict.fromkeys(part for part in parts if not part.startswith("/usr"))
    return sandbox.Mounts({part: part for part in real}, {INSIDE: str(folder)})


def _give_away(folder: Path) -> None:
    """Let the user of the sandbox own the course folder."""
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, sandbox.OUTSIDE, sandbox.OUTSIDE, follow_symlinks=False)


def _read(path: Path, exercise: Exercise) -> dict[str, SecondOpinion]:
    """The scores that the child wrote, as far as they are what they should be."""
    points = template(exercise).points
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
