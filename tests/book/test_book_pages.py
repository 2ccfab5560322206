"""The built pages as files: pictures have words, links lead somewhere, notebooks open, nothing is remote."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from coursebook.pages import chapters, front_matter, repository
from small_course import ROOT, Course

LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class Elements(HTMLParser):
    """All start tags of a page, as (tag, attributes)."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


@pytest.fixture(scope="module")
def pages(html: Path) -> dict[Path, list[tuple[str, dict[str, str]]]]:
    return {path: Elements(path).found for path in sorted(html.rglob("*.html"))}


def test_every_picture_has_alternative_text(pages: dict) -> None:
    silent = [
        f"{path.name}: {attributes.get('src')}"
        for path, elements in pages.items()
        for tag, attributes in elements
        if tag == "img" and len(attributes.get("alt", "").split()) < 3
    ]
    assert not silent, "give these plots alt text of at least three words (book/_ext/README.md says how)"


def test_whatever_a_page_loads_is_a_file_of_the_book(pages: dict) -> None:
    remote = [
        f"{path.name}: {attributes[name]}"
        for path, elements in pages.items()
        for tag, attributes in elements
        for loaded_tag, name in LOADED
        if tag == loaded_tag and name in attributes and not attributes[name].startswith("data:")
        if urlsplit(attributes[name]).scheme or urlsplit(attributes[name]).netloc
    ]
    assert not remote


def test_every_link_inside_the_book_leads_somewhere(pages: dict, html: Path) -> None:
    anchors = {path: {a["id"] for _, a in elements if a.get("id")} for path, elements in pages.items()}
    broken = []
    for path, elements in pages.items():
        for _, attributes in elements:
            for name in ("href", "src"):
                parts = urlsplit(attributes.get(name, ""))
                if name not in attributes or parts.scheme or parts.netloc:
                    continue
                target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                if not target.is_file():
                    broken.append(f"{path.name}: {attributes[name]}")
                elif parts.fragment and target in anchors and unquote(parts.fragment) not in anchors[target]:
                    broken.append(f"{path.name}: {attributes[name]} (no such place on that page)")
    assert not broken


@pytest.mark.parametrize("page", chapters(ROOT), ids=lambda page: page.stem)
def test_a_chapter_links_its_notebook_for_jupyterlab_and_as_a_download(
    page: Path, pages: dict, html: Path
) -> None:
    built = html / "book" / f"{page.stem}.html"
    links = [attributes["href"] for tag, attributes in pages[built] if tag == "a" and attributes.get("href")]
    assert f"http://localhost:8888/lab/tree/{page.stem}.ipynb" in links
    downloads = [link for link in links if link.endswith(f"{page.stem}.ipynb") and "_downloads" in link]
    assert len(downloads) == 1
    source = ROOT / "notebooks" / f"{page.stem}.ipynb"
    assert (built.parent / downloads[0]).resolve().read_bytes() == source.read_bytes()
    assert json.loads(source.read_text(encoding="utf-8"))["nbformat"] == 4
    if not repository(ROOT)[0]:
        assert not [
            link for link in links if "colab" in link or "github.com" in link.split("?")[0].split("/blob")[0]
        ]


def test_all_chapters_are_in_the_table_of_contents(pages: dict, html: Path) -> None:
    listed = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    for page in sorted((ROOT / "book").glob("*.md")):
        assert f"book/{page.stem}" in listed
        assert html / "book" / f"{page.stem}.html" in pages


def test_no_page_shows_markup_that_was_meant_for_sphinx(html: Path) -> None:
    for path in sorted((html / "book").glob("*.html")):
        article = re.search(r"<article.*?</article>", path.read_text(encoding="utf-8"), re.DOTALL)
        assert article, path.name
        words = re.sub(r"<(pre|code)\b.*?</\1>", "", article[0], flags=re.DOTALL)
        raw = re.findall(r":::|\{[\w:-]+\}`|```", words)
        assert not raw, f"{path.name} shows {raw}"


def test_with_a_repository_the_remote_links_appear_and_open_the_ipynb(course: Course) -> None:
    course.edit(
        "_config.yml", lambda text: text.replace('url: ""', 'url: "https://github.com/someone/course/"')
    )
    assert course.run(sys.executable, "tools/sync.py").returncode == 0
    assert course.jupyter_book().returncode == 0
    page = course.page("first")
    blob = "github.com/someone/course/blob/main/notebooks/first.ipynb"
    assert f'href="https://{blob}"' in page
    assert f'href="https://colab.research.google.com/github/{blob.removeprefix("github.com/")}"' in page
    assert "first.md" not in re.search(r"<article.*?</article>", page, re.DOTALL)[0]
    setup = json.loads((course.root / "notebooks" / "first.ipynb").read_text())["cells"][0]
    assert 'REPOSITORY = "https://github.com/someone/course"\n' in setup["source"]


def test_a_chapter_without_its_notebook_fails_the_build_and_says_what_to_run(course: Course) -> None:
    (course.root / "notebooks" / "first.ipynb").unlink()
    built = course.jupyter_book()
    assert built.returncode != 0
    assert "notebooks/first.ipynb does not exist: run `make sync`" in built.stdout + built.stderr


def test_a_front_matter_that_is_cut_off_counts_as_none() -> None:
    assert front_matter("---\nkernelspec: x\n") == {}
    assert front_matter("# Title\n") == {}
    assert front_matter("---\nkernelspec:\n  name: python3\n---\ntext") == {"kernelspec": {"name": "python3"}}
