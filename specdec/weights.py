"""Where the verifier's weights lie and how they come there."""

import hashlib
import os
from pathlib import Path

from platformdirs import user_cache_path

from specdec.errors import MissingWeights

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def weights_path() -> Path:
    """Where the weights file belongs: $SPECDEC_HOME, else the platform's cache folder for `specdec`."""
    home = os.environ.get("SPECDEC_HOME")
    return (Path(home).expanduser() if home else user_cache_path("specdec", appauthor=False)) / FILE


def ensure() -> Path:
    """Path of the verified weights file; raises MissingWeights when it is not there."""
    path = weights_path()
    if not path.exists():
        raise MissingWeights(f"the verifier's weights are missing: {path}")
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            raise MissingWeights(f"the verifier's weights are altered: {path}")
    return path
