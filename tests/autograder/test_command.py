"""The command line: what it prints, what it writes, and how it ends."""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ex1_notebooks import CORRECTION_FROM_Q, NAME, hand_in, released, solved, with_cell
from grading import run_cli

from autograder import report
from autograder.exercises import ROOT


@pytest.mark.parametrize(
    "arguments",
    [
        ["grade", ""],
        ["grade", "no-such-folder"],
        ["grade", str(ROOT / "pyproject.toml")],
        ["grade"],
        ["grade", ".", "--no-such-option"],
        ["grade", ".", "--timeout", "-1"],
        ["grade", ".", "--timeout", "soon"],
        ["grade", ".", "--memory", "1"],
        ["grade", ".", "--isolation", "maybe"],
        ["grade", ".", "--exercise", "ex99"],
        ["no-such-command"],
        ["release", "--no-such-option"],
    ],
)
def test_bad_input_is_one_sentence_and_status_2(arguments: list[str], tmp_path: Path) -> None:
    run = run_cli(*arguments, cwd=tmp_path)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith("autograder: ")
    assert run.stderr.count("\n") == 1
    assert run.stderr.endswith(".\n")
    assert list(tmp_path.iterdir()) == []


def test_make_grade_without_submissions_is_one_sentence() -> None:
    run = run_cli("grade", "")
    assert run.stderr == (
        "autograder: Name the folder with the submissions: make grade SUBMISSIONS=FOLDER.\n"
    )


@pytest.mark.sandbox
def test_without_bubblewrap_grading_is_refused_unless_it_is_said_by_name(tmp_path: Path) -> None:
    hand_in(tmp_path / "class", "ada", solved())
    empty = tmp_path / "bin"
    empty.mkdir()
    arguments = ["grade", tmp_path / "class", "--out", tmp_path / "out", "--no-nbgrader"]
    refused = run_cli(*arguments, PATH=str(empty))
    assert refused.returncode == 2
    assert "not installed" in refused.stderr
    assert not (tmp_path / "out").exists()
    named = run_cli(*arguments, "--isolation", "none", PATH=str(empty))
    assert named.returncode == 0, named.stderr
    assert "Warning: no isolation" in named.stderr
    (row,) = json.loads((tmp_path / "out" / "grades.json").read_text())
    assert (row["score"], row["flags"]) == (20, "no isolation")


@pytest.mark.sandbox
def test_names_that_are_code_elsewhere_stay_names(tmp_path: Path) -> None:
    odd = ["=1+1", "-2", "<b>x", "[red]x", "a;b", "é中", "A" * 100, "caf?"]
    not_text = os.fsdecode(b"caf\xe9")  # a name whose bytes are no UTF-8 is shown with a question mark
    for student in [*odd[:-1], not_text]:
        source = "raise type('\\ud800', (Exception,), {})()"  # half a character as the name of an error
        hand_in(tmp_path / "class", student, with_cell(released(), source))
    run = run_cli("grade", tmp_path / "class", "--out", tmp_path / "out", "--no-nbgrader")
    assert run.returncode == 0, run.stderr
    with (tmp_path / "out" / "grades.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(odd)
    assert {"student", "exercise", "outcome", "score", "max_score", "pending", "flags"} <= set(rows[0])
    names = [row["student"] for row in rows]
    assert not any(name.startswith(("=", "-", "+", "@")) for name in names)
    assert {
        json.loads(path.read_text())["student"] for path in (tmp_path / "out").rglob("result.json")
    } == set(odd)
    assert all(
        path.parent.parent.parent == tmp_path / "out" for path in (tmp_path / "out").rglob("result.json")
    )
    text = "".join(path.read_text() for path in (tmp_path / "out").rglob("feedback.md"))
    assert "<b>" not in text
    assert "[red]x" in run.stdout


@pytest.mark.sandbox
def test_ctrl_c_ends_with_130_and_leaves_whole_files_and_no_process(tmp_path: Path) -> None:
    hand_in(tmp_path / "class", "ada", solved())
    hand_in(tmp_path / "class", "bob", with_cell(solved(), "import time; time.sleep(1000)", at=1))
    command = [sys.executable, "-m", "autograder.cli", "grade", str(tmp_path / "class")]
    options = ["--out", str(tmp_path / "out"), "--no-nbgrader"]
    process = subprocess.Popen([*command, *options], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    first = tmp_path / "out" / "ada" / NAME / "result.json"
    for _ in range(600):
        if first.exists():
            break
        time.sleep(0.1)
    time.sleep(0.5)
    inside = _descendants(process.pid)
    assert inside
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "autograder: interrupted."
    assert json.loads(first.read_text())["score"] == 20
    assert not list((tmp_path / "out").rglob("*.part"))
    deadline = time.monotonic() + 10
    while (alive := [pid for pid in inside if _runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive


def _runs(pid: str) -> bool:
    """Is it there, and more than an entry that nobody has collected yet?"""
    try:
        return Path("/proc", pid, "stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


def _descendants(pid: int) -> list[str]:
    """The processes that `pid` and its children have started (Linux)."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[entry.name] = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
    found, known = [], {str(pid)}
    while new := [child for child, parent in parents.items() if parent in known and child not in known]:
        known |= set(new)
        found += new
    return found


def test_a_full_disk_is_one_sentence_and_leaves_no_half_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        _write_through(Path("/dev/full"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def _write_through(device: Path, folder: Path) -> None:
    """report.write_atomically, with its temporary file led to a full device."""
    (folder / ".grades.csv.part").symlink_to(device)
    report.write_atomically(folder / "grades.csv", "x" * 10)


@pytest.mark.sandbox
def test_an_instructor_runs_one_check_on_one_notebook_with_plain_pytest(tmp_path: Path) -> None:
    path = tmp_path / "ada.ipynb"
    path.write_text(json.dumps(solved(step_code=CORRECTION_FROM_Q)))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "autograder/ex1",
        "--submission",
        str(path),
        "-p",
        "no:cacheprovider",
    ]
    failing = subprocess.run([*command, "-k", "correction"], cwd=ROOT, capture_output=True, text=True)
    assert failing.returncode == 1
    assert "1 failed" in failing.stdout
    assert "step-correction" in failing.stdout
    passing = subprocess.run([*command, "-k", "bonus"], cwd=ROOT, capture_output=True, text=True)
    assert passing.returncode == 0, passing.stdout
    nameless = subprocess.run(command[:4], cwd=ROOT, capture_output=True, text=True)
    assert "name the notebook to check: --submission FILE" in nameless.stdout
