"""The marker of the hidden checks, which tests here import."""

from autograder.plugin import pytest_configure

__all__ = ["pytest_configure"]
