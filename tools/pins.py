"""Write `constraints.txt` anew: one version per package, from the ranges in `pyproject.toml`.

The resolution is universal (Linux, macOS, Windows at once) with Python 3.11 as the floor. Where newer Pythons
would get a newer version, the one that runs on 3.11 is taken, so that everybody has the same. What torch pins
for its CUDA build is left out: torch itself asks for it, on the machines that want it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = """\
# The one set of pins, for Python 3.11 and newer. `make pins` writes it from the ranges in pyproject.toml.
# Left out on purpose: what torch itself pins for its CUDA build.
"""
TORCH = "torch==2.13.0"  # moved by hand: a newer one is a decision about gigabytes, not a refresh
CUDA = ("nvidia-", "cuda-", "triton")


def resolve() -> list[str]:
    """Return uv's universal resolution, one `name==version ; marker` a line."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "resolved.txt"
        fixed = Path(scratch) / "fixed.txt"
        fixed.write_text(TORCH + "\n")
        command = [sys.executable, "-m", "uv", "pip", "compile", "--universal", "--quiet", "--no-header"]
        command += ["--no-annotate", "--fork-strategy", "fewest", "--python-version", "3.11", "--all-extras"]
        command += ["--no-emit-package", "specdec", "--constraint", str(fixed), "--output-file", str(out)]
        subprocess.run([*command, str(ROOT / "pyproject.toml")], check=True)
        return out.read_text().splitlines()


def one_version_each(resolved: list[str]) -> dict[str, str]:
    """Return {package: pin}; of two versions the first, which uv lists for the older Python."""
    pins: dict[str, str] = {}
    for line in resolved:
        pin, _, marker = line.partition(";")
        name = pin.split("==")[0].strip()
        if not name or line.startswith(("#", *CUDA)) or marker.strip().endswith("== 'emscripten'"):
            continue
        pins.setdefault(name, pin.strip())
    return pins


def main() -> int:
    pins = one_version_each(resolve())
    target = ROOT / "constraints.txt"
    partial = target.with_suffix(".partial")
    partial.write_text(HEADER + "".join(f"{pins[name]}\n" for name in sorted(pins)))
    os.replace(partial, target)
    print(f"{len(pins)} pins written to {target.name}; run `make test` before you commit them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
