"""Draw the README's picture: a real run of `specdec generate --compare` in a terminal, as SVG.

Usage: .venv/bin/python tools/picture.py. It runs the command in a pseudo-terminal, keeps every character and
colour that a person would see, and writes book/images/generate.svg. The fonts are the reader's own: rich's
template would fetch one from the network, so that part of it is left out.
"""

import os
import pty
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "book" / "images" / "generate.svg"
COLUMNS = 92
PROMPT = "Write a Python class Point with x and y, and methods add, subtract and scale. Only code."
COMMAND = ["specdec", "generate", PROMPT, "--precision", "bf16", "--compare"]


def run_in_terminal(command: list[str]) -> str:
    """Run `command` with a terminal of COLUMNS columns as its output; return all that it wrote."""
    parent, child = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "FORCE_COLOR": "1"}
    process = subprocess.Popen(command, stdout=child, stderr=child, env=environment)
    os.close(child)
    written = b""
    while True:
        try:
            chunk = os.read(parent, 4096)
        except OSError:  # Linux: the other end is closed
            break
        if not chunk:
            break
        written += chunk
    os.close(parent)
    if process.wait():
        raise SystemExit(f"{' '.join(command)} failed:\n{written.decode()}")
    return written.decode().replace("\r\n", "\n")


def draw(command: list[str], shown: str) -> str:
    """Return the SVG of a terminal that shows the command line and what it printed."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    words = [f'"{word}"' if " " in word else word for word in command]
    console.print(Text(f"$ {' '.join(words)}", "bold"))
    console.print(Text.from_ansi(shown.rstrip()))
    svg = console.export_svg(title="specdec generate", theme=SVG_EXPORT_THEME, unique_id="generate")
    return re.sub(r"@font-face\s*{[^}]*}\s*", "", svg)


def main() -> int:
    command = [str(Path(sys.executable).parent / COMMAND[0]), *COMMAND[1:]]
    svg = draw(COMMAND, run_in_terminal(command))
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    partial = TARGET.with_suffix(".partial")
    partial.write_text(svg, encoding="utf-8")
    os.replace(partial, TARGET)
    print(f"{TARGET.relative_to(ROOT)}: {len(svg) / 1024:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
