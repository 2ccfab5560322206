"""What holds for every test: an interrupt reaches the programs that the tests start.

A shell that starts a job in the background has it ignore SIGINT, and every child inherits that. The tests
that press Ctrl-C for a user would then wait for ever, so the handler is put back before anything is started.
"""

import signal


def pytest_configure() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
