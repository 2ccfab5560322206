"""Two texts decoded with the prompt-lookup draft, round by round, as chapter 02 of the book shows them.

    python benchmarks/chapter_rounds.py

Writes benchmarks/results/chapter-rounds.json. The chapter takes its prompts from there, decodes them again
where the verifier is at hand, and shows the committed rounds where it is not. Greedy, fp32, N = 8, at most 64
tokens, each compared with plain decoding.
"""

from pathlib import Path
from typing import Any

from specdec import weights
from specdec.bench import stamp, write_result
from specdec.decode import generate
from specdec.drafts.ngram import NgramDraft
from specdec.policy import chain
from specdec.tokenizer import load_tokenizer
from specdec.verifier import Verifier

CODE = """Here is a function.

```python
def area(width, height):
    if width < 0 or height < 0:
        raise ValueError("width and height must not be negative")
    return width * height
```

Write a function `volume(width, height, depth)` in the same style."""

PROMPTS = {
    "code": CODE,
    "story": "Begin a story about a lighthouse keeper whose lamp has disappeared.",
}
DRAFT_LENGTH = 8
MAX_NEW_TOKENS = 64


def main() -> None:
    verifier, tokenizer = Verifier.load(), load_tokenizer()
    limits: dict[str, Any] = {"max_new_tokens": MAX_NEW_TOKENS, "eos_ids": tokenizer.eos_ids}
    runs: dict[str, list[list[Any]]] = {}
    same: dict[str, bool] = {}
    for name, prompt in PROMPTS.items():
        start = tokenizer.chat(prompt)
        plain = generate(verifier, None, [start], **limits)
        done = generate(verifier, NgramDraft(), [start], chain(DRAFT_LENGTH), **limits)
        same[name] = done.tokens == plain.tokens
        runs[name] = [[r.accepted, [tokenizer.decode([t]) for t in r.emitted]] for r in done.rounds]
        print(f"{name}: {done.verifier_calls} calls, tau {done.tau:.2f}, same as plain: {same[name]}")
    result = {
        "what": "per verifier call: how many drafts were accepted, and what it emitted, those drafts first",
        "model": weights.FILE,
        "precision": verifier.precision,
        "draft": "prompt lookup",
        "draft_length": DRAFT_LENGTH,
        "temperature": 0,
        "max_new_tokens": MAX_NEW_TOKENS,
        **stamp(0),
        "prompts": PROMPTS,
        "same_as_plain": same,
        "runs": runs,
    }
    print(write_result("chapter-rounds", result, Path(__file__).parent / "results"))


if __name__ == "__main__":
    main()
