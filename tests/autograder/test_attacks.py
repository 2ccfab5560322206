"""Submissions that misbehave, graded together with honest ones in one run behind the real walls."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ex1_notebooks import NAME, hand_in, released, solved, with_cell
from grading import Graded, run_cli

from autograder.exercises import ROOT

pytestmark = pytest.mark.sandbox

# accept is right only if the attack worked: then its points say so
PROBE = """
import os, socket
def worked():
    {attempt}
if not worked():
    def accept(q_x, p_x, u):
        return "the attack failed"
"""
CONNECT = """
    for address in (("127.0.0.1", {port}), ("1.1.1.1", 53)):
        try:
            socket.create_connection(address, 1)
            return True
        except OSError:
            pass
"""
READ = """
    for path in {paths!r}:
        if os.path.exists(path):
            return True
    return "AUTOGRADER_TEST_SECRET" in os.environ
"""
WRITE = """
    places = [os.path.join(path, "x") for path in ("/", "/usr", "/course", "/dev/shm", "/etc", "/proc")]
    places += ["/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/1/mem", "/course/worker.py"]
    for path in places:
        try:
            open(path, "w").close()
            return True
        except OSError:
            pass
"""
FORGE = """
import os
for fd in range(3, 64):
    try:
        os.write(fd, b'\\x00\\x00\\x00\\x0e{"value": true}')
    except OSError:
        pass
"""
LYING = """
class Yes:
    def __eq__(self, other):
        return True
    def __hash__(self):
        return 1
def accept(q_x, p_x, u):
    return Yes()
"""
MALFORMED = ("not-json", "no-bytes", "nul-bytes", "old-format", "odd-cells", "deep", "link")
ALONE = {
    "loop": "while True: pass",
    # bytes, not bytearray: zeros that nobody reads cost no processor time, and a cell has one second
    "hog": "x = [bytes(1 << 24) for _ in range(10**6)]",
    "exit": "import os; os._exit(0)",
}


def alone(source: str) -> dict[str, Any]:
    """A notebook with one cell of code and nothing else."""
    notebook = released()
    notebook["cells"] = []
    return with_cell(notebook, source)


@pytest.fixture(scope="module")
def listener() -> Iterator[tuple[int, list[Any]]]:
    """A server on this machine, and who connected to it."""
    server = socket.create_server(("127.0.0.1", 0))
    met: list[Any] = []

    def wait() -> None:
        try:
            while True:
                met.append(server.accept())
        except OSError:
            return

    threading.Thread(target=wait, daemon=True).start()
    yield server.getsockname()[1], met
    server.close()


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, listener: tuple[int, list[Any]]) -> Graded:
    folder, out = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("out")
    paths = [
        str(ROOT),
        str(ROOT / "solutions"),
        str(Path.home() / ".bashrc"),
        str(folder),
        str(out),
        "/etc/shadow",
    ]
    right = solved()
    class_list: dict[str, Any] = {
        "a-honest": right,
        "loop-in-last-cell": with_cell(right, "while True: pass"),
        "loop-in-residual": solved(residual_code="def residual(q, p):\n    while True: pass"),
        "memory-in-a-cell": with_cell(right, ALONE["hog"], at=1),
        "flood": with_cell(right, "while True: print('x' * 10**6)"),
        "chatty": with_cell(
            right, "import sys; print('x' * 10**6); print('y' * 10**6, file=sys.stderr)", at=1
        ),
        "network": with_cell(right, PROBE.format(attempt=CONNECT.format(port=listener[0]))),
        "reader": with_cell(right, PROBE.format(attempt=READ.format(paths=paths))),
        "writer": with_cell(right, PROBE.format(attempt=WRITE)),
        "exit-in-a-cell": with_cell(right, "import sys; sys.exit(0)", at=1),
        "os-exit-in-a-cell": with_cell(right, ALONE["exit"], at=1),
        "os-exit-in-residual": solved(residual_code="def residual(q, p):\n    import os; os._exit(0)"),
        "forger": with_cell(right, FORGE, at=1),
        "forks": with_cell(
            right, "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(60)", at=1
        ),
        "liar": with_cell(right, LYING),
        "only-loop": alone(ALONE["loop"]),
        "only-hog": alone(ALONE["hog"]),
        "only-exit": alone(ALONE["exit"]),
        "not-json": "{",
        "no-bytes": b"",
        "nul-bytes": b"\0" * 100,
        "old-format": json.dumps({"nbformat": 3, "worksheets": [{"cells": []}]}),
        "odd-cells": json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": 7}]}),
        "deep": "[" * 100_000,
        "z-honest": right,
    }
    for student, notebook in class_list.items():
        hand_in(folder, student, notebook)
    (folder / "nothing").mkdir()
    stolen = hand_in(folder, "link", "")
    stolen.unlink()
    stolen.symlink_to(folder / "a-honest" / NAME / f"{NAME}.ipynb")
    process = run_cli(
        "grade", folder, "--out", out, "--no-nbgrader", "--timeout", "1", AUTOGRADER_TEST_SECRET="secret"
    )
    return Graded(out, process)


def test_every_submission_has_a_row_and_neighbours_of_attacks_keep_full_marks(graded: Graded) -> None:
    assert len(graded.rows) == 27
    for student in ("a-honest", "z-honest"):
        assert graded.rows[student]["score"] == 20
        assert graded.rows[student]["flags"] == ""


@pytest.mark.parametrize(
    ("student", "flag"),
    [
        ("loop-in-last-cell", "timed out"),
        ("memory-in-a-cell", "out of memory"),
        ("flood", "crashed"),
        ("os-exit-in-a-cell", "crashed"),
        ("forger", "crashed"),
        ("exit-in-a-cell", ""),
        ("chatty", ""),
    ],
)
def test_a_cell_that_dies_costs_no_points_of_the_other_cells(graded: Graded, student: str, flag: str) -> None:
    row = graded.rows[student]
    assert (row["outcome"], row["score"]) == ("graded", 20)
    assert flag in row["flags"]
    assert bool(row["flags"]) == bool(flag)


@pytest.mark.parametrize(
    ("student", "outcome"), [("loop-in-residual", "timed out"), ("os-exit-in-residual", "crashed")]
)
def test_a_function_that_dies_loses_its_own_points_and_blocks_what_needs_it(
    graded: Graded, student: str, outcome: str
) -> None:
    checks = {check["name"]: check["outcome"] for check in graded.result(student)["checks"]}
    for name in ("residual-positive", "residual-sums-to-one", "residual-equal"):
        assert checks[name] == outcome
    for name in ("accept", "step-drafts", "step-bonus", "chi-statistic", "chi-df", "chi-verdict"):
        assert checks[name] == "passed"
    assert checks["step-correction"] == "blocked"
    assert graded.rows[student]["pending"] >= 2


@pytest.mark.parametrize("student", ["network", "reader", "writer"])
def test_the_walls_stand(graded: Graded, student: str) -> None:
    """The attack defines a wrong accept when it fails, so losing its points proves that it failed."""
    assert graded.lost(student)["accept"] == 2
    assert graded.outcome(student, "residual-positive") == "passed"


def test_nobody_reached_a_server_on_this_machine(graded: Graded, listener: tuple[int, list[Any]]) -> None:
    assert listener[1] == []


def test_forking_stops_at_a_limit_and_the_rest_is_graded(graded: Graded) -> None:
    assert graded.rows["forks"]["score"] == 20


def test_an_object_that_equals_everything_is_not_an_answer(graded: Graded) -> None:
    check = next(c for c in graded.result("liar")["checks"] if c["name"] == "accept")
    assert (check["earned"], check["idea"]) == (0, "shape")


@pytest.mark.parametrize(
    ("student", "outcome"),
    [
        ("only-loop", "timed out"),
        ("only-hog", "out of memory"),
        ("only-exit", "crashed"),
        ("nothing", "not submitted"),
        *(
            (name, "malformed")
            for name in ("not-json", "no-bytes", "nul-bytes", "old-format", "odd-cells", "deep", "link")
        ),
    ],
)
def test_what_cannot_be_graded_says_why(graded: Graded, student: str, outcome: str) -> None:
    result = graded.result(student)
    assert (result["outcome"], result["score"]) == (outcome, 0)
    assert result["problem"].endswith(".")
    assert f"**Outcome: {outcome}.**" in graded.feedback(student)


def test_a_flood_of_output_leaves_small_files(graded: Graded) -> None:
    for student in ("flood", "chatty"):
        assert len(json.dumps(graded.result(student))) < 20_000
