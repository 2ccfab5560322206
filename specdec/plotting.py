"""The look of every plot: colours that colour-blind readers can tell apart, sizes that survive a phone.

`style()` once per notebook, then plain matplotlib. Colours have one meaning each in the whole course
(`COLOURS`): the verifier is blue wherever it appears. Label lines directly with `label_line` rather than with
a legend.

Figures are drawn on opaque white, so that they read in JupyterLab's light and dark themes; the book's style
sheet inverts their lightness, not their hue, in dark mode.
The palette is Okabe and Ito's, "Color Universal Design" (2008); its yellow is left out: too pale on white.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

PALETTE = {
    "blue": "#0072b2",
    "vermilion": "#d55e00",
    "green": "#009e73",
    "purple": "#cc79a7",
    "orange": "#e69f00",
    "sky": "#56b4e9",
    "grey": "#6b7280",
}
# The words of the course and the colour that each keeps on every page.
COLOURS = {
    "verifier": PALETTE["blue"],
    "draft": PALETTE["orange"],
    "accepted": PALETTE["green"],
    "rejected": PALETTE["vermilion"],
    "bonus": PALETTE["sky"],
    "correction": PALETTE["purple"],
    "reference": PALETTE["grey"],
}
INK = "#24292f"
FAINT = "#d0d7de"
WIDTH = 6.4  # inches; wider figures have unreadable labels at 390 px


def settings() -> dict[str, Any]:
    """The rcParams that `style` sets."""
    from cycler import cycler

    return {
        "figure.figsize": (WIDTH, 3.6),
        "figure.facecolor": "white",
        "figure.constrained_layout.use": True,
        "savefig.facecolor": "white",
        "savefig.bbox": None,
        "svg.hashsalt": "specdec",
        "font.family": "DejaVu Sans",
        "font.size": 11.5,
        "axes.titlesize": 12.5,
        "axes.titlelocation": "left",
        "axes.titlepad": 10,
        "axes.labelcolor": INK,
        "axes.edgecolor": PALETTE["grey"],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.prop_cycle": cycler(color=[PALETTE[name] for name in PALETTE if name != "grey"]),
        "grid.color": FAINT,
        "grid.linewidth": 0.7,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "lines.linewidth": 2.2,
        "lines.markersize": 5.5,
        "patch.linewidth": 0,
        "legend.frameon": False,
    }


def style() -> None:
    """Set the course's look for every figure that follows, drawn as SVG inside notebooks."""
    import matplotlib

    parameters: Any = matplotlib.rcParams  # typed by a literal of every key
    parameters.update(settings())
    try:
        from IPython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:
        return
    if get_ipython() is not None:
        # bbox_inches=None keeps the size asked for, so that all figures of a page share one width.
        set_matplotlib_formats("svg", bbox_inches=None)


def label_line(axes: "Axes", x: float, y: float, text: str, colour: str, **options: Any) -> "Annotation":
    """Write `text` beside the point (x, y), in data units, in the colour of the line it names."""
    options = {
        "xytext": (6, 0),
        "textcoords": "offset points",
        "va": "center",
        "fontweight": "bold",
    } | options
    return axes.annotate(text, (x, y), color=colour, annotation_clip=False, **options)
