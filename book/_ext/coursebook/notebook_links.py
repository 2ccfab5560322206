"""The bar under a chapter's title."""

from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    pass
