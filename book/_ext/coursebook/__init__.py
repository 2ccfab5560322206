"""The local Sphinx extension of the book, one idea per module.

freshness        the execution cache depends on code, results and weights, not only on a page's cells
dark_plots       every plot also in the colours of the dark page
notebook_links   the bar under a chapter's title: JupyterLab, Colab, download
offline          MathJax and the style sheet come from local files

Loaded by `local_extensions` in `_config.yml`, so `make book` and a bare `jupyter-book build .` behave
alike.
"""

from sphinx.application import Sphinx

from . import dark_plots, freshness, notebook_links, offline


def setup(app: Sphinx) -> dict[str, object]:
    for module in (dark_plots, freshness, notebook_links, offline):
        module.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
