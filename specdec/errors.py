"""Errors whose message is one sentence for the person at the keyboard.

The command line prints that sentence and exits with status 2, without a traceback. Everything here is a
ValueError, so a notebook can catch what the library raises without importing this module.
"""


class SpecdecError(ValueError):
    """Something the caller can put right: the message says what was wrong, what was expected, what to do."""


class MissingWeights(SpecdecError):
    """The verifier's weights file is not where it belongs and could not be brought there."""
