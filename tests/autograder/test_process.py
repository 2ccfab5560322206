"""The worker, its walls and its protocol, one question at a time."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder import protocol, sandbox, worker
from autograder.errors import SandboxError
from autograder.process import Died, Worker, find_walls
from autograder.sandbox import Limits, Walls
from autograder.student import NoAnswer, Submission


@pytest.fixture(scope="module")
def walls() -> Walls:
    return find_walls("bwrap")


@pytest.fixture
def inside(walls: Walls) -> Iterator[Worker]:
    running = Worker(walls, Limits(cpu=1, wall_factor=1), {})
    yield running
    running.close()


@pytest.mark.sandbox
def test_the_process_inside_is_another_user_without_rights_in_a_world_of_its_own(inside: Worker) -> None:
    source = """
import os
def seen():
    status = open("/proc/self/status").read()
    return {
        "ids": [*os.getresuid(), *os.getresgid()],
        "groups": os.getgroups(),
        "rights": [line.split()[1] for line in status.splitlines() if line.startswith(("CapPrm", "CapEff"))],
        "no_new": "NoNewPrivs:\\t1" in status,
        "processes": sum(name.isdigit() for name in os.listdir("/proc")),
        "root": sorted(os.listdir("/")),
        "tmp": os.listdir("/tmp"),
        "environment": sorted(os.environ),
    }
"""
    inside.request("cell", index=0, source=source)
    seen = inside.request("call", name="seen", args=[])["value"]
    assert set(seen["ids"]) == {sandbox.NOBODY}
    assert set(seen["groups"]) <= {sandbox.NOBODY}
    assert {int(right, 16) for right in seen["rights"]} == {0}
    assert seen["no_new"]
    assert seen["processes"] <= 3
    assert "home" not in seen["root"]
    assert seen["tmp"] == []
    assert set(seen["environment"]) == {*sandbox.environment("/tmp"), "PWD"}


@pytest.mark.sandbox
def test_sleeping_counts_as_wall_time(inside: Worker) -> None:
    started = time.monotonic()
    with pytest.raises(Died, match="it took too long") as caught:
        inside.request("cell", index=0, source="import time; time.sleep(600)")
    assert caught.value.kind == "timed out"
    assert time.monotonic() - started < 10


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "source",
    [
        "import os\nfor fd in range(3, 64):\n    try: os.close(fd)\n    except OSError: pass",
        "import os; os.kill(os.getpid(), 9)",
        "import ctypes; ctypes.string_at(0)",
        "import sys; sys.modules['json'].dumps = lambda value: '[' * 10**6",
        "import sys; sys.modules['json'].dumps = lambda value: '9' * 10**5",
    ],
)
def test_a_worker_that_breaks_off_or_talks_nonsense_has_crashed(inside: Worker, source: str) -> None:
    with pytest.raises(Died) as caught:
        inside.request("cell", index=0, source=source)
    assert caught.value.kind == "crashed"


@pytest.mark.sandbox
def test_a_large_reply_is_refused_before_it_is_read(walls: Walls) -> None:
    running = Worker(walls, Limits(cpu=5, reply=1000), {})
    running.request("cell", index=0, source="x = 'a' * 2000")
    with pytest.raises(Died, match="more than 1,000"):
        running.request("get", name="x")
    running.close()


@pytest.mark.sandbox
def test_files_written_inside_have_a_limit_and_leave_nothing_outside(inside: Worker) -> None:
    before = set(os.listdir("/tmp"))
    source = "with open('/tmp/mine', 'wb') as f:\n    while True: f.write(bytes(1 << 20))"
    assert inside.request("cell", index=0, source=source)["error"]["type"] == "OSError"
    assert "mine" not in set(os.listdir("/tmp")) - before


@pytest.mark.sandbox
def test_magics_shell_lines_await_and_display_run_as_far_as_they_are_python(inside: Worker) -> None:
    sources = [
        "%matplotlib inline\n!pip install something\nx = 1\nif x:\n    %time x = 2\nx?\ny = !ls",
        "%%time\nz = 3",
        "%%bash\nexit 1",
        "import asyncio\nawait asyncio.sleep(0)\nw = 4",
        "display(x)\nget_ipython().run_line_magic('pylab', 'inline')\nv = '%d' % 5",
    ]
    for index, source in enumerate(sources):
        assert inside.request("cell", index=index, source=source) == {"value": None}, source
    assert [inside.request("get", name=name)["value"] for name in "xzwv"] == [1, 3, 4, "5"]


@pytest.mark.sandbox
def test_companion_files_can_be_imported_and_shadow_nothing(walls: Walls) -> None:
    running = Worker(walls, Limits(), {"helper.py": b"x = 7", "random.py": b"raise SystemExit"})
    assert running.request("cell", index=0, source="import helper, random; random.random()") == {
        "value": None
    }
    running.close()


def test_without_walls_the_same_worker_answers_with_the_same_limits() -> None:
    running = Worker(Walls("none"), Limits(cpu=1), {"helper.py": b"x = 7"})
    running.request("cell", index=0, source="import helper\ndef f(a): return a + helper.x")
    assert running.request("call", name="f", args=[1]) == {"value": 8}
    reply = running.request("cell", index=1, source="x = bytearray(1 << 34)")
    assert reply["error"]["kind"] == "memory"
    running.close()


def test_a_missing_bubblewrap_is_told_from_a_blocked_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match=r"not installed.*apt-get install bubblewrap.*--isolation none"):
        find_walls("bwrap")
    blocked = tmp_path / "bwrap"
    blocked.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    blocked.chmod(0o755)
    with pytest.raises(
        SandboxError, match=r"blocked by the kernel.*\(bwrap: No permissions.*sysctl.*--isolation none"
    ):
        find_walls("bwrap")


# -- the protocol --------------------------------------------------------------------------------------------


def reply(value: str, nonce: str = "n") -> bytes:
    return b'{"id": "%s", "value": %s}' % (nonce.encode(), value.encode())


def test_plain_data_crosses_and_nothing_else_does() -> None:
    value = {"a": [1, -2.5, True, None, "x"], "b": {"c": []}}
    assert protocol.decode(reply(json.dumps(value)), "n") == {"value": value}
    assert protocol.decode(reply("NaN"), "n")["value"] != protocol.decode(reply("NaN"), "n")["value"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[1]",
        b"[" * 100_000,
        reply("1", nonce="other"),
        reply("1" * 30),
        reply("1e999"),
        b'{"id": "n"}',
        b'{"id": "n", "value": 1, "error": 2}',
        b'{"id": "n", "value": 1, "more": 2}',
        b'{"id": "n", "error": "text"}',
        b'{"id": "n", "error": {"kind": "passed", "type": "", "message": "", "where": []}}',
        b'{"id": "n", "error": {"kind": "raised", "type": 1, "message": "", "where": []}}',
    ],
)
def test_a_reply_that_is_not_what_it_should_be_is_garbled(body: bytes) -> None:
    with pytest.raises(protocol.Garbled):
        protocol.decode(body, "n")


def test_frames_are_taken_whole_and_never_beyond_the_limit() -> None:
    frame = protocol.encode({"a": 1})
    received = bytearray(frame[:5])
    assert protocol.take_frame(received, 100) is None
    received += frame[5:] + b"rest"
    assert json.loads(protocol.take_frame(received, 100) or b"") == {"a": 1}
    assert received == b"rest"
    with pytest.raises(protocol.Garbled):
        protocol.take_frame(bytearray(b"\x7f\xff\xff\xff"), 100)


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize(
    ("value", "expected"), [((1, range(2)), [1, [0, 1]]), (Liar(3), 3), ({"k": (2.0,)}, {"k": [2.0]})]
)
def test_values_are_reduced_to_plain_types(value: object, expected: object) -> None:
    got = worker.plain(value)
    assert json.dumps(got) == json.dumps(expected)
    assert type(got) in (int, list, dict)


@pytest.mark.parametrize("value", [object(), 2**70, {1: 2}, {1, 2}, [0] * 600_000, iter([1]), b"x"])
def test_what_is_not_plain_is_refused(value: object) -> None:
    with pytest.raises(worker.NotPlain):
        worker.plain(value)


@pytest.mark.sandbox
def test_after_a_death_the_next_question_goes_to_a_fresh_worker_with_the_same_cells(walls: Walls) -> None:
    cells = [
        (0, "calls = 0"),
        (1, "def f(x):\n    import os\n    return x if x else os._exit(1)"),
        (2, "f(0)"),
    ]
    student = Submission(cells, walls, Limits(cpu=1))
    assert student.call("f", 1) == 1
    with pytest.raises(Died):
        student.call("f", 0)
    assert student.call("f", 2) == 2
    assert [run.outcome for run in student.runs] == ["ran", "ran", "crashed"]
    with pytest.raises(NoAnswer) as caught:
        student.call("g")
    assert caught.value.idea == "not-written"
    student.close()
