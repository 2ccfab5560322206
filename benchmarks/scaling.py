"""Data scaling: EAGLE-1 and EAGLE-3 on 1/8, 1/4, 1/2 and all of the texts, one budget of updates for each.

    python benchmarks/scaling.py --data DATA --features FEATURES --runs RUNS [--updates 1500] [--plot FILE]

Each point is one `specdec train` with a folder of its own in RUNS, so the script is continued by repeating
it: points that are done are read, the one that was interrupted goes on from its checkpoint. Nothing stops
early. Writes benchmarks/results/scaling-cpu.json after every point.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from specdec.bench import stamp, write_result
from specdec.errors import SpecdecError
from specdec.train.features import Features
from specdec.train.scaling import points, row, save_plot

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how acceptance grows with the training text.")
    parser.add_argument("--data", type=Path, required=True, help="token shards")
    parser.add_argument("--features", type=Path, required=True, help="their features")
    parser.add_argument("--runs", type=Path, required=True, help="where the heads and checkpoints go")
    parser.add_argument("--updates", type=int, default=1500, help="of every point")
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--draft-vocabulary", type=int, default=4096)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for scaling-cpu.json")
    parser.add_argument("--plot", type=Path, help="draw the curve into this .png or .svg")
    options = parser.parse_args()
    if options.updates < 1:
        parser.error(f"--updates is {options.updates}, but must be at least 1")
    try:
        measure(options)
    except SpecdecError as error:
        parser.exit(2, f"scaling: {error}.\n")


def measure(options: argparse.Namespace) -> None:
    stored = Features(options.data, options.features)
    trainings = points(len(stored))
    rows = []
    for name, texts in trainings:
        found = trained(options, name, texts)
        if found["data"] != stored.shards[0].run:
            raise SpecdecError(
                f"{options.runs} holds trainings on other data: choose another folder with --runs"
            )
        rows.append(row(found))
        result = {
            "what": "held-out acceptance by drafted token after `updates` updates on the first `texts` texts",
            "updates": options.updates,
            "data": stored.shards[0].run,
            "features_precision": stored.manifest["precision"],
            **stamp(options.seed),
            "complete": len(rows) == len(trainings),
            "rows": rows,
        }
        options.results.mkdir(parents=True, exist_ok=True)
        path = write_result("scaling-cpu", result, options.results)
        alphas = " ".join(f"{alpha:.3f}" for alpha in rows[-1]["sampled"])
        print(f"{name:7} {texts:6} texts  {rows[-1]['answer_tokens']:8,} answer tokens  {alphas}", flush=True)
    print(path)
    if options.plot:
        save_plot(result, options.plot)


def trained(options: argparse.Namespace, name: str, texts: int) -> dict:
    """The facts of one training, which is run or continued if it is not done."""
    folder = options.runs / f"{name}-{texts}"
    numbers = {
        "updates": options.updates,
        "batch_tokens": options.batch_tokens,
        "learning_rate": options.learning_rate,
        "draft_vocabulary": options.draft_vocabulary,
        "evaluate_every": max(1, options.updates // 8),
        "patience": options.updates,  # never stop early: the budget is the same for all
        "seed": options.seed,
        "texts": texts,
    }
    if (found := facts(folder)) is None or any(found["config"][key] != numbers[key] for key in numbers):
        command = [sys.executable, "-m", "specdec.cli", "train", name, "--data", str(options.data)]
        command += ["--features", str(options.features), "--out", str(folder)]
        for key, value in numbers.items():
            command += [f"--{key.replace('_', '-')}", str(value)]
        if status := subprocess.run(command).returncode:
            raise SystemExit(status)  # the command has said why
        found = facts(folder)
        assert found is not None
    return found


def facts(folder: Path) -> dict | None:
    try:
        return json.loads((folder / "training.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
