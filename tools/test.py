"""Run every test, after the set-up that is still missing: the weights and the built book.

`make test` and nothing else calls this. Arguments go to pytest (`make test ARGS="-k residual"`).
A check that needs a program which is not installed is not run; the run then ends with a list NOT RUN and how
to install it, and in CI (environment variable CI) such a list is a failure.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# marker -> (programs, any of which serves; the Debian package in apt.txt that brings it)
PROGRAMS = {
    "browser": (("chromium", "chromium-browser", "google-chrome"), "chromium"),
    "sandbox": (("bwrap",), "bubblewrap"),
}


def missing_programs() -> dict[str, str]:
    """Return {marker: Debian package} of every program that the marked tests need and this machine lacks."""
    return {
        marker: package
        for marker, (names, package) in PROGRAMS.items()
        if not any(shutil.which(name) for name in names)
    }


def main(arguments: list[str]) -> int:
    missing = missing_programs()
    # The tests of the book read the pages that a reader reads: build them first, incrementally.
    built = subprocess.run([sys.executable, str(ROOT / "tools" / "book.py")]).returncode
    if built:
        return built
    skip = " and ".join(f"not {marker}" for marker in missing)
    command = [sys.executable, "-m", "pytest", *(["-m", skip] if skip else []), *arguments]
    code = subprocess.run(command, cwd=ROOT).returncode
    if missing:
        print("\nNOT RUN, because a program is missing:", file=sys.stderr)
        for marker, package in missing.items():
            print(f"  tests marked `{marker}`: apt-get install {package}", file=sys.stderr)
        if os.environ.get("CI"):
            return code or 1
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
