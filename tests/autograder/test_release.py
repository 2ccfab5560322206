"""From solutions/ to what a student gets: the release, its gradebook and the bundle."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ex1_notebooks import EXERCISE, NAME, SEVEN, hand_in, solved

from autograder import bundle, release
from autograder.errors import GraderError
from autograder.exercises import HIDDEN, ROOT, Exercise, exercises


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """What a release made now would write."""
    return release.released_files()


@pytest.fixture
def root(tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose notebooks/ is a release of the present sources."""
    monkeypatch.setattr(release, "released_files", lambda: dict(files))
    release.make_release(tmp_path)
    return tmp_path


def test_the_committed_release_is_what_the_sources_give(files: dict[str, bytes]) -> None:
    record = {name: release.checksum(content) for name, content in files.items()}
    assert release.read_record(ROOT / "notebooks") == record
    for name, expected in record.items():
        assert release.checksum_of(ROOT / "notebooks" / name) == expected, f"{name}: run make release"


def test_a_release_holds_what_students_may_see_and_nothing_else(files: dict[str, bytes]) -> None:
    allowed = {
        f"{one.name}/{name}"
        for one in exercises()
        for name in (f"{one.name}.ipynb", f"{one.key}_checks.py", f"{one.key}_ideas.json")
    }
    assert set(files) == allowed
    assert {one.key for one in exercises()} >= {"ex1", "ex2", "ex4"}


@pytest.mark.parametrize("exercise", exercises(), ids=lambda one: one.key)
def test_a_released_notebook_has_no_secret_and_every_cell(
    exercise: Exercise, files: dict[str, bytes]
) -> None:
    text = files[f"{exercise.name}/{exercise.name}.ipynb"].decode()
    for word in ("autograder", "BEGIN SOLUTION", "BEGIN HIDDEN", "return u * p_x < q_x"):
        assert word not in text
    notebook = json.loads(text)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert not any(cell.get("outputs") for cell in notebook["cells"])
    ids = [cell["id"] for cell in notebook["cells"]]
    assert ids == [cell["id"] for cell in json.loads(exercise.notebook.read_text())["cells"]]


def test_a_second_release_changes_nothing(root: Path) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    release.make_release(root)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert release.check_release(root) == []


def test_an_edited_notebook_stops_the_release_which_names_it_and_writes_nothing(root: Path) -> None:
    edited = root / "notebooks" / NAME / f"{NAME}.ipynb"
    helper = root / "notebooks" / NAME / "ex1_checks.py"
    edited.write_text(edited.read_text().replace("raise NotImplementedError()", "return True", 1))
    helper.unlink()
    before = edited.read_bytes()
    with pytest.raises(GraderError, match=rf"notebooks/{NAME}/{NAME}\.ipynb was edited"):
        release.make_release(root)
    assert edited.read_bytes() == before
    assert not helper.exists()


def test_an_outdated_notebook_that_nobody_edited_is_replaced(
    root: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = {name: content + b"\n" for name, content in files.items()}
    monkeypatch.setattr(release, "released_files", lambda: newer)
    assert len(release.check_release(root)) == len(files)
    release.make_release(root)
    assert release.check_release(root) == []
    assert (root / "notebooks" / NAME / "ex1_checks.py").read_bytes().endswith(b"\n\n")


def test_drift_is_a_sentence_per_file(root: Path) -> None:
    folder = root / "notebooks" / NAME
    (folder / "ex1_ideas.json").write_text("{}")
    (folder / "answers.txt").write_text("42")
    assert release.check_release(root) == [
        f"notebooks/{NAME}/ex1_ideas.json is not what solutions/ gives: run `make release`.",
        f"notebooks/{NAME}/answers.txt belongs to no release: remove it.",
    ]


# -- nbgrader, typed by hand ---------------------------------------------------------------------------------


def test_nbgrader_autograde_works_in_a_fresh_clone_and_leaves_notebooks_alone(tmp_path: Path) -> None:
    """nbgrader_config.py makes the gradebook first; a second run finds it up to date."""
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    shutil.copytree(ROOT / "solutions", tmp_path / "solutions")
    hand_in(tmp_path / "submitted", "ada", SEVEN["m06-correction-from-q"]())
    command = [str(Path(sys.executable).parent / "nbgrader"), "autograde", NAME]
    run = subprocess.run(
        command,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    with sqlite3.connect(tmp_path / "gradebook.db") as gradebook:
        (score,) = gradebook.execute("SELECT SUM(auto_score) FROM grade").fetchone()
    assert score == 18
    assert not (tmp_path / "notebooks").exists()
    graded = json.loads((tmp_path / "autograded" / "ada" / NAME / f"{NAME}.ipynb").read_text())
    (failed,) = [
        output
        for cell in graded["cells"]
        for output in cell.get("outputs", [])
        if output["output_type"] == "error"
    ]
    # one sentence without frames; here the visible half of the test cell has already said it
    assert len(failed["traceback"]) == 1
    assert EXERCISE.ideas["step-correction"]["sentence"] in failed["traceback"][0]


# -- the bundle ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """{path: text} of the bundle of this repository."""
    path = bundle.make_bundle(tmp_path_factory.mktemp("dist"))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_the_bundle_holds_only_what_is_on_the_list(bundled: dict[str, str]) -> None:
    allowed = {"README.md", "LICENSE", "constraints.txt", "environment.yml", "pyproject.toml"}
    allowed |= {f"notebooks/{name}" for name in release.read_record(ROOT / "notebooks")}
    allowed |= {"requirements-student.txt"}
    patterns = (r"notebooks/[\w-]+\.ipynb", r"specdec/[\w/]+\.py", r"benchmarks/results/[\w-]+\.json")
    for name in bundled:
        folder, _, inside = name.partition("/")
        assert folder == "specdec-student"
        assert inside in allowed or any(re.fullmatch(pattern, inside) for pattern in patterns), inside
    assert allowed <= {name.partition("/")[2] for name in bundled}


def words(text: str) -> str:
    return " ".join(text.split())


def test_no_hidden_check_and_no_solution_is_anywhere_in_the_bundle(bundled: dict[str, str]) -> None:
    def text_of(name: str) -> str:
        if not name.endswith(".ipynb"):
            return words(bundled[name])
        return words("\n".join("".join(cell["source"]) for cell in json.loads(bundled[name])["cells"]))

    texts = {name: text_of(name) for name in bundled}
    hidden = [HIDDEN[0], "### BEGIN SOLUTION", "from autograder"]
    for path in (ROOT / "autograder").rglob("*.py"):
        hidden += [words(line) for line in path.read_text().splitlines() if line.startswith("def test_")]
    assert len(hidden) > 15
    for path in (ROOT / "autograder").glob("ex*/*.md"):
        hidden += [words(line) for line in path.read_text().splitlines() if len(line) > 60]
    solutions = {one.name: solutions_of(one) for one in exercises()}
    assert all(len(found) >= 4 for found in solutions.values())
    for name, text in texts.items():
        assert not [secret for secret in hidden if secret in text], name
        for exercise, found in solutions.items():
            # the rule itself is one line and stands in a chapter; in the exercise it must not
            secrets = found if exercise in name else [one for one in found if len(one) > 60]
            assert not [secret for secret in secrets if secret in text], name


def solutions_of(exercise: Exercise) -> list[str]:
    """What stands between the marks of its solution cells."""
    sources = ["".join(cell["source"]) for cell in json.loads(exercise.notebook.read_text())["cells"]]
    return [
        words(part.split("### END SOLUTION")[0])
        for source in sources
        for part in source.split("### BEGIN SOLUTION")[1:]
    ]


def test_the_same_files_make_the_same_bundle(tmp_path: Path) -> None:
    first, second = (bundle.make_bundle(tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second


def test_a_bundle_that_lacks_something_is_not_made(root: Path, tmp_path: Path) -> None:
    with pytest.raises(GraderError, match="there is no LICENSE"):
        bundle.make_bundle(tmp_path / "dist", root)
    assert not (tmp_path / "dist").exists()


def test_solved_work_in_notebooks_keeps_a_bundle_from_being_made(root: Path) -> None:
    for name in (
        "LICENSE",
        "constraints.txt",
        "environment.yml",
        "pyproject.toml",
        "requirements-student.txt",
    ):
        (root / name).write_text("")
    (root / "specdec").mkdir()
    (root / "specdec" / "__init__.py").write_text("")
    (root / "notebooks" / "00-start-here.ipynb").write_text("{}")
    assert f"notebooks/{NAME}/{NAME}.ipynb" in bundle.bundled_files(root)
    (root / "notebooks" / NAME / f"{NAME}.ipynb").write_text(json.dumps(solved()))
    with pytest.raises(GraderError, match="is not as it was released"):
        bundle.bundled_files(root)
