"""A plan of the ladder, made and carried out: prompts to tokens, the part file, progress, interruption.

`specdec bench ladder` and `specdec bench policies` both do so. The measurements are ladder.py.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec.bench_command import check_lengths, progress
from specdec.compete import resume
from specdec.ladder import CURVE, Line, Plan, Turn, climb, key_of
from specdec.rungs import Family, Rung, fingerprint

if TYPE_CHECKING:
    from specdec.bench_prompts import Prompt


def make_plan(
    rungs: Mapping[tuple[str, float], Sequence[Rung]],
    prompts: Sequence[Prompt],
    max_new_tokens: int,
    seed: int = 0,
    check: bool = False,
    halved: bool = True,
) -> Plan:
    """What is to be measured. rungs: by precision and temperature.

    halved: above temperature 0 only every other prompt of each set. Raises SpecdecError for a prompt that
    does not fit the verifier's context.
    """
    from specdec.tokenizer import load_tokenizer

    temperatures = list(dict.fromkeys(t for _, t in rungs))
    sets: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        sets.setdefault(prompt.set, []).append(prompt)
    half = {prompt for own in sets.values() for prompt in own[::2]} if halved else set(prompts)
    if 0 not in temperatures:
        prompts = [prompt for prompt in prompts if prompt in half]
    tokenizer = load_tokenizer()
    tokens = [tokenizer.chat(prompt.text) for prompt in prompts]
    check_lengths(prompts, tokens, max_new_tokens)
    wanted = [[t for t in temperatures if t == 0 or prompt in half] for prompt in prompts]
    return Plan(prompts, tokens, wanted, rungs, max_new_tokens, tokenizer.eos_ids, seed, check)


def settings_of(plan: Plan, families: Sequence[Family], prompts: str, threads: int | None) -> dict[str, Any]:
    """What must be the same for an interrupted measurement to go on. prompts: where they come from."""
    from specdec.bench import machine, stamp, usable_cores
    from specdec.weights import FILE

    origin = stamp(plan.seed)
    return {
        "model": FILE,
        "families": {family.name: fingerprint(family) for family in families},
        "rungs": {
            f"{precision}, temperature {temperature:g}": [rung.name for rung in found]
            for (precision, temperature), found in plan.rungs.items()
        },
        "prompts": prompts,
        "chosen": [str(prompt) for prompt in plan.prompts],
        "texts": sha256("\0".join(prompt.text for prompt in plan.prompts).encode()).hexdigest()[:16],
        "temperatures": list(dict.fromkeys(t for _, t in plan.rungs)),
        "max_new_tokens": plan.max_new_tokens,
        "check": plan.check,
        "threads": threads or usable_cores(),
        "cpu": machine()["cpu"],
        "commit": origin["commit"],
        "seed": plan.seed,
    }


def run(plan: Plan, families: Sequence[Family], settings: Mapping[str, Any], part: Path) -> list[Line]:
    """All lines of the plan: those that `part` holds from an earlier run, and the others, measured now.

    Raises SpecdecError where the part file belongs to other settings.
    """
    lines = resume(part, dict(settings))
    try:
        return lines + measure(plan, families, part, lines, settings["threads"])
    except KeyboardInterrupt:
        print(
            f"specdec: {part} keeps what was measured: the same command goes on from there.", file=sys.stderr
        )
        raise


def measure(
    plan: Plan, families: Sequence[Family], part: Path, before: Sequence[Line], threads: int
) -> list[Line]:
    """Run what `before` lacks, one precision after the other, with a progress bar on a terminal."""
    import torch

    from specdec.drafts.choose import load_draft
    from specdec.verifier import Verifier

    done = {key_of(line) for line in before if line["kind"] != "check"}
    precisions = list(dict.fromkeys(p for p, _ in plan.rungs))
    turns = [turn for precision in precisions for turn in plan.turns(precision)]
    left = [turn for turn in turns if turn not in done]
    found: list[Line] = []
    start = time.monotonic()
    with progress("Measuring", len(turns), len(turns) - len(left)) as step:

        def told(turn: Turn) -> None:
            step(f"{plan.prompts[turn.prompt].set}, {turn.method}")
            behind = left.index(turn)
            if turn.method == CURVE and behind and not sys.stderr.isatty():
                minutes = (time.monotonic() - start) / behind * (len(left) - behind) / 60
                print(
                    f"{turn.precision}, {plan.prompts[turn.prompt]}: {len(turns) - len(left) + behind} of "
                    f"{len(turns)} runs, about {minutes:.0f} min left",
                    file=sys.stderr,
                )

        torch.set_num_threads(threads)
        for precision in precisions:
            # Comparisons come behind a prompt's runs: those of the last one may be missing.
            compares = precision == "fp32" or plan.check
            if not compares and all(turn.precision != precision for turn in left):
                continue
            verifier = Verifier.load(precision=precision)
            drafts = {family.head: load_draft(family.draft, verifier) for family in families}
            found += climb(plan, precision, verifier, drafts, part, before, told)
    return found
