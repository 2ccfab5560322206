"""The rungs of the ladder: which families of drafts there are, where their heads lie, and by which policies
each is measured.

A family is a head and the kind of tree that belongs to it. EAGLE-1 and EAGLE-2 are one head with two kinds of
tree, so both read `models/eagle1`. Each family is measured with its own policy, and with a chain that is as
long for all of them: on it, acceptance by depth can be compared.

Its own policy is what `specdec bench policies --write` has chosen for that kind, precision and temperature,
and put into the `config.json` of the head; else the policy that the head was saved with, if it is of that
kind; else a small tree. Nothing here runs a model, and torch is imported by what needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from specdec.bench import found_above
from specdec.errors import SpecdecError
from specdec.policy import Dynamic, Policy, chain, dynamic, static

KINDS = ("chain", "static", "dynamic")
KIND_OF_HEAD = {"medusa": "static", "eagle1": "static", "eagle3": "dynamic"}
# family -> the name of its head, and its kind of tree
FAMILIES = {
    "ngram": ("ngram", "chain"),
    "vanilla": ("vanilla", "chain"),
    "medusa": ("medusa", "static"),
    "eagle1": ("eagle1", "static"),
    "eagle2": ("eagle1", "dynamic"),
    "eagle3": ("eagle3", "dynamic"),
}
DEFAULT_MODELS = Path("models")
# Where nothing was chosen. 4-bit weights read up to four rows at the price of few: three nodes.
FALLBACK: dict[str, Policy] = {
    "chain": chain(4),
    "static": static([3, 2, 1], rule="top-k"),
    "dynamic": dynamic(4, 3, 8),
}
FALLBACK_INT4: dict[str, Policy] = {
    "chain": chain(3),
    "static": static(parents=[0, 0, 1], rule="top-k"),
    "dynamic": dynamic(2, 2, 3),
}


class Choice(NamedTuple):
    """A policy that `specdec bench policies` chose for a head."""

    precision: str
    temperature: float
    kind: str
    policy: Policy


@dataclass(frozen=True)
class Family:
    """A family and its head: a folder, or None for prompt lookup."""

    name: str
    head: str
    kind: str  # of its own policy
    folder: Path | None = None
    saved: Policy | None = None  # the policy that the head was saved with
    deepest: int | None = None  # how many tokens ahead it can look; None: no limit
    choices: tuple[Choice, ...] = ()

    @property
    def draft(self) -> str:
        """The name that `drafts.choose.load_draft` knows it by."""
        return self.head if self.folder is None else str(self.folder)


@dataclass(frozen=True)
class Rung:
    """A family with a policy: one method of the ladder."""

    family: str
    head: str
    policy: Policy
    own: bool  # the family's own policy, not the common chain

    @property
    def name(self) -> str:
        return f"{self.family} {in_words(self.policy)}"


def in_words(policy: Policy) -> str:
    """chain(5), dynamic(4, 3, 8), or the children of each row of a static tree: static(3 2 1 1)."""
    if isinstance(policy, Dynamic):
        return f"dynamic({policy.depth}, {policy.top_k}, {policy.total})"
    if kind_of(policy) == "chain":
        return f"chain({policy.nodes})"
    levels = [len(level.rows) for level in policy.levels]
    return f"static({' + '.join(map(str, levels))})"


def kind_of(policy: Policy) -> str:
    if isinstance(policy, Dynamic):
        return "dynamic"
    return "chain" if policy.parents == tuple(range(policy.nodes)) else "static"


# -- families ----------------------------------------------------------------------------------------------


def find_families(names: Sequence[str], models: Path | None = None) -> list[Family]:
    """The families of these names; of none, prompt lookup and all whose heads there are.

    models: the folder with the heads; None looks for `models/` upwards. A head there under another name is
    measured under that name, with the kind of tree of its family: so ablations are rungs, too. Raises
    SpecdecError for a family that is unknown or has no head, and when without names no head is found.
    """
    if models is not None and not models.is_dir():
        raise SpecdecError(f"there is no folder {models}: --heads is a folder with one head per sub-folder")
    if names:
        return [find_family(name, models) for name in dict.fromkeys(names)]
    found = [find_family(name, models) for name, (head, _) in FAMILIES.items() if has_head(head, models)]
    if len(found) == 1:
        raise SpecdecError(
            f"there is no trained head in {models or DEFAULT_MODELS}: train one with `specdec train`, name "
            "its folder by --heads, or measure prompt lookup alone with --families ngram"
        )
    return found


def find_family(name: str, models: Path | None) -> Family:
    """One of them, see `find_families`."""
    from specdec.checkpoint import read_json
    from specdec.drafts.ngram import NgramDraft
    from specdec.drafts.store import policy_from_json

    head, kind = FAMILIES.get(name, (name, ""))
    if head == "ngram":
        return Family(name, head, kind, saved=NgramDraft().policy)
    folder = head_folder(head, models)
    if folder is None and kind:
        raise SpecdecError(
            f"the family {name} has no head: there is no "
            f"{(models or DEFAULT_MODELS) / head / 'config.json'}; train it with `specdec train`, or leave "
            "it out by --families"
        )
    if folder is None:
        raise SpecdecError(
            f"there is no family {name!r}: the families are {', '.join(FAMILIES)}, and every head in "
            f"{models or DEFAULT_MODELS}"
        )
    config = read_json(folder / "config.json")
    own = config.get("specdec") or {}
    return Family(
        name,
        head,
        kind or KIND_OF_HEAD.get(own.get("family", ""), "chain"),
        folder,
        policy_from_json(own["policy"]) if "policy" in own else None,
        config.get("medusa_num_heads"),
        read_choices(folder, own),
    )


def has_head(head: str, models: Path | None) -> bool:
    return head == "ngram" or head_folder(head, models) is not None


def head_folder(head: str, models: Path | None) -> Path | None:
    """The folder of a head, or None where there is none."""
    if models is not None:
        return models / head if (models / head / "config.json").is_file() else None
    config = found_above(DEFAULT_MODELS / head / "config.json")
    return None if config is None else config.parent


def fingerprint(family: Family) -> str:
    """What changes when the head does: of its weights and its configuration."""
    if family.folder is None:
        return family.head
    digest = sha256()
    for file in sorted(family.folder.iterdir()):
        if file.suffix in (".safetensors", ".json"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


# -- policies ----------------------------------------------------------------------------------------------


def rungs(families: Iterable[Family], precision: str, temperature: float, chain_length: int) -> list[Rung]:
    """Every family with its own policy, and every head once with the common chain.

    A head that is measured with a chain at least as long has no other one.
    """
    found: list[Rung] = []
    for family in families:
        found.append(Rung(family.name, family.head, own_policy(family, precision, temperature), True))
        common = chain(min(chain_length, family.deepest or chain_length))
        chains = [r.policy for r in found if r.head == family.head and kind_of(r.policy) == "chain"]
        if all(policy.nodes < common.nodes for policy in chains):
            found.append(Rung(family.name, family.head, common, False))
    return found


def own_policy(family: Family, precision: str, temperature: float) -> Policy:
    """What was chosen for this family, or what stands in for it; never deeper than the draft can look."""
    # fp32 is there for comparing outputs: it takes the trees of bf16.
    for chosen_in in (precision, "bf16") if precision == "fp32" else (precision,):
        for choice in family.choices:
            if choice[:3] == (chosen_in, temperature, family.kind):
                return choice.policy
    fits = family.saved is not None and kind_of(family.saved) == family.kind
    if family.saved is not None and fits and (precision != "int4" or family.folder is None):
        return family.saved
    fallback = (FALLBACK_INT4 if precision == "int4" else FALLBACK)[family.kind]
    return fallback.up_to(family.deepest or fallback.depth)


def read_choices(folder: Path, own: dict[str, Any]) -> tuple[Choice, ...]:
    """What stands under "policies" in a head's configuration; raises SpecdecError where it cannot be."""
    from specdec.drafts.store import policy_from_json

    try:
        return tuple(
            Choice(c["precision"], float(c["temperature"]), c["kind"], policy_from_json(c["policy"]))
            for c in own.get("policies", [])
        )
    except (KeyError, TypeError):
        raise SpecdecError(
            f"the policies in {folder / 'config.json'} cannot be read: write them again with "
            "`specdec bench policies --write`"
        ) from None


def check_names(names: Collection[str], known: Sequence[str], what: str) -> None:
    """Raise SpecdecError for the first name that is not known."""
    for name in names:
        if name not in known:
            raise SpecdecError(f"there is no {what} {name!r}: choose from {', '.join(known)}")
    if not names:
        raise SpecdecError(f"no {what} is named: choose from {', '.join(known)}")
