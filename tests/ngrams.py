"""Whether two texts share wording: n-grams of words, and fingerprints of texts that are not at hand.

The fingerprints are those of "winnowing" (Schleimer, Wilkerson and Aiken 2003): of every WINDOW neighbouring
8-grams the one with the smallest hash is kept. Texts that share WINDOW + 7 words in a row share a kept hash.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

N = 8  # words
WINDOW = 8
BYTES = 5  # per hash: two million n-grams meet 10,000 hashes by chance with probability 2%


def ngrams(text: str, n: int = N) -> list[tuple[str, ...]]:
    """The runs of n words of a text, in order; case and punctuation do not count."""
    words = re.findall(r"\w+", text.lower())
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def hashed(ngram: tuple[str, ...]) -> bytes:
    return hashlib.blake2b(" ".join(ngram).encode(), digest_size=BYTES).digest()


def fingerprints(text: str) -> set[bytes]:
    hashes = [hashed(ngram) for ngram in ngrams(text)]
    return {min(hashes[i : i + WINDOW]) for i in range(max(1, len(hashes) - WINDOW + 1))} if hashes else set()


def turns(file: Path) -> Iterator[str]:
    """What the user says in a file of evaluation prompts (JSON lines with `turns`)."""
    for line in file.read_text(encoding="utf-8").splitlines():
        yield from json.loads(line)["turns"]


def write_fingerprints(folder: Path, sets: tuple[str, ...], file: Path) -> None:
    """Store the fingerprints of the evaluation prompts in `folder`, sorted, BYTES each."""
    found: set[bytes] = set()
    for name in sets:
        found |= {h for text in turns(folder / f"{name}.jsonl") for h in fingerprints(text)}
    file.write_bytes(b"".join(sorted(found)))


def read_fingerprints(file: Path) -> set[bytes]:
    data = file.read_bytes()
    return {data[i : i + BYTES] for i in range(0, len(data), BYTES)}
