"""Errors of the autograder whose message is one sentence for the instructor at the keyboard."""

from specdec.errors import SpecdecError


class GraderError(SpecdecError):
    """Something the instructor can put right: the command prints the sentence and ends with status 2."""


class SandboxError(GraderError):
    """The walls around student code cannot be raised on this machine."""
