"""V(n) of the fetched verifier: milliseconds of one pass over n new tokens, in fp32 and bf16.

    python benchmarks/verify_cost.py [--repeats 25] [--context 256] [--seed 0]

Writes benchmarks/results/verify-cost.json, which the book shows where no verifier can run. Let nothing else
run meanwhile.
"""

import argparse
from pathlib import Path

from specdec import weights
from specdec.bench import cost_curve, stamp, write_result
from specdec.verifier import PRECISIONS, Verifier

WIDTHS = [*range(1, 17), 24, 32, 48, 64]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure V(n) of the verifier.")
    parser.add_argument("--repeats", type=int, default=25, help="counted rounds")
    parser.add_argument("--context", type=int, default=256, help="cached tokens")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    curves = {}
    for precision in PRECISIONS:
        verifier = Verifier.load(precision=precision)
        curve = cost_curve(verifier, WIDTHS, options.context, options.repeats, options.seed)
        curves[precision] = {key: curve[key] for key in ("widths", "ms", "quartiles", "V")}
        for n, ms, v in zip(curve["widths"], curve["ms"], curve["V"], strict=True):
            print(f"{precision}  n = {n:2}  {ms:7.1f} ms  V = {v:.2f}")
    result = {
        "what": "one verifier pass over n new tokens behind `context` cached ones; ms: median of the rounds",
        "model": weights.FILE,
        "context": options.context,
        "repeats": options.repeats,
        **stamp(options.seed),
        **curves,
    }
    print(write_result("verify-cost", result, Path(__file__).parent / "results"))


if __name__ == "__main__":
    main()
