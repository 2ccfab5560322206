"""`specdec bench ladder`: options in, every family of drafts measured in turn with plain decoding, rows out.

Which rungs there are is rungs.py, what is measured and how ladder.py and ladder_run.py, what is worked out of
it ladder_summary.py, what is shown ladder_report.py. Everything that can be refused is refused before the
first weight is read.
"""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec.bench_command import PRECISIONS, at_least_one, bench, check_out
from specdec.compete import part_of
from specdec.errors import SpecdecError
from specdec.rungs import check_names, find_families, in_words, rungs

if TYPE_CHECKING:
    from specdec.bench_prompts import Prompt
    from specdec.ladder import Line, Plan

PER_SET = 16


@bench.command()
def ladder(
    families: Annotated[
        str,
        typer.Option(
            help="Of ngram, vanilla, medusa, eagle1, eagle2, eagle3 and the names of other heads; default: "
            "all with a head.",
            show_default=False,
        ),
    ] = "",
    heads: Annotated[
        Path | None,
        typer.Option(help="Folder with one head per sub-folder; default: models/.", show_default=False),
    ] = None,
    prompt_dir: Annotated[
        Path | None,
        typer.Option(help="Folder with prompts, SET.jsonl; default: held-out ones.", show_default=False),
    ] = None,
    sets: Annotated[
        str,
        typer.Option(
            help="Which sets; default: mt_bench,humaneval,gsm8k,alpaca,sum, or all of other folders.",
            show_default=False,
        ),
    ] = "",
    per_set: Annotated[
        int,
        typer.Option(
            help="K prompts of each set, evenly spaced, at temperature 0; half as many above.",
            callback=at_least_one,
        ),
    ] = PER_SET,
    temperatures: Annotated[str, typer.Option(help="One or several.")] = "0,1",
    precision: Annotated[str, typer.Option(help=f"One or several of {', '.join(PRECISIONS)}.")] = "bf16",
    chain: Annotated[
        int, typer.Option(help="Drafts of the chain that every head is measured with.", callback=at_least_one)
    ] = 5,
    max_new_tokens: Annotated[
        int, typer.Option(help="Stop after so many tokens.", callback=at_least_one)
    ] = 128,
    threads: Annotated[
        int | None,
        typer.Option(help="Default: the usable cores.", callback=at_least_one, show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of every random draw.", min=0)] = 0,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Also decode greedily in fp32, and compare with plain decoding position by position.",
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="Write the result here.")] = Path("bench-ladder.json"),
    plot: Annotated[
        Path | None, typer.Option(help="Draw it into this .png or .svg.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON.")] = False,
) -> None:
    """Measure every family of drafts, with its policy and a chain, in turn with plain decoding.

    The runs lie beside the result in a .part.jsonl until all are there: after an interruption the same
    command goes on.
    """
    from specdec.bench_prompts import HELD_OUT, SOURCE
    from specdec.ladder_run import make_plan, run, settings_of

    wanted, precisions = read_temperatures(temperatures), names_of(precision)
    check_names(precisions, PRECISIONS, "precision")
    if check and 0 not in wanted:
        raise SpecdecError("--check compares greedy texts: keep 0 among --temperatures, or leave --check out")
    found = find_families(names_of(families), heads)
    check_out(out, plot)
    prompts = choose_prompts(prompt_dir, names_of(sets), per_set)
    if prompt_dir is None:
        print(
            "specdec: without --prompt-dir the rows are of held-out prompts of the training generators; the "
            f"public sets are {SOURCE}.",
            file=sys.stderr,
        )

    at = {(p, t): rungs(found, p, t, chain) for p in precisions for t in wanted}
    if check:
        at.setdefault(("fp32", 0.0), rungs(found, "fp32", 0.0, chain))
    plan = make_plan(at, prompts, max_new_tokens, seed, check)
    settings = settings_of(
        plan, found, HELD_OUT if prompt_dir is None else prompt_dir.resolve().name, threads
    )
    part = part_of(out)
    lines = run(plan, found, settings, part)
    finish(conclude(plan, settings, lines), out, plot, as_json)
    part.unlink()


# -- what can be refused -----------------------------------------------------------------------------------


def names_of(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def read_temperatures(text: str) -> list[float]:
    """The temperatures of `--temperature`, each once."""
    try:
        found = [float(name) for name in names_of(text)]
    except ValueError:
        found = []
    if not found or any(not math.isfinite(t) or t < 0 for t in found):
        raise SpecdecError(f"--temperatures are {text!r}, but must be numbers of at least 0, as in 0,1")
    return list(dict.fromkeys(found))


def choose_prompts(folder: Path | None, sets: Sequence[str], per_set: int) -> "list[Prompt]":
    """Evenly spaced prompts of public sets, or held-out ones; SpecdecError as in bench_prompts.py."""
    from specdec.bench_prompts import HELD_OUT, evenly, held_out, public_prompts

    if folder is not None:
        return evenly(public_prompts(folder, sets), per_set)
    check_names(sets or [HELD_OUT], [HELD_OUT], "set without --prompt-dir")
    return held_out(per_set)


# -- the result --------------------------------------------------------------------------------------------


def conclude(plan: "Plan", settings: dict[str, Any], lines: "Sequence[Line]") -> dict[str, Any]:
    """The result: settings and stamp, the rungs' policies, and the rows."""
    from specdec.bench import stamp
    from specdec.drafts.store import policy_to_json
    from specdec.ladder_summary import summarise

    return {
        "what": "every family of drafts in turn with plain decoding, one text at a time, chat template; "
        "speedup: all tokens over all seconds behind the prefill; alphas are conditional, on a chain",
        **{key: value for key, value in settings.items() if key not in ("cpu", "commit", "seed", "chosen")},
        **stamp(plan.seed),
        "sets": list(dict.fromkeys(prompt.set for prompt in plan.prompts)),
        "prompt_list": [
            {"set": prompt.set, "id": prompt.id, "tokens": len(ids)}
            for prompt, ids in zip(plan.prompts, plan.tokens, strict=True)
        ],
        "policies": {
            in_words(rung.policy): policy_to_json(rung.policy)
            for found in plan.rungs.values()
            for rung in found
        },
        "rows": summarise(lines, plan),
    }


def finish(result: dict[str, Any], out: Path, plot: Path | None, as_json: bool) -> None:
    """Write the result, then the plot, then print."""
    from specdec.bench import write_result
    from specdec.ladder_report import draw, show

    written = write_result(out.stem, result, out.parent)
    if plot is not None:
        draw(result, plot)
    if as_json:
        print(json.dumps(result))
        return
    from rich.console import Console

    show(result, Console())
    print(f"{written}" + (f"\n{plot}" if plot is not None else ""))
