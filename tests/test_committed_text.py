"""The text in data/: whole, of our prompts, apart from the evaluation, and as large as its page says."""

from pathlib import Path

import numpy as np
import pytest
from ngrams import hashed, ngrams, read_fingerprints

from specdec import weights
from specdec.tokenizer import load_tokenizer
from specdec.train import data
from specdec.train.prompts import make_prompts
from specdec.train.shards import read_shards

FOLDER = Path(__file__).parents[1] / "data"
FINGERPRINTS = Path(__file__).parent / "data" / "evaluation-fingerprints.bin"


@pytest.fixture(scope="module")
def shards():
    return read_shards(FOLDER)


@pytest.fixture(scope="module")
def prompts():
    return make_prompts(6000, seed=0)


def test_every_prompt_is_answered_once_under_the_settings_of_the_command(shards, prompts):
    assert sorted(int(i) for shard in shards for i in shard.ids) == list(range(6000))
    run = data.settings(prompts, 0, 96, 256, "bf16", weights.SHA256)
    assert all(shard.run == run for shard in shards)


def test_its_page_states_its_size(shards):
    page = (FOLDER / "README.md").read_text()
    tokens = sum(len(shard.tokens) for shard in shards)
    answers = sum(shard.answer_tokens for shard in shards)
    assert f"{tokens:,} tokens, of which {answers:,} are answers" in page
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 5_000_000


def test_each_sequence_begins_with_its_prompt_and_ends_like_an_answer(shards, prompts):
    tokenizer = load_tokenizer()
    for shard in shards[::9]:
        for n, i in enumerate(shard.ids):
            tokens, mask = shard.sequence(n)
            assert tokens[~mask].tolist() == tokenizer.chat(prompts[i].text)
            answer = tokens[mask]
            assert len(answer) == 256 or answer[-1] in tokenizer.eos_ids
            assert not np.isin(answer[:-1], tokenizer.eos_ids).any()
            assert shard.kinds[n] == prompts[i].kind
            assert shard.temperatures[n] == np.float32(data.draws(0, int(i), 256)[0])


def test_no_answer_repeats_eight_words_that_stand_in_evaluation_prompts_alone(shards, prompts):
    """An answer may quote its own prompt, and phrases that anybody writes; a prompt of an evaluation set it
    cannot know would show as many runs in one answer."""
    known, tokenizer = read_fingerprints(FINGERPRINTS), load_tokenizer()
    for shard in shards:
        for n in range(len(shard)):
            tokens, mask = shard.sequence(n)
            found = {
                ngram for ngram in ngrams(tokenizer.decode(tokens[mask].tolist())) if hashed(ngram) in known
            }
            assert len(found) <= 2
