"""How much of the text must a draft see? Acceptance rates of the verifier itself with a short memory.

    python benchmarks/short_memory.py

The draft is the verifier, handed only the last k tokens of the text. Its p is compared with the q of the
whole text at every second position: their overlap is the acceptance rate there (temperature 1, fp32).
Writes benchmarks/results/short-memory.json, which chapter 01 of the book shows where no verifier can run;
where one can, the chapter measures the same passage again.
"""

from pathlib import Path

import torch

from specdec import weights
from specdec.bench import stamp, write_result
from specdec.tokenizer import load_tokenizer
from specdec.verifier import Verifier

PASSAGE = """The ferry to the island leaves at seven in the morning and comes back at six in the evening. In
winter it runs only on Mondays and Fridays, and when the wind is strong it does not run at all. The
people who live on the island have learned to keep enough bread, oil and candles in the house for a
week. Once, many years ago, the ferry stayed away for twenty days, and the schoolteacher read the
same book to the children four times. They still say that it was the best winter of their lives."""
MEMORIES = (1, 2, 4, 8, 16)
FIRST, STEP = 40, 2  # positions where p and q are compared: far enough in for q to have something to look at


def main() -> None:
    verifier, tokenizer = Verifier.load(), load_tokenizer()
    tokens = torch.tensor(tokenizer.encode(" ".join(PASSAGE.split())))  # [T]
    places = torch.arange(FIRST, len(tokens), STEP)  # the newest token that both have read
    q = verifier.forward(tokens[None]).logits[0, places].softmax(-1)  # [P, V]
    overlap = {}
    for memory in MEMORIES:
        windows = tokens[places[:, None] + torch.arange(1 - memory, 1)]  # [P, memory]
        p = verifier.forward(windows, logits_from=-1).logits[:, 0].softmax(-1)
        overlap[memory] = torch.minimum(p, q).sum(-1).tolist()
        print(
            f"last {memory:2} tokens: alpha {sum(overlap[memory]) / len(places):.3f}, {len(places)} positions"
        )
    result = {
        "what": "overlap sum_t min(p, q) per position; p sees the last `memory` tokens, q all of the passage",
        "model": weights.FILE,
        "precision": verifier.precision,
        "temperature": 1,
        **stamp(0),
        "passage": " ".join(PASSAGE.split()),
        "places": places.tolist(),
        "memories": list(MEMORIES),
        "overlap": [[round(a, 4) for a in overlap[memory]] for memory in MEMORIES],
    }
    print(write_result("short-memory", result, Path(__file__).parent / "results"))


if __name__ == "__main__":
    main()
