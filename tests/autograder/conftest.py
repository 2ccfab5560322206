"""The marker of the hidden checks, which tests here import; and walls that this machine's kernel refuses.

A missing bubblewrap is the business of tools/test.py. Where it is installed and the kernel or a container
blocks it, the tests that need it are not run, and the run ends with a line that says so.
"""

import shutil

import pytest

from autograder.errors import SandboxError
from autograder.plugin import pytest_configure
from autograder.process import find_walls

__all__ = ["pytest_configure"]
REFUSED = pytest.StashKey[tuple[int, str]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    needing = [item for item in items if item.get_closest_marker("sandbox")]
    if not needing or not shutil.which("bwrap"):
        return
    try:
        find_walls("bwrap")
    except SandboxError as error:
        config.stash[REFUSED] = (len(needing), str(error))
        config.hook.pytest_deselected(items=needing)
        items[:] = [item for item in items if item not in needing]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if REFUSED in config.stash:
        count, reason = config.stash[REFUSED]
        terminalreporter.write_line(f"NOT RUN: {count} tests marked `sandbox`. {reason}", yellow=True)
