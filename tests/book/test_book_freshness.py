"""The execution cache: a page is executed again when, and only when, something that it can read changed."""

import ast
import os
from pathlib import Path

import pytest
from coursebook import freshness
from small_course import Course


def returning(value: float, name: str, source: str) -> str:
    """`source` with the function `name` changed to return `value` at once."""
    function = next(
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    lines = source.splitlines(keepends=True)
    at = function.body[-1].lineno - 1
    lines.insert(at, f"{' ' * function.body[-1].col_offset}return {value}\n")
    return "".join(lines)


def test_changing_one_function_of_specdec_changes_the_page_and_nothing_else_executes_it_again(
    course: Course,
) -> None:
    first = course.jupyter_book()
    assert first.returncode == 0, first.stdout + first.stderr
    # Leviathan et al., equation 1: (1 - 0.5^4) / (1 - 0.5).
    assert "tokens: 1.875" in course.page("first")
    library = (course.root / "specdec" / "theory" / "speedup.py").as_posix()
    assert f"library: {library}" in course.page("first"), (
        "the page must run on the copy, not on the installed one"
    )
    assert course.executions() == ["First", "Second"]

    assert course.jupyter_book().returncode == 0
    assert course.executions() == ["First", "Second"], "nothing changed, so nothing is executed"

    speedup = course.root / "specdec" / "theory" / "speedup.py"
    original = speedup.read_text(encoding="utf-8")
    course.edit("specdec/theory/speedup.py", lambda source: returning(4321.5, "expected_tokens", source))
    assert course.jupyter_book().returncode == 0
    assert "tokens: 4321.5" in course.page("first")
    assert course.executions() == ["First", "Second"] * 2

    speedup.write_text(original, encoding="utf-8")
    assert course.jupyter_book().returncode == 0
    assert "tokens: 1.875" in course.page("first"), "the outputs of the earlier code come back"
    assert course.executions() == ["First", "Second"] * 2, "from the cache of that code, without executing"


@pytest.mark.parametrize(
    "name",
    [
        "specdec/a.py",
        "models/head/config.json",
        "benchmarks/results/r.json",
        "tests/data/v.json",
        "constraints.txt",
    ],
)
def test_the_digest_notices_a_file_that_appears_changes_or_goes(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    seen = [freshness.execution_digest(tmp_path)]
    path.parent.mkdir(parents=True, exist_ok=True)
    for text in ("1", "2"):
        path.write_text(text)
        seen.append(freshness.execution_digest(tmp_path))
    path.unlink()
    seen.append(freshness.execution_digest(tmp_path))
    assert len(set(seen)) == 3
    assert seen[3] == seen[0]


def test_the_digest_depends_on_the_weights_file_and_on_its_absence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specdec.weights import FILE

    monkeypatch.setenv("SPECDEC_HOME", str(tmp_path / "home"))
    absent = freshness.execution_digest(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / FILE).write_bytes(b"one")
    one = freshness.execution_digest(tmp_path)
    (tmp_path / "home" / FILE).write_bytes(b"two")
    two = freshness.execution_digest(tmp_path)
    assert len({absent, one, two}) == 3


def test_compiled_files_and_pages_do_not_touch_the_digest(tmp_path: Path) -> None:
    before = freshness.execution_digest(tmp_path)
    for name in ("specdec/__pycache__/a.pyc", "book/page.md", "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert freshness.execution_digest(tmp_path) == before


def test_old_caches_are_removed_and_the_current_one_never_is(tmp_path: Path) -> None:
    for age, name in enumerate(["newest", "newer", "old", "oldest", "current"]):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (10_000 - age, 10_000 - age))
    freshness.prune(tmp_path, tmp_path / "current", keep=3)
    assert {path.name for path in tmp_path.iterdir()} == {"newest", "newer", "current"}
