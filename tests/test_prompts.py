"""The prompts to train on: many, distinct, of every kind, decided by a seed, and none from an evaluation."""

import re
import string
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ngrams import WINDOW, N, fingerprints, hashed, ngrams, read_fingerprints, turns, write_fingerprints

from specdec.errors import SpecdecError
from specdec.train import prompts as generators
from specdec.train.prompts import KINDS, make_prompts
from specdec.train.prompts.words import Pick, joined

COUNT = 6000
EVALUATION = Path(__file__).resolve().parent.parent.parent / "shared" / "prompts"
SHORT_SETS = ("mt_bench", "alpaca", "gsm8k", "humaneval")
FINGERPRINTS = Path(__file__).parent / "data" / "evaluation-fingerprints.bin"

needs_evaluation = pytest.mark.skipif(not EVALUATION.is_dir(), reason="the evaluation prompts are not here")


@pytest.fixture(scope="module")
def made():
    return make_prompts(COUNT, seed=0)


# -- how many, of what -------------------------------------------------------------------------------------


def test_six_thousand_prompts_are_distinct_even_without_case_and_punctuation(made):
    def bare(text):
        return " ".join(re.findall(r"\w+", text.lower()))

    assert len({prompt.text for prompt in made}) == COUNT
    # Code and sums may differ in signs alone.
    prose = [bare(p.text) for p in made if p.kind not in ("code", "arithmetic")]
    assert len(set(prose)) > 0.98 * len(prose)


def test_all_fourteen_kinds_appear_in_their_shares(made):
    counts = Counter(prompt.kind for prompt in made)
    total = sum(share for _, share in KINDS.values())
    assert len(KINDS) == 14
    for kind, (_, share) in KINDS.items():
        expected = COUNT * share / total
        assert abs(counts[kind] - expected) < 5 * expected**0.5, kind  # 5 standard deviations


def test_no_beginning_is_worn_out(made):
    """A head trained on few wordings learns those: no four words open more than 1% of the prompts."""
    openings = Counter(" ".join(prompt.text.split()[:4]) for prompt in made)
    assert openings.most_common(1)[0][1] < COUNT / 100
    assert len(openings) > COUNT / 3


def test_the_vocabulary_is_broad(made):
    words = Counter(word for prompt in made for word in set(re.findall(r"[^\W\d_]+", prompt.text.lower())))
    assert len(words) > 4000


def test_some_prompts_are_spanish_and_most_are_not(made):
    spanish = [
        p for p in made if re.search(r"[¿¡]|\b(cómo|qué|escribe|dame|explícame|resume)\b", p.text.lower())
    ]
    assert 0.02 * COUNT < len(spanish) < 0.15 * COUNT


def test_no_placeholder_or_alternative_is_left_in_a_text(made):
    prose = [p.text for p in made if p.kind not in ("code", "extraction")]
    assert not [text for text in prose if re.search(r"\{\w+\}|\[[^\]]*\|", text)]
    assert not [text for text in prose if text != text.strip() or "  " in text]


def test_texts_have_between_one_word_and_two_hundred(made):
    lengths = [len(prompt.text.split()) for prompt in made]
    assert min(lengths) >= 2
    assert max(lengths) <= 200
    assert sum(length > 60 for length in lengths) > COUNT / 10  # passages to read
    assert sum(length < 12 for length in lengths) > COUNT / 5


@pytest.mark.weights
def test_texts_have_at_most_250_tokens(made):
    from specdec.tokenizer import load_tokenizer

    tokenizer = load_tokenizer()
    lengths = [len(tokenizer.encode(prompt.text)) for prompt in made]
    assert min(lengths) >= 2
    assert max(lengths) <= 250


# -- seeds -------------------------------------------------------------------------------------------------


def test_the_seed_decides_the_prompts_and_another_seed_gives_others(made):
    assert make_prompts(500, seed=0) == made[:500]
    other = make_prompts(COUNT, seed=1)
    shared = {prompt.text for prompt in made} & {prompt.text for prompt in other}
    assert len(shared) < COUNT / 5  # short questions come up again


def test_a_count_below_one_is_refused():
    with pytest.raises(SpecdecError, match="the number of prompts is 0, but must be at least 1"):
        make_prompts(0)


def test_an_exhausted_kind_is_named(monkeypatch):
    monkeypatch.setattr(generators, "KINDS", {"coin": (lambda pick: pick.one(["heads", "tails"]), 1)})
    with pytest.raises(SpecdecError, match="no more than 2 distinct prompts: coin is exhausted"):
        make_prompts(3)


# -- templates ---------------------------------------------------------------------------------------------


@given(st.lists(st.text(string.ascii_lowercase, max_size=5), min_size=2, max_size=4), st.integers(0, 10**6))
def test_an_alternative_becomes_one_of_its_words_and_a_key_its_value(words, seed):
    filled = Pick(seed).fill(f"a [{'|'.join(words)}] {{key}} [not one]", {"key": "[value]"})
    assert filled in {f"a {word} [value] [not one]" for word in words}


def test_names_are_joined_as_in_a_sentence():
    assert joined(["a"]) == "a"
    assert joined(["a", "b"]) == "a and b"
    assert joined(["a", "b", "c"], "or") == "a, b or c"


# -- apart from the evaluation -----------------------------------------------------------------------------


def overlapping(texts, known):
    return sorted({" ".join(ngram) for text in texts for ngram in ngrams(text) if hashed(ngram) in known})


@needs_evaluation
@pytest.mark.parametrize("seed", [0, 1])
def test_no_eight_words_in_a_row_are_those_of_an_evaluation_prompt(seed):
    files = sorted(EVALUATION.glob("*.jsonl"))
    known = {hashed(ngram) for file in files for text in turns(file) for ngram in ngrams(text)}
    assert len(known) > 50_000
    assert overlapping([prompt.text for prompt in make_prompts(COUNT, seed)], known) == []


def test_no_fingerprint_of_an_evaluation_prompt_is_met(made):
    known = read_fingerprints(FINGERPRINTS)
    assert len(known) > 2000
    assert overlapping([prompt.text for prompt in made], known) == []


@needs_evaluation
def test_the_stored_fingerprints_are_those_of_the_evaluation_prompts(tmp_path):
    write_fingerprints(EVALUATION, SHORT_SETS, tmp_path / "again.bin")
    assert (tmp_path / "again.bin").read_bytes() == FINGERPRINTS.read_bytes()


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_fingerprints_find_every_shared_run_of_fifteen_words(data):
    word = st.text(string.ascii_lowercase, min_size=3, max_size=8)
    copied = data.draw(st.lists(word, min_size=N + WINDOW - 1, max_size=30))
    known = fingerprints(
        " ".join([*data.draw(st.lists(word, max_size=9)), *copied, *data.draw(st.lists(word, max_size=9))])
    )
    text = " ".join([*data.draw(st.lists(word, max_size=9)), *copied]).upper()
    assert overlapping([text], known)


def test_fingerprints_do_not_find_what_is_only_alike():
    known = fingerprints(
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    )
    assert not overlapping(
        ["one two three four five six seven 8 nine ten eleven twelve thirteen fourteen"], known
    )
