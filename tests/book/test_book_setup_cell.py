"""The first cell of every notebook: silent where the library is, helpful where it is not, never an error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_course import ROOT

CELL = (ROOT / "book" / "_ext" / "setup_cell.py").read_text(encoding="utf-8")
# A folder that shadows pip: it notes what was asked of it and then fails as without a network.
PIP = """
import os, sys
if __name__ == "__main__":
    with open(os.environ["ASKED"], "a") as log:
        print(*sys.argv[1:], file=log)
    sys.exit(1)
"""


@pytest.fixture
def run(tmp_path: Path):
    """Run the cell in a folder, by a Python without specdec; returns (process, what pip was asked for)."""
    (tmp_path / "fakes").mkdir()
    (tmp_path / "fakes" / "pip.py").write_text(PIP)
    asked = tmp_path / "asked"

    def runner(folder: Path, address: str = "", after: str = "", hidden: tuple[str, ...] = ("specdec",)):
        # The editable install is made invisible by a finder that answers for it first.
        hide = (
            "import importlib.util as u; real = u.find_spec\n"
            f"u.find_spec = lambda n, *a: None if n in {hidden!r} and not found_later(n) else real(n, *a)\n"
            "import sys\nsys.path = [p for p in sys.path if p]\n"
            "sys.meta_path = [f for f in sys.meta_path if 'editable' not in str(f).lower()]\n"
            f"sys.path = [p for p in sys.path if p != {str(ROOT)!r}]\n"
            "from pathlib import Path as P\n"
            "def found_later(n): return n == 'specdec' and any((P(p) / n).is_dir() for p in sys.path)\n"
        )
        cell = CELL.replace('REPOSITORY = ""', f"REPOSITORY = {address!r}")
        done = subprocess.run(
            [sys.executable, "-c", hide + cell + "\n" + after],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": str(tmp_path / "fakes"),
                "ASKED": str(asked),
                "GIT_TERMINAL_PROMPT": "0",
            },
            capture_output=True,
            text=True,
        )
        return done, asked.read_text() if asked.exists() else ""

    return runner


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder that holds a library called specdec."""
    (tmp_path / "repository" / "specdec").mkdir(parents=True)
    (tmp_path / "repository" / "specdec" / "__init__.py").write_text("here = True\n")
    return tmp_path / "repository"


def test_in_the_courses_environment_the_cell_does_and_says_nothing(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CELL], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_below_a_copy_of_the_course_the_library_is_found(run, library: Path) -> None:
    (library / "workspace" / "deep").mkdir(parents=True)
    done, asked = run(library / "workspace" / "deep", after="import specdec; print(specdec.here)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert asked == ""


def test_alone_without_an_address_it_says_what_to_do_and_fetches_nothing(run, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    done, asked = run(tmp_path / "alone")
    assert done.returncode == 0
    assert done.stdout == "specdec is not installed here: open this notebook inside a copy of the course.\n"
    assert asked == ""
    assert list((tmp_path / "alone").iterdir()) == []


def test_in_colab_the_repository_is_cloned_and_only_missing_packages_are_asked_for(
    run, library: Path, tmp_path: Path
) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(library)]
    subprocess.run(["git", "init", "--quiet", str(library)], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "x"], check=True)
    colab = tmp_path / "colab"
    colab.mkdir()
    after = "import specdec; print(specdec.here)"
    done, asked = run(colab, library.as_uri(), after, hidden=("specdec", "gguf", "rich", "numpy", "torch"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("True\n")
    assert asked == "install --quiet rich gguf\n"
    assert "not everything could be fetched" in done.stdout, "pip failed, and the cell went on"


def test_without_a_network_it_says_so_and_goes_on(run, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    done, _ = run(tmp_path / "train", "https://127.0.0.1:9/course", after="print('next cell')")
    assert done.returncode == 0
    assert "not everything could be fetched" in done.stdout
    assert done.stdout.endswith("next cell\n")
    assert "Traceback" not in done.stderr


def test_what_it_may_install_is_a_dependency_of_the_course_and_never_numpy_or_torch() -> None:
    import tomllib

    names = set(eval(CELL.split("NEEDED = ")[1].split("\n")[0]))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["engine"]]
    declared += project["optional-dependencies"]["student"]
    assert names <= {requirement.split(">")[0].split("=")[0] for requirement in declared}
    assert not names & {"numpy", "torch"}
