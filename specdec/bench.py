"""Measuring the verifier, and finding what was measured before.

V(n) is the cost of one verifier pass over n new tokens in units of a pass over one. The speedup formulas take
it as a function (`theory.speedup.measured_cost`); here it is read off the clock. A page that runs without
torch or without the weights shows the committed result of the same measurement instead.

Imports without torch: a student's machine may have neither. Times are milliseconds.
"""

import json
import os
import platform
import random
import subprocess
import time
from collections.abc import Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from specdec.errors import SpecdecError
from specdec.files import write_json

if TYPE_CHECKING:
    from specdec.verifier import Verifier

RESULTS = Path("benchmarks") / "results"
WARM_UP = 2  # rounds that are run and not counted


def cost_curve(
    verifier: "Verifier",
    widths: Sequence[int] = (1, 2, 4, 8, 16, 32, 64),
    context: int = 256,
    repeats: int = 15,
    seed: int = 0,
) -> dict[str, Any]:
    """Time verifier passes over n new tokens behind `context` cached ones, for each n in `widths`.

    widths must rise from 1. Each round runs every width once, in shuffled order, so that a slow spell of the
    machine hits all of them alike; the median over the rounds is kept. Returns a dict that JSON can hold:
    widths [M], ms [M] medians, quartiles [M][2] in ms, V [M] = ms / ms of width 1, and what it was measured
    with.
    """
    import torch

    widths = list(widths)
    if widths[:1] != [1] or any(a >= b for a, b in pairwise(widths)):
        raise SpecdecError(f"widths must rise from 1, got {widths}")
    if context < 1 or repeats < 2:
        raise SpecdecError(f"context must be at least 1 and repeats at least 2, got {context} and {repeats}")
    total = context + widths[-1]
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(verifier.config.vocab_size, (1, total), generator=generator)
    cache = verifier.new_cache(capacity=total)
    verifier.forward(tokens[:, :context], cache, logits_from=-1)
    times: dict[int, list[float]] = {n: [] for n in widths}
    shuffle = random.Random(seed).shuffle
    for round_ in range(WARM_UP + repeats):
        order = widths.copy()
        shuffle(order)
        for n in order:
            start = time.perf_counter()
            verifier.forward(tokens[:, context : context + n], cache)
            elapsed = (time.perf_counter() - start) * 1000
            cache.rollback(context)
            if round_ >= WARM_UP:
                times[n].append(elapsed)
    ms = [median(times[n]) for n in widths]
    return {
        "widths": widths,
        "ms": [round(t, 3) for t in ms],
        "quartiles": [[round(q, 3) for q in quantiles(times[n], n=4)[::2]] for n in widths],
        "V": [round(t / ms[0], 4) for t in ms],
        "precision": verifier.precision,
        "context": context,
        "repeats": repeats,
        "seed": seed,
        "machine": machine(),
    }


def verifier_or_none(precision: str = "fp32") -> "Verifier | None":
    """The fetched verifier, or None after printing one sentence that says what is missing."""
    try:
        from specdec.verifier import Verifier

        return Verifier.load(precision=precision)
    except ImportError as error:
        print(
            f"The committed result is shown, because {error.name} is not installed here: "
            'in a clone of the course, `pip install -e ".[engine]"` brings it.'
        )
    except SpecdecError as error:
        print(f"The committed result is shown, because {error}.")
    return None


def committed(name: str) -> dict[str, Any]:
    """The result `benchmarks/results/<name>.json`, searched upwards from the working folder and this package.

    Raises SpecdecError where there is none.
    """
    file = found_above(RESULTS / f"{name}.json")
    if file is not None:
        return json.loads(file.read_text(encoding="utf-8"))
    raise SpecdecError(
        f"there is no {(RESULTS / name).as_posix()}.json in or above {Path.cwd()}: work inside a clone of "
        f"the course, or measure it with benchmarks/{name.replace('-', '_')}.py"
    )


def found_above(file: Path) -> Path | None:
    """`file`, a relative path, searched upwards from the working folder and from this package."""
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        for folder in (start, *start.parents):
            if (folder / file).is_file():
                return folder / file
    return None


def machine() -> dict[str, Any]:
    """What a measured time depends on: processor, cores this process may use, threads, versions."""
    described = {"cpu": _processor(), "cores": usable_cores(), "system": platform.platform(aliased=True)}
    described["python"] = platform.python_version()
    try:
        described["torch"] = version("torch")
        import torch

        described["threads"] = torch.get_num_threads()
    except (PackageNotFoundError, ImportError):
        described["torch"] = described["threads"] = None
    return described


def usable_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores this process may use: those it may run on, fewer where a container's quota allows less time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        allowed, period = quota.read_text().split()  # microseconds of processor time per period, or "max"
        return cores if allowed == "max" else max(1, min(cores, int(allowed) // int(period)))
    except (OSError, ValueError):
        return cores


def stamp(seed: int) -> dict[str, Any]:
    """Where a committed result comes from: machine, commit of the code that ran, date and seed."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", ".")
    return {
        "machine": machine(),
        "commit": (commit or "unknown") + ("+changes" if changed else ""),
        "date": date.today().isoformat(),
        "seed": seed,
    }


def write_result(name: str, result: dict[str, Any], folder: Path) -> Path:
    """Write `folder`/<name>.json atomically and return its path."""
    path = folder / f"{name}.json"
    write_json(path, result)
    return path


def _git(*arguments: str) -> str:
    """What git says about the checkout this package lies in; empty without git or outside a checkout."""
    command = ["git", "-C", str(Path(__file__).resolve().parent), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _processor() -> str:
    """The processor's name; Linux hides it in /proc, elsewhere Python knows it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
