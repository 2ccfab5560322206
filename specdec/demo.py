"""The whole story of chapters 01 to 03 in one terminal page: `specdec demo`.

`run` computes it and returns plain data (for `--json`, for a page); `render` prints that data and computes
nothing. A toy verifier and toy drafts stand in for language models, so no torch and no weights are needed:
everything here is `specdec.theory`.
"""

from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from specdec.errors import SpecdecError
from specdec.theory import exact
from specdec.theory.rejection import acceptance_rate
from specdec.theory.simulate import Simulation, perturbed_draft, simulate, toy_verifier
from specdec.theory.speedup import expected_tokens, optimal_n, speedup, wall_time
from specdec.theory.stats import chi_square

EXACT_VOCAB, EXACT_N = 4, 3  # small enough to try every path
NOISE = (0.0, 0.3, 0.6, 1.0, 1.5, 2.5, 4.0)
DRAFT = 1.0  # the noise of the draft that sections 2 and 6 use
ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
LENGTHS = (1, 2, 3, 5, 8, 10, 15, 20, 30)
COST = 0.04  # of one draft pass, in verifier passes over one token
SWEEP = 10  # the sweep that ends too early
BATCHES = 20
SEQUENCES, ROUNDS, TRACED = 200, 50, 8
WIDTH = 80


def run(seed: int = 0, samples: int = 50_000, vocab: int = 8, draft_length: int = 5) -> dict[str, Any]:
    """Compute every number of the demo, as data that `json.dumps` takes.

    samples: speculative steps of every sampled figure; vocab: V of the toy models; draft_length: N, drafts
    per step. ValueError unless all are whole numbers within the limits that a laptop can bear.
    """
    _whole("seed", seed, 0, 2**32 - 1)
    _whole("samples", samples, 1, 1_000_000)
    _whole("vocab", vocab, 2, 1000)
    _whole("draft length", draft_length, 1, 32)
    q = toy_verifier(vocab, seed)
    p = perturbed_draft(q, DRAFT, seed)
    alphas, lengths = np.array(ALPHAS)[:, None], np.array(LENGTHS)
    rules = _rules(seed)
    return {
        "seed": int(seed),
        "vocab": int(vocab),
        "draft_length": int(draft_length),
        "exact_distance": rules[0]["distance"],
        "exact": {"vocab": EXACT_VOCAB, "draft_length": EXACT_N, "rules": rules},
        "chi_square": _chi_square(q, p, seed, simulate(q, p, draft_length, samples, seed)),
        "acceptance_by_draft_quality": [_quality(q, noise, seed, samples, draft_length) for noise in NOISE],
        "tokens_per_call": _grid(expected_tokens(alphas, lengths)),
        "wall_time": {"c": COST, **_grid(wall_time(alphas, lengths, COST))},
        "optimum": [_optimum(alpha) for alpha in ALPHAS],
        "ledger": _ledger(simulate(q, p, draft_length, SEQUENCES * ROUNDS, seed, ROUNDS)),
    }


def _rules(seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng((seed, 4))
    q = exact.random_table(EXACT_VOCAB, EXACT_N + 1, rng)
    p = exact.random_table(EXACT_VOCAB, EXACT_N, rng)
    return [
        {
            "rule": rule.__name__,
            "first_token": exact.distance(q, p, rule, tokens=1),
            "distance": exact.distance(q, p, rule),
        }
        for rule in (exact.leviathan, *exact.WRONG_CHAIN_RULES)
    ]


def _chi_square(q: np.ndarray, p: np.ndarray, seed: int, sample: Simulation) -> dict[str, Any]:
    first, steps = sample.tokens[:, 1], sample.calls
    size = steps // BATCHES
    batches = [np.bincount(b, minlength=len(q)) for b in first[: size * BATCHES].reshape(BATCHES, size)]
    # what as many steps give when corrections come from q: min(p, q) + (1 - alpha) q
    wrong = np.minimum(p[0], q[0]) + (1 - acceptance_rate(q[0], p[0])) * q[0]
    wrong_counts = np.random.default_rng((seed, 5)).multinomial(steps, wrong / wrong.sum())
    return {
        **chi_square(sample.first_counts, q[0])._asdict(),
        "observed": sample.first_counts.tolist(),
        "expected": (steps * q[0]).tolist(),
        "batches": {
            "number": BATCHES,
            "size": size,
            "above_critical_95": sum(_exceeds(counts, q[0]) for counts in batches) if size else 0,
        },
        "correction_from_q": chi_square(wrong_counts, q[0])._asdict(),
    }


def _exceeds(counts: np.ndarray, q: np.ndarray) -> bool:
    result = chi_square(counts, q)
    return result.statistic > result.critical_95


def _quality(q: np.ndarray, noise: float, seed: int, samples: int, n: int) -> dict[str, float]:
    p = perturbed_draft(q, noise, seed)
    sample = simulate(q, p, n, samples, seed)
    return {
        "noise": noise,
        "first_draft_exact": acceptance_rate(q[0], p[0]),
        "first_draft": float(sample.acceptance[0]),
        "alpha": sample.alpha,
        "tokens_per_call": sample.tokens_per_call,
        "tokens_per_call_formula": float(expected_tokens(sample.alpha, n)),
    }


def _grid(values: np.ndarray) -> dict[str, Any]:
    return {"alpha": list(ALPHAS), "N": list(LENGTHS), "values": values.tolist()}


def _optimum(alpha: float) -> dict[str, Any]:
    best, swept = optimal_n(alpha, COST), optimal_n(alpha, COST, max_n=SWEEP)
    return {
        "alpha": alpha,
        "c": COST,
        "N": best,
        "speedup": float(speedup(alpha, best, COST)),
        "sweep": {"max_n": SWEEP, "N": swept, "speedup": float(speedup(alpha, swept, COST))},
    }


def _ledger(run: Simulation) -> dict[str, Any]:
    return {
        "sequences": SEQUENCES,
        "rounds": ROUNDS,
        "verifier_calls": run.calls,
        "new_tokens": int((run.length - 1).sum()),
        "tokens_per_call": run.tokens_per_call,
        "cached_is_tokens_minus_one": run.ledger.holds(),
        "cache_matches_tokens": run.cache_is_valid(),
        "trace": [
            {
                "accepted": int(accepted),
                "written": int(written),
                "rolled_back": int(written - cached),
                "cached": int(cached),
                "tokens": int(tokens),
            }
            for accepted, written, cached, tokens in zip(
                *(column[:TRACED, 0] for column in run.ledger), strict=True
            )
        ],
    }


def _whole(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not low <= value <= high:
        raise SpecdecError(f"{name} must be a whole number from {low:,} to {high:,}, got {value!r}.")


# -- the page ----------------------------------------------------------------------------------------------

RULES = {
    "leviathan": "the rejection rule",
    "correction_from_q": "correction drawn from q",
    "unnormalised_residual": "residual not normalised",
    "argmax_draft_softmax_p": "argmax drafts, softmax p",
    "bonus_from_last_row": "bonus from the row before",
    "every_draft_accepted": "every draft accepted",
}


def render(result: dict[str, Any], console: Console) -> None:
    """Print what `run` returned, for 80 columns, with or without colour."""
    n = result["draft_length"]
    blocks = [
        Panel(
            f"The draft p proposes N = {n} tokens; one pass of the verifier q judges them.\n"
            "Token x is kept with probability min(1, q(x) / p(x)). The first rejection is\n"
            "corrected from max(0, q - p), normalised; without one, q adds a bonus token.",
            title="[bold]speculative decoding[/bold]",
            subtitle=f"toy models, vocabulary {result['vocab']}, seed {result['seed']}",
            box=box.ROUNDED,
        ),
        *_exact_blocks(result["exact"]),
        *_chi_square_blocks(result["chi_square"]),
        *_quality_blocks(result["acceptance_by_draft_quality"], n, result["chi_square"]["samples"]),
        *_speed_blocks(result["tokens_per_call"], result["wall_time"]),
        *_optimum_blocks(result["optimum"]),
        *_ledger_blocks(result["ledger"], n),
    ]
    for block in blocks:
        console.print(block, width=min(console.width, WIDTH), highlight=False)


def _exact_blocks(found: dict[str, Any]) -> list[Any]:
    table = _table("rule", "first token", "whole step", "")
    for row in found["rules"]:
        verdict = "[bold green]exact" if row["distance"] < 1e-12 else "[red]not exact"
        table.add_row(RULES[row["rule"]], _tiny(row["first_token"]), _tiny(row["distance"]), verdict)
    return [
        _heading("1  Is it exact?"),
        f"Every path of one step added up (V = {found['vocab']}, N = {found['draft_length']}, p and q random"
        " after every prefix). The total variation between what comes out and q alone:\n",
        table,
        "\nA wrong bonus never shows in a first token, only in a whole step.",
    ]


def _chi_square_blocks(test: dict[str, Any]) -> list[Any]:
    table = _table("token", "expected", "observed", "off by")
    n, batches, least = test["samples"], test["batches"], min(test["expected"])
    for token, (mean, count) in enumerate(zip(test["expected"][:8], test["observed"], strict=False)):
        spread = np.sqrt(mean * (1 - mean / n))
        table.add_row(f"{token}", f"{mean:,.1f}", f"{count:,}", f"{(count - mean) / spread:+.1f} sd")
    if len(test["expected"]) > 8:
        table.add_row("...", f"{len(test['expected']) - 8} more", "", "")
    side = "above" if test["statistic"] > test["critical_95"] else "below"
    verdict = (
        f"This run is {side} the 95% value. An honest run exceeds it once in twenty, so this "
        f"proves little; drawing corrections from q gives {test['correction_from_q']['statistic']:,.0f}."
    )
    if batches["size"] * least >= 5 * n:
        verdict += (
            f"\nThe same steps in {batches['number']} batches of {batches['size']:,}: "
            f"{batches['above_critical_95']} above it."
        )
    if least < 20:
        verdict += "\n[yellow]Some tokens expect fewer than 20 counts: take more samples to trust p."
    return [
        _heading("2  Does a sample agree?"),
        f"The first token of {n:,} independent steps from one context, against the exact q. "
        "(Against a second random sample, the test would raise eight times as many false alarms.)\n",
        table,
        f"\n[bold]chi-square {test['statistic']:.2f}[/bold], {test['df']} degrees of freedom, "
        f"95% critical value {test['critical_95']:.2f}, [bold]p-value {test['p_value']:.3g}[/bold]\n",
        verdict,
    ]


def _quality_blocks(rows: list[dict[str, float]], n: int, samples: int) -> list[Any]:
    table = _table("noise", "1-TV", "accepted", "alpha", "tokens", "formula", "")
    for row in rows:
        table.add_row(
            f"{row['noise']:.1f}",
            *(f"{row[key]:.3f}" for key in ("first_draft_exact", "first_draft", "alpha")),
            *(f"{row[key]:.2f}" for key in ("tokens_per_call", "tokens_per_call_formula")),
            "[cyan]" + "=" * round(24 * row["tokens_per_call"] / (n + 1)),
        )
    return [
        _heading("3  What a better draft buys"),
        "p is q with noise on its logits. The first draft is accepted with probability\n"
        f"1-TV, the overlap of p and q: beside it the share of {samples:,} steps. alpha is\n"
        "the share over all drafts, tokens is per verifier call, and the formula\n"
        f"(1 - alpha^(N+1)) / (1 - alpha), N = {n}, takes all contexts for equally hard.\n",
        table,
    ]


def _speed_blocks(tokens: dict[str, Any], times: dict[str, Any]) -> list[Any]:
    lengths = [f"N = {tokens['N'][0]}", *map(str, tokens["N"][1:])]
    emitted, spent = _table("alpha", *lengths), _table("alpha", *lengths)
    for alpha, values in zip(tokens["alpha"], tokens["values"], strict=True):
        emitted.add_row(f"{alpha:.2f}", *(f"{v:.2f}" for v in values))
    for alpha, values in zip(times["alpha"], times["values"], strict=True):
        best = min(values)
        spent.add_row(f"{alpha:.2f}", *(f"[bold green]*{v:.2f}" if v == best else f"{v:.2f}" for v in values))
    return [
        _heading("4  Tokens per verifier call\n"),
        emitted,
        _heading(f"5  Time per token, when a draft pass costs c = {times['c']} of a verifier pass\n"),
        spent,
        "\nPlain decoding takes 1; * is the best of the row. Rejected drafts cost time too.",
    ]


def _optimum_blocks(rows: list[dict[str, Any]]) -> list[Any]:
    end = rows[0]["sweep"]["max_n"]
    table = _table("alpha", "best N", "speedup", f"N <= {end}", "speedup", "")
    for row in rows:
        sweep = row["sweep"]
        table.add_row(
            f"{row['alpha']:.2f}",
            f"[bold green]{row['N']}",
            f"{row['speedup']:.2f}x",
            f"{sweep['N']}",
            f"{sweep['speedup']:.2f}x",
            "[yellow]on the edge" if sweep["N"] == end < row["N"] else "",
        )
    return [
        _heading(f"6  The best draft length, c = {rows[0]['c']}\n"),
        table,
        "\nA minimum on the edge of a sweep is where the sweep ends, not where the curve turns. "
        "And this is the textbook, where verifying N + 1 tokens costs no more than one.",
    ]


def _ledger_blocks(ledger: dict[str, Any], n: int) -> list[Any]:
    table = _table("round", "drafts", "then", "written", "rolled back", "cached", "tokens")
    for i, row in enumerate(ledger["trace"], start=1):
        kept = row["accepted"]
        rest = f"[red]x[/red][dim]{'.' * (n - kept - 1)}[/dim]" if kept < n else ""
        table.add_row(
            f"{i}",
            f"[green]{'+' * kept}[/green]{rest}" if n <= 16 else f"{kept} of {n}",
            "bonus" if kept == n else "correction",
            *(f"{row[key]}" for key in ("written", "rolled_back", "cached", "tokens")),
        )
    holds = ledger["cached_is_tokens_minus_one"] and ledger["cache_matches_tokens"]
    return [
        _heading("7  The ledger: what the KV cache holds"),
        "+ kept, x rejected, . never judged. Every pass writes N + 1 positions.\n",
        table,
        "\ncached = tokens - 1: the newest token came out of the pass, it was not in it. "
        f"{'[bold green]It held' if holds else '[bold red]It did not hold'}[/] after all {ledger['rounds']} "
        f"rounds of {ledger['sequences']} sequences: {ledger['new_tokens']:,} tokens from "
        f"{ledger['verifier_calls']:,} verifier calls, {ledger['tokens_per_call']:.2f} per call.",
    ]


def _heading(title: str) -> str:
    return f"\n[bold]{title}[/bold]"


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 0, 0, 1))
    for name in (first, *others):
        table.add_column(name, justify="left" if name in ("rule", "drafts", "") else "right", no_wrap=True)
    return table


def _tiny(distance: float) -> str:
    return f"{distance:.0e}" if 0 < distance < 1e-12 else f"{distance:.4f}"
