"""Every plot twice: as it was drawn, and in the colours of the dark page; the style sheet shows one of them.

matplotlib's SVG is text, so the second file is the first with other colours (`specdec.plotting.DARK`): ink
becomes pale, the white behind the figure goes, and a hue keeps its name, so "the blue line" is blue on both
pages.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

from specdec.plotting import DARK, DARK_PAGE, INK

PALE = DARK[INK]
PLOT = re.compile(
    r'<img(?P<before>[^>]*?) src="(?P<source>[^"]*_images/[0-9a-f]{16,})\.svg"(?P<after>[^>]*)>'
)
COLOUR = re.compile(r"(?<=[ :])#[0-9a-f]{6}\b")
# White is the page when it fills a shape (the paper, a box behind a label); white letters stay white.
WHITE_SHAPE = re.compile(r"(<(?:path|rect|use)\b[^>]*?fill: )#ffffff")
PAPER = re.compile(r'(<g id="patch_1">\s*<path [^>]*?fill: )#ffffff')


def darkened(svg: str) -> str:
    """The same plot for a dark page. What has no colour, and so would be black, gets ink."""
    svg = PAPER.sub(r"\1none", svg, count=1)
    svg = WHITE_SHAPE.sub(rf"\g<1>{DARK_PAGE}", svg)
    svg = COLOUR.sub(lambda match: DARK.get(match[0], match[0]), svg)
    svg = svg.replace("stroke: #000000", f"stroke: {PALE}").replace("fill: #000000", f"fill: {PALE}")
    return re.sub(r"<svg ", f'<svg fill="{PALE}" ', svg, count=1)


def doubled(match: re.Match[str]) -> str:
    """The image twice, with classes; the alternative text is on both, since only one is ever shown."""
    images = ""
    for kind, suffix in (("plot-light", ""), ("plot-dark", "-dark")):
        images += f'<img class="{kind}"{match["before"]} src="{match["source"]}{suffix}.svg"{match["after"]}>'
    return images


def show_both(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, object], doctree: object
) -> None:
    if app.builder.format == "html" and isinstance(body := context.get("body"), str):
        context["body"] = PLOT.sub(doubled, body)


def write_dark_files(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    for path in (Path(app.outdir) / "_images").glob("*.svg"):
        if re.fullmatch(r"[0-9a-f]{16,}", path.stem):
            dark = path.with_name(f"{path.stem}-dark.svg")
            dark.write_text(darkened(path.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", show_both)
    app.connect("build-finished", write_dark_files)
