"""A small run of training data that kills itself, as `kill -9` would, after so many passes of the verifier.

Usage: python killed_run.py FOLDER PASSES
"""

import os
import signal
import sys
from pathlib import Path

import torch
from small_run import small_run

torch.set_num_threads(1)
left = int(sys.argv[2])


def count(progress):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)


small_run(Path(sys.argv[1]), on_progress=count)
