"""`make check`: format, lint, types, drift between sources and generated notebooks, committed outputs.

Every check runs, whatever the ones before it said; the exit status is 1 if any of them failed. Links inside
the book are checked by its build, where every warning is an error, and by the tests that open the pages.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

COMMANDS = {
    "format": [BIN / "ruff", "format", "--check", "."],
    "lint": [BIN / "ruff", "check", "."],
    "types": [BIN / "mypy"],
    "chapters in notebooks/ match book/": [sys.executable, "tools/sync.py", "--check"],
    "exercises in notebooks/ match solutions/": [BIN / "autograder", "release", "--check"],
    "links": [sys.executable, "tools/book.py"],
}


def notebooks_with_outputs() -> list[str]:
    """Return the committed notebooks that carry an output or an execution count."""
    listed = subprocess.run(
        ["git", "ls-files", "*.ipynb"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = []
    for name in listed.stdout.splitlines():
        cells = json.loads((ROOT / name).read_text(encoding="utf-8"))["cells"]
        if any(cell.get("outputs") or cell.get("execution_count") for cell in cells):
            found.append(name)
    return found


def main() -> int:
    failed = []
    for name, command in COMMANDS.items():
        print(f"== {name}", flush=True)
        if subprocess.run([str(part) for part in command], cwd=ROOT).returncode:
            failed.append(name)
    print("== no outputs in committed notebooks", flush=True)
    dirty = notebooks_with_outputs()
    if dirty:
        print(f"these carry outputs: {', '.join(dirty)}; strip them with `.venv/bin/nbstripout FILE`")
        failed.append("outputs")
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
