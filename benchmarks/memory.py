"""Peak memory of `specdec generate`: what the operating system counted for a process of its own.

    python benchmarks/memory.py [--tokens 64]

Per precision it runs three processes: one that imports the engine, one that also loads the verifier, and the
whole command; so the peak of the command says whether loading or decoding made it. The peak resident set
counts the weights' file too, as far as it is mapped. Writes benchmarks/results/memory.json.

This process imports no torch before its children have run: on Linux a child's count begins with what its
parent had.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

PROMPT = "Tell me a story about a fox and a lighthouse."
LOAD = "from specdec.verifier import Verifier; Verifier.load(precision={!r})"
ENGINE = "import specdec.decode, specdec.tokenizer, specdec.verifier"
LIMITS = {"bf16": 1200, "int4": 800}  # MB that the command must stay below
RUNS = 3  # of the command: what the allocator gives back differs from run to run
UNIT = 1 if sys.platform == "darwin" else 1024  # bytes of what the system reports


def peak(*arguments: str) -> float:
    """Peak resident set of `python` with these arguments, in MB (10^6 bytes)."""
    child = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise SystemExit(f"python {' '.join(arguments)} ended with status {code}")
    return round(usage.ru_maxrss * UNIT / 1e6, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the peak memory of specdec generate.")
    parser.add_argument("--tokens", type=int, default=64, help="new tokens")
    tokens = parser.parse_args().tokens

    found = {}
    for precision in LIMITS:
        command = ["-m", "specdec.cli", "generate", PROMPT, "--json", "--precision", precision]
        found[precision] = {
            "import": peak("-c", ENGINE),
            "load": peak("-c", f"{ENGINE}; {LOAD.format(precision)}"),
            "generate": [peak(*command, "--max-new-tokens", str(tokens)) for _ in range(RUNS)],
            "limit": LIMITS[precision],
        }
        print(precision, found[precision], flush=True)

    from specdec import weights
    from specdec.bench import stamp, write_result

    result = {
        "what": "peak resident set in MB of a process that imports, loads, or runs specdec generate",
        "model": weights.FILE,
        "prompt": PROMPT,
        "max_new_tokens": tokens,
        **stamp(seed=0),
        "peak_mb": found,
    }
    print(write_result("memory", result, Path(__file__).parent / "results"))


if __name__ == "__main__":
    main()
