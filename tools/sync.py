"""`make sync`: chapters in `book/` (MyST text notebooks) to `notebooks/` (what a student opens).

The page is the source; its notebook is a function of it: jupytext reads the cells, MyST-only syntax
becomes plain Markdown (`coursebook.plain_markdown`), a setup cell goes in front, ids come from the
content, outputs stay away. Each notebook records a digest of its own cells. One whose cells no longer
match was edited by hand: it is named and nothing is written, until `--from-notebooks` takes the edit
back into the page or `--force` drops it.

    tools/sync.py                     write what is out of date
    tools/sync.py --check             name what is out of date; exit status 1 if anything is
    tools/sync.py --from-notebooks    edited notebooks to their pages, then the notebooks anew
"""

import argparse
import hashlib
import json
import os
import sys
from collections import Counter
from pathlib import Path

import jupytext
import nbformat
from nbformat.notebooknode import NotebookNode
from pybtex.database import parse_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))
from coursebook.pages import chapters, notebook_of, repository  # noqa: E402
from coursebook.plain_markdown import Page, UnknownSyntax, plain  # noqa: E402

FORMAT = "md:myst"
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


class Conflict(ValueError):
    """Two sides differ and nothing says which one to keep."""


def setup_cell(root: Path) -> str:
    """The first cell of every notebook, with the repository's address filled in."""
    source = (root / "book" / "_ext" / "setup_cell.py").read_text(encoding="utf-8").strip()
    return source.replace('REPOSITORY = ""', f"REPOSITORY = {json.dumps(repository(root)[0])}", 1)


def citations(root: Path) -> dict[str, tuple[str, str, str]]:
    """key -> (names, year, URL) of every entry of the bibliography."""
    found = {}
    path = root / "book" / "references.bib"
    for key, entry in (parse_file(str(path)).entries if path.is_file() else {}).items():
        last = [" ".join(person.last_names) for person in entry.persons.get("author", [])]
        names = " and ".join(last) if len(last) <= 2 else f"{last[0]} et al."
        found[key] = (names or key, entry.fields.get("year", "n.d."), entry.fields.get("url", ""))
    return found


def digest_of_cells(cells: list[NotebookNode]) -> str:
    """sha256 over what a hand can edit: kinds, sources and tags of the cells, in order."""
    content = [[cell.cell_type, cell.source, cell.metadata.get("tags", [])] for cell in cells]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def digest_of_page(page: Path) -> str:
    return hashlib.sha256(page.read_text(encoding="utf-8").encode()).hexdigest()


def notebook_cell(kind: str, source: str, tags: list[str], seen: Counter[str]) -> NotebookNode:
    """A cell without outputs whose id depends on its content (and on how often that content came before)."""
    key = hashlib.sha256(f"{kind}\0{source}".encode()).hexdigest()[:10]
    seen[key] += 1
    metadata: dict[str, object] = {"tags": tags} if tags else {}
    if {"hide-input", "remove-input", "hide-cell", "remove-cell"}.intersection(tags):
        metadata["jupyter"] = {"source_hidden": True}
    make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    return make(source, id=key if seen[key] == 1 else f"{key}-{seen[key]}", metadata=metadata)


def notebook_from(root: Path, page: Path) -> NotebookNode:
    """The notebook that belongs to a page; its cells after the first are the page's cells one to one."""
    knowledge = Page(page.parent, citations(root))
    seen: Counter[str] = Counter()
    cells = [notebook_cell("code", setup_cell(root), ["setup", "hide-input"], seen)]
    for cell in jupytext.reads(page.read_text(encoding="utf-8"), fmt=FORMAT).cells:
        source = cell.source if cell.cell_type == "code" else plain(cell.source, knowledge)
        cells.append(notebook_cell(cell.cell_type, source, cell.metadata.get("tags", []), seen))
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata = {
        "kernelspec": KERNEL,
        "language_info": {"name": "python"},
        "coursebook": {
            "page": page.relative_to(root).as_posix(),
            "page_sha256": digest_of_page(page),
            "cells_sha256": digest_of_cells(cells),
        },
    }
    notebook.nbformat_minor = 5
    nbformat.validate(notebook)
    return notebook


def text_of(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook) + "\n"


def is_edited(path: Path) -> bool:
    """Whether a hand changed the notebook since it was generated."""
    notebook = nbformat.read(path, as_version=4)
    recorded = notebook.metadata.get("coursebook", {}).get("cells_sha256")
    return recorded != digest_of_cells(notebook.cells)


def page_from(root: Path, page: Path, path: Path) -> str:
    """The page's text with the edits of its notebook; raises Conflict when they have no place in the page."""
    edited = nbformat.read(path, as_version=4)
    name = path.relative_to(root)
    if edited.metadata.get("coursebook", {}).get("page_sha256") != digest_of_page(page):
        raise Conflict(f"{name} and {page.relative_to(root)} both changed: merge by hand into the page")
    source = page.read_text(encoding="utf-8")
    book = jupytext.reads(source, fmt=FORMAT)
    generated = notebook_from(root, page).cells[1:]
    known = {twin.id: (cell, twin) for cell, twin in zip(book.cells, generated, strict=True)}
    cells = []
    for number, cell in enumerate(edited.cells, 1):
        if "setup" in cell.metadata.get("tags", []):
            continue
        original, twin = known.get(cell.id, (None, None))
        if original is None:
            original = notebook_cell(cell.cell_type, cell.source, cell.metadata.get("tags", []), Counter())
        elif cell.source != twin.source:
            if twin.source != original.source:
                raise Conflict(
                    f"cell {number} of {name} stands for book syntax: edit {page.relative_to(root)}"
                )
            original.source = cell.source
        cells.append(original)
    book.cells = cells
    header = source[: source.index("\n---\n", 4) + 5]
    written = jupytext.writes(book, fmt=FORMAT)
    return header + written[written.index("\n---\n", 4) + 5 :]


def write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(exist_ok=True)
    temporary.write_text(text, encoding="utf-8", newline="\n")
    os.replace(temporary, path)


def sync(root: Path, check: bool = False, from_notebooks: bool = False, force: bool = False) -> int:
    """Do what the options ask; return the exit status."""
    pages = {page: notebook_of(root, page) for page in chapters(root)}
    edited = [path for path in pages.values() if path.is_file() and is_edited(path)]
    if edited and not (check or from_notebooks or force):
        names = ", ".join(str(path.relative_to(root)) for path in edited)
        raise Conflict(
            f"edited by hand since the last sync, so nothing was written: {names}. "
            "Keep the edit with --from-notebooks, or drop it with --force."
        )
    if from_notebooks:
        texts = {page: page_from(root, page, path) for page, path in pages.items() if path in edited}
        for page, text in texts.items():
            write(page, text)
            print(f"wrote {page.relative_to(root)} from {pages[page].relative_to(root)}")
    stale = []
    for page, path in pages.items():
        try:
            text = text_of(notebook_from(root, page))
        except UnknownSyntax as error:
            raise Conflict(f"{page.relative_to(root)}: {error} has no plain form for the notebook") from error
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not check:
                write(path, text)
    for path in stale:
        print(f"{'out of date' if check else 'wrote'}: {path.relative_to(root)}")
    if check and stale:
        print("run `make sync` (the pages in book/ are the source)")
        return 1
    return 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="sync.py", description="chapters in book/ to notebooks/")
    side = parser.add_mutually_exclusive_group()
    side.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if anything is stale"
    )
    side.add_argument("--from-notebooks", action="store_true", help="take edited notebooks back into book/")
    side.add_argument("--force", action="store_true", help="overwrite notebooks that were edited by hand")
    options = parser.parse_args(arguments)
    try:
        return sync(ROOT, options.check, options.from_notebooks, options.force)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
