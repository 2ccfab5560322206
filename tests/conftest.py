"""What holds for every test, and what several share.

An interrupt must reach the programs that the tests start. A shell that starts a job in the background has it
ignore SIGINT, and every child inherits that. The tests that press Ctrl-C for a user would then wait for ever,
so the handler is put back before anything is started.
"""

import signal
from collections.abc import Iterator

import pytest


def pytest_configure() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Many small operations: where the cores are busy, two threads wait for each other at every one."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
