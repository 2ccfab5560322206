"""The walls around a student's process: bubblewrap namespaces, another user, and limits of the kernel.

Inside there is a read-only system, Python and its packages, a private /tmp and /proc, no network, no home
folder and nothing of this repository. Two ways of being nobody inside:

- started by root, the sandbox gets a user map of its own, and the process becomes a user id that owns nothing
  outside (so that the limit on processes holds: the kernel does not apply it to root);
- started by anybody else, it keeps that user's rights to read what is mounted, under the id of nobody.

`--isolation none` runs the same worker without walls, limits on memory and time aside. What runs inside is
not this module's business.
"""

import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from autograder.errors import SandboxError

Isolation = Literal["bwrap", "none"]

NOBODY = 65534  # inside
OUTSIDE = 64001  # the same user as the kernel sees it, when root starts the sandbox: it owns no file
SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
PASSWD = b"student:x:65534:65534::/tmp:/bin/false\n"

NOT_INSTALLED = (
    "bubblewrap is not installed, so student code cannot be fenced in: install it (apt-get install "
    "bubblewrap), or say --isolation none to run it without walls."
)
BLOCKED = (
    "bubblewrap is installed but blocked by the kernel or the container ({reason}): allow user namespaces "
    "(sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu, --privileged or "
    "--security-opt seccomp=unconfined for Docker), or say --isolation none to run code without walls."
)
UNREADABLE = (
    "bubblewrap works, but student code runs as another user, who cannot read Python and its packages: make "
    "them readable (chmod -R a+rX {prefix}), or grade as a user other than root."
)


@dataclass(frozen=True)
class Limits:
    """What one worker may use. Seconds are of processor time; bytes otherwise."""

    cpu: float = 20.0  # per cell and per call
    wall_factor: float = 10.0  # the back-stop for code that sleeps: cpu times this, of wall time
    cpu_total: int = 300
    memory: int = 1 << 30
    processes: int = 64
    file: int = 16 << 20
    open_files: int = 128
    scratch: int = 64 << 20
    reply: int = 8 << 20
    kept_output: int = 64 << 10
    flood: int = 256 << 20  # of output, after which the worker is ended

    def kernel(self, walls: "Walls") -> dict[str, int]:
        """The limits that the kernel enforces, by the names of the resource module."""
        limits = {
            "RLIMIT_AS": self.memory,
            "RLIMIT_CPU": self.cpu_total,
            "RLIMIT_FSIZE": self.file,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_CORE": 0,
        }
        if walls.counts_processes:
            limits["RLIMIT_NPROC"] = self.processes
        return limits


@dataclass(frozen=True)
class Walls:
    """Which walls stand on this machine."""

    isolation: Isolation
    mapped: bool = False  # a user map of its own, written by root
    no_nested: bool = False  # bubblewrap can forbid further user namespaces

    @property
    def user(self) -> int | None:
        """The user that the process inside must become by itself."""
        return NOBODY if self.mapped else None

    @property
    def counts_processes(self) -> bool:
        """Whether a limit on processes counts this sandbox's only (per user namespace since Linux 5.14)."""
        version = tuple(
            int(part) for part in platform.release().split("-")[0].split(".")[:2] if part.isdigit()
        )
        return self.isolation == "bwrap" and version >= (5, 14)

    @property
    def sentence(self) -> str:
        if self.isolation == "none":
            return "No walls: student code ran with the rights of the user who graded."
        who = "another user" if self.mapped else "the grading user without any right to write"
        return f"bubblewrap: no network, read-only system, private /tmp and /proc, limits, run as {who}."


@dataclass(frozen=True)
class Mounts:
    """What the inside sees besides the system: {inside: outside} for folders, {inside: content} for files."""

    read_only: Mapping[str, str] = field(default_factory=dict)
    writable: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


def python_inside() -> str:
    """The interpreter that runs inside: the one behind the virtual environment, which is in the checkout."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (
        Path(sys.base_prefix, "bin", name),
        Path(getattr(sys, "_base_executable", sys.executable)),
    ):
        if candidate.exists():
            return str(candidate)
    raise SandboxError(
        f"No interpreter {name} under {sys.base_prefix}: make the environment anew (make clean)."
    )


def site_packages() -> dict[str, str]:
    """{inside: outside} of the folders with third-party packages."""
    numpy = find_spec("numpy")
    where_numpy_is = [str(Path(numpy.origin).parent.parent)] if numpy and numpy.origin else []
    folders = dict.fromkeys(
        [*where_numpy_is, *(sysconfig.get_paths()[key] for key in ("purelib", "platlib"))]
    )
    return {f"/course/site-packages-{i}": folder for i, folder in enumerate(folders)}


def environment(home: str) -> dict[str, str]:
    """The environment variables inside: nothing of the grader's own, and the same on every machine."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "USER": "student",
        "LOGNAME": "student",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": f"{home}/matplotlib",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        **threads,
    }


# -- bubblewrap ----------------------------------------------------------------------------------------------


def installed() -> str:
    """The path of bwrap."""
    found = shutil.which("bwrap")
    if not found:
        raise SandboxError(NOT_INSTALLED)
    return found


def command(
    walls: Walls, mounts: Mounts, scratch: int, fds: Mapping[str, int], env: Mapping[str, str]
) -> list[str]:
    """The bwrap command line, up to the program to run.

    fds: {option or inside path: file descriptor} for the files of `mounts` and for the two options of a user
    map.
    """
    args = [installed(), "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    args += ["--hostname", "sandbox", "--cap-drop", "ALL", "--clearenv"]
    if walls.mapped:
        args += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        args += ["--userns-block-fd", str(fds["block"]), "--info-fd", str(fds["info"])]
    else:
        args += ["--uid", str(NOBODY), "--gid", str(NOBODY)]
        args += ["--disable-userns"] if walls.no_nested else []
    for name, value in env.items():
        args += ["--setenv", name, value]
    args += ["--ro-bind", "/usr", "/usr"]
    for path in SYSTEM_LINKS:
        if os.path.islink(path):
            args += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            args += ["--ro-bind", path, path]
    args += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", str(scratch), "--tmpfs", "/tmp"]
    args += _folders([*SYSTEM_FILES, *mounts.read_only, *mounts.writable, *mounts.files])
    for path in SYSTEM_FILES:
        args += ["--ro-bind-try", path, path]
    for inside, outside in mounts.read_only.items():
        args += ["--ro-bind", outside, inside]
    for inside, outside in mounts.writable.items():
        args += ["--bind", outside, inside]
    for inside in mounts.files:
        args += ["--perms", "0444", "--ro-bind-data", str(fds[inside]), inside]
    return [*args, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]


def _folders(inside: Sequence[str]) -> list[str]:
    """Options that make the parents of the mount points: bwrap alone would copy the outside ones' modes."""
    parents: dict[str, None] = {}
    for path in inside:
        for parent in reversed(Path(path).parents):
            if str(parent) not in ("/", "/tmp", "/dev", "/proc") and not parent.is_relative_to("/usr"):
                parents[str(parent)] = None
    return [word for parent in parents for word in ("--perms", "0755", "--dir", parent)]


def _data(content: bytes) -> int:
    """A file descriptor that reads as `content`."""
    fd = os.memfd_create("course")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _map_user(info: int, block: int) -> None:
    """Write the user map of a sandbox that bwrap has just made, then let it go on."""
    told = b""
    while chunk := os.read(info, 4096):
        told += chunk
        with contextlib.suppress(ValueError):
            pid = json.loads(told)["child-pid"]
            for name in ("uid_map", "gid_map"):
                Path(f"/proc/{pid}/{name}").write_text(f"0 0 1\n{NOBODY} {OUTSIDE} 1\n")
            os.write(block, b"\n")
            return


def spawn(
    walls: Walls,
    argv: Sequence[str],
    mounts: Mounts,
    *,
    env: Mapping[str, str],
    scratch: int = 64 << 20,
    pass_fds: Sequence[int] = (),
    **streams: Any,
) -> subprocess.Popen[bytes]:
    """Start argv inside bubblewrap. `streams` go to Popen (stdin, stdout, stderr)."""
    fds = {inside: _data(content) for inside, content in {**mounts.files, "/etc/passwd": PASSWD}.items()}
    ours: dict[str, int] = {}
    if walls.mapped:
        ours["info"], fds["info"] = os.pipe()
        fds["block"], ours["block"] = os.pipe()
    try:
        with_files = Mounts(mounts.read_only, mounts.writable, {**mounts.files, "/etc/passwd": PASSWD})
        line = [*command(walls, with_files, scratch, fds, env), *argv]
        process = subprocess.Popen(line, pass_fds=[*pass_fds, *fds.values()], **streams)
        for name in [name for name in ("info", "block") if name in fds]:
            os.close(fds.pop(name))
        if walls.mapped:
            try:
                _map_user(ours["info"], ours["block"])
            except OSError:
                process.kill()
        return process
    finally:
        for fd in [*fds.values(), *ours.values()]:
            os.close(fd)
