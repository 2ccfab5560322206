"""nbgrader, run by hand in the repository root: solutions/ are the sources, notebooks/ the release.

Prefer `autograder grade`, which fences student code in, and `autograder release`, which never overwrites an
edited notebook. `nbgrader autograde` works here too, from a fresh clone on: the gradebook that it needs is
made first, without touching notebooks/. It runs student code with your own rights.
"""

import sys
from pathlib import Path

from traitlets.config import get_config

from autograder import course

c = get_config()
course.configure(c)
course.find_programs()
if {"autograde", "formgrader"} & set(sys.argv) and "--help" not in sys.argv:
    course.ensure_gradebook(Path(__file__).resolve().parent)
