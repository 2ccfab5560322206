"""Which draft a name stands for: prompt lookup, none at all, a trained head, or a small language model.

A folder with a `config.json` that names a family is a head (store.py); one that does not is a checkpoint in
Hugging Face layout, and drafts as a language model of its own (small_lm.py). A bare name is looked for among
the heads of this course, in `models/`.
"""

from __future__ import annotations

from pathlib import Path

from specdec.bench import found_above
from specdec.checkpoint import read_json
from specdec.drafts.interface import Draft, NoDraft
from specdec.drafts.ngram import NgramDraft
from specdec.drafts.small_lm import SmallLM
from specdec.drafts.store import load_head
from specdec.errors import SpecdecError
from specdec.verifier import Verifier

MODELS = Path("models")


def load_draft(name: str, verifier: Verifier) -> Draft:
    """The draft that `name` stands for, to work with `verifier`: "ngram", "none", a folder, or a head's name.

    Raises SpecdecError when there is none of that name, or it cannot be read, or does not fit.
    """
    if name == "ngram":
        return NgramDraft()
    if name == "none":
        return NoDraft()
    config = found_above(MODELS / name / "config.json")
    folder = Path(name) if Path(name).is_dir() else config and config.parent
    if folder is None:
        raise SpecdecError(
            f"there is no draft {name!r}: choose ngram, none, or a folder with a trained head or a "
            "Llama-family checkpoint"
        )
    if "specdec" in read_json(folder / "config.json"):
        return load_head(folder, verifier)
    precision = "fp32" if verifier.precision == "fp32" else "bf16"
    return SmallLM(Verifier.load(folder, precision))
