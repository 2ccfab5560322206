"""The command `autograder`: grade submissions, make the release, make the students' bundle.

Bad input ends with one sentence on stderr and status 2, Ctrl-C with 130; `release --check` ends with 1 if the
release is not what the sources would give. A traceback is a bug of ours.
"""

import errno
import sys
from typing import Any

USER_ERROR = 2
INTERRUPTED = 130


def main(args: list[str] | None = None) -> int:
    """Run one command line (default: this process's own) and return its exit status."""
    from specdec.errors import SpecdecError

    try:
        status = run(sys.argv[1:] if args is None else args)
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED)
    except SpecdecError as error:
        return complain(str(error))
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        if error.errno == errno.ENOSPC:
            return complain(f"no space left on the device{where}: free some and run the command again")
        return complain(f"{error.strerror or error}{where}")
    return complain("interrupted", INTERRUPTED) if status == INTERRUPTED else status


def run(args: list[str]) -> int:
    """Let typer parse and run; what it cannot parse becomes a sentence."""
    import typer

    from autograder.commands import app

    usage_error: Any = typer.BadParameter.__mro__[1]  # public in every version of typer; its module is not
    try:
        result = app(args, prog_name="autograder", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except usage_error as error:
        command = error.ctx.command_path if error.ctx else "autograder"
        return complain(f"{error.format_message().rstrip('.')}; see '{command} --help'")
    return result if isinstance(result, int) else 0


def complain(sentence: str, status: int = USER_ERROR) -> int:
    """One line on stderr."""
    print(f"autograder: {' '.join(sentence.split()).rstrip('.')}.", file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
