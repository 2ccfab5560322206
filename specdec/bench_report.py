"""The benchmark's result for eyes: tables in a terminal, a plot in a file. Nothing is computed here."""

from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from specdec.plotting import COLOURS, WIDTH, label_line, settings

STAGES = ("draft", "verify", "accept", "rollback", "rest")
HEIGHT = 0.34  # inches of a bar
MOST_SETS = 3  # that have columns of their own: a terminal has 80


def show(result: dict[str, Any], console: Console) -> None:
    """Print what `specdec bench decode` found."""
    machine = result["machine"]
    console.print(
        f"{machine['cpu']}, {result['threads']} threads, {len(result['prompt_list'])} prompts of "
        f"{result['prompts']}, {result['repeats']} runs each, up to {result['max_new_tokens']} new tokens\n",
        highlight=False,
    )
    for table in (speeds(result), rounds(result), ratios(result), costs(result)):
        if table.row_count:
            console.print(table, highlight=False)
            console.print()


def speeds(result: dict[str, Any]) -> Table:
    table = new_table(
        "tokens per second: median over prompts and its quartiles, all tokens over all seconds",
        ("method", "tokens/s", "quartiles", "total", "tau", "prefill ms"),
    )
    for name, method in result["methods"].items():
        speed = method["tokens_per_second"]["all"]
        table.add_row(
            name,
            number(speed["median"]),
            span(speed["quartiles"]),
            number(speed["total"]),
            number(method["tau"], 2),
            number(method["prefill_ms"]["median"], 0),
        )
    return table


def rounds(result: dict[str, Any]) -> Table:
    """Only of methods that can tell."""
    table = new_table("a round: milliseconds, and the share of each stage in %", ("method", "ms", *STAGES))
    for name, method in result["methods"].items():
        if parts := method.get("round"):
            table.add_row(name, number(parts["ms"]), *(number(100 * parts[stage]) for stage in STAGES))
    return table


def ratios(result: dict[str, Any]) -> Table:
    groups = [name for name in next(iter(result["methods"].values()))["tokens_per_second"] if name != "all"]
    groups = groups if 1 < len(groups) <= MOST_SETS else []
    table = new_table(
        "times as fast: median of the prompts' ratios (quartiles); texts that are token for token the same",
        ("method", "against", "all", *groups, "same"),
    )
    for found, agreed in zip(result["ratios"], result["agreement"], strict=True):
        table.add_row(
            found["method"],
            found["against"],
            f"{number(found['all']['median'], 2)} ({span(found['all']['quartiles'], 2)})",
            *(number(found[group]["median"], 2) for group in groups),
            "" if agreed["identical"] is None else f"{100 * agreed['identical']:.0f}%",
        )
    return table


def costs(result: dict[str, Any]) -> Table:
    widths = [1, 2, 4, 8, 9, 16, 32, 64]
    cost = result["cost"]
    table = new_table(
        f"V(n), one pass over n tokens behind {cost['context']}, in passes over one; c of the n-gram draft",
        ("", "V(1) ms", *(f"{n}" for n in widths[1:]), "c"),
    )
    for precision in (key for key in cost if key not in ("context", "repeats")):
        curve = cost[precision]
        v = dict(zip(curve["widths"], curve["V"], strict=True))
        c = result["c"].get(f"ngram-{precision}")
        table.add_row(
            precision,
            number(curve["ms"][0]),
            *(number(v.get(n), 2) for n in widths[1:]),
            "" if c is None else number(c["c"], 4),
        )
    return table


def new_table(title: str, columns: tuple[str, ...]) -> Table:
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "show_edge": False, "padding": (0, 0)}
    table = Table(title=title, title_justify="left", title_style="", **look)
    for column in columns:
        table.add_column(
            column, no_wrap=True, justify="left" if column in ("method", "against", "") else "right"
        )
    return table


def number(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def span(quartiles: list[float | None], digits: int = 1) -> str:
    return "" if quartiles[0] is None else f"{quartiles[0]:.{digits}f}-{quartiles[1]:.{digits}f}"


# -- the plot ----------------------------------------------------------------------------------------------


def draw(result: dict[str, Any], file: Path) -> None:
    """Speeds above, V(n) below, into a .png or .svg."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    methods = result["methods"]
    tall = HEIGHT * len(methods)
    look: Any = settings()  # typed by a literal of every key
    with plt.rc_context(look):
        figure, (above, below) = plt.subplots(
            2, 1, figsize=(WIDTH, tall + 4.6), height_ratios=[tall + 0.8, 3.0]
        )
        draw_speeds(above, methods)
        draw_costs(below, result["cost"])
        figure.savefig(file, dpi=200, metadata={"Date": None} if file.suffix == ".svg" else None)
        plt.close(figure)


def colour_of(method: str) -> str:
    """Ours plain is the verifier alone, ours with a draft what it accepted; peers are the reference."""
    return COLOURS[
        "verifier"
        if method.startswith("plain")
        else "accepted"
        if method.startswith("ngram")
        else "reference"
    ]


def draw_speeds(axes: Any, methods: dict[str, Any]) -> None:
    """A bar per method, its quartiles over prompts as a line, its number beside it."""
    names = list(methods)
    for place, name in enumerate(names):
        speed = methods[name]["tokens_per_second"]["all"]
        if speed["median"] is None:
            continue
        colour = colour_of(name)
        axes.barh(place, speed["median"], height=0.62, color=colour)
        axes.plot(speed["quartiles"], [place, place], color=COLOURS["rejected"], linewidth=2.2)
        end = max(speed["median"], speed["quartiles"][1])
        label_line(axes, end, place, f"{speed['median']:.0f}", colour)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.set_xlabel("tokens per second (line: quartiles)")


def draw_costs(axes: Any, cost: dict[str, Any]) -> None:
    """V(n) of each precision, labelled at its end; the textbook's constant 1 as reference."""
    colours = {"fp32": COLOURS["correction"], "bf16": COLOURS["verifier"], "int4": COLOURS["draft"]}
    for precision in (key for key in cost if key in colours):
        curve = cost[precision]
        axes.plot(curve["widths"], curve["V"], marker="o", color=colours[precision])
        label_line(axes, curve["widths"][-1], curve["V"][-1], precision, colours[precision])
    axes.axhline(1, color=COLOURS["reference"], linewidth=1.2, linestyle="--")
    axes.set_xscale("log", base=2)
    ticks = [1, 2, 4, 8, 16, 32, 64]
    axes.set_xticks(ticks, [str(n) for n in ticks])
    axes.set_xlabel("tokens n in one verifier pass")
    axes.set_ylabel("V(n), passes over one token")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.08)
