"""The built book, and a copy of the course that a test may break."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_course import CELL, FIRST, HEADER, ROOT, SECOND, TOC, Course


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that every `course` is copied from."""
    root = tmp_path_factory.mktemp("template")
    ignore = shutil.ignore_patterns("__pycache__", "*.md", "*.bib")
    for folder in ("specdec", "book", "tools"):
        shutil.copytree(ROOT / folder, root / folder, ignore=ignore)
    for name in ("_config.yml", "constraints.txt"):
        shutil.copyfile(ROOT / name, root / name)
    pages = {
        "index": "# Welcome\n",
        "first": HEADER + CELL.format(title="First", code=FIRST),
        "second": HEADER + CELL.format(title="Second", code=SECOND),
    }
    for name, text in pages.items():
        (root / "book" / f"{name}.md").write_text(text, encoding="utf-8")
    (root / "book" / "references.bib").write_text("", encoding="utf-8")
    (root / "_toc.yml").write_text(TOC, encoding="utf-8")
    subprocess.run([sys.executable, "tools/sync.py"], cwd=root, check=True, capture_output=True)
    return root


@pytest.fixture
def course(template: Path, tmp_path: Path) -> Course:
    root = tmp_path / "a course"  # a space in the path, as students have
    shutil.copytree(template, root)
    return Course(root, {**os.environ, "PYTHONPATH": str(root), "RUNS": str(tmp_path / "runs")})


@pytest.fixture(scope="session")
def html() -> Path:
    """The folder of the built book; builds what is out of date."""
    built = subprocess.run([sys.executable, str(ROOT / "tools" / "book.py")], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return ROOT / "_build" / "html"
