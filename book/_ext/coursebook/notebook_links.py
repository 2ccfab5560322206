"""The bar under a chapter's title: open its notebook in JupyterLab, in Colab, or download it.

The theme's own buttons point at the page's `.md`, which Colab cannot open; these point at the paired
`.ipynb`, and the build warns (and so stops) when that file does not exist. Links to the public
repository come from `repository: url` in `_config.yml`; while it is empty they are absent.
"""

from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

from .pages import is_notebook, notebook_of, repository

LAB = "http://localhost:8888/lab/tree/"  # the address that `make lab` serves
COLAB = "https://colab.research.google.com/github/"
GITHUB = "https://github.com/"
logger = logging.getLogger(__name__)


def remote_links(name: str, url: str, branch: str) -> list[tuple[str, str, str]]:
    """(label, address, title) of the links that need the public repository; Colab reads GitHub only."""
    if not url:
        return []
    links = [("Source", f"{url}/blob/{branch}/notebooks/{name}", "This notebook in the public repository")]
    if url.startswith(GITHUB):
        place = url.removeprefix(GITHUB)
        address = f"{COLAB}{place}/blob/{branch}/notebooks/{name}"
        links.insert(0, ("Colab", address, "Run this chapter in Google Colab, in the browser"))
    return links


class NotebookBar(SphinxTransform):
    """Insert the bar after the title of every executed page. Runs before Sphinx collects downloads."""

    default_priority = 200

    def apply(self, **_: object) -> None:
        root = Path(self.app.srcdir)
        page = Path(self.env.doc2path(self.env.docname))
        if not is_notebook(page):
            return
        title = next(iter(self.document.findall(nodes.title)), None)
        if title is None or title.parent is None:
            return
        notebook = notebook_of(root, page)
        if not notebook.is_file():
            logger.warning(
                "%s does not exist: run `make sync`", notebook.relative_to(root), location=self.env.docname
            )
            return
        title.parent.insert(title.parent.index(title) + 1, self.bar(notebook.name, *repository(root)))

    def bar(self, name: str, url: str, branch: str) -> nodes.container:
        lab = ("JupyterLab", LAB + name, "Opens this chapter on this machine, while `make lab` is running")
        bar = nodes.container(classes=["notebook-links"])
        for label, address, hint in [lab, *remote_links(name, url, branch)]:
            link = nodes.reference("", label, refuri=address, reftitle=hint, internal=False)
            bar += nodes.inline("", "", link)
        download = addnodes.download_reference(
            "", "", reftarget=f"/notebooks/{name}", refdoc=self.env.docname
        )
        download += nodes.inline("", "Download .ipynb")
        bar += nodes.inline("", "", download)
        return bar


def setup(app: Sphinx) -> None:
    app.add_transform(NotebookBar)
