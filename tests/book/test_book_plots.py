"""The look of plots: contrast on both pages, what colour-blind readers see, the dark twin of a figure."""

import io
import itertools
import re
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest
from coursebook.dark_plots import PLOT, darkened, doubled

from specdec.plotting import COLOURS, DARK, DARK_PAGE, FAINT, INK, PALETTE, SHADES, label_line, settings

WHITE = "#ffffff"
# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision deficiency"
# (2009), severity 1.0, on linear sRGB.
SIGHT = {
    "full": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    """Linear sRGB [3] of "#rrggbb"."""
    channel = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channel <= 0.04045, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio, from 1 to 21."""
    dark, light = sorted(float(XYZ[1] @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB [3] of linear sRGB [3], white point D65."""
    ratio = XYZ @ np.clip(rgb, 0, 1) / (XYZ @ np.ones(3))
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_contrast_agrees_with_known_ratios() -> None:
    assert contrast("#000000", WHITE) == pytest.approx(21)
    assert contrast("#767676", WHITE) == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("name", PALETTE)
def test_lines_stand_out_from_both_pages_three_to_one(name: str) -> None:
    colour = PALETTE[name]
    assert contrast(colour, WHITE) >= 3
    assert contrast(DARK[colour], DARK_PAGE) >= 3


def test_letters_stand_out_from_both_pages_four_and_a_half_to_one() -> None:
    for colour in [INK, *(SHADES.get(line, line) for line in PALETTE.values())]:
        assert contrast(colour, WHITE) >= 4.5, colour
        assert contrast(DARK[colour], DARK_PAGE) >= 4.5, colour


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_any_two_colours_differ_clearly_for_every_kind_of_sight(page: str, sight: str) -> None:
    shown = {name: colour if page == "light" else DARK[colour] for name, colour in PALETTE.items()}
    seen = {name: lab(SIGHT[sight] @ linear(colour)) for name, colour in shown.items()}
    # A difference of 2.3 is just noticeable; five times that is plain to see.
    distances = {
        (one, other): float(np.linalg.norm(seen[one] - seen[other]))
        for one, other in itertools.combinations(seen, 2)
    }
    assert min(distances.values()) > 11.5, min(distances, key=lambda pair: distances[pair])


def test_every_word_of_the_course_has_a_colour_of_its_own() -> None:
    assert len(set(COLOURS.values())) == len(COLOURS)


@pytest.fixture
def figure() -> str:
    """A figure in the course's style as SVG: a line with its label, a boxed note, white letters on a bar."""
    from matplotlib.figure import Figure

    with matplotlib.rc_context(settings()):
        drawn = Figure()
        axes = drawn.subplots()
        axes.plot([0, 1], [0, 1], color=COLOURS["verifier"])
        label_line(axes, 1, 1, "draft", COLOURS["draft"])
        axes.bar([0.5], [0.5], color=COLOURS["accepted"])
        axes.text(0.5, 0.2, "inside", color="white")
        axes.text(0.1, 0.8, "boxed", bbox={"facecolor": "white"})
        axes.set(xlabel="draft length N (tokens)")
        written = io.StringIO()
        drawn.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


def colours_of(svg: str) -> set[str]:
    return set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", svg))


def test_the_dark_twin_of_a_figure_has_the_same_shapes_in_the_dark_colours(figure: str) -> None:
    dark = darkened(figure)
    shapes, twins = ([*ElementTree.fromstring(svg).iter()] for svg in (figure, dark))
    assert [shape.tag for shape in shapes] == [shape.tag for shape in twins]
    assert [shape.get("d") for shape in shapes] == [shape.get("d") for shape in twins]
    light_only = {INK, FAINT, *COLOURS.values(), *SHADES.values()} - set(DARK.values())
    assert colours_of(figure) & light_only >= {INK, FAINT, COLOURS["verifier"], SHADES[COLOURS["draft"]]}
    assert not colours_of(dark) & light_only
    assert {DARK[INK], DARK[FAINT], DARK[COLOURS["verifier"]]} <= colours_of(dark)


def test_the_paper_goes_a_white_box_becomes_the_page_and_white_letters_stay(figure: str) -> None:
    dark = darkened(figure)
    paper = re.search(r'<g id="patch_1">.*?</g>', dark, re.DOTALL)
    assert paper
    assert "fill: none" in paper[0]
    assert f"fill: {DARK_PAGE}" in dark
    letters = (
        re.findall(r'<g style="fill: (#[0-9a-f]{6})"', figure),
        re.findall(r'<g style="fill: (#[0-9a-f]{6})"', dark),
    )
    assert letters[0].count("#ffffff") == letters[1].count("#ffffff") == 1


def test_only_plots_are_doubled_and_both_keep_their_alternative_text() -> None:
    plot = '<img alt="a curve that rises" src="../_images/0123456789abcdef0.svg" />'
    logo = '<img alt="five tokens" src="../_static/logo.svg" />'
    shown = PLOT.sub(doubled, f"<p>{plot}{logo}</p>")
    assert shown.count('alt="a curve that rises"') == 2
    assert 'class="plot-dark" alt="a curve that rises" src="../_images/0123456789abcdef0-dark.svg"' in shown
    assert logo in shown


def test_the_same_figure_is_the_same_file(figure: str) -> None:
    assert "<dc:date>" not in figure
