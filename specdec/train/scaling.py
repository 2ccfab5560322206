"""Data scaling: a family trained on 1/8, 1/4, 1/2 and all of the texts, with one budget of updates.

The EAGLE-3 paper's claim is that acceptance keeps rising with the text where EAGLE-1's flattens (Li et al.
2025, arXiv:2503.01840). Every point here is judged on the same held-out texts after the same number of
updates, so that more text means less repetition and not more training. The trainings are the command's own;
`points` says which there are, and `row` reads what came of one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specdec.errors import SpecdecError
from specdec.plotting import PALETTE, label_line
from specdec.train.batches import HELD_OUT

FAMILIES = ("eagle1", "eagle3")
SHARES = (8, 4, 2, 1)  # of the training texts: an eighth, a quarter, a half, all
COLOURS = {"eagle1": PALETTE["purple"], "eagle3": PALETTE["green"]}
NAMES = {"eagle1": "EAGLE-1", "eagle3": "EAGLE-3"}


def points(stored: int) -> list[tuple[str, int]]:
    """The trainings, smallest first: family and number of texts, of `stored` texts held-out ones included.

    Raises SpecdecError when there are too few to take an eighth of.
    """
    training = stored - stored // HELD_OUT
    if stored < HELD_OUT or training < max(SHARES):
        raise SpecdecError(f"there are {stored} texts, but a scaling curve needs {HELD_OUT} at least")
    return [(name, training // share) for share in SHARES for name in FAMILIES]


def row(found: dict[str, Any]) -> dict[str, Any]:
    """One point of the curve from the facts of its training (card.py)."""
    best = found["best"]
    return {
        "family": found["config"]["family"],
        "texts": found["texts"],
        "answer_tokens": found["answer_tokens"],
        "answer_tokens_seen": found["answer_tokens_seen"],
        "updates": found["updates"],
        "best_update": best["update"],
        "sampled": best["sampled"],
        "greedy": best["greedy"],
        "promise": best["promise"],
        "seconds": found["seconds"],
    }


def draw_scaling(axes: Any, rows: list[dict[str, Any]], depth: int = 1) -> None:
    """Held-out acceptance of drafted token `depth` against the text trained on, a line per family.

    Raises SpecdecError when the rows were not evaluated to that depth.
    """
    measured = min((len(row["sampled"]) for row in rows), default=0)
    if not 1 <= depth <= measured:
        raise SpecdecError(f"acceptance was measured for tokens 1 to {measured}, not for token {depth}")
    ticks = sorted({row["answer_tokens"] for row in rows})
    for name in FAMILIES:
        line = sorted(
            (row["answer_tokens"], row["sampled"][depth - 1]) for row in rows if row["family"] == name
        )
        if line:
            tokens, alphas = zip(*line, strict=True)
            axes.plot(tokens, alphas, marker="o", color=COLOURS[name])
            label_line(axes, tokens[-1], alphas[-1], NAMES[name], COLOURS[name])
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tokens / 1000:.0f}k" for tokens in ticks])
    axes.minorticks_off()
    axes.set_xlabel("answer tokens in the training text")
    axes.set_ylabel(f"held-out alpha of drafted token {depth}")
    axes.set_xlim(right=max(ticks) * 1.6)


def save_plot(result: dict[str, Any], file: Path) -> None:
    """The first and the last drafted token, one above the other, into a .png or .svg."""
    import matplotlib

    from specdec.plotting import WIDTH, settings

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    look: Any = settings()  # typed by a literal of every key
    rows = result["rows"]
    with plt.rc_context(look):
        figure, (above, below) = plt.subplots(2, 1, figsize=(WIDTH, 6.4))
        draw_scaling(above, rows)
        draw_scaling(below, rows, depth=min(len(row["sampled"]) for row in rows))
        figure.savefig(file, dpi=200, metadata={"Date": None} if file.suffix == ".svg" else None)
        plt.close(figure)
