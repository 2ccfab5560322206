"""Makes the checks of exN/ runnable by plain pytest (see plugin.py)."""

from autograder.plugin import pytest_addoption, pytest_configure, student

__all__ = ["pytest_addoption", "pytest_configure", "student"]
