"""Greedy speculative output against plain output, on the course's prompts and, where present, public ones.

    python benchmarks/exactness.py [--tokens 128] [--public 3]

In fp32 the two are equal token for token up to near-ties (specdec/exactness.py), which are listed. In bf16
rounding decides more often, so there the share of positions is reported at which a one-token pass over the
same text picks the emitted token. Writes benchmarks/results/exactness.json and fails if an fp32 output
differs.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specdec import weights
from specdec.bench import stamp, write_result
from specdec.decode import generate
from specdec.drafts.ngram import DRAFT_LENGTH, NgramDraft
from specdec.exactness import NEAR_TIE, agreement, compare_with_plain
from specdec.tokenizer import Tokenizer, load_tokenizer
from specdec.verifier import Verifier

HERE = Path(__file__).resolve().parent
PUBLIC = HERE.parents[1] / "shared" / "prompts"  # Spec-Bench's question files, beside the checkout; optional
PUBLIC_FILES = ("mt_bench", "humaneval", "gsm8k", "sum")
LEAST, MOST = 64, 1024  # prompt tokens


def prompts(tokenizer: Tokenizer, public: int) -> list[tuple[str, list[int]]]:
    """Name and tokens of every prompt: the course's own, then the first fitting ones of each public file."""
    own = json.loads((HERE / "prompts.json").read_text(encoding="utf-8"))
    found = [(f"{p['kind']} {i}", tokenizer.chat(p["prompt"])) for i, p in enumerate(own)]
    for name in PUBLIC_FILES:
        file = PUBLIC / f"{name}.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        questions = [json.loads(line) for line in lines]
        chats = [(f"{name} {q['question_id']}", tokenizer.chat(q["turns"][0])) for q in questions]
        found += [(label, chat) for label, chat in chats if LEAST <= len(chat) <= MOST][:public]
    return found


def measure(
    verifier: Verifier, tokenizer: Tokenizer, label: str, prompt: list[int], tokens: int
) -> dict[str, Any]:
    found = generate(verifier, NgramDraft(), [prompt], max_new_tokens=tokens, eos_ids=tokenizer.eos_ids)
    row = {
        "prompt": label,
        "prompt_tokens": len(prompt),
        "tokens": len(found.tokens),
        "tau": round(found.tau, 3),
    }
    if verifier.precision == "bf16":
        return row | {"agreement": round(agreement(verifier, prompt, found.tokens), 4)}
    compared = compare_with_plain(verifier, prompt, found.tokens, tokens, tokenizer.eos_ids)
    ties = [{**asdict(tie), "gap": round(tie.gap, 6)} for tie in compared.near_ties]
    return row | {
        "identical": compared.identical,
        "first_difference": compared.first_difference,
        "near_ties": ties,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare speculative with plain greedy decoding.")
    parser.add_argument("--tokens", type=int, default=128, help="new tokens per prompt")
    parser.add_argument("--public", type=int, default=3, help="prompts of each public file")
    options = parser.parse_args()

    origin = stamp(seed=0)  # now: what is committed while this runs is not what ran
    tokenizer = load_tokenizer()
    rows: dict[str, list[dict[str, Any]]] = {}
    for precision in ("fp32", "bf16"):
        verifier = Verifier.load(precision=precision)
        rows[precision] = []
        for label, prompt in prompts(tokenizer, options.public):
            rows[precision].append(measure(verifier, tokenizer, label, prompt, options.tokens))
            print(precision, rows[precision][-1], flush=True)

    fp32, bf16 = rows["fp32"], rows["bf16"]
    positions = sum(row["tokens"] for row in bf16)
    summary = {
        "prompts": len(fp32),
        "positions": sum(row["tokens"] for row in fp32),
        "identical": sum(row["identical"] for row in fp32),
        "near_ties": sum(len(row["near_ties"]) for row in fp32),
        "bf16_agreement": round(sum(row["agreement"] * row["tokens"] for row in bf16) / positions, 4),
    }
    result = {
        "what": "greedy n-gram speculative decoding against plain decoding; fp32: equal up to near-ties; "
        "bf16: share of positions at which a one-token pass picks the emitted token",
        "model": weights.FILE,
        "draft": "ngram",
        "draft_length": DRAFT_LENGTH,
        "max_new_tokens": options.tokens,
        "near_tie": NEAR_TIE,
        **origin,
        "summary": summary,
        **rows,
    }
    print(summary)
    print(write_result("exactness", result, HERE / "results"))
    return 0 if summary["identical"] == summary["prompts"] else 1


if __name__ == "__main__":
    sys.exit(main())
