"""Heads that are shipped: their cards, what lies in models/, and which one a name or no name stands for."""

import json
import re
from pathlib import Path

import pytest
from tiny_heads import tiny_eagle3
from tiny_verifier import tiny_verifier

from specdec import cli, weights
from specdec.drafts import choose
from specdec.drafts.choose import default_draft, load_draft, shipped
from specdec.drafts.ngram import NgramDraft
from specdec.drafts.store import ARCHITECTURES, load_head, save_head
from specdec.errors import SpecdecError
from specdec.policy import dynamic
from specdec.train.card import CARD, card, thinned, train_command, write_card
from specdec.train.trainer import TrainConfig

MODELS = Path(__file__).resolve().parent.parent / "models"
SHIPPED = sorted(path.parent for path in MODELS.glob("*/config.json"))
LARGEST = 35_000_000  # bytes, of all of models/
CONFIG = TrainConfig("eagle3", updates=1500, learning_rate=2e-3, texts=750, warm_start=False, bf16=False)
FACTS = {
    "config": {name: getattr(CONFIG, name) for name in CONFIG.__dataclass_fields__},
    "data": {
        "format": 1,
        "prompts": 6000,
        "seed": 4,
        "batch": 96,
        "max_new_tokens": 256,
        "precision": "bf16",
    },
    "features_precision": "bf16",
    "texts": 750,
    "held_out_texts": 300,
    "answer_tokens": 123456,
    "coverage": 0.8987,
    "parameters": 7_500_000,
    "updates": 1500,
    "answer_tokens_seen": 2_345_678,
    "seconds": 3725.0,
    "best": {"update": 1250, "sampled": [0.5, 0.25], "greedy": [0.6, 0.375], "promise": 1.625},
    "machine": {"cpu": "A Processor", "torch": "2.9"},
    "threads": 2,
    "date": "2026-11-30",
}


# -- the card --------------------------------------------------------------------------------------------


def test_the_card_says_what_was_trained_on_what_with_what_outcome_and_how_to_repeat_it():
    head = {"specdec": {"family": "eagle3", "verifier_sha256": weights.SHA256}, "draft_vocab_size": 4096}
    text = card(head, FACTS, 15_300_000)
    for part in (
        "# eagle3: a draft for SmolLM2-135M-Instruct",
        "7,500,000 trained parameters, 15.3 MB in bf16",
        "4,096 of the verifier's tokens, 89.9% of held-out answers",
        weights.SHA256,
        "license: apache-2.0",
        "Licence: Apache-2.0, that of the weights of SmolLM2-135M-Instruct",
        "| token drafted | 1 | 2 |",
        "| accepted, sampled at temperature 1 | 0.500 | 0.250 |",
        "| accepted, greedy | 0.600 | 0.375 |",
        "Measured along 96 held-out texts",
        "A chain of 2 would emit 1.62 tokens",
        "750 texts with 123,456 answer tokens; with repetition 2,345,678",
        "1,500 updates of up to 2,048 tokens, seed 0; these are the weights of update 1,250",
        "1 h 2 min on A Processor (2 threads, torch 2.9), 2026-11-30",
        "$ specdec data DATA --prompts 6000 --seed 4 --batch 96 --max-new-tokens 256 --precision bf16",
        "$ specdec features DATA --out FEATURES --precision bf16",
        "$ specdec train eagle3 --data DATA --features FEATURES --out models/eagle3 --updates 1500 "
        "--batch-tokens 2048 --learning-rate 0.002 --draft-vocabulary 4096 --evaluate-every 250 "
        "--patience 4 --seed 0 --texts 750 --fp32 --cold",
    ):
        assert part in text
    assert "--texts" not in train_command(FACTS["config"] | {"texts": None})


def test_the_commands_on_a_card_are_ones_that_the_command_line_knows(tmp_path, monkeypatch, capsys):
    """Every option is understood: what is missing are the folders, not an option."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(train_command(FACTS["config"]).split()[1:]) == 2
    assert "there is no features.json in FEATURES" in capsys.readouterr().err


@pytest.mark.parametrize("length", [0, 1, 199, 200, 201, 399, 3000])
def test_losses_are_thinned_to_means_of_equally_many_updates(length):
    losses = [float(i % 7) for i in range(length)]
    every, means = thinned(losses)
    assert len(means) <= 200
    assert every == max(1, (length + 199) // 200)
    whole = length // every
    assert means[:whole] == [
        pytest.approx(sum(losses[i * every : (i + 1) * every]) / every, abs=1e-5) for i in range(whole)
    ]


def test_a_card_without_its_facts_is_refused(tmp_path):
    verifier = tiny_verifier()
    save_head(tmp_path, tiny_eagle3(verifier), verifier, dynamic(3, 2, 5))
    with pytest.raises(SpecdecError, match=r"there is no training.json in"):
        write_card(tmp_path)
    (tmp_path / "training.json").write_text(json.dumps({"config": FACTS["config"]}))
    with pytest.raises(SpecdecError, match=r"training.json lacks 'best'"):
        write_card(tmp_path)
    assert not (tmp_path / CARD).exists()


# -- names -----------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with a head of this name, seen from a folder inside it; without the project's own."""
    verifier = tiny_verifier()
    save_head(tmp_path / "models" / "eagle3", tiny_eagle3(verifier), verifier, dynamic(3, 2, 5))
    inside = tmp_path / "notebooks" / "deep"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    return tmp_path, verifier


def test_a_name_is_a_head_in_models_of_the_checkout_around_and_is_the_default(checkout):
    folder, verifier = checkout
    assert shipped("eagle3") == folder / "models" / "eagle3"
    assert default_draft() == "eagle3"
    assert load_draft("eagle3", verifier).name == "eagle3"


def test_where_there_are_no_heads_the_default_is_ngram_and_a_head_is_refused_with_its_place(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(choose, "MODELS", Path("no-such-models"))
    assert default_draft() == "ngram"
    assert isinstance(load_draft(default_draft(), tiny_verifier()), NgramDraft)
    with pytest.raises(SpecdecError, match="'eagle3' is not here: it lies in no-such-models/eagle3 of the"):
        load_draft("eagle3", tiny_verifier())
    with pytest.raises(SpecdecError, match="there is no draft 'eagle9': choose ngram, none"):
        load_draft("eagle9", tiny_verifier())


# -- what is shipped -------------------------------------------------------------------------------------


@pytest.mark.weights
@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_a_shipped_head_loads_and_its_card_is_the_one_of_its_facts(folder, verifier):
    config, found = (json.loads((folder / name).read_text()) for name in ("config.json", "training.json"))
    files = {path.name for path in folder.iterdir()} - {"checkpoint.pt"}
    assert files == {"model.safetensors", "config.json", "training.json", "README.md"}
    assert folder.name == config["specdec"]["family"] == found["config"]["family"]
    assert config["specdec"]["verifier_sha256"] == weights.SHA256
    assert len(found["losses"]) <= 200
    size = (folder / "model.safetensors").stat().st_size
    assert (folder / "README.md").read_text() == card(config, found, size)
    assert load_head(folder, verifier).name == folder.name


@pytest.fixture(scope="module")
def verifier():
    from specdec.verifier import Verifier

    return Verifier.load(precision="bf16")


def test_all_shipped_heads_together_stay_within_their_size():
    sizes = [p.stat().st_size for p in MODELS.rglob("*") if p.is_file() and p.name != "checkpoint.pt"]
    assert sum(sizes) <= LARGEST
    assert {folder.name for folder in SHIPPED} <= set(ARCHITECTURES)


def test_neither_checkpoints_nor_halves_of_files_are_committed():
    ignored = (MODELS.parent / ".gitignore").read_text().split()
    assert {"checkpoint.pt", "*.part"} <= set(ignored)
    assert re.search(r"^\*\.safetensors binary$", (MODELS.parent / ".gitattributes").read_text(), re.M)
