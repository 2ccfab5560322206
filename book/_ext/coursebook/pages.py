"""Which pages of the book are notebooks, and where their paired files lie."""

from pathlib import Path

import yaml


def front_matter(text: str) -> dict[str, object]:
    """The YAML block at the top of a MyST page, {} without one."""
    if not text.startswith("---\n"):
        return {}
    block, found, _ = text[4:].partition("\n---\n")
    loaded = yaml.safe_load(block) if found else None
    return loaded if isinstance(loaded, dict) else {}


def is_notebook(page: Path) -> bool:
    """Whether the page is a text notebook: it names a kernel, so the build executes it."""
    return "kernelspec" in front_matter(page.read_text(encoding="utf-8"))


def chapters(root: Path) -> list[Path]:
    """The text notebooks of `book/`, in order of their names."""
    return [page for page in sorted((root / "book").glob("*.md")) if is_notebook(page)]


def notebook_of(root: Path, page: Path) -> Path:
    """Where the notebook paired with a page lies."""
    return root / "notebooks" / f"{page.stem}.ipynb"


def repository(root: Path) -> tuple[str, str]:
    """(URL without trailing slash or "", branch) of the public repository, from `_config.yml`."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    section = config.get("repository") or {}
    return str(section.get("url") or "").rstrip("/"), str(section.get("branch") or "main")
