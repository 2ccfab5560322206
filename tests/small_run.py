"""A run of training data that takes a second: 40 prompts in batches of 6, a verifier of 257 tokens."""

from pathlib import Path

from byte_tokenizer import VOCABULARY, byte_tokenizer
from tiny_verifier import tiny_verifier

from specdec.train.data import generate, settings
from specdec.train.prompts import make_prompts

PROMPTS = [prompt for prompt in make_prompts(200, seed=3) if len(prompt.text) < 60][:40]
SETTINGS = settings(PROMPTS, seed=9, batch=6, max_new_tokens=12, precision="fp32", checksum="none")


def small_run(folder: Path, run=SETTINGS, **callbacks):
    """Generate, or continue, and return the shards."""
    verifier = tiny_verifier(VOCABULARY, context=128)
    return generate(folder, PROMPTS, run, verifier, byte_tokenizer(), **callbacks)
