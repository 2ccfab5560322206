"""Formulas without the network: MathJax is a file of the book, copied from an installed package.

It draws formulas as SVG, which needs no font files: Firefox refuses to load fonts for a page opened as a
file. Only the bundle is copied, 2 MB of the package's 24. A formula and the punctuation after it stay on one
line.
"""

import importlib.util
import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

BUNDLE = "tex-svg-full.js"
FORMULA_AND_MARK = re.compile(r'(<span class="math notranslate nohighlight">[^<]*</span>)([.,;:!?)]+|-\w+)')


def mathjax_bundle() -> Path:
    """MathJax 3 in one file, inside the installed package sphinx-mathjax-offline."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise RuntimeError("sphinx-mathjax-offline is not installed; `make book` installs what is missing")
    return Path(spec.origin).parent / "static" / "mathjax" / BUNDLE


def copy_mathjax(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        target = Path(app.outdir) / "_static" / "mathjax" / BUNDLE
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(mathjax_bundle(), target)


def remove_templates(app: Sphinx, exception: Exception | None) -> None:
    """The theme copies two of its templates among the static files, where they are broken pages."""
    for path in (Path(app.outdir) / "_static").glob("*webpack-macros.html"):
        path.unlink()


def keep_marks(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, object], doctree: object
) -> None:
    if isinstance(body := context.get("body"), str):
        context["body"] = FORMULA_AND_MARK.sub(r'<span class="with-mark">\1\2</span>', body)


def setup(app: Sphinx) -> None:
    app.config.mathjax_path = f"mathjax/{BUNDLE}"
    app.add_css_file("course.css", priority=900)
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", remove_templates)
    app.connect("html-page-context", keep_marks)
