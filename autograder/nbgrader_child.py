"""Runs nbgrader on a throw-away course, inside the walls: the kernels that it starts execute students' code.

    python -m autograder.nbgrader_child SETTINGS COURSE EXERCISE STUDENT...

Makes the assignment, grades every student and writes COURSE/scores.json: {student: {"checks": {name: points}}
or {"error": sentence}}. The parent (nbgrader_side.py) doubts that file like everything that comes out of a
sandbox.
"""

import json
import sys
from pathlib import Path
from typing import Any

from autograder.worker import enter


def scores(folder: Path, name: str, students: list[str]) -> dict[str, dict[str, Any]]:
    """Grade these students' submissions in a course folder."""
    from autograder import course
    from autograder.exercises import find_exercise

    interface = course.api(folder)
    course.generate(interface, find_exercise(name))
    result: dict[str, dict[str, Any]] = {}
    for student in students:
        run = interface.autograde(name, student, force=True, create=True)
        if not run["success"]:
            died = "DeadKernel" in f"{run.get('error')}{run.get('log')}"
            result[student] = {"error": "its kernel died" if died else "it could not be graded"}
            continue
        with interface.gradebook as gradebook:
            notebook = gradebook.find_submission_notebook(name, name, student)
            result[student] = {
                "checks": {grade.cell.name: grade.auto_score or 0.0 for grade in notebook.grades}
            }
    return result


def main() -> None:
    settings, folder, name, *students = sys.argv[1:]
    enter(json.loads(settings))
    try:
        told = scores(Path(folder), name, students)
    except Exception as error:  # nobody reads our stderr
        told = {student: {"error": f"nbgrader failed: {error}"} for student in students}
    Path(folder, "scores.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
