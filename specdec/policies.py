"""Which tree suits a head: a dozen candidates per kind, and the best of them on held-out prompts.

A tree is worth tau / (D + V(m + 1)), expected tokens over time: the more nodes, the more tokens per verifier
call, and the dearer the call. Where the best of it lies depends on the head's acceptance by depth and rank,
on what its passes cost and on V, so on the machine and the precision. tau and D are those of decoding with
the candidate, V(n) is timed in between: every candidate is a rung of a small ladder (ladder.py), on prompts
that were never trained on and that no ladder measures. The speedup itself stands beside it; it says the same
with the noise of every round in it.

What was chosen lies in the head's `config.json`, under "specdec": "policies", one entry per precision,
temperature and kind; and the best greedy one in bf16 under "policy", with which the head drafts if nothing
is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specdec.checkpoint import read_json
from specdec.drafts.store import policy_from_json, policy_to_json
from specdec.errors import SpecdecError
from specdec.files import write_json
from specdec.policy import Policy, chain, dynamic, static
from specdec.rungs import Family, Rung, kind_of

CHAINS = (1, 2, 3, 4, 5, 6, 8)
# Children per node of each level; and sparse trees, by the parent row of each node, which spend their nodes
# behind the first choices.
LEVELS = ((2,), (3,), (2, 1), (3, 1), (2, 1, 1), (3, 1, 1), (2, 2), (3, 2, 1))
SPARSE = (
    (0, 0, 0, 1, 1, 4),
    (0, 0, 0, 1, 1, 2, 4),
    (0, 0, 0, 1, 1, 2, 4, 4, 7),
    (0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 5, 5),
)
# With top_k 1 a dynamic tree is a chain: so its length is chosen along with the tree.
DYNAMIC = (
    *((2, 1, 2), (3, 1, 3), (4, 1, 4), (2, 2, 3), (2, 3, 5), (3, 2, 4), (3, 2, 6), (3, 3, 8), (4, 2, 6)),
    *((4, 3, 8), (4, 3, 12), (5, 2, 8), (5, 3, 10), (6, 3, 12), (6, 4, 16)),
)


def candidates(family: Family) -> list[Policy]:
    """The trees of the family's kind that are tried, none deeper than its draft looks ahead."""
    found: Sequence[Policy]
    if family.kind == "chain":
        found = [chain(n) for n in CHAINS]
    elif family.kind == "static":
        found = [static(branching, rule="top-k") for branching in LEVELS]
        found += [static(parents=parents, rule="top-k") for parents in SPARSE]
    else:
        found = [dynamic(*sizes) for sizes in DYNAMIC]
    return [policy for policy in found if family.deepest is None or policy.depth <= family.deepest]


def candidate_rungs(families: Sequence[Family]) -> list[Rung]:
    """Every family with every one of its candidates."""
    return [Rung(family.name, family.head, p, True) for family in families for p in candidates(family)]


def choose(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of each family, precision and temperature the row with the highest bound, the smaller tree of equals.

    rows: as ladder_summary.py makes them, of one set of prompts.
    """
    best: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in rows:
        key = (row["family"], row["precision"], row["temperature"])
        if key not in best or worth(row) > worth(best[key]):
            best[key] = row
    return list(best.values())


def worth(row: Mapping[str, Any]) -> tuple[float, int]:
    return row["bound"], -row["nodes"]


def write(family: Family, chosen: Sequence[Mapping[str, Any]], rungs: Sequence[Rung]) -> Path | None:
    """Put the chosen rows' policies into the head's configuration; None for a draft that has none.

    chosen: rows of families with this head. Raises SpecdecError when the file cannot be written.
    """
    if family.folder is None:
        return None
    file = family.folder / "config.json"
    config = read_json(file)
    own = config["specdec"]
    entries = {of(entry): entry for entry in own.get("policies", [])}
    for row in chosen:
        policy = next(r.policy for r in rungs if r.name == f"{row['family']} {row['policy']}")
        entry = {
            "precision": row["precision"],
            "temperature": row["temperature"],
            "kind": kind_of(policy),
            "policy": policy_to_json(policy),
            "bound": row["bound"],
        }
        entries[of(entry)] = entry
    own["policies"] = list(entries.values())
    greedy = [e for e in own["policies"] if (e["precision"], e["temperature"]) == ("bf16", 0)]
    if greedy:
        own["policy"] = policy_to_json(
            policy_from_json(max(greedy, key=lambda entry: entry["bound"])["policy"])
        )
    try:
        write_json(file, config)
    except OSError as error:
        raise SpecdecError(f"cannot write {file}: {error.strerror or error}") from None
    return file


def of(entry: Mapping[str, Any]) -> tuple[str, float, str]:
    """What a policy was chosen for."""
    return entry["precision"], float(entry["temperature"]), entry["kind"]
