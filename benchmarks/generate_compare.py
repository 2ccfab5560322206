"""Speed and tau of `specdec generate` against plain decoding, on three prompts of different kind.

    python benchmarks/generate_compare.py [--repeats 5] [--tokens 128] [--draft-lengths 4 8 12]

Per prompt and precision, plain decoding and every draft length run in turn, `repeats` times, so that a slow
spell of the machine hits all of them alike; rates are medians. Writes
benchmarks/results/generate-compare.json. Let nothing else run meanwhile.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

from specdec import weights
from specdec.bench import stamp, write_result
from specdec.decode import Generation, generate, warm_up
from specdec.drafts.ngram import NgramDraft
from specdec.exactness import compare_with_plain
from specdec.policy import chain
from specdec.tokenizer import load_tokenizer
from specdec.verifier import PRECISIONS, Verifier

HERE = Path(__file__).resolve().parent
KINDS = ("chat", "code", "summary")  # talk; an edit that repeats its input; a text about a given text


def rate(runs: list[Generation]) -> dict[str, float]:
    """Median, slowest and fastest tokens per second of repeated runs, without the prefill."""
    rates = [run.tokens_per_second for run in runs]
    return {
        "tokens_per_second": round(median(rates), 2),
        "slowest": round(min(rates), 2),
        "fastest": round(max(rates), 2),
    }


def compare(
    verifier: Verifier, prompt: list[int], eos_ids: list[int], tokens: int, lengths: list[int], repeats: int
) -> dict[str, Any]:
    """Interleaved runs of plain decoding and of every draft length on one prompt."""
    runs: dict[int, list[Generation]] = {n: [] for n in (0, *lengths)}  # 0: plain
    for _ in range(repeats):
        for n in runs:
            draft = NgramDraft() if n else None
            runs[n].append(
                generate(verifier, draft, [prompt], chain(n), max_new_tokens=tokens, eos_ids=eos_ids)
            )
    plain = rate(runs[0])
    speculative = []
    for n in lengths:
        found, speed = runs[n][0], rate(runs[n])
        same = found.tokens == runs[0][0].tokens
        if not same and verifier.precision == "fp32":
            same = compare_with_plain(verifier, prompt, found.tokens, tokens, eos_ids).identical
        speculative.append(
            {
                "draft_length": n,
                "tokens": len(found.tokens),
                "verifier_calls": found.verifier_calls,
                "tau": round(found.tau, 3),
                **speed,
                "speedup": round(speed["tokens_per_second"] / plain["tokens_per_second"], 3),
                "identical_to_plain": same,
            }
        )
    prefill = median(run.prefill_seconds for run in runs[0])
    return {
        "prompt_tokens": len(prompt),
        "prefill_ms": round(prefill * 1000, 1),
        "plain": {"tokens": len(runs[0][0].tokens), **plain},
        "speculative": speculative,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Time speculative against plain decoding.")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--tokens", type=int, default=128, help="most new tokens; end of sequence is respected"
    )
    parser.add_argument("--draft-lengths", type=int, nargs="+", default=[4, 8, 12])
    options = parser.parse_args()

    tokenizer = load_tokenizer()
    known = json.loads((HERE / "prompts.json").read_text(encoding="utf-8"))
    chosen = {kind: next(p["prompt"] for p in known if p["kind"] == kind) for kind in KINDS}
    result: dict[str, Any] = {
        "what": "greedy decoding, medians over interleaved runs; tokens per second without the prefill",
        "model": weights.FILE,
        "draft": "ngram",
        "max_new_tokens": options.tokens,
        "repeats": options.repeats,
        "prompts": chosen,
        **stamp(seed=0),
    }
    for precision in PRECISIONS:
        verifier = Verifier.load(precision=precision)
        warm_up(verifier, max(options.draft_lengths))
        result[precision] = {}
        for kind, text in chosen.items():
            prompt = tokenizer.chat(text)
            found = compare(
                verifier, prompt, tokenizer.eos_ids, options.tokens, options.draft_lengths, options.repeats
            )
            result[precision][kind] = found
            print(f"{precision} {kind:8} plain {found['plain']['tokens_per_second']:6.1f} tokens/s")
            for row in found["speculative"]:
                print(
                    f"  N = {row['draft_length']:2}  tau {row['tau']:.2f}  "
                    f"{row['tokens_per_second']:6.1f} tokens/s  {row['speedup']:.2f}x  "
                    f"identical: {row['identical_to_plain']}",
                    flush=True,
                )
    print(write_result("generate-compare", result, HERE / "results"))


if __name__ == "__main__":
    main()
