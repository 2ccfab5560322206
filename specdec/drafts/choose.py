"""Which draft a name stands for: prompt lookup, none at all, a trained head, or a small language model.

A folder with a `config.json` that names a family is a head (store.py); one that does not is a checkpoint in
Hugging Face layout, and drafts as a language model of its own (small_lm.py). A bare name is looked for among
the heads of this course: in the folder `models/` of its checkout, found from the working folder or from this
package upwards. They are not part of an installed package.
"""

from __future__ import annotations

from pathlib import Path

from specdec.bench import found_above
from specdec.checkpoint import read_json
from specdec.drafts.interface import Draft, NoDraft
from specdec.drafts.ngram import NgramDraft
from specdec.drafts.small_lm import SmallLM
from specdec.drafts.store import ARCHITECTURES, load_head
from specdec.errors import SpecdecError
from specdec.verifier import Verifier

MODELS = Path("models")
BEST = "eagle3"  # the draft where nothing is said, if it is there


def shipped(name: str) -> Path | None:
    """The folder of the course's own head of this name, None where there is none."""
    config = found_above(MODELS / name / "config.json")
    return config and config.parent


def default_draft() -> str:
    """The name of the draft that is used where none is named."""
    return BEST if shipped(BEST) else "ngram"


def load_draft(name: str, verifier: Verifier) -> Draft:
    """The draft that `name` stands for, to work with `verifier`: "ngram", "none", a folder, or a head's name.

    Raises SpecdecError when there is none of that name, or it cannot be read, or does not fit.
    """
    if name == "ngram":
        return NgramDraft()
    if name == "none":
        return NoDraft()
    folder = Path(name) if Path(name).is_dir() else shipped(name)
    if folder is None and name in ARCHITECTURES:
        raise SpecdecError(
            f"the trained head {name!r} is not here: it lies in {MODELS / name} of the course's repository, "
            "so call specdec inside a checkout that has it, give the head's folder, or use ngram or none"
        )
    if folder is None:
        raise SpecdecError(
            f"there is no draft {name!r}: choose ngram, none, or a folder with a trained head or a "
            "Llama-family checkpoint"
        )
    if "specdec" in read_json(folder / "config.json"):
        return load_head(folder, verifier)
    precision = "fp32" if verifier.precision == "fp32" else "bf16"
    return SmallLM(Verifier.load(folder, precision))
