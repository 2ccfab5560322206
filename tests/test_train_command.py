"""From prompts to a head that decodes, by the commands alone, on the real verifier; and what they refuse."""

import json
import re

import pytest

from specdec import cli

FIRST = ["train", "medusa", "--data", "nowhere", "--features", "nowhere", "--out", "out"]


@pytest.mark.weights
def test_the_commands_make_text_features_and_a_head_that_decodes(tmp_path, capsys):
    data, features, out = (str(tmp_path / name) for name in ("data", "features", "head"))
    made = ["data", data, "--prompts", "24", "--batch", "24", "--max-new-tokens", "6"]
    assert cli.main(made) == 0
    assert cli.main(["features", data, "--out", features]) == 0
    train = ["train", "medusa", "--data", data, "--features", features, "--out", out]
    numbers = ["--updates", "2", "--batch-tokens", "400", "--evaluate-every", "1", "--draft-vocabulary", "50"]
    assert cli.main([*train, *numbers]) == 0
    told = capsys.readouterr().err
    assert re.search(r"23 texts to train on, 1 held out; 50 tokens cover [\d.]+% of held-out answers", told)
    assert "the head is in" in told

    card = json.loads((tmp_path / "head" / "training.json").read_text())
    assert (card["updates"], len(card["losses"]), len(card["evaluations"])) == (2, 2, 2)
    assert card["config"]["family"] == "medusa"
    assert (card["texts"], card["held_out_texts"]) == (23, 1)
    readme = (tmp_path / "head" / "README.md").read_text()
    assert (
        "$ specdec data DATA --prompts 24 --seed 0 --batch 24 --max-new-tokens 6 --precision bf16" in readme
    )
    assert "--updates 2 --batch-tokens 400" in readme

    options = ["generate", "Hi", "--json", "--max-new-tokens", "4"]
    assert cli.main([*options, "--draft", out]) == 0
    drafted = json.loads(capsys.readouterr().out)
    assert cli.main([*options, "--draft", "none"]) == 0
    assert drafted["text"] == json.loads(capsys.readouterr().out)["text"]
    assert drafted["draft"] == "medusa"

    small = str(tmp_path / "small")
    assert cli.main(["train", "vanilla", *train[2:-1], small, *numbers, "--texts", "9"]) == 0
    assert "9 texts to train on, 1 held out" in capsys.readouterr().err
    assert cli.main([*options, "--draft", small]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["text"], told["draft"]) == (drafted["text"], "vanilla")

    # The same command again finds its checkpoint and has nothing left to do.
    before = (tmp_path / "head" / "model.safetensors").read_bytes()
    assert cli.main([*train, *numbers]) == 0
    assert (tmp_path / "head" / "model.safetensors").read_bytes() == before
    assert cli.main([*train, *numbers, "--seed", "1"]) == 2
    assert "checkpoint.pt is of a run with seed 0, not 1: repeat its options" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["train", "eagle4", *FIRST[2:]], "there is no family 'eagle4': choose one of"),
        (FIRST, "there is no features.json in nowhere"),
        ([*FIRST, "--updates", "0"], "'--updates': 0 is below 1"),
        ([*FIRST, "--learning-rate", "2"], "learning_rate is 2.0, but must lie between 0 and 1"),
        (FIRST[:2], "Missing option"),
    ],
)
def test_what_cannot_be_trained_is_said_in_one_sentence(capsys, tmp_path, monkeypatch, args, sentence):
    monkeypatch.chdir(tmp_path)
    assert cli.main(args) == 2
    told = capsys.readouterr().err
    assert re.fullmatch(r"specdec: [^\n]+\.\n", told), told
    assert sentence in told
    assert list(tmp_path.iterdir()) == []
