"""Runs the grader as an instructor does, and reads what it left behind."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from autograder.exercises import ROOT


def run_cli(*arguments: object, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    """The command as an instructor types it."""
    return subprocess.run(
        [sys.executable, "-m", "autograder.cli", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"COLUMNS": "200"} | env,
        capture_output=True,
        text=True,
        timeout=400,
    )


class Graded:
    """What a grading run left behind."""

    def __init__(self, out: Path, process: subprocess.CompletedProcess[str]) -> None:
        self.out = out
        self.process = process
        assert process.returncode == 0, process.stderr
        self.rows = {row["student"]: row for row in json.loads((out / "grades.json").read_text())}

    def result(self, student: str) -> dict[str, Any]:
        (path,) = (self.out / student).glob("*/result.json")
        return json.loads(path.read_text())

    def feedback(self, student: str) -> str:
        (path,) = (self.out / student).glob("*/feedback.md")
        return path.read_text()

    def lost(self, student: str) -> dict[str, int]:
        """{check: points} of what was not earned."""
        return {c["name"]: c["points"] for c in self.result(student)["checks"] if c["outcome"] != "passed"}

    def outcome(self, student: str, check: str) -> str:
        return next(c["outcome"] for c in self.result(student)["checks"] if c["name"] == check)
