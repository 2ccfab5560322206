"""`make sync`: a notebook follows from its page alone, reads well without Sphinx, and no edit is lost."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest
import sync
from coursebook.pages import chapters, notebook_of
from coursebook.plain_markdown import Page, UnknownSyntax, plain
from small_course import HEADER, ROOT

BIBLIOGRAPHY = """@inproceedings{leviathan2023,
  author = {Yaniv Leviathan and Matan Kalman and Yossi Matias},
  year = {2023},
  url = {https://arxiv.org/abs/2211.17192}
}
"""
PAGE = (
    HEADER
    + """# A chapter

Plain words.

```{code-cell} ipython3
:tags: [hide-input]

x = 1
```

As {cite:t}`leviathan2023` say, $x$ is {glue:text}`x`.

```{code-cell} ipython3
x = 1
```
"""
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A root with one chapter, in step with its notebook."""
    shutil.copytree(ROOT / "book" / "_ext", tmp_path / "book" / "_ext")
    shutil.copyfile(ROOT / "_config.yml", tmp_path / "_config.yml")
    (tmp_path / "book" / "references.bib").write_text(BIBLIOGRAPHY)
    (tmp_path / "book" / "notation.md").write_text("# Notation\n\nNo kernel, so no notebook.\n")
    (tmp_path / "book" / "00-chapter.md").write_text(PAGE)
    assert sync.sync(tmp_path) == 0
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    """Change a notebook as JupyterLab does on saving: the source of a cell, and an output left behind."""
    notebook = nbformat.read(path, as_version=4)
    cell = next(cell for cell in notebook.cells if old in cell.source)
    cell.source = cell.source.replace(old, new)
    nbformat.write(notebook, path)


@pytest.fixture
def page() -> Page:
    citations = {
        "a1": ("Leviathan et al.", "2023", "https://arxiv.org/abs/2211.17192"),
        "b2": ("Xu", "2025", ""),
    }
    return Page(ROOT / "book", citations)


def test_the_committed_notebooks_are_in_step_with_the_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert sync.sync(ROOT, check=True) == 0, capsys.readouterr().out


def test_the_git_filter_finds_nothing_to_strip_in_a_generated_notebook(checkout: Path) -> None:
    text = (checkout / "notebooks" / "00-chapter.ipynb").read_bytes()
    clean = [sys.executable, "-m", "nbstripout", "--keep-id"]
    assert subprocess.run(clean, input=text, capture_output=True, check=True).stdout == text


def test_a_notebook_has_the_cells_of_its_page_behind_a_setup_cell_and_no_outputs(checkout: Path) -> None:
    notebook = nbformat.read(checkout / "notebooks" / "00-chapter.ipynb", as_version=4)
    book = jupytext.reads(PAGE, fmt="md:myst")
    assert "setup" in notebook.cells[0].metadata.tags
    assert [cell.cell_type for cell in notebook.cells[1:]] == [cell.cell_type for cell in book.cells]
    code = [cell for cell in notebook.cells[1:] if cell.cell_type == "code"]
    assert [cell.source for cell in code] == ["x = 1", "x = 1"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert code[0].metadata == {"tags": ["hide-input"], "jupyter": {"source_hidden": True}}
    assert notebook.metadata.kernelspec.name == "python3"


def test_only_pages_with_a_kernel_become_notebooks(checkout: Path) -> None:
    assert [path.name for path in (checkout / "notebooks").iterdir()] == ["00-chapter.ipynb"]


def test_the_same_page_gives_the_same_bytes_and_a_second_run_writes_nothing(checkout: Path, capsys) -> None:
    path = checkout / "notebooks" / "00-chapter.ipynb"
    before, time = path.read_bytes(), path.stat().st_mtime_ns
    capsys.readouterr()
    assert sync.sync(checkout) == 0
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, time)
    assert capsys.readouterr().out == ""
    path.unlink()
    assert sync.sync(checkout) == 0
    assert path.read_bytes() == before


def test_cells_keep_their_ids_when_another_cell_is_inserted(checkout: Path) -> None:
    path = checkout / "notebooks" / "00-chapter.ipynb"
    before = [cell.id for cell in nbformat.read(path, as_version=4).cells]
    changed = PAGE.replace("Plain words.\n", "Plain words.\n\n```{code-cell} ipython3\ny = 2\n```\n\nMore.\n")
    (checkout / "book" / "00-chapter.md").write_text(changed)
    assert sync.sync(checkout) == 0
    after = [cell.id for cell in nbformat.read(path, as_version=4).cells]
    assert set(before) <= set(after)


def test_check_names_the_drifted_file_writes_nothing_and_fails(checkout: Path, capsys) -> None:
    path = checkout / "notebooks" / "00-chapter.ipynb"
    before = path.read_bytes()
    (checkout / "book" / "00-chapter.md").write_text(PAGE.replace("Plain words", "Other words"))
    assert sync.sync(checkout, check=True) == 1
    assert "out of date: notebooks/00-chapter.ipynb" in capsys.readouterr().out
    assert path.read_bytes() == before
    assert sync.sync(checkout) == 0
    assert sync.sync(checkout, check=True) == 0
    edit(path, "x = 1", "x = 2")
    assert sync.sync(checkout, check=True) == 1


def test_an_edited_notebook_is_named_and_not_overwritten_until_told(checkout: Path) -> None:
    path = checkout / "notebooks" / "00-chapter.ipynb"
    edit(path, "x = 1", "x = 2")
    before = path.read_bytes()
    (checkout / "book" / "00-chapter.md").write_text(PAGE.replace("Plain", "Other"))
    with pytest.raises(sync.Conflict, match=r"notebooks/00-chapter\.ipynb.*--from-notebooks.*--force"):
        sync.sync(checkout)
    assert path.read_bytes() == before
    assert sync.sync(checkout, force=True) == 0
    assert "x = 2" not in path.read_text()


def test_an_edited_code_cell_goes_back_into_the_page_and_nothing_else_moves(checkout: Path) -> None:
    edit(checkout / "notebooks" / "00-chapter.ipynb", "x = 1", "x = 2\ny = 3")
    edit(checkout / "notebooks" / "00-chapter.ipynb", "Plain words", "Better words")
    assert sync.sync(checkout, from_notebooks=True) == 0
    expected = PAGE.replace("x = 1", "x = 2\ny = 3", 1).replace("Plain words", "Better words")
    assert (checkout / "book" / "00-chapter.md").read_text() == expected
    assert sync.sync(checkout, check=True) == 0


def test_a_new_cell_in_the_notebook_goes_into_the_page_and_a_deleted_one_leaves_it(checkout: Path) -> None:
    path = checkout / "notebooks" / "00-chapter.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[-1] = nbformat.v4.new_code_cell("z = 26")
    nbformat.write(notebook, path)
    assert sync.sync(checkout, from_notebooks=True) == 0
    sources = [
        c.source for c in jupytext.read(checkout / "book" / "00-chapter.md").cells if c.cell_type == "code"
    ]
    assert sources == ["x = 1", "z = 26"]


def test_an_edit_of_text_that_stands_for_book_syntax_is_refused_and_kept(checkout: Path) -> None:
    path = checkout / "notebooks" / "00-chapter.ipynb"
    edit(path, "is `x`", "is always `x`")
    before = path.read_bytes()
    with pytest.raises(
        sync.Conflict, match=r"cell 4 of notebooks/00-chapter\.ipynb.*edit book/00-chapter\.md"
    ):
        sync.sync(checkout, from_notebooks=True)
    assert path.read_bytes() == before
    assert (checkout / "book" / "00-chapter.md").read_text() == PAGE


def test_when_page_and_notebook_both_changed_nothing_is_written(checkout: Path) -> None:
    edit(checkout / "notebooks" / "00-chapter.ipynb", "x = 1", "x = 2")
    changed = PAGE.replace("Plain", "Other")
    (checkout / "book" / "00-chapter.md").write_text(changed)
    with pytest.raises(sync.Conflict, match="both changed"):
        sync.sync(checkout, from_notebooks=True)
    assert (checkout / "book" / "00-chapter.md").read_text() == changed


def test_syntax_without_a_plain_form_is_refused_with_the_page_and_the_reason(
    checkout: Path, monkeypatch, capsys
) -> None:
    (checkout / "book" / "00-chapter.md").write_text(PAGE + "\n:::{tab-set}\n:::\n")
    monkeypatch.setattr(sync, "ROOT", checkout)
    assert sync.main([]) == 2
    assert capsys.readouterr().err == (
        "book/00-chapter.md: the directive {tab-set} has no plain form for the notebook\n"
    )


def test_an_unknown_option_ends_with_status_two() -> None:
    ended = subprocess.run(
        [sys.executable, ROOT / "tools" / "sync.py", "--backwards"], capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert "--backwards" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("myst", "markdown"),
    [
        ("Plain *words*, $q/p$ and `code`.", "Plain *words*, $q/p$ and `code`."),
        (":::{note}\nOne.\n\nTwo.\n:::", "> **Note**\n>\n> One.\n>\n> Two."),
        ("```{admonition} A $t$\n:class: objectives\n\n- x\n```", "> **A $t$**\n>\n> - x"),
        (
            ":::{dropdown} Why *not* `q`?\n:class-container: selfcheck\n\nBecause.\n:::",
            "<details>\n<summary>Why <em>not</em> <code>q</code>?</summary>\n\nBecause.\n\n</details>",
        ),
        (
            ":::{prf:theorem} Exactness\n:label: t\n\nIt holds:\n\n$$\na\n= b\n$$ (eq-a)\n:::",
            "> **Theorem (Exactness).**\n>\n> It holds:\n>\n> $$ a = b \\tag{eq-a} $$",
        ),
        (":::{prf:proof}\nSee {eq}`eq-a`.\n:::", "**Proof.**\n\nSee (eq-a).\n\n∎"),
        ("$$\nx\n$$ (eq-x)", "$$\nx \\tag{eq-x}\n$$"),
        ("{cite:t}`a1` and {cite:p}`a1,b2`", None),
        ("{glue:text}`alpha:.2f` of {term}`tokens <token>`", "`alpha` of *tokens*"),
        ("[the terms](notation.md#tau) and [it](#here)", "the terms and it"),
        ("[the rule](01-rejection-rule.md#proof)", "[the rule](01-rejection-rule.ipynb)"),
        ("{doc}`next <02-speculative-step>`", "[next](02-speculative-step.ipynb)"),
        ("[paper](https://arxiv.org/abs/1)", "[paper](https://arxiv.org/abs/1)"),
        ("(here)=\n## Heading\n% a remark\n", "## Heading\n"),
        ("```python\n{glue:text}`x`\n:::{note}\n```", "```python\n{glue:text}`x`\n:::{note}\n```"),
        ("Write ``{glue:text}`x` `` for it.", "Write ``{glue:text}`x` `` for it."),
        ("::::{note}\n:::{dropdown} Q\nA\n:::\n::::", None),
        (":::{math}\n:label: m\nx\n:::", "$$\nx \\tag{m}\n$$"),
        ("```{code-block} python\nx\n```", "```python\nx\n```"),
        ("![alt](https://example.org/a.png)", "![alt](https://example.org/a.png)"),
    ],
)
def test_book_syntax_becomes_plain_markdown(myst: str, markdown: str | None, page: Page) -> None:
    expected = {
        "{cite:t}`a1` and {cite:p}`a1,b2`": (
            "[Leviathan et al. (2023)](https://arxiv.org/abs/2211.17192) and "
            "([Leviathan et al., 2023](https://arxiv.org/abs/2211.17192); Xu, 2025)"
        ),
        "::::{note}\n:::{dropdown} Q\nA\n:::\n::::": (
            "> **Note**\n>\n> <details>\n> <summary>Q</summary>\n>\n> A\n>\n> </details>"
        ),
    }.get(myst, markdown)
    assert plain(myst, page) == expected


@pytest.mark.parametrize(
    "myst",
    [
        ":::{figure} a.png\n:::",
        "{abbr}`x`",
        ":::\nloose\n:::",
        ":::{note}\nnever closed",
        "[gone](nowhere.md)",
        "{cite:p}`nobody`",
    ],
)
def test_what_a_notebook_cannot_show_is_refused(myst: str, page: Page) -> None:
    with pytest.raises(UnknownSyntax):
        plain(myst, page)


@pytest.mark.parametrize(
    "path", [notebook_of(ROOT, page) for page in chapters(ROOT)], ids=lambda path: path.stem
)
def test_a_committed_notebook_shows_no_directive_or_role(path: Path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            text = "".join(cell["source"])
            assert ":::" not in text
            assert "{code-cell}" not in text
            assert "`{" not in text.replace("``{", "")
