"""From folders and files to the cells that are run: everything is read as data."""

import json
from pathlib import Path
from typing import Any

import pytest
from ex1_notebooks import EXERCISE, NAME, hand_in, released, solved, with_cell

from autograder import intake
from autograder.errors import GraderError
from autograder.exercises import template


def parsed(notebook: dict[str, Any]) -> intake.Parsed:
    return intake.parse(notebook, template(EXERCISE))


def cell_of(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    return next(c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == name)


def test_a_tree_and_a_folder_of_notebooks_give_the_same_students(tmp_path: Path) -> None:
    hand_in(tmp_path / "tree", "ada", solved())
    hand_in(tmp_path / "tree", "bob", solved())
    (tmp_path / "flat").mkdir()
    for student in ("ada", "bob"):
        (tmp_path / "flat" / f"{student}.ipynb").write_text(json.dumps(solved()))
    for form in ("tree", "flat"):
        entries = intake.find_submissions(str(tmp_path / form))
        assert [(entry.student, entry.exercise.name) for entry in entries] == [("ada", NAME), ("bob", NAME)]
        assert all(entry.path and entry.path.suffix == ".ipynb" for entry in entries)


def test_who_handed_in_nothing_and_who_renamed_the_file_are_found(tmp_path: Path) -> None:
    renamed = hand_in(tmp_path, "ada", solved())
    renamed.rename(renamed.with_name("ex1 (1).ipynb"))
    (tmp_path / "bob" / NAME).mkdir(parents=True)
    (tmp_path / "cyd").mkdir()
    (tmp_path / "dan").mkdir()
    (tmp_path / "dan" / "final version.ipynb").write_text(json.dumps(solved()))
    entries = {entry.student: entry for entry in intake.find_submissions(str(tmp_path))}
    assert {name for name, entry in entries.items() if entry.path is None} == {"bob", "cyd"}
    names = {name: entry.path.name for name, entry in entries.items() if entry.path}
    assert names == {"ada": "ex1 (1).ipynb", "dan": "final version.ipynb"}


def test_of_several_notebooks_the_one_with_the_right_name_counts_and_a_flag_says_so(tmp_path: Path) -> None:
    right = hand_in(tmp_path, "ada", solved())
    right.with_name("a-copy.ipynb").write_text("{}")
    (entry,) = intake.find_submissions(str(tmp_path))
    assert entry.path == right
    assert entry.flags == ["several notebooks"]


@pytest.mark.parametrize("name", ["", "  ", "no-such-folder", "a-file", "empty"])
def test_a_folder_without_submissions_is_one_sentence(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(GraderError) as caught:
        intake.find_submissions(name)
    assert str(caught.value).count(". ") == 0
    assert str(caught.value).endswith(".")


def test_solution_and_own_cells_are_run_and_setup_and_test_cells_are_not() -> None:
    notebook = with_cell(solved(), "mine = 1", at=3)
    sources = [source for _, source in parsed(notebook).cells]
    assert "mine = 1" in sources
    assert any("def accept" in source for source in sources)
    assert not any(source.startswith("# Setup") or 'check("' in source for source in sources)
    assert parsed(notebook).flags == []


def test_edited_deleted_and_duplicated_test_cells_are_flags_and_cost_nothing() -> None:
    notebook = solved()
    cell_of(notebook, "accept")["source"] = "assert True"
    notebook["cells"].remove(cell_of(notebook, "chi-df"))
    notebook["cells"].append(dict(cell_of(notebook, "step-bonus")))
    assert parsed(notebook).flags == [
        "tests edited: accept",
        "tests deleted: chi-df",
        "tests duplicated: step-bonus",
    ]
    assert [source for _, source in parsed(notebook).cells] == [
        source for _, source in parsed(solved()).cells
    ]


def test_a_locked_cell_is_the_courses_own_whatever_the_student_made_of_it() -> None:
    notebook = solved()
    cell_of(notebook, "given-model")["source"] = "Q = P"
    assert parsed(notebook).cells == parsed(solved()).cells
    notebook["cells"].remove(cell_of(notebook, "given-model"))
    without = parsed(notebook)
    assert without.cells[0] == (-1, template(EXERCISE).given["given-model"])
    assert without.flags == ["locked cells deleted"]


def test_a_notebook_without_nbgraders_metadata_still_runs_all_its_code() -> None:
    notebook = solved()
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    assert any("def accept" in source for _, source in parsed(notebook).cells)


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf", b""])
def test_a_byte_order_mark_is_no_reason_to_refuse(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ada.ipynb"
    path.write_bytes(content + json.dumps(released()).encode())
    assert len(intake.read_notebook(path)["cells"]) == len(released()["cells"])


def test_a_file_above_the_size_limit_is_malformed_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "ada.ipynb"
    with path.open("wb") as file:
        file.truncate(intake.MAX_BYTES + 1)
    with pytest.raises(intake.Malformed, match="larger than 32 MB"):
        intake.read_notebook(path)
