"""Ranges, pins and the two student files say the same; the environment that runs the tests obeys them."""

import re
import subprocess
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read_pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pair) == 2 for pair in pairs), "every line of constraints.txt is name==version"
    assert len({canonicalize_name(name) for name, _ in pairs}) == len(pairs), "one pin per package"
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def declared() -> list[Requirement]:
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    return [Requirement(text) for group in groups for text in group if not text.startswith("specdec[")]


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_every_declared_dependency_has_a_pin_inside_its_range(requirement: Requirement) -> None:
    pins = read_pins()
    assert canonicalize_name(requirement.name) in pins
    assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


def test_every_installed_package_has_the_pinned_version() -> None:
    pins = read_pins()
    # this environment's own folders: setuptools puts copies that it carries along on the path of a test run
    folders = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    found = metadata.distributions(path=folders)
    installed = {canonicalize_name(d.metadata["Name"]): Version(d.version) for d in found}
    unlike = {
        name: (str(installed[name]), str(pin))
        for name, pin in pins.items()
        # torch's CPU build calls itself 2.13.0+cpu: the part before the plus is what is pinned
        if name in installed and installed[name].public != pin.public
    }
    assert unlike == {}
    unpinned = set(installed) - set(pins) - {"specdec"}
    # a machine that takes torch's CUDA build has the packages that torch itself pins for it
    assert {name for name in unpinned if not name.startswith(("nvidia-", "cuda-", "triton"))} == set()


def test_torch_and_jupyter_book_keep_the_decided_pins() -> None:
    pins = read_pins()
    assert pins["torch"] == Version("2.13.0")
    assert pins["jupyter-book"] in SpecifierSet(">=1.0.4.post1,<2")
    assert pins["nbgrader"] == Version("0.9.6")


def test_both_student_files_install_the_student_extra_under_the_same_pins() -> None:
    wanted = {"--constraint constraints.txt", ".[student]"}
    requirements = (ROOT / "requirements-student.txt").read_text().splitlines()
    assert {line.strip() for line in requirements if line.strip() and not line.startswith("#")} == wanted
    environment = (ROOT / "environment.yml").read_text()
    pip_part = environment.split("- pip:")[1]
    assert {item.strip() for item in re.findall(r"^\s+- (.+)$", pip_part, re.M)} == wanted
    floor = re.search(r"- python(>=[\d.]+)", environment)
    assert floor is not None
    assert floor.group(1) == PROJECT["requires-python"]


def test_what_a_student_installs_never_pulls_torch() -> None:
    student = {"dependencies": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    names = {Requirement(text).name for text in [*student["dependencies"], *student["student"]]}
    assert not names & {"torch", "transformers", "gguf"}


def test_the_theory_and_the_command_line_import_without_torch() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "import specdec.theory.rejection, specdec.theory.exact, specdec.theory.speedup\n"
        "import specdec.theory.simulate, specdec.theory.stats, specdec.demo, specdec.bench, specdec.cli\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
