"""What the ladder's lines say: a row per rung, temperature and set of prompts, and their means over the sets.

Lines are those of ladder.py; nothing here runs a model. Of a set of prompts, in one precision:

    tau         tokens emitted over rounds, all prompts together
    speedup     tokens over seconds, all prompts together, over the same of the plain runs around; beside it
                the median and the quartiles of the prompts' own ratios
    V(n)        per width the median over prompts of a pass's milliseconds, over that of width 1
    D           milliseconds per round of the draft's stage, over V(1): the re-run of what was accepted, its
                passes, and growing the tree
    c           D over the depth of the tree: the cost of one draft pass, of one drafted token on a chain
    verify      V(m + 1), averaged over the rounds: those at the end of a text draft fewer nodes
    bound       tau / (D + verify): the speedup if nothing took time but the passes
    share       speedup / bound; it may exceed 1 by what plain decoding, too, spends outside its passes

alpha at a depth is conditional: of the drafts at this depth whose predecessors were all accepted, the share
that was accepted, on a chain (`tried_by_depth`: how many there were); EAGLE's n-alpha (Li et al. 2024,
arXiv:2401.15077, section 4) counts so, too. A rung with a tree carries the alphas that the same head had on
its chain. The textbook alpha takes one probability for all depths; its maximum likelihood estimate is all
accepted drafts over all that were tried. `accepted_by_depth` is the rung's own: the share of its walks that
got a child accepted there.

The mean over sets is that of the sets' numbers, every set counting alike. Everything is plain data that JSON
can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from specdec.bench_summary import first_difference, spread
from specdec.ladder import PLAIN
from specdec.rungs import Rung, in_words, kind_of
from specdec.theory.speedup import measured_cost

if TYPE_CHECKING:
    from specdec.ladder import Line, Plan

MEAN = "mean"
# What is averaged over the sets as it is.
AVERAGED = (
    *("tau", "alpha", "D", "D_ms", "c", "verify", "tokens_per_second", "plain_tokens_per_second"),
    *("speedup", "speedup_median", "bound"),
)


def summarise(lines: Sequence[Line], plan: Plan) -> list[dict[str, Any]]:
    """All rows: per precision, temperature and rung those of the sets, then their mean."""
    rows: list[dict[str, Any]] = []
    sets = list(dict.fromkeys(prompt.set for prompt in plan.prompts))
    for (precision, temperature), found in plan.rungs.items():
        own = [line for line in lines if line["precision"] == precision]
        for rung in found:
            of_sets = []
            for name in sets:
                chosen = [i for i, prompt in enumerate(plan.prompts) if prompt.set == name]
                here = [line for line in own if line["prompt"] in chosen]
                if any(temperature in plan.wanted[i] for i in chosen):
                    of_sets.append(row(here, rung, found, precision, temperature, name, plan))
            rows += of_sets
            if len(of_sets) > 1:
                rows.append(mean_row(of_sets))
    return rows


def row(
    lines: Sequence[Line],
    rung: Rung,
    others: Sequence[Rung],
    precision: str,
    temperature: float,
    prompt_set: str,
    plan: Plan,
) -> dict[str, Any]:
    """One rung on one set. lines: of this precision and set."""
    runs = by_prompt(lines, temperature, rung.name)
    plain = plain_beside(lines, temperature, runs)
    curve = curve_of([line for line in lines if line["kind"] == "curve"])
    cost = measured_cost(curve["widths"], curve["ms"])
    rounds = [round_ for run in runs.values() for round_ in run["rounds"]]
    measured = speeds(runs, plain)
    tau = sum(emitted for _, emitted, _ in rounds) / len(rounds)
    draft_ms = 1000 * sum(run["stages"]["draft"] for run in runs.values()) / len(rounds)
    in_units = draft_ms / curve["ms"][0]
    verify = fmean(cost(proposed + 1) for proposed, _, _ in rounds)
    bound = tau / (in_units + verify)
    on_chain = chain_of(rung, others)
    chain_runs = by_prompt(lines, temperature, on_chain.name).values() if on_chain else ()
    chain_walks = walks(chain_runs)
    return {
        "family": rung.family,
        "policy": in_words(rung.policy),
        "own": rung.own,
        "kind": kind_of(rung.policy),
        "nodes": rung.policy.nodes,
        "depth": rung.policy.depth,
        "precision": precision,
        "temperature": temperature,
        "prompt_set": prompt_set,
        "prompts": len(runs),
        "tokens": sum(len(run["tokens"]) for run in runs.values()),
        "rounds": len(rounds),
        "tau": round(tau, 4),
        "alpha_by_depth": [round(a, 4) for a in alpha_by_depth(chain_walks)],
        "tried_by_depth": [sum(len(w) > d for w in chain_walks) for d in range(deepest(chain_walks))],
        "alpha": rounded(alpha(chain_walks)),
        "alpha_policy": in_words(on_chain.policy) if on_chain else None,
        "accepted_by_depth": [round(a, 4) for a in alpha_by_depth(walks(runs.values()))],
        "D": round(in_units, 5),
        "D_ms": round(draft_ms, 4),
        "c": round(in_units / rung.policy.depth, 5),
        "V": curve,
        "verify": round(verify, 4),
        **measured,
        "bound": round(bound, 4),
        "share": round(measured["speedup"] / bound, 4),
        "round_ms": round_ms(runs.values(), len(rounds)),
        "prefill_ms": round(1000 * fmean(run["prefill_seconds"] for run in runs.values()), 2),
        **(equality(lines, runs, plain, precision, rung.name, plan) if temperature == 0 else {}),
    }


def mean_row(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The mean over sets: of the numbers that can be averaged; sums of counts; share anew of the means."""
    same = ("family", "policy", "own", "kind", "nodes", "depth", "precision", "temperature")
    found: dict[str, Any] = {key: rows[0][key] for key in same} | {"prompt_set": MEAN}
    found |= {key: sum(r[key] for r in rows) for key in ("prompts", "tokens", "rounds")}
    for key in AVERAGED:
        values = [r[key] for r in rows if r[key] is not None]
        found[key] = round(fmean(values), 4) if values else None
    for key, over in (("alpha_by_depth", fmean), ("accepted_by_depth", fmean), ("tried_by_depth", sum)):
        columns = [
            [r[key][d] for r in rows if len(r[key]) > d] for d in range(deepest([r[key] for r in rows]))
        ]
        found[key] = [round(over(column), 4) for column in columns]
    found["alpha_policy"] = rows[0]["alpha_policy"]
    found["V"] = {"widths": rows[0]["V"]["widths"]}
    for key in ("ms", "V"):
        found["V"][key] = [round(fmean(v), 4) for v in zip(*(r["V"][key] for r in rows), strict=True)]
    found["share"] = round(found["speedup"] / found["bound"], 4)
    if "identical" in rows[0]:
        found["identical"] = round(sum(r["identical"] * r["prompts"] for r in rows) / found["prompts"], 4)
    for key in ("near_ties", "differing"):
        if key in rows[0]:
            found[key] = [where for r in rows for where in r[key]]
    if "agreement" in rows[0]:
        found["agreement"] = round(sum(r["agreement"] * r["tokens"] for r in rows) / found["tokens"], 5)
    return found


def by_prompt(lines: Sequence[Line], temperature: float, method: str) -> dict[int, Line]:
    """Prompt -> the run of this method."""
    return {
        line["prompt"]: line
        for line in lines
        if (line["kind"], line["temperature"], line["method"]) == ("run", temperature, method)
    }


def plain_beside(lines: Sequence[Line], temperature: float, runs: dict[int, Line]) -> dict[int, Line]:
    """Prompt -> plain decoding of it, its seconds the mean of the runs before and behind the rung's own."""
    plain = {
        (line["prompt"], line["group"]): line
        for line in lines
        if (line["kind"], line["temperature"], line["method"]) == ("run", temperature, PLAIN)
    }
    found = {}
    for prompt, run in runs.items():
        before, behind = (plain[prompt, run["group"] + i] for i in (0, 1))
        found[prompt] = before | {"seconds": (before["seconds"] + behind["seconds"]) / 2}
    return found


# -- acceptance --------------------------------------------------------------------------------------------


def chain_of(rung: Rung, others: Sequence[Rung]) -> Rung | None:
    """The rung on whose rounds the head's alphas are counted: its longest chain."""
    chains = [r for r in others if r.head == rung.head and kind_of(r.policy) == "chain"]
    return max(chains, key=lambda r: r.policy.nodes, default=None)


def walks(runs: Any) -> list[list[int]]:
    """Per round the children taken, up to where the text ended: a walk goes on behind its end."""
    return [taken[:emitted] for run in runs for _, emitted, taken in run["rounds"]]


def alpha_by_depth(found: Sequence[Sequence[int]]) -> list[float]:
    """Of the walks that tried children at a depth, the share that took one; from depth 0, the first draft."""
    shares = []
    for depth in range(deepest(found)):
        here = [walk[depth] >= 0 for walk in found if len(walk) > depth]
        shares.append(sum(here) / len(here))
    return shares


def deepest(found: Sequence[Sequence[int]]) -> int:
    return max(map(len, found), default=0)


def alpha(found: Sequence[Sequence[int]]) -> float | None:
    """The textbook's: accepted over tried, at all depths together; None where nothing was tried."""
    tried = [taken >= 0 for walk in found for taken in walk]
    return sum(tried) / len(tried) if tried else None


# -- time --------------------------------------------------------------------------------------------------


def curve_of(lines: Sequence[Line]) -> dict[str, Any]:
    """One curve of those of several prompts: per width the median."""
    widths = lines[0]["widths"]
    ms = [median(line["ms"][i] for line in lines) for i in range(len(widths))]
    return {"widths": widths, "ms": [round(t, 3) for t in ms], "V": [round(t / ms[0], 4) for t in ms]}


def speeds(runs: dict[int, Line], plain: dict[int, Line]) -> dict[str, Any]:
    """Tokens per second, and the speedup over plain decoding of the same prompts."""
    fast, slow = total_rate(runs), total_rate(plain)
    ratios = spread([rate(runs[i]) / rate(plain[i]) for i in sorted(runs)], 4)
    return {
        "tokens_per_second": round(fast, 3),
        "plain_tokens_per_second": round(slow, 3),
        "speedup": round(fast / slow, 4),
        "speedup_median": ratios["median"],
        "speedup_quartiles": ratios["quartiles"],
    }


def rate(run: Line) -> float:
    return len(run["tokens"]) / run["seconds"]


def total_rate(runs: dict[int, Line]) -> float:
    return sum(len(run["tokens"]) for run in runs.values()) / sum(run["seconds"] for run in runs.values())


def round_ms(runs: Any, rounds: int) -> dict[str, float]:
    """Mean milliseconds of a round and of its stages; `rest` is in none of them."""
    runs = list(runs)
    total = sum(run["seconds"] for run in runs)
    stages = {name: sum(run["stages"][name] for run in runs) for name in runs[0]["stages"]}
    parts = {"all": total, **stages, "rest": total - sum(stages.values())}
    return {name: round(1000 * seconds / rounds, 4) for name, seconds in parts.items()}


# -- equality ----------------------------------------------------------------------------------------------


def equality(
    lines: Sequence[Line],
    runs: dict[int, Line],
    plain: dict[int, Line],
    precision: str,
    method: str,
    plan: Plan,
) -> dict[str, Any]:
    """Of greedy texts: the share of prompts whose tokens are those of plain decoding.

    In fp32 texts that part at near-ties only count, and the ties are listed; `differing` are the prompts
    whose text is another one. In other precisions the places of the first differences stand beside it, and
    the agreement where it was asked for.
    """
    checks = {
        line["prompt"]: line
        for line in lines
        if (line["kind"], line["temperature"], line["method"]) == ("check", 0, method)
    }
    names = {i: plan.prompts[i].id for i in runs}
    if precision == "fp32":
        differing = [i for i, line in checks.items() if not line["identical"]]
        ties = [(i, tie) for i, line in checks.items() for tie in line["near_ties"]]
        return {
            "identical": round(1 - len(differing) / len(runs), 4),
            "near_ties": [{"prompt": names[i], **tie} for i, tie in ties],
            "differing": [{"prompt": names[i], "position": checks[i]["first_difference"]} for i in differing],
        }
    places = [first_difference(runs[i]["tokens"], plain[i]["tokens"]) for i in sorted(runs)]
    found: dict[str, Any] = {
        "identical": round(places.count(None) / len(places), 4),
        "first_difference": places,
    }
    if plan.check:  # a text that is the plain one has no line, and agrees everywhere
        picked = [len(r["tokens"]) * checks.get(i, {"agreement": 1.0})["agreement"] for i, r in runs.items()]
        found["agreement"] = round(sum(picked) / sum(len(r["tokens"]) for r in runs.values()), 5)
    return found


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
