"""What the rows of a benchmark say: medians with quartiles, ratios, agreement, shares of a round.

Rows are those of compete.py. A prompt's rate is the median over its repeats; a method's is the median over
prompts, with the quartiles over prompts, beside the total: all timed tokens over all seconds. A ratio is
formed per prompt first, so that hard and easy prompts do not mix. Everything in and out is plain data that
JSON can hold; rates are tokens per second.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median, quantiles
from typing import Any

from specdec.compete import Row

# (method, what it is measured against): speeds are divided, tokens compared. Those that are there count.
PAIRS = (
    *((f"ngram-{precision}", f"plain-{precision}") for precision in ("fp32", "bf16", "int4")),
    ("plain-bf16", "transformers-plain"),
    ("ngram-bf16", "transformers-lookup"),
    ("plain-int4", "llama-cpp-plain"),
    ("ngram-int4", "llama-cpp-lookup"),
    ("transformers-lookup", "transformers-plain"),
    ("llama-cpp-lookup", "llama-cpp-plain"),
)
PASSES = ("draft", "verify")  # the stages that are forward passes; what remains of a round is overhead


def summarise(rows: Sequence[Row], names: Sequence[str], sets: Sequence[str]) -> dict[str, Any]:
    """methods, ratios, agreement and the rates of every prompt. sets: the set of each prompt, by index."""
    groups = {"all": list(range(len(sets)))}
    for name in dict.fromkeys(sets):
        groups[name] = [i for i, of in enumerate(sets) if of == name]
    by = {name: [row for row in rows if row["method"] == name] for name in names}
    pairs = [(a, b) for a, b in PAIRS if a in by and b in by]
    return {
        "methods": {name: describe(by[name], groups) for name in names},
        "ratios": [
            {"method": a, "against": b, **{group: ratio(by[a], by[b], of) for group, of in groups.items()}}
            for a, b in pairs
        ],
        "agreement": [{"method": a, "against": b, **agreement(by[a], by[b])} for a, b in pairs],
        "rates": {
            name: [[round(rate(row), 2) for row in of_prompt(by[name], i)] for i in groups["all"]]
            for name in names
        },
    }


def describe(rows: Sequence[Row], groups: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """One method: rates per group of prompts, tokens per verifier call, prefill, shares of a round."""
    found: dict[str, Any] = {
        "tokens_per_second": {group: speed(rows, of) for group, of in groups.items()},
        "tau": round(sum(row["timed"] for row in rows) / max(1, sum(row["calls"] for row in rows)), 3),
        "prefill_ms": spread([row["prefill_seconds"] * 1000 for row in rows]),
        "new_tokens": [len(of_prompt(rows, i)[0]["tokens"]) for i in groups["all"]],
        "same_tokens_every_time": all(
            row["tokens"] == of_prompt(rows, row["prompt"])[0]["tokens"] for row in rows
        ),
    }
    if all(row["stages"] for row in rows):
        found["round"] = shares(rows)
    return found


def of_prompt(rows: Sequence[Row], prompt: int) -> list[Row]:
    return [row for row in rows if row["prompt"] == prompt]


def rate(row: Row) -> float:
    """Tokens per second of one run; 0 where the text was over when the prefill was."""
    return row["timed"] / row["seconds"] if row["timed"] else 0.0


def prompt_rates(rows: Sequence[Row], prompts: Sequence[int]) -> dict[int, float]:
    """Prompt -> median rate over its repeats; prompts without a timed token are left out."""
    rates = {i: median(rate(row) for row in of_prompt(rows, i)) for i in prompts}
    return {i: r for i, r in rates.items() if r}


def total(rows: Sequence[Row], prompts: Sequence[int]) -> float:
    """All timed tokens over all seconds."""
    chosen = [row for row in rows if row["prompt"] in prompts]
    seconds = sum(row["seconds"] for row in chosen)
    return sum(row["timed"] for row in chosen) / seconds if seconds else 0.0


def speed(rows: Sequence[Row], prompts: Sequence[int]) -> dict[str, Any]:
    return {
        **spread(list(prompt_rates(rows, prompts).values())),
        "total": round(total(rows, prompts), 2),
    }


def ratio(a: Sequence[Row], b: Sequence[Row], prompts: Sequence[int]) -> dict[str, Any]:
    """How many times as fast `a` is as `b`: the median over prompts with its quartiles, and the totals'."""
    fast, slow = prompt_rates(a, prompts), prompt_rates(b, prompts)
    below = total(b, prompts)
    return {
        **spread([fast[i] / slow[i] for i in fast.keys() & slow.keys()], 3),
        "total": round(total(a, prompts) / below, 3) if below else None,
    }


def spread(values: Sequence[float], digits: int = 2) -> dict[str, Any]:
    """Median and quartiles; None of nothing, and of one value the value three times."""
    if not values:
        return {"median": None, "quartiles": [None, None]}
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return {"median": round(median(values), digits), "quartiles": [round(low, digits), round(high, digits)]}


def agreement(a: Sequence[Row], b: Sequence[Row]) -> dict[str, Any]:
    """Share of prompts with identical tokens, and per prompt the place of the first difference, from 0."""
    first: Callable[[Sequence[Row]], dict[int, list[int]]] = lambda rows: {  # noqa: E731
        row["prompt"]: row["tokens"] for row in reversed(rows)
    }
    mine, other = first(a), first(b)
    places = [first_difference(mine[i], other[i]) for i in sorted(mine.keys() & other.keys())]
    return {
        "identical": round(places.count(None) / len(places), 4) if places else None,
        "first_difference": places,
    }


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """The first place where two texts differ; where one is the beginning of the other, its end."""
    if list(a) == list(b):
        return None
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def shares(rows: Sequence[Row]) -> dict[str, float]:
    """Milliseconds of a round and the share of each stage in it; `rest` is in no stage, `outside` no pass."""
    seconds, calls = sum(row["seconds"] for row in rows), sum(row["calls"] for row in rows)
    stages = {name: sum(row["stages"][name] for row in rows) / seconds for name in rows[0]["stages"]}
    return {
        "ms": round(seconds / calls * 1000, 3),
        **{name: round(share, 5) for name, share in stages.items()},
        "rest": round(1 - sum(stages.values()), 5),
        "outside": round(1 - sum(stages[name] for name in PASSES), 5),
    }


def draft_cost(method: Mapping[str, Any], curve: Mapping[str, Any]) -> dict[str, float]:
    """c, one round's drafting in units of a verifier pass over one token, and its milliseconds."""
    ms = method["round"]["ms"] * method["round"]["draft"]
    return {"ms": round(ms, 4), "c": round(ms / curve["ms"][0], 5)}
