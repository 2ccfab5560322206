"""`specdec bench`: options in, the benchmark's modules called in turn, a table, a file, a plot out.

`specdec bench` alone runs `specdec bench decode`. What is measured and how is in compete.py, what is worked
out of it in bench_summary.py, what is drawn in bench_report.py. Everything that can be refused is refused
before the first weight is read.
"""

import json
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from specdec.compete import Method, Row, compete, ours, part_of, resume, schedule
from specdec.errors import SpecdecError
from specdec.files import check_writable
from specdec.peers import METHODS as PEER_METHODS
from specdec.peers import build_peer, check_peer, describe_peer

if TYPE_CHECKING:
    from specdec.bench_prompts import Prompt
    from specdec.tokenizer import Tokenizer
    from specdec.verifier import Verifier

DRAFTS = ("plain", "ngram")
PRECISIONS = ("fp32", "bf16", "int4")
OURS = tuple(f"{draft}-{precision}" for precision in PRECISIONS for draft in DRAFTS)
DEFAULT = "plain-bf16,ngram-bf16,plain-int4,ngram-int4"
WIDTHS = (*range(1, 17), 24, 32, 48, 64)
CURVE = {"context": 256, "repeats": 15}


class DecodeByDefault(typer.core.TyperGroup):
    """A group whose options without a sub-command are those of `decode`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["decode", *args]
        return super().parse_args(ctx, args)


bench = typer.Typer(
    cls=DecodeByDefault,
    help="Measure this machine. Without a command: decode.",
    rich_markup_mode=None,
)


def at_least_one(value: int | None) -> int | None:
    if value is not None and value < 1:
        raise typer.BadParameter(f"{value} is below 1")
    return value


@bench.command()
def decode(
    methods: Annotated[str, typer.Option(help=f"Of {', '.join(OURS)}.")] = DEFAULT,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Another engine on the same weights: {' or '.join(PEER_METHODS)}. May be repeated.",
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Runs per prompt and method.", callback=at_least_one)] = 5,
    max_new_tokens: Annotated[
        int, typer.Option(help="Stop after so many tokens.", callback=at_least_one)
    ] = 128,
    prompt_dir: Annotated[
        Path | None,
        typer.Option(help="Folder with prompts, SET.jsonl; default: the course's own.", show_default=False),
    ] = None,
    sets: Annotated[
        str, typer.Option(help="Which sets, as in mt_bench,sum; default: all.", show_default=False)
    ] = "",
    per_set: Annotated[
        int | None,
        typer.Option(help="The first K prompts of each set; default: all.", callback=at_least_one),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(help="Threads of every engine; default: the usable cores.", callback=at_least_one),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the order of the runs.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Write the result here.")] = Path("bench-decode.json"),
    plot: Annotated[
        Path | None, typer.Option(help="Draw it into this .png or .svg.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON.")] = False,
) -> None:
    """Decode prompts by several methods in turn, greedily, one text at a time; compare speed and tokens.

    The rows lie beside the result in a .part.jsonl until all are there: after an interruption the same
    command goes on.
    """
    from specdec.bench_prompts import OWN, read_prompts
    from specdec.weights import FILE

    names, peers = chosen(methods, peer or [])
    check_out(out, plot)
    prompts = read_prompts(prompt_dir, [name.strip() for name in sets.split(",") if name.strip()], per_set)

    import torch

    from specdec.bench import machine, stamp, usable_cores
    from specdec.tokenizer import load_tokenizer

    threads = threads or usable_cores()
    torch.set_num_threads(threads)
    tokenizer = load_tokenizer()
    tokens = [tokenizer.chat(prompt.text) for prompt in prompts]
    check_lengths(prompts, tokens, max_new_tokens)
    settings = {
        "model": FILE,
        "methods": names,
        "peers": {name: describe_peer(name) for name in peers},
        "prompts": OWN.as_posix() if prompt_dir is None else prompt_dir.name,
        "chosen": [str(prompt) for prompt in prompts],
        "texts": sha256("\0".join(prompt.text for prompt in prompts).encode()).hexdigest()[:16],
        "max_new_tokens": max_new_tokens,
        "repeats": repeats,
        "threads": threads,
        "machine": machine()["cpu"],
        **{key: value for key, value in stamp(seed).items() if key in ("commit", "seed")},
    }
    part = part_of(out)
    rows = resume(part, settings)
    try:
        verifiers: dict[str, Verifier] = {}
        built = build(names, peers, threads, tokenizer, verifiers)
        torch.set_num_threads(threads)
        rows += measure(built, tokens, settings, part, rows)
        result = conclude(rows, built, prompts, tokens, settings, verifiers, seed)
    except KeyboardInterrupt:
        print(
            f"specdec: {part} keeps what was measured: the same command goes on from there.", file=sys.stderr
        )
        raise
    finish(result, out, plot, as_json)
    part.unlink()


# -- what can be refused -----------------------------------------------------------------------------------


def chosen(methods: str, peers: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our methods and the peers, each once; SpecdecError for one that is unknown or not installed."""
    names = list(dict.fromkeys(name.strip() for name in methods.split(",") if name.strip()))
    for name in names:
        if name not in OURS:
            raise SpecdecError(f"there is no method {name!r}: the methods are {', '.join(OURS)}")
    if not names:
        raise SpecdecError(f"--methods names none: the methods are {', '.join(OURS)}")
    for name in peers:
        check_peer(name)
    return names, list(dict.fromkeys(peers))


def check_out(out: Path, plot: Path | None) -> None:
    """Raise SpecdecError now if a file cannot be written, rather than when all is measured."""
    check_writable(out)
    if out.suffix != ".json":
        raise SpecdecError(f"--out must end in .json, got {out}")
    if plot is not None:
        check_writable(plot)
        if plot.suffix not in (".png", ".svg"):
            raise SpecdecError(f"--plot draws .png or .svg, got {plot}")


def check_lengths(prompts: "Sequence[Prompt]", tokens: Sequence[list[int]], max_new_tokens: int) -> None:
    """Raise SpecdecError for the first prompt that does not fit the context with its new tokens."""
    from specdec import weights
    from specdec.checkpoint import open_gguf

    context = open_gguf(weights.ensure())[0]["llama.context_length"]
    for prompt, ids in zip(prompts, tokens, strict=True):
        if len(ids) + max_new_tokens > context:
            raise SpecdecError(
                f"{prompt} has {len(ids)} tokens, which with {max_new_tokens} new ones exceed the verifier's "
                f"context of {context}: ask for fewer new tokens, or leave that prompt out"
            )


# -- measuring ---------------------------------------------------------------------------------------------


def build(
    names: Sequence[str],
    peers: Sequence[str],
    threads: int,
    tokenizer: "Tokenizer",
    verifiers: "dict[str, Verifier]",
) -> dict[str, Method]:
    """Load what the methods need; each precision's verifier once, which is left in `verifiers`."""
    from specdec import weights
    from specdec.drafts.ngram import NgramDraft
    from specdec.verifier import Verifier

    built: dict[str, Method] = {}
    for name in names:
        draft, precision = name.split("-")
        if precision not in verifiers:
            verifiers[precision] = Verifier.load(precision=precision)
        built[name] = ours(
            verifiers[precision], NgramDraft() if draft == "ngram" else None, tokenizer.eos_ids
        )
    for peer in peers:
        built |= build_peer(peer, weights.ensure(), threads, tokenizer.eos_ids)
    return built


def measure(
    built: dict[str, Method],
    tokens: Sequence[list[int]],
    settings: dict[str, Any],
    part: Path,
    rows: Sequence[Row],
) -> list[Row]:
    """Run what `rows` lacks, with a progress bar on a terminal."""
    done = {(row["prompt"], row["repeat"], row["method"]) for row in rows}
    turns = len(schedule(list(built), len(tokens), settings["repeats"], settings["seed"]))
    with progress("Decoding", turns, len(done)) as step:
        found = []
        for row in compete(
            built, tokens, settings["max_new_tokens"], settings["repeats"], settings["seed"], part, done
        ):
            step(f"{row['method']}, prompt {row['prompt'] + 1}")
            found.append(row)
    return found


class progress:
    """A bar on stderr where that is a terminal: `with progress(...) as step`, then `step(text)` per piece."""

    def __init__(self, what: str, total: int, done: int = 0) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        console = Console(stderr=True)
        self.bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self.task = self.bar.add_task(what, total=total, completed=done)
        self.what = what

    def __enter__(self) -> Callable[[str], None]:
        self.bar.start()
        return lambda text: self.bar.update(self.task, advance=1, description=f"{self.what}: {text}")

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()


def conclude(
    rows: Sequence[Row],
    built: dict[str, Method],
    prompts: "Sequence[Prompt]",
    tokens: Sequence[list[int]],
    settings: dict[str, Any],
    verifiers: "dict[str, Verifier]",
    seed: int,
) -> dict[str, Any]:
    """The result: settings and stamp, what the rows say, V(n) of each precision, and c."""
    from specdec.bench import cost_curve, stamp
    from specdec.bench_summary import draft_cost, summarise

    summary = summarise(rows, list(built), [prompt.set for prompt in prompts])
    curves = {}
    with progress("V(n)", len(verifiers)) as step:
        for precision, verifier in verifiers.items():
            curve = cost_curve(verifier, WIDTHS, CURVE["context"], CURVE["repeats"], seed)
            curves[precision] = {key: curve[key] for key in ("widths", "ms", "quartiles", "V")}
            step(precision)
    return {
        "what": "greedy decoding, one text at a time; tokens per second of the time behind the prefill",
        **{
            key: value
            for key, value in settings.items()
            if key not in ("machine", "commit", "seed", "chosen")
        },
        **stamp(seed),
        "prompt_list": [
            {"set": prompt.set, "id": prompt.id, "tokens": len(ids)}
            for prompt, ids in zip(prompts, tokens, strict=True)
        ],
        **summary,
        "cost": {**CURVE, **curves},
        "c": {
            name: draft_cost(summary["methods"][name], curves[name.split("-")[1]])
            for name in built
            if name in OURS and name.startswith("ngram")
        },
    }


def finish(result: dict[str, Any], out: Path, plot: Path | None, as_json: bool) -> None:
    """Write the result, then the plot, then print."""
    from specdec.bench import write_result
    from specdec.bench_report import draw, show

    written = write_result(out.stem, result, out.parent)
    if plot is not None:
        draw(result, plot)
    if as_json:
        print(json.dumps(result))
        return
    from rich.console import Console

    show(result, Console())
    print(f"\n{written}" + (f"\n{plot}" if plot is not None else ""))
