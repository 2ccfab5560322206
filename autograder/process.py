"""One worker process: start it, put requests to it, and know how it ended.

The parent waits on four pipes at once (requests out, replies, stdout and stderr in), so that neither a flood
of output nor a worker that stops reading can block it. A worker that ends, oversteps a limit or breaks the
protocol raises Died; the next request then needs a new Worker.
"""

import contextlib
import json
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from autograder import protocol, sandbox
from autograder.errors import SandboxError
from autograder.sandbox import Limits, Walls

DeathKind = Literal["timed out", "out of memory", "crashed"]
WORKER = Path(__file__).with_name("worker.py")
FILES = "/course/files"


class Died(Exception):
    """The worker is gone. `kind` is an outcome, the message says how it ended."""

    def __init__(self, kind: DeathKind, how: str) -> None:
        super().__init__(how)
        self.kind = kind


class Worker:
    """A started worker. `companions` are the public files of the exercise, importable inside."""

    def __init__(self, walls: Walls, limits: Limits, companions: Mapping[str, bytes]) -> None:
        self.limits = limits
        self.output = {"stdout": bytearray(), "stderr": bytearray()}
        self._printed = 0
        self._asked = 0.0
        self._received = bytearray()
        self._folder = tempfile.mkdtemp(prefix="autograder-") if walls.isolation == "none" else None
        self._process, self._to, self._from = self._start(walls, companions)
        self._waiter = selectors.DefaultSelector()
        assert self._process.stdout
        assert self._process.stderr
        for name, fd in (
            ("reply", self._from),
            ("stdout", self._process.stdout.fileno()),
            ("stderr", self._process.stderr.fileno()),
        ):
            os.set_blocking(fd, False)
            self._waiter.register(fd, selectors.EVENT_READ, name)
        os.set_blocking(self._to, False)

    def _start(
        self, walls: Walls, companions: Mapping[str, bytes]
    ) -> tuple[subprocess.Popen[bytes], int, int]:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        settings: dict[str, Any] = {
            "user": walls.user,
            "limits": self.limits.kernel(walls),
            "requests": theirs_in,
            "replies": theirs_out,
        }
        # -S, -s: no package of the environment runs code at start; -P: no folder of ours on the path
        python = [sandbox.python_inside(), "-P", "-S", "-s", "-B", "-X", "utf8"]
        streams: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        try:
            if self._folder is None:
                packages = sandbox.site_packages()
                settings["path"] = [*packages, FILES]
                prefix = os.path.realpath(sandbox.python_inside()).rsplit("/bin/", 1)[0]
                base = {} if prefix.startswith("/usr") else {prefix: prefix}
                files = {f"{FILES}/{name}": content for name, content in companions.items()}
                mounts = sandbox.Mounts(
                    {**base, **packages}, {}, {**files, "/course/worker.py": WORKER.read_bytes()}
                )
                process = sandbox.spawn(
                    walls,
                    [*python, "/course/worker.py", json.dumps(settings)],
                    mounts,
                    env=sandbox.environment("/tmp"),
                    scratch=self.limits.scratch,
                    pass_fds=(theirs_in, theirs_out),
                    **streams,
                )
            else:
                for name, content in companions.items():
                    Path(self._folder, name).write_bytes(content)
                settings["path"] = [*sandbox.site_packages().values(), self._folder]
                process = subprocess.Popen(
                    [*python, str(WORKER), json.dumps(settings)],
                    env=sandbox.environment(self._folder),
                    cwd=self._folder,
                    pass_fds=(theirs_in, theirs_out),
                    start_new_session=True,
                    **streams,
                )
        except BaseException:
            os.close(ours_out)
            os.close(ours_in)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        return process, ours_out, ours_in

    # -- requests --------------------------------------------------------------------------------------------

    def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Put one request and return {"value": ...} or {"error": ...}; raises Died."""
        nonce = secrets.token_hex(8)
        if self._received:
            raise self._end("crashed", "it answered before it was asked")
        message = protocol.encode({"id": nonce, "op": op, "cpu": self.limits.cpu, **fields})
        self._asked = time.monotonic()
        deadline = self._asked + self.limits.cpu * self.limits.wall_factor + 2
        try:
            return protocol.decode(self._exchange(message, deadline), nonce)
        except protocol.Garbled as error:
            raise self._end("crashed", f"it sent {error}") from None

    def _exchange(self, message: bytes, deadline: float) -> bytes:
        """Send all of `message` and return the body of the next frame, draining output meanwhile."""
        pending = memoryview(message)
        self._waiter.register(self._to, selectors.EVENT_WRITE, "request")
        try:
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._end("timed out", "it took too long")
                for key, _ in self._waiter.select(left):
                    if key.data == "request":
                        try:
                            pending = pending[os.write(self._to, pending) :]
                        except BrokenPipeError:
                            raise self._ended() from None
                        if not pending:
                            self._waiter.unregister(self._to)
                    elif not self._read(key.fd, key.data):
                        self._waiter.unregister(key.fd)
                        if key.data == "reply":
                            raise self._ended()
                body = protocol.take_frame(self._received, self.limits.reply)
                if body is not None:
                    return body
        finally:
            if pending and self._to >= 0:
                self._waiter.unregister(self._to)

    def _read(self, fd: int, name: str) -> bool:
        """Take what is there to read; False at the end of the pipe."""
        try:
            chunk = os.read(fd, 1 << 16)
        except BlockingIOError:
            return True
        if name == "reply":
            self._received += chunk
        else:
            self._printed += len(chunk)
            kept = self.output[name]
            kept += chunk[: self.limits.kept_output - len(kept)]
            if self._printed > self.limits.flood:
                raise self._end("crashed", f"it printed more than {self.limits.flood >> 20} MB")
        return bool(chunk)

    # -- the end ---------------------------------------------------------------------------------------------

    def _ended(self) -> Died:
        """How a worker ended that closed its pipe by itself."""
        try:
            status = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return self._end("crashed", "it closed its pipe")
        for name in ("stdout", "stderr"):  # its last words may lie in the pipe
            with contextlib.suppress(OSError):
                self.output[name] += os.read(getattr(self._process, name).fileno(), 4096)
        status = 128 - status if status < 0 else status  # bwrap reports a signal as 128 + its number
        # the kernel sends SIGXCPU, and SIGKILL to who ignores it; but a worker can kill itself at any time
        spent = time.monotonic() - self._asked >= self.limits.cpu
        if status == 128 + signal.SIGXCPU or (status == 128 + signal.SIGKILL and spent):
            return self._end("timed out", "it used up its processor time")
        if status > 128:
            return self._end("crashed", f"it was ended by signal {status - 128}")
        return self._end("crashed", f"it ended with status {status}")

    def _end(self, kind: DeathKind, how: str) -> Died:
        self.close()
        return Died(kind, how)

    def close(self) -> None:
        """End the process and all that it started; safe to call twice."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                if self._folder is None:
                    self._process.kill()  # bwrap dies, and its process namespace with it
                else:
                    os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._waiter.close()
        for fd in (self._to, self._from):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._to = self._from = -1
        for stream in (self._process.stdout, self._process.stderr):
            if stream:
                stream.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


# -- which walls stand ---------------------------------------------------------------------------------------


def find_walls(isolation: sandbox.Isolation) -> Walls:
    """Try the walls and return the best that stand; SandboxError says why there are none, and the way out."""
    if isolation == "none":
        return Walls("none")
    root = os.geteuid() == 0
    text = subprocess.run([sandbox.installed(), "--help"], capture_output=True, text=True).stdout
    plain = Walls("bwrap", no_nested="--disable-userns" in text)
    walls = Walls("bwrap", mapped=True) if root else plain
    reason = try_walls(walls)
    if not reason:
        return walls
    # root without a user map would still be root to /proc/sys inside: not good enough, but it tells why
    if root and not try_walls(plain):
        raise SandboxError(sandbox.UNREADABLE.format(prefix=sys.prefix))
    raise SandboxError(sandbox.BLOCKED.format(reason=reason))


def try_walls(walls: Walls) -> str:
    """Start a worker behind these walls and let it import NumPy; "" if it could, else the reason."""
    worker = Worker(walls, Limits(), {})
    try:
        reply = worker.request("cell", index=0, source="import numpy")
        return f"{reply['error']['type']}: {reply['error']['message']}" if "error" in reply else ""
    except Died as death:
        said = worker.output["stderr"].decode(errors="replace").strip().splitlines()
        return said[-1] if said else str(death)
    finally:
        worker.close()
