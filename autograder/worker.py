"""The process in which a student's code runs: executes cells, then answers calls, all with plain data.

It runs inside the walls of sandbox.py, alone: this file is copied in, the autograder and its checks are not.
So it imports the standard library only, and it knows no expected value. Nothing it sends is trusted by the
parent.

Protocol (protocol.py is the parent's end): frames of a 4-byte big-endian length and that many bytes of JSON,
on two pipes of their own. Requests: {"id", "op": "cell", "source", "index"}, {"id", "op": "call", "name",
"args"} and {"id", "op": "get", "name"}, each with "cpu", the seconds of processor time it may use. The reply
repeats the id and holds either "value" or "error": {"kind": "raised" | "missing" | "memory" | "not plain",
"type", "message", "where"}.
"""

import ast
import inspect
import json
import os
import re
import resource
import struct
import sys
import types
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 20
MAX_ITEMS = 500_000
# Cell magics whose body is still Python; the body of any other (%%bash, %%html) is not.
PYTHON_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")
SHELL_OR_MAGIC = re.compile(r"^(\s*)(?:[\w, ]+=\s*)?[%!].*$|^(\s*)\?{1,2}[\w.]+$|^(\s*)[\w.]+\?{1,2}$")


class NotPlain(Exception):
    """A value that cannot cross as plain data."""


# -- plain data ----------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return value as None, bool, int, float, str, and lists and string-keyed dicts of these.

    Arrays and tensors become nested lists, NumPy scalars, fractions and decimals become numbers. Raises
    NotPlain for anything else, for more than MAX_ITEMS items and for nesting deeper than MAX_DEPTH.
    """
    return _plain(value, 0, [MAX_ITEMS])


def _plain(value: Any, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0 or depth > MAX_DEPTH:
        raise NotPlain("the value is too large or too deeply nested")
    if hasattr(value, "tolist") and not isinstance(value, type):
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        if abs(value) >= 2**63:
            raise NotPlain("a whole number does not fit in 64 bits")
        return int(value)
    if isinstance(value, (list, tuple, range)):
        return [_plain(item, depth + 1, left) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise NotPlain("the keys of a dict must be strings")
        return {str(key): _plain(item, depth + 1, left) for key, item in value.items()}
    if hasattr(type(value), "__float__"):
        return float(value)
    raise NotPlain(f"a {type(value).__name__} is not plain data")


# -- cells ---------------------------------------------------------------------------------------------------


def run_cell(source: str, index: int, names: dict[str, Any]) -> None:
    """Execute one cell as IPython would, minus what IPython adds: magics and shell lines are left out."""
    code = compile_cell(source, f"<cell {index}>")
    if code.co_flags & inspect.CO_COROUTINE:
        import asyncio

        # eval of such a code object gives a coroutine that reads and writes `names`
        asyncio.run(eval(code, names))
    else:
        exec(code, names)


def compile_cell(source: str, name: str) -> types.CodeType:
    """Compile a cell, without its magics if it does not compile with them."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        return compile(source, name, "exec", flags=flags, dont_inherit=True)
    except SyntaxError:
        return compile(without_magics(source), name, "exec", flags=flags, dont_inherit=True)


def without_magics(source: str) -> str:
    """Replace IPython's magics, shell escapes and help lines by `pass`, line for line."""
    lines = source.splitlines()
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    if lines and lines[first].startswith("%%"):
        if not lines[first].startswith(PYTHON_MAGICS):
            return ""
        lines[first] = ""
    return "\n".join(
        SHELL_OR_MAGIC.sub(lambda m: (m[1] or m[2] or m[3] or "") + "pass", line) for line in lines
    )


def new_names() -> dict[str, Any]:
    """A fresh __main__ with the two names that a notebook has without importing them."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    module.__dict__["display"] = lambda *things, **options: None
    module.__dict__["get_ipython"] = _Quiet
    return module.__dict__


class _Quiet:
    """Stands for IPython's shell: every method exists and does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **options: None


# -- requests ------------------------------------------------------------------------------------------------


def answer(request: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """Carry out one request; whatever the student's code raises becomes an error reply."""
    try:
        if request["op"] == "cell":
            run_cell(request["source"], request["index"], names)
            return {"value": None}
        if request["name"] not in names:
            return {"error": {"kind": "missing", "type": "NameError", "message": "", "where": []}}
        value = names[request["name"]]
        return {"value": plain(value(*request["args"]) if request["op"] == "call" else value)}
    except BaseException as error:  # SystemExit and KeyboardInterrupt end a cell, not the worker
        return {"error": describe(error)}


def describe(error: BaseException) -> dict[str, Any]:
    """What happened, in plain data: the kind, the type's name, the message and the functions on the way."""
    kinds = {MemoryError: "memory", NotPlain: "not plain"}
    where, trace = [], error.__traceback__
    while trace:
        where.append(trace.tb_frame.f_code.co_name[:80])
        trace = trace.tb_next
    try:
        message = str(error)[:500]
    except Exception:
        message = ""
    kind = next((name for base, name in kinds.items() if isinstance(error, base)), "raised")
    return {"kind": kind, "type": type(error).__name__[:80], "message": message, "where": where[-50:]}


def allow_cpu(seconds: float, total: int) -> None:
    """Let this process use `seconds` more of processor time before the kernel ends it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(usage.ru_utime + usage.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (min(soft, total), total))


def serve(requests: int, replies: int, cpu_total: int) -> None:
    """Answer requests from one pipe on the other until the parent closes it."""
    names = new_names()
    with os.fdopen(requests, "rb") as source, os.fdopen(replies, "wb") as target:
        while len(head := source.read(4)) == 4:
            request = json.loads(source.read(struct.unpack(">I", head)[0]))
            allow_cpu(request["cpu"], cpu_total)
            reply = answer(request, names)
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:  # a student may have closed or replaced it
                    continue
            body = json.dumps({"id": request["id"], **reply}).encode()
            target.write(struct.pack(">I", len(body)) + body)
            target.flush()


# -- start ---------------------------------------------------------------------------------------------------


def enter(settings: dict[str, Any]) -> None:
    """Give up the rights that the walls needed and take the limits on, before any code of a student is read.

    settings: "user" (uid and gid to become, or None), and "limits": {resource name: value}.
    """
    if settings["user"] is not None:
        os.setgroups([])
        os.setresgid(*[settings["user"]] * 3)
        os.setresuid(*[settings["user"]] * 3)
    for name, value in settings["limits"].items():
        _, hard = resource.getrlimit(getattr(resource, name))
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(getattr(resource, name), (value, value))


def main() -> None:
    settings = json.loads(sys.argv[1])
    enter(settings)
    sys.argv[:] = [""]
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    sys.path += settings["path"]
    serve(settings["requests"], settings["replies"], settings["limits"]["RLIMIT_CPU"])


if __name__ == "__main__":
    main()
