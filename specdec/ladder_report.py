"""The ladder for eyes: tables in a terminal, a plot in a file, the plot in words. It computes nothing."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from specdec.bench_report import new_table, number
from specdec.ladder_summary import MEAN
from specdec.plotting import COLOURS, INK, PALETTE, WIDTH, label_line, settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = dict[str, Any]

COLOUR_OF = {
    "ngram": PALETTE["grey"],
    "vanilla": PALETTE["orange"],
    "medusa": PALETTE["purple"],
    "eagle1": PALETTE["sky"],
    "eagle2": PALETTE["blue"],
    "eagle3": PALETTE["vermilion"],
}
OTHERS = (PALETTE["green"],)  # heads that are no family: ablations
HEIGHT = 0.42  # inches of a rung
DEPTHS = 5  # of the alphas in the table
TRIED = 30  # drafts at a depth that a point of the plot is worth
APART = 0.055  # of the axis: labels at the ends of lines are moved until they are so far from each other


def groups(result: dict[str, Any]) -> list[tuple[str, float]]:
    """(precision, temperature) of the rows, in their order."""
    return list(dict.fromkeys((row["precision"], row["temperature"]) for row in result["rows"]))


def overall(result: dict[str, Any], precision: str, temperature: float) -> list[Row]:
    """One row per rung: the mean over the sets, or the only set's."""
    own = [
        row for row in result["rows"] if (row["precision"], row["temperature"]) == (precision, temperature)
    ]
    return [row for row in own if row["prompt_set"] == MEAN] or own


# -- the terminal ------------------------------------------------------------------------------------------


def show(result: dict[str, Any], console: Console) -> None:
    """Print what `specdec bench ladder` found."""
    console.print(
        f"{result['machine']['cpu']}, {result['threads']} threads, {len(result['prompt_list'])} prompts "
        f"({', '.join(result['sets'])}), up to {result['max_new_tokens']} new tokens\n",
        highlight=False,
    )
    for precision, temperature in groups(result):
        rows = overall(result, precision, temperature)
        where = f"{precision}, temperature {temperature:g}"
        table = new_table(
            f"{where}: mean over the sets; plain {rows[0]['plain_tokens_per_second']:.1f} tokens/s",
            ("method", "", "tau", "D", "V(m+1)", "speedup", "bound", "share"),
        )
        for row in rows:
            table.add_row(
                row["family"],
                row["policy"],
                number(row["tau"], 2),
                number(row["D"], 3),
                number(row["verify"], 2),
                number(row["speedup"], 2),
                number(row["bound"], 2),
                number(row["share"], 2),
            )
        console.print(table, highlight=False)
        console.print()
        for table in (by_set(result, precision, temperature), alphas(rows, where)):
            console.print(table, highlight=False)
            console.print()
        for line in equality(rows, where):
            console.print(line, highlight=False)


def by_set(result: dict[str, Any], precision: str, temperature: float) -> Any:
    """tau and speedup of every rung on every set."""
    table = new_table("tau / speedup on each set", ("method", "", *result["sets"]))
    for rung in overall(result, precision, temperature):
        cells = [
            f"{row['tau']:.2f}/{row['speedup']:.2f}"
            for row in result["rows"]
            if row["prompt_set"] != MEAN
            and all(row[key] == rung[key] for key in ("family", "policy", "precision", "temperature"))
        ]
        table.add_row(rung["family"], rung["policy"], *cells)
    return table


def alphas(rows: list[Row], where: str) -> Any:
    """Acceptance on a chain, once per head."""
    table = new_table(
        "alpha on a chain, by depth; a: one for all depths",
        ("method", "", *(str(depth + 1) for depth in range(DEPTHS)), "a"),
    )
    for row in chains(rows):
        found = [number(value, 2) for value in row["alpha_by_depth"][:DEPTHS]]
        cells = found + [""] * (DEPTHS - len(found))
        table.add_row(row["family"], row["policy"], *cells, number(row["alpha"], 2))
    return table


def chains(rows: list[Row]) -> list[Row]:
    """The rungs on which the heads' alphas were counted."""
    return [row for row in rows if row["policy"] == row["alpha_policy"]]


def equality(rows: list[Row], where: str) -> list[str]:
    """Sentences on greedy outputs against plain ones."""
    rows = [row for row in rows if "identical" in row]
    if not rows:
        return []
    prompts = sum(row["prompts"] for row in rows)
    same = round(sum(row["identical"] * row["prompts"] for row in rows))
    line = f"{where}: {same} of {prompts} texts are those of plain decoding, token for token"
    if "near_ties" in rows[0]:
        ties = [tie for row in rows for tie in row["near_ties"]]
        line += f"; they part at {len(ties)} near-ties (best logits within 0.001)" if ties else ""
    if "agreement" in rows[0]:
        tokens = sum(row["tokens"] for row in rows)
        picked = sum(row["agreement"] * row["tokens"] for row in rows) / tokens
        line += f"; a pass over one token picks {100 * picked:.2f}% of all emitted tokens"
    return [line + "\n"]


# -- the plot ----------------------------------------------------------------------------------------------


def draw(result: dict[str, Any], file: Path) -> None:
    """Speedup and tau per rung above, alpha by depth below, one precision after the other's first."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    precision = groups(result)[0][0]
    greedy = overall(result, *groups(result)[0])
    sampled = [overall(result, *group) for group in groups(result)[1:] if group[0] == precision]
    rungs = [row for row in greedy if row["own"]]
    tall = HEIGHT * len(rungs) * (1 + bool(sampled))
    look: Any = settings()  # typed by a literal of every key
    with plt.rc_context(look):
        figure, (above, below) = plt.subplots(
            2, 1, figsize=(WIDTH, tall + 4.8), height_ratios=[tall + 0.6, 3.2]
        )
        draw_speedups(above, [rungs, *([row for row in rows if row["own"]] for rows in sampled[:1])])
        draw_alphas(below, chains(greedy))
        words = describe(result)
        metadata = (
            {"Date": None, "Title": "The ladder", "Description": words}
            if file.suffix == ".svg"
            else {"Title": "The ladder", "Description": words}
        )
        figure.savefig(file, dpi=200, metadata=metadata)
        plt.close(figure)


def colour_of(family: str) -> str:
    return COLOUR_OF.get(family, OTHERS[0])


def draw_speedups(axes: "Axes", by_temperature: list[list[Row]]) -> None:
    """A bar per family and temperature, what its passes allow as a tick, and tau in words beside it."""
    names = [row["family"] for row in by_temperature[0]]
    count = len(by_temperature)
    thick = 0.76 / count
    for which, rows in enumerate(by_temperature):
        for row in rows:
            if row["family"] not in names:
                continue
            place = names.index(row["family"]) + (which - (count - 1) / 2) * thick
            colour = colour_of(row["family"])
            axes.barh(place, row["speedup"], height=0.9 * thick, color=colour, alpha=1 if which == 0 else 0.6)
            axes.plot(
                [row["bound"]] * 2,
                [place - 0.4 * thick, place + 0.4 * thick],
                color=INK,
                linewidth=2.2,
            )
            heat = f"T = {row['temperature']:g}: " if count > 1 else ""
            text = f"{heat}{row['speedup']:.2f}×, tau {row['tau']:.2f}"
            end = max(
                row["speedup"], row["bound"], 1
            )  # beyond the line of plain decoding, which would cross it
            label_line(axes, end, place, text, colour, fontsize=10.5)
    axes.axvline(1, color=COLOURS["reference"], linewidth=1.2, linestyle="--")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlim(
        left=0, right=1.6 * max(max(r["speedup"], r["bound"], 1) for rows in by_temperature for r in rows)
    )
    axes.set_xlabel("speedup over plain decoding; tick: what the passes allow")


def draw_alphas(axes: "Axes", rows: list[Row]) -> None:
    """A line per head, its name at its end."""
    ends = []
    for row in rows:
        alphas = enough(row)
        if not alphas:
            continue
        colour = colour_of(row["family"])
        axes.plot(range(1, len(alphas) + 1), alphas, marker="o", color=colour)
        ends.append((len(alphas), alphas[-1], row["family"], colour))
    top = max((max(enough(row), default=0.0) for row in rows), default=1.0)
    axes.set_ylim(0, max(0.1, 1.1 * top))
    for (x, _, family, colour), y in zip(ends, spaced([e[1] for e in ends], APART * 1.1 * top), strict=True):
        label_line(axes, x, y, family, colour)
    deepest = max((x for x, *_ in ends), default=1)
    axes.set_xticks(range(1, deepest + 1))
    axes.set_xlim(0.7, deepest + 0.25 * max(deepest, 3))
    axes.set_xlabel("depth of the drafted token on a chain")
    axes.set_ylabel("alpha, given all before")


def enough(row: Row) -> list[float]:
    """alpha by depth, down to where so few drafts were tried that it says little."""
    return [a for a, n in zip(row["alpha_by_depth"], row["tried_by_depth"], strict=True) if n >= TRIED]


def spaced(values: list[float], least: float) -> list[float]:
    """The values moved as little as need be so that no two are nearer than `least`; their order stays."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    placed: list[float] = []
    for i in order:
        placed.append(max(values[i], placed[-1] + least) if placed else values[i])
    shift = sum(placed) - sum(values)
    placed = [p - shift / len(placed) for p in placed] if placed else []
    found = list(values)
    for i, place in zip(order, placed, strict=True):
        found[i] = place
    return found


def describe(result: dict[str, Any]) -> str:
    """The plot in words, for those who cannot see it."""
    precision, temperature = groups(result)[0]
    rows = overall(result, precision, temperature)
    speeds = "; ".join(
        f"{row['family']} {row['speedup']:.2f} times as fast with tau {row['tau']:.2f}"
        for row in rows
        if row["own"]
    )
    falls = "; ".join(
        f"{row['family']} from {enough(row)[0]:.2f} to {enough(row)[-1]:.2f}"
        for row in chains(rows)
        if enough(row)
    )
    return (
        f"Above, a bar per family of drafts: its speedup over plain decoding at temperature {temperature:g} "
        f"in {precision}, mean over {', '.join(result['sets'])}: {speeds}. Below, a line per head: "
        f"acceptance by depth on a chain: {falls}."
    )
