"""Builds submissions of any exercise out of its reference solution, and asks both kinds of checks about them.

BANK = Bank("ex2")
BANK.lost(BANK.solved(time_code="def wall_time(...): ..."))     what it loses, and to which idea
"""

import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from autograder.exercises import ROOT, find_exercise, template, verdict
from autograder.student import KernelStudent

os.environ.setdefault("MPLBACKEND", "Agg")
Notebook = dict[str, Any]

# Prints "NAME: what its check said" for every cell that raises.
RUNNER = """
import json, sys
names = {"__name__": "__main__"}
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] != "code" or "setup" in cell["metadata"].get("tags", []):
        continue
    name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
    try:
        exec("".join(cell["source"]), names)
    except Exception as error:
        shown = error._render_traceback_() if hasattr(error, "_render_traceback_") else ["raised"]
        print(f"{name}: {' | '.join(shown)}")
assert not {"numpy", "scipy", "specdec", "autograder"} & set(sys.modules)
"""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What a notebook prints and draws is no part of a test's report."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


class Bank:
    """One exercise's notebooks: as released, as solved, and with cells changed."""

    def __init__(self, key: str) -> None:
        self.exercise = find_exercise(key)
        self.name = self.exercise.name
        self.ideas = self.exercise.ideas
        self.released_at = ROOT / "notebooks" / self.name / f"{self.name}.ipynb"

    @property
    def points(self) -> dict[str, int]:
        """{check: points}, without what is read by hand."""
        return template(self.exercise).points

    def released(self) -> Notebook:
        """The notebook as a student gets it."""
        return json.loads(self.released_at.read_text(encoding="utf-8"))

    @cached_property
    def solutions(self) -> dict[str, str]:
        """{id of a solution cell: its source, as a student would write it}."""
        source = json.loads(self.exercise.notebook.read_text(encoding="utf-8"))
        marks = ("### BEGIN SOLUTION", "### END SOLUTION")
        return {
            cell["metadata"]["nbgrader"]["grade_id"]: "".join(
                line for line in cell["source"] if line.strip() not in marks
            )
            for cell in source["cells"]
            if cell["metadata"].get("nbgrader", {}).get("solution")
        }

    def solved(self, **changes: str) -> Notebook:
        """The reference solution; changes are {id of a solution cell: source}, with _ for its dashes."""
        return self.with_cells(self.solutions | self._named(changes))

    def half(self, **written: str) -> Notebook:
        """The release with some of its solution cells filled in."""
        return self.with_cells(self._named(written))

    def _named(self, cells: dict[str, str]) -> dict[str, str]:
        named = {name.replace("_", "-"): text for name, text in cells.items()}
        assert set(named) <= set(self.solutions)
        return named

    def with_cells(self, cells: dict[str, str]) -> Notebook:
        """The release with these cells in place of its own."""
        notebook = self.released()
        for cell in notebook["cells"]:
            name = cell["metadata"].get("nbgrader", {}).get("grade_id")
            cell["source"] = cells.get(name, cell["source"])
        return notebook

    def hand_in(self, folder: Path, student: str, notebook: Notebook) -> Path:
        """Put a notebook where nbgrader's tree has it."""
        path = folder / student / self.name / f"{self.name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(notebook))
        return path

    # -- asking ----------------------------------------------------------------------------------------------

    def names_of(self, notebook: Notebook) -> dict[str, Any]:
        """Run a notebook's own cells here (they are ours) and return its namespace."""
        names: dict[str, Any] = {"__name__": "__main__"}
        tests = template(self.exercise).tests
        for cell in notebook["cells"]:
            about = cell["metadata"].get("nbgrader", {})
            if cell["cell_type"] == "code" and about and about["grade_id"] not in tests:
                with contextlib.suppress(Exception), quiet():
                    exec("".join(cell["source"]), names)
        if pyplot := sys.modules.get("matplotlib.pyplot"):
            pyplot.close("all")
        return names

    def lost(self, notebook: Notebook) -> dict[str, str]:
        """{check: the idea named} of every hidden check that a notebook does not pass."""
        student, result = KernelStudent(self.names_of(notebook)), {}
        for check in self.exercise.checks():
            with quiet():
                try:
                    check.function(student)
                except Exception as error:
                    result[check.name] = verdict(error)[1]
        return result

    def visible(self) -> ModuleType:
        """The file of visible checks that lies next to the notebook."""
        name = f"{self.exercise.key}_checks"
        spec = importlib.util.spec_from_file_location(name, self.exercise.folder / f"{name}.py")
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def told_alone(self, folder: Path, notebook: Notebook) -> dict[str, str]:
        """The same in a Python with its standard library alone, every cell in order as in Jupyter."""
        for name, content in self.exercise.companions().items():
            (folder / name).write_bytes(content)
        (folder / "work.ipynb").write_text(json.dumps(notebook))
        run = subprocess.run(
            [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, '.')\n{RUNNER}", "work.ipynb"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr
        lines = [line.split(": ", 1) for line in run.stdout.splitlines() if ": " in line]
        return {name: text for name, text in lines if name in self.points}

    def told(self, notebook: Notebook) -> dict[str, str]:
        """{check: sentence} of every visible check that fails."""
        module, result = self.visible(), {}
        check = module.Checks(self.names_of(notebook))
        for name in template(self.exercise).tests:
            with quiet():
                try:
                    check(name)
                except module.NotYet as error:
                    result[name] = str(error)
        return result
