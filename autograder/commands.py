"""What the commands of `autograder` take, and whom they call. cli.py turns their errors into sentences."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from autograder import sandbox

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Grade and release the exercises of the course."
)


@app.command()
def grade(
    submissions: Annotated[str, typer.Argument(help="nbgrader's submitted/ tree, or a folder of notebooks")],
    out: Annotated[Path, typer.Option(help="where the results go")] = Path("dist/grades"),
    exercise: Annotated[str | None, typer.Option(help="only this exercise, by name or key (ex1)")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="processor seconds per cell and per call")] = 20.0,
    memory: Annotated[int, typer.Option(min=128, help="megabytes per submission")] = 1024,
    nbgrader: Annotated[
        bool, typer.Option(help="score with nbgrader too, and flag where the two differ")
    ] = True,
    isolation: Annotated[
        str, typer.Option(help="bwrap, or none: student code then runs with your own rights")
    ] = "bwrap",
) -> int:
    """Score every submission in a folder: feedback per student, grades.csv and grades.json for the class."""
    from autograder import report
    from autograder.errors import GraderError
    from autograder.grade import grade_folder

    if isolation not in ("bwrap", "none"):
        raise GraderError(f"There is no isolation {isolation!r}: say bwrap or none.")
    said = Console(stderr=True)
    if isolation == "none":
        said.print("Warning: no isolation. Student code runs with your rights, your files and your network.")
    limits = sandbox.Limits(cpu=timeout, memory=memory << 20)
    with said.status("reading the submissions") as status:
        results = grade_folder(
            submissions,
            out,
            only=exercise,
            isolation="none" if isolation == "none" else "bwrap",
            limits=limits,
            with_nbgrader=nbgrader,
            progress=lambda words: status.update(report.CONTROL.sub(" ", words).replace("[", "\\[")),
        )
    report.print_table(Console(), results, nbgrader)
    print(f"\n{len(results)} submissions, results in {out}")
    return 0


@app.command()
def release(
    check: Annotated[
        bool, typer.Option("--check", help="change nothing; fail if the release is out of date")
    ] = False,
) -> int:
    """Make the students' notebooks from solutions/; one that was edited since the last release stops it."""
    from autograder.release import check_release, make_release

    if check:
        differences = check_release()
        for line in differences:
            print(f"autograder: {line}", file=sys.stderr)
        return 1 if differences else 0
    for path in make_release():
        print(path)
    return 0


@app.command()
def bundle(out: Annotated[Path, typer.Option(help="the folder for the zip")] = Path("dist")) -> int:
    """Zip what a student needs, and nothing else, into specdec-student.zip."""
    from autograder.bundle import make_bundle

    print(make_bundle(out))
    return 0
