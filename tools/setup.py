"""Make `.venv` in the checkout: pinned dependencies, this project in editable mode. Standard library only.

Run by `make` with the machine's own Python whenever `pyproject.toml` or `constraints.txt` is newer than
`.venv/.ready`. The steps are safe to repeat; `.ready` is written last, so an interrupted run starts again.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"


def main() -> int:
    if sys.version_info < (3, 11):
        found = ".".join(map(str, sys.version_info[:3]))
        print(
            f"Python 3.11 or newer is needed, this is {found}: run `make PYTHON=python3.12 ...`",
            file=sys.stderr,
        )
        return 2
    if not (VENV / "bin" / "python").exists():
        try:
            venv.create(VENV, with_pip=True)
        except (subprocess.CalledProcessError, OSError) as error:
            print(
                f"could not make {VENV}: {error}; on Debian and Ubuntu `apt-get install python3-venv` first",
                file=sys.stderr,
            )
            return 2
    python = str(VENV / "bin" / "python")
    pins = ["--constraint", str(ROOT / "constraints.txt")]
    steps = [
        # pip and the build tools first, at their pins, so that nothing is built by an unpinned copy of them.
        ["install", "--quiet", *pins, "--upgrade", "pip", "setuptools", "wheel"],
        ["install", "--no-build-isolation", *pins, "--editable", f"{ROOT}[dev]"],
    ]
    for step in steps:
        command = [python, "-m", "pip", "--disable-pip-version-check", *step]
        print("+ pip", *step, flush=True)
        code = subprocess.run(command, env={**os.environ, "PIP_NO_INPUT": "1"}).returncode
        if code:
            print("the set-up stopped at the step above; run the same make target again", file=sys.stderr)
            return 2
    install_output_filter()
    (VENV / ".ready").touch()
    return 0


def install_output_filter() -> None:
    """Let this clone strip outputs from notebooks as they are staged (see .gitattributes)."""
    if not (ROOT / ".git").exists():
        return
    # cell ids stay: nbgrader and jupytext find a cell by them
    for key, value in {"clean": ".venv/bin/nbstripout --keep-id", "smudge": "cat"}.items():
        subprocess.run(["git", "-C", str(ROOT), "config", f"filter.nbstripout.{key}", value], check=False)


if __name__ == "__main__":
    sys.exit(main())
