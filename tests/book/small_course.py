"""A small course in a folder of its own, for tests that build it or break it.

It is a copy of the real `specdec`, extension, tools and settings with two short notebooks as pages, so that a
build takes seconds. PYTHONPATH lets the copy of `specdec` win over the installed one.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "book" / "_ext"), str(ROOT / "tools")]

HEADER = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3 (ipykernel)
  language: python
  name: python3
---

"""
TOC = """format: jb-book
root: book/index
chapters:
  - file: book/first
  - file: book/second
"""
# Each run of a page leaves a line in the log, so a test can count executions.
CELL = """# {title}

```{{code-cell}} ipython3
import os
from pathlib import Path

with Path(os.environ["RUNS"]).open("a") as log:
    print("{title}", os.getpid(), file=log)
{code}
```
"""
FIRST = """import specdec.theory.speedup as speedup

print("library:", Path(speedup.__file__).as_posix())
print("tokens:", float(speedup.expected_tokens(0.5, 3)))"""
SECOND = """import time

time.sleep(float(os.environ.get("PAUSE", 0)))
print("second page")"""


@dataclass
class Course:
    """A copy of the course in `root`, and the environment in which its tools run."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.root,
            env={**self.environment, **extra},
            capture_output=True,
            text=True,
            timeout=300,
        )

    def jupyter_book(self) -> subprocess.CompletedProcess[str]:
        """A bare incremental build, without tools/book.py."""
        return self.run(
            sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", ".", "-W"
        )

    def make_book(self, **extra: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "tools/book.py", **extra)

    def page(self, name: str) -> str:
        return (self.root / "_build" / "html" / "book" / f"{name}.html").read_text(encoding="utf-8")

    def executions(self) -> list[str]:
        """The titles of the pages executed so far, in order."""
        runs = Path(self.environment["RUNS"])
        return [line.split()[0] for line in runs.read_text().splitlines()] if runs.exists() else []

    def edit(self, name: str, change: Callable[[str], str]) -> None:
        path = self.root / name
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
