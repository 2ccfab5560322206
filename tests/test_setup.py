"""What the make targets promise: help, working copies, missing programs, clean notebooks."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_help_lists_every_target_of_the_makefile_once() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = set(re.search(r"^\.PHONY: (.+)$", makefile, re.M).group(1).split())  # type: ignore[union-attr]
    shown = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    listed = re.findall(r"^  make (\w+)\s+\S", shown, re.M)
    assert set(listed) == phony
    assert len(listed) == len(phony)


def test_a_working_copy_keeps_what_the_student_saved_and_carries_no_pairing(tmp_path: Path) -> None:
    source, target = tmp_path / "notebooks", tmp_path / "workspace"
    (source / "ex1").mkdir(parents=True)
    notebook = {"cells": [], "metadata": {"jupytext": {"formats": "ipynb,md"}, "kernelspec": {}}}
    (source / "00.ipynb").write_text(json.dumps(notebook))
    (source / "ex1" / "ex1.ipynb").write_text(json.dumps(notebook))
    copy_missing = tool("lab").copy_missing
    assert copy_missing(source, target) == [Path("00.ipynb"), Path("ex1/ex1.ipynb")]
    assert "jupytext" not in json.loads((target / "00.ipynb").read_text())["metadata"]
    (target / "00.ipynb").write_text("my own work")
    assert copy_missing(source, target) == []
    assert (target / "00.ipynb").read_text() == "my own work"


def test_a_missing_program_is_named_with_the_package_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    test = tool("test")
    monkeypatch.setenv("PATH", "")
    assert test.missing_programs() == {"browser": "chromium", "sandbox": "bubblewrap"}
    packages = (ROOT / "apt.txt").read_text().split()
    assert set(test.missing_programs().values()) == set(packages)


def test_of_two_versions_the_pins_take_the_one_for_the_oldest_python() -> None:
    resolved = [
        "numpy==2.4.6 ; python_full_version < '3.12'",
        "numpy==2.5.5 ; python_full_version >= '3.12'",
        "colorama==0.4.6 ; sys_platform == 'win32'",
        "nvidia-cublas==13.1 ; sys_platform == 'linux'",
        "httpx2-jsfetch==1.0 ; sys_platform == 'emscripten'",
    ]
    assert tool("pins").one_version_each(resolved) == {"numpy": "numpy==2.4.6", "colorama": "colorama==0.4.6"}


def test_no_committed_notebook_carries_outputs() -> None:
    assert tool("check").notebooks_with_outputs() == []


def test_the_set_up_refuses_an_old_python_in_one_sentence(monkeypatch, capsys) -> None:
    setup = tool("setup")
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    assert setup.main() == 2
    assert "Python 3.11 or newer is needed, this is 3.9.1" in capsys.readouterr().err


def test_the_repository_names_no_package_index_and_no_machine_path() -> None:
    words = [b"pypi" + b".org", b"pythonhos" + b"ted.org", b"/wor" + b"k/"]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    named = [
        (name, word)
        for name in map(os.fsdecode, listed.split(b"\0"))
        if name and (ROOT / name).is_file()
        for word in words
        if word in (ROOT / name).read_bytes()
    ]
    assert named == []
