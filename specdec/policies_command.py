"""`specdec bench policies`: each family's tree from what it gains on held-out prompts, into its head.

The candidates and the choice are policies.py, the measurement is that of the ladder (ladder_run.py).
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from specdec.bench_command import PRECISIONS, at_least_one, bench, check_out
from specdec.compete import part_of
from specdec.ladder_command import names_of, read_temperatures
from specdec.rungs import check_names, find_families

PROMPTS = 8
SHOWN = 3  # candidates of each family in the table: the best


@bench.command()
def policies(
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
    prompts: Annotated[int, typer.Option(help="Held-out prompts.", callback=at_least_one)] = PROMPTS,
    temperatures: Annotated[str, typer.Option(help="One or several.")] = "0,1",
    precision: Annotated[str, typer.Option(help=f"One or several of {', '.join(PRECISIONS)}.")] = "bf16",
    max_new_tokens: Annotated[
        int, typer.Option(help="Stop after so many tokens.", callback=at_least_one)
    ] = 64,
    threads: Annotated[
        int | None,
        typer.Option(help="Default: the usable cores.", callback=at_least_one, show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of every random draw.", min=0)] = 0,
    write: Annotated[
        bool, typer.Option("--write", help="Put the choices into the heads' config.json.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Write the result here.")] = Path("bench-policies.json"),
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON.")] = False,
) -> None:
    """Choose the length of each family's chain or the shape of its tree, on held-out prompts.

    Every candidate decodes the prompts in turn with plain decoding. After an interruption the same command
    goes on.
    """
    from specdec.bench_prompts import held_out
    from specdec.ladder_run import make_plan, run, settings_of
    from specdec.ladder_summary import summarise

    wanted, precisions = read_temperatures(temperatures), names_of(precision)
    check_names(precisions, PRECISIONS, "precision")
    found = find_families(names_of(families), heads)
    check_out(out, None)
    chosen_from = held_out(prompts, part=1)

    from specdec.policies import candidate_rungs, choose
    from specdec.policies import write as write_choice

    rungs = candidate_rungs(found)
    at = {(p, t): rungs for p in precisions for t in wanted}
    plan = make_plan(at, chosen_from, max_new_tokens, seed, halved=False)
    settings = settings_of(plan, found, "held-out", threads)
    part = part_of(out)
    rows = summarise(run(plan, found, settings, part), plan)
    choices = choose(rows)
    written = []
    if write:
        for family in found:
            own = [row for row in choices if row["family"] == family.name]
            if file := write_choice(family, own, rungs):
                written.append(str(file))
    finish(conclude(settings, seed, rows, choices), out, as_json, list(dict.fromkeys(written)))
    part.unlink()


def conclude(
    settings: Mapping[str, Any],
    seed: int,
    rows: Sequence[Mapping[str, Any]],
    choices: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The result: settings and stamp, every candidate's row, and the choices."""
    from specdec.bench import stamp

    named = ("family", "precision", "temperature", "policy", "bound", "speedup")
    return {
        "what": "candidates in turn with plain decoding on held-out prompts; chosen by the highest bound",
        **{key: value for key, value in settings.items() if key not in ("cpu", "commit", "seed", "chosen")},
        **stamp(seed),
        "chosen": [{key: row[key] for key in named} for row in choices],
        "rows": list(rows),
    }


def finish(result: dict[str, Any], out: Path, as_json: bool, written: Sequence[str]) -> None:
    """Write the result, then print."""
    from specdec.bench import write_result

    file = write_result(out.stem, result, out.parent)
    if as_json:
        print(json.dumps(result))
        return
    from rich.console import Console

    from specdec.bench_report import new_table, number

    console = Console()
    for precision, temperature in dict.fromkeys((r["precision"], r["temperature"]) for r in result["rows"]):
        table = new_table(
            f"{precision}, temperature {temperature:g}: the best {SHOWN} of each family",
            ("method", "", "nodes", "tau", "D", "V(m+1)", "speedup", "bound"),
        )
        own = [r for r in result["rows"] if (r["precision"], r["temperature"]) == (precision, temperature)]
        for family in dict.fromkeys(row["family"] for row in own):
            ranked = sorted((row for row in own if row["family"] == family), key=lambda r: -r["bound"])
            for row in ranked[:SHOWN]:
                digits = {"tau": 2, "D": 3, "verify": 2, "speedup": 2, "bound": 3}
                cells = (number(row[key], n) for key, n in digits.items())
                table.add_row(family, row["policy"], str(row["nodes"]), *cells)
        console.print(table, highlight=False)
        console.print()
    print("\n".join([str(file), *written]))
