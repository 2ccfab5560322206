"""The look of every plot: colours that colour-blind readers can tell apart, sizes that survive a phone.

`style()` once per notebook, then plain matplotlib. Colours have one meaning each in the whole course
(`COLOURS`): the verifier is blue wherever it appears. Label lines directly with `label_line` rather than with
a legend.

Figures are drawn on opaque white, so that they read in JupyterLab's light and dark themes. `DARK` says which
colour takes the place of each on a dark page; the book's build draws every figure twice. Hues after Okabe and
Ito, "Color Universal Design" (2008), lightness moved until every line has a contrast of 3:1 with its page and
every label 4.5:1. A test holds that, and the distances that colour-blind readers see.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

PALETTE = {
    "blue": "#005b96",
    "vermilion": "#bf4300",
    "green": "#009870",
    "purple": "#c9639d",
    "orange": "#c08a00",
    "sky": "#3f9bd9",
    "grey": "#5b6168",
}
# Letters are thin: a label takes the darker shade of its line.
SHADES = {"#009870": "#00714f", "#c9639d": "#9c3a72", "#c08a00": "#856000", "#3f9bd9": "#1a6ba3"}
INK = "#24292f"
FAINT = "#d0d7de"
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
# On a dark page: the colour that takes the place of each of the above.
DARK_PAGE = "#121212"
DARK = {
    "#005b96": "#2f8fd8",
    "#bf4300": "#ee6a1c",
    "#009870": "#22b98a",
    "#c9639d": "#d274b2",
    "#c08a00": "#f5c04a",
    "#3f9bd9": "#a6defc",
    "#5b6168": "#b4bbc3",
    "#00714f": "#22b98a",
    "#9c3a72": "#d274b2",
    "#856000": "#f5c04a",
    "#1a6ba3": "#a6defc",
    INK: "#dfe5ea",
    FAINT: "#343c45",
}
WIDTH = 6.0  # inches; wider figures have unreadable labels at 390 px


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
        "font.size": 12.5,
        "axes.titlesize": 13,
        "axes.titlelocation": "left",
        "axes.titlepad": 10,
        "axes.facecolor": "none",
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
        # bbox_inches=None keeps the size asked for, so that all figures of a page share one width; without a
        # date, the same figure is the same file.
        set_matplotlib_formats("svg", bbox_inches=None, metadata={"Date": None})


def label_line(axes: "Axes", x: float, y: float, text: str, colour: str, **options: Any) -> "Annotation":
    """Write `text` beside the point (x, y), in data units, in the shade of `colour` that letters need."""
    options = {
        "xytext": (6, 0),
        "textcoords": "offset points",
        "va": "center",
        "fontweight": "bold",
    } | options
    return axes.annotate(text, (x, y), color=SHADES.get(colour, colour), annotation_clip=False, **options)
