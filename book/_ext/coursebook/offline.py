"""Everything a page loads is a file of the book: MathJax comes from an installed package.

Only what a page can ask for is copied: the one-file bundle and its fonts (2 MB instead of 24).
"""

import importlib.util
import shutil
from pathlib import Path

from sphinx.application import Sphinx

BUNDLE = "tex-chtml-full.js"
FONTS = "output/chtml/fonts/woff-v2"


def mathjax_source() -> Path:
    """Folder of MathJax 3 inside the installed package sphinx-mathjax-offline."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise RuntimeError(
            "sphinx-mathjax-offline is not installed; run `make book`, which installs what is missing"
        )
    return Path(spec.origin).parent / "static" / "mathjax"


def copy_mathjax(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    source, target = mathjax_source(), Path(app.outdir) / "_static" / "mathjax"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / BUNDLE, target / BUNDLE)
    shutil.copytree(source / FONTS, target / FONTS, dirs_exist_ok=True)


def setup(app: Sphinx) -> None:
    app.config.mathjax_path = f"mathjax/{BUNDLE}"
    app.connect("build-finished", copy_mathjax)
    app.add_css_file("course.css", priority=900)
