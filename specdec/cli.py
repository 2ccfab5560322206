"""The command `specdec`: what leaves a command, whatever happens inside it.

A command ends in one of four ways: it succeeds (status 0); the user can put something right (one sentence on
stderr, status 2); the user pressed Ctrl-C (130); or whoever read our output left (141, as a Unix tool killed
by SIGPIPE). A traceback is a bug of ours, never an answer to bad input. What the commands do is in
commands.py, which is imported inside `main` so that Ctrl-C during the imports ends the same way.
"""

import errno
import os
import signal
import sys
from types import FrameType
from typing import Any, TextIO

USER_ERROR = 2
INTERRUPTED = 130
PIPE_CLOSED = 141
IMPORT_MACHINERY = "<frozen importlib._bootstrap>"
ENGINE_PACKAGES = {"torch", "gguf", "tokenizers", "safetensors", "jinja2"}


class Interrupts:
    """Ctrl-C, while `with` it: raises KeyboardInterrupt as Python does, except inside an import.

    There libraries lose the exception, or answer it with one of their own; and nothing has been begun that
    would have to be tidied up. So the process ends on the spot.
    """

    def __enter__(self) -> "Interrupts":
        self.before = signal.getsignal(signal.SIGINT)
        # Where Python does not raise KeyboardInterrupt itself (a job in the background), neither do we.
        if self.before is signal.default_int_handler:
            signal.signal(signal.SIGINT, self.press)
        return self

    def __exit__(self, *exception: object) -> None:
        if self.before is signal.default_int_handler:
            signal.signal(signal.SIGINT, self.before)

    def press(self, number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_filename == IMPORT_MACHINERY:
                os._exit(interrupted())
            frame = frame.f_back
        raise KeyboardInterrupt


def main(args: list[str] | None = None) -> int:
    """Run one command line (default: this process's own) and return its exit status."""
    with Interrupts():
        try:
            status = run(sys.argv[1:] if args is None else args)
            if sys.stdout is not None:  # closed by the shell: then print is silent, and so are we
                sys.stdout.flush()
            return status
        except KeyboardInterrupt:
            return interrupted()
        except BrokenPipeError:
            silence(sys.stdout)
            return PIPE_CLOSED
        except (ValueError, OSError, MemoryError, ModuleNotFoundError) as error:
            sentence = explain(error)
            if sentence is None:
                raise
            silence(sys.stdout)
            return complain(sentence)


def run(args: list[str]) -> int:
    """Let typer parse and run; turn what it raises or returns into a status or a sentence."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a "?", not a failure after minutes of work.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    import typer

    from specdec.commands import app

    # The base class has moved between versions of typer; this one is public in all of them.
    usage_error: Any = typer.BadParameter.__mro__[1]
    try:
        result = app(args, prog_name="specdec", standalone_mode=False)
    except typer.Abort:
        return interrupted()
    except SystemExit:
        raise BrokenPipeError from None  # typer's answer to a reader that left; it exits in no other case
    except usage_error as error:
        command = error.ctx.command_path if error.ctx else "specdec"
        message = error.format_message().rstrip(".")
        return complain(f"{message}; see '{command} --help'")
    if result == INTERRUPTED:  # typer answers Ctrl-C with a status of its own
        return interrupted()
    return result if isinstance(result, int) else 0


def explain(error: Exception) -> str | None:
    """The sentence for an error that a user can do something about; None for one that is ours."""
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").split(".")[0]
        if package not in ENGINE_PACKAGES:
            return None
        return (
            f"this command needs the package {package}: install the engine with pip install 'specdec[engine]'"
        )
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        if error.errno == errno.ENOSPC:
            return f"no space left on the device{where}: free some and run the command again"
        return f"{error.strerror or error}{where}"
    if isinstance(error, MemoryError):
        return "not enough memory: use a shorter prompt or fewer new tokens"
    return str(error)


def interrupted() -> int:
    complain("interrupted")
    return INTERRUPTED


def complain(sentence: str) -> int:
    """Print one line on stderr, if anyone can read it, and return the status of a user error."""
    try:
        print(f"specdec: {' '.join(sentence.split()).rstrip('.')}.", file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)
    return USER_ERROR


def silence(stream: TextIO | None) -> None:
    """Send what `stream` still holds to nowhere: Python flushes it at exit and would complain once more."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
