"""`specdec bench`: the order of the runs, the part file, what the rows say, the peers, and bad input."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from test_cli import COMMAND, one_sentence
from tiny_verifier import tiny_verifier

from specdec import bench_summary, cli, peers
from specdec.bench_prompts import read_prompts
from specdec.checkpoint import LlamaConfig, expected_shapes
from specdec.compete import Run, append, compete, ours, resume, schedule
from specdec.drafts.ngram import NgramDraft
from specdec.errors import SpecdecError
from specdec.verifier import Verifier

PROMPTS = [[1, 2, 3, 4, 1, 2, 3], [5, 6, 7, 5, 6], [9, 8, 7]]

pytestmark = pytest.mark.usefixtures("one_thread")


def row(prompt, repeat, method, tokens, seconds, timed=None, calls=None, stages=None):
    timed = len(tokens) if timed is None else timed
    run = Run(tokens, timed, seconds, 0.5, timed if calls is None else calls, stages)
    return {"prompt": prompt, "repeat": repeat, "method": method, **vars(run)}


# -- the runs --------------------------------------------------------------------------------------


def test_every_method_runs_once_per_prompt_and_repeat_in_an_order_that_the_seed_decides():
    turns = schedule(["a", "b", "c"], prompts=4, repeats=5, seed=3)
    blocks = [turns[i : i + 3] for i in range(0, len(turns), 3)]
    assert [block[0][:2] for block in blocks] == [(p, r) for p in range(4) for r in range(5)]
    assert all(sorted(name for _, _, name in block) == ["a", "b", "c"] for block in blocks)
    assert len({tuple(name for _, _, name in block) for block in blocks}) > 1
    assert turns == schedule(["a", "b", "c"], 4, 5, 3) != schedule(["a", "b", "c"], 4, 5, 4)


def test_real_runs_count_every_token_once_and_speculation_changes_no_token(tmp_path):
    verifier = tiny_verifier()
    methods = {"plain-fp32": ours(verifier, None, []), "ngram-fp32": ours(verifier, NgramDraft(), [])}
    part = tmp_path / "r.part.jsonl"
    assert resume(part, {"seed": 0}) == []
    rows = list(compete(methods, PROMPTS, max_new_tokens=40, repeats=2, seed=0, part=part))
    assert resume(part, {"seed": 0}) == rows
    for found in rows:
        assert found["timed"] == len(found["tokens"]) == 40
        assert sum(found["stages"].values()) == pytest.approx(found["seconds"], rel=0.2)
    result = bench_summary.summarise(rows, list(methods), ["a", "a", "b"])
    assert result["methods"]["plain-fp32"]["tau"] == 1
    assert result["methods"]["ngram-fp32"]["tau"] > 1.5  # a tiny model repeats itself
    assert [pair["identical"] for pair in result["agreement"]] == [1.0]
    shares = result["methods"]["ngram-fp32"]["round"]
    assert sum(shares[s] for s in ("draft", "verify", "accept", "rollback", "rest")) == pytest.approx(
        1, abs=1e-3
    )
    assert shares["outside"] == pytest.approx(1 - shares["draft"] - shares["verify"], abs=1e-4)


def test_an_interrupted_benchmark_goes_on_and_repeats_no_run(tmp_path):
    part, calls = tmp_path / "r.part.jsonl", []

    def method(prompt, max_new_tokens):
        calls.append(prompt)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return Run([1, 2], 2, 1.0, 1.0, 2)

    resume(part, {"seed": 1})
    with pytest.raises(KeyboardInterrupt):
        list(compete({"m": method}, PROMPTS, 2, 3, seed=1, part=part))
    done = resume(part, {"seed": 1})
    assert len(done) == 4  # the first call warms up, the last was interrupted
    have = {(r["prompt"], r["repeat"], r["method"]) for r in done}
    more = list(compete({"m": method}, PROMPTS, 2, 3, seed=1, part=part, done=have))
    assert [(r["prompt"], r["repeat"]) for r in done + more] == [(p, r) for p in range(3) for r in range(3)]


def test_half_a_line_of_a_killed_run_is_cut_off(tmp_path):
    part = tmp_path / "r.part.jsonl"
    resume(part, {"seed": 1})
    append(part, row(0, 0, "m", [1], 1.0))
    whole = part.read_bytes()
    part.write_bytes(whole + b'{"prompt": 0, "rep')
    assert len(resume(part, {"seed": 1})) == 1
    assert part.read_bytes() == whole


def test_rows_of_other_settings_are_never_mixed(tmp_path):
    part = tmp_path / "r.part.jsonl"
    resume(part, {"seed": 1, "repeats": 5})
    with pytest.raises(SpecdecError, match=r"other settings \(repeats is 5 there and 3 now\)"):
        resume(part, {"seed": 1, "repeats": 3})
    part.write_text("my notes\n")
    with pytest.raises(SpecdecError, match="is not the beginning of a benchmark"):
        resume(part, {"seed": 1})
    assert part.read_text() == "my notes\n"


# -- what the rows say -----------------------------------------------------------------------------


def test_ratios_are_formed_per_prompt_from_medians_over_repeats():
    """Rates 10, 20, 40 on prompt 0 against 10, 10, 5; 90 on prompt 1 against 30: ratios 2 and 3."""
    rows = [row(0, i, "ngram-bf16", [1] * 20, 20 / rate) for i, rate in enumerate((10, 20, 40))]
    rows += [row(0, i, "plain-bf16", [1] * 20, 20 / rate) for i, rate in enumerate((10, 10, 5))]
    rows += [row(1, i, "ngram-bf16", [2] * 90, 1.0, calls=30) for i in range(3)]
    rows += [row(1, i, "plain-bf16", [2] * 89 + [3], 3.0) for i in range(3)]
    result = bench_summary.summarise(rows, ["plain-bf16", "ngram-bf16"], ["talk", "sum"])
    (found,) = result["ratios"]
    assert (found["talk"]["median"], found["sum"]["median"], found["all"]["median"]) == (2.0, 3.0, 2.5)
    # all tokens over all seconds: 330 / 6.5 against 330 / 17
    assert found["all"]["total"] == pytest.approx(17 / 6.5, abs=1e-3)
    fast = result["methods"]["ngram-bf16"]
    assert fast["tokens_per_second"]["all"] == {"median": 55.0, "quartiles": [37.5, 72.5], "total": 50.77}
    assert fast["tau"] == pytest.approx(330 / 150, abs=1e-3)
    assert result["agreement"][0]["first_difference"] == [None, 89]
    assert result["agreement"][0]["identical"] == 0.5


def test_a_text_that_ends_with_its_prefill_has_no_rate_and_spoils_no_median():
    rows = [row(0, 0, "plain-bf16", [7], 0.0, timed=0, calls=0), row(1, 0, "plain-bf16", [7] * 4, 2.0)]
    speed = bench_summary.summarise(rows, ["plain-bf16"], ["a", "a"])["methods"]["plain-bf16"]
    assert speed["tokens_per_second"]["all"]["median"] == 2.0


@pytest.mark.parametrize(
    ("a", "b", "place"),
    [([1, 2], [1, 2], None), ([1, 2, 3], [1, 5, 3], 1), ([1, 2], [1, 2, 3], 2), ([], [1], 0)],
)
def test_texts_part_where_they_first_differ(a, b, place):
    assert bench_summary.first_difference(a, b) == place


# -- the peers -------------------------------------------------------------------------------------


def random_state(vocabulary=64, tied=False):
    config = LlamaConfig(vocabulary, 32, 48, 2, 4, 2, 8, 256, 10_000.0, 1e-5, tied)
    generator = torch.Generator().manual_seed(5)
    shapes = expected_shapes(config).items()
    return config, {
        name: torch.randn(shape, generator=generator) * (0.3 if len(shape) > 1 else 1.0)
        for name, shape in shapes
    }


@pytest.mark.parametrize("tied", [False, True])
def test_the_transformers_peer_decodes_the_same_tokens_and_times_all_but_the_first(tied):
    config, state = random_state(tied=tied)
    mine = ours(Verifier.from_state(config, dict(state)), None, [])
    for name, theirs in peers.transformers_methods(config, dict(state), []).items():
        for prompt in PROMPTS:
            found, expected = theirs(prompt, 24), mine(prompt, 24)
            assert found.tokens == expected.tokens, name
            assert 0 < found.calls <= found.timed < 24
            assert found.seconds > 0 < found.prefill_seconds
            if name.endswith("plain"):
                assert found.calls == found.timed == 23


def test_the_transformers_peer_ends_at_the_same_end_of_sequence():
    config, state = random_state()
    free = ours(Verifier.from_state(config, dict(state)), None, [])(PROMPTS[0], 24).tokens
    eos = free[5]
    for theirs in peers.transformers_methods(config, dict(state), [eos]).values():
        assert theirs(PROMPTS[0], 24).tokens == free[: free.index(eos) + 1]


@pytest.fixture(scope="module")
def one_prompt():
    from specdec.tokenizer import load_tokenizer

    tokenizer = load_tokenizer()
    return tokenizer.chat("Name three colours."), tokenizer.eos_ids


@pytest.mark.weights
def test_the_transformers_peer_speaks_as_the_real_verifier_does(one_prompt):
    from specdec import weights
    from specdec.checkpoint import load_gguf

    prompt, eos_ids = one_prompt
    config, state = load_gguf(weights.ensure())
    mine = ours(Verifier.from_state(config, dict(state)), None, eos_ids)(prompt, 8)
    for theirs in peers.transformers_methods(config, state, eos_ids).values():
        assert theirs(prompt, 8).tokens == mine.tokens


@pytest.mark.weights
def test_the_llama_cpp_peer_speaks_the_same_words_from_the_same_file(one_prompt):
    """4-bit weights there and here round differently, so the words must be no close calls: a sentence that is
    to be repeated, behind its first words."""
    from specdec import weights
    from specdec.exactness import plain_greedy
    from specdec.tokenizer import load_tokenizer

    _, eos_ids = one_prompt
    tokenizer = load_tokenizer()
    text = "The red fox jumps over the lazy dog."
    prompt = tokenizer.chat(f"Repeat this sentence: {text}") + tokenizer.encode(text)[:3]
    assert min(gap for gap, _, _ in plain_greedy(Verifier.load(), prompt, 6)) > 1
    mine = ours(Verifier.load(precision="int4"), None, eos_ids)(prompt, 6)
    for theirs in peers.build_peer("llama-cpp", weights.ensure(), 1, eos_ids).values():
        found = theirs(prompt, 6)
        assert found.tokens == mine.tokens
        assert found.timed == 5 >= found.calls
        assert 0 < found.seconds < 60


# -- prompts ---------------------------------------------------------------------------------------


def test_sets_are_read_in_order_and_cut_to_the_first_prompts(tmp_path):
    for name in ("talk", "sum"):
        lines = [json.dumps({"question_id": i, "turns": [f"{name} {i}?", "more"]}) for i in (81, 82, 83)]
        (tmp_path / f"{name}.jsonl").write_text("\n\n".join(lines) + "\n")
    found = read_prompts(tmp_path, ["talk", "sum"], per_set=2)
    assert [prompt.text for prompt in found] == ["talk 81?", "talk 82?", "sum 81?", "sum 82?"]
    assert str(found[3]) == "prompt 82 of sum"
    assert len(read_prompts(tmp_path)) == 6


def test_without_a_folder_the_courses_own_prompts_serve_by_kind():
    own = json.loads((Path(__file__).parent.parent / "benchmarks" / "prompts.json").read_text())
    assert [prompt.text for prompt in read_prompts(None, ["code"])] == [
        entry["prompt"] for entry in own if entry["kind"] == "code"
    ]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{oops", "talk.jsonl, line 2, is not JSON"),
        ("[]", "line 2, has no question"),
        ('{"turns": []}', "turns\\[0\\]"),
    ],
)
def test_a_malformed_prompt_is_named_by_its_line(tmp_path, line, sentence):
    (tmp_path / "talk.jsonl").write_text('{"turns": ["Hi"]}\n' + line + "\n")
    with pytest.raises(SpecdecError, match=sentence):
        read_prompts(tmp_path)


# -- the command -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--methods", "warp"], "there is no method 'warp': the methods are plain-fp32"),
        (["--methods", ","], "--methods names none"),
        (["--peer", "vllm"], "there is no peer 'vllm': the peers are transformers, llama-cpp"),
        (["--repeats", "0"], "'--repeats': 0 is below 1"),
        (["--threads", "0"], "'--threads': 0 is below 1"),
        (["--seed", "-1"], "'--seed'"),
        (["--prompt-dir", "no/such"], "there is no folder no/such"),
        (["--sets", "poems"], "benchmarks/prompts.json has no set 'poems'"),
        (["--out", "no/such/x.json"], "cannot write no/such/x.json"),
        (["--out", "x.txt"], "--out must end in .json"),
        (["--plot", "x.gif"], "--plot draws .png or .svg"),
        (["decode", "--nonsense"], "see 'specdec bench decode --help'"),
        (["warp"], "No such command 'warp'"),
    ],
)
def test_bad_input_gets_one_sentence_and_status_two(capsys, args, sentence):
    assert cli.main(["bench", *args]) == 2
    captured = capsys.readouterr()
    assert sentence in one_sentence(captured.err)
    assert captured.out == ""


@pytest.mark.parametrize(("peer", "package"), peers.PACKAGES.items())
def test_a_peer_that_is_not_installed_is_refused_with_the_command_that_installs_it(
    capsys, monkeypatch, peer, package
):
    monkeypatch.setitem(sys.modules, package, None)
    assert cli.main(["bench", "--peer", peer]) == 2
    sentence = one_sentence(capsys.readouterr().err)
    assert (
        f"--peer {peer} needs the package {package}: install it with pip install 'specdec[peers]'" in sentence
    )


@pytest.mark.weights
def test_a_prompt_longer_than_the_context_is_named(capsys, tmp_path):
    (tmp_path / "talk.jsonl").write_text(json.dumps({"question_id": 7, "turns": ["word " * 9000]}))
    args = ["bench", "--prompt-dir", str(tmp_path), "--out", str(tmp_path / "r.json")]
    assert cli.main(args) == 2
    assert "prompt 7 of talk has 90" in one_sentence(capsys.readouterr().err)
    assert not (tmp_path / "r.part.jsonl").exists()


SHORT = ["bench", "--methods", "plain-bf16,ngram-bf16", "--sets", "code", "--per-set", "1", "--threads", "1"]


@pytest.mark.weights
def test_the_command_writes_table_result_and_plot_and_takes_the_part_file_away(capsys, tmp_path, monkeypatch):
    from specdec import bench_command

    monkeypatch.setattr(bench_command, "WIDTHS", (1, 2))
    monkeypatch.setitem(bench_command.CURVE, "repeats", 2)
    out, plot = tmp_path / "r.json", tmp_path / "r.svg"
    options = ["--repeats", "2", "--max-new-tokens", "5", "--out", str(out), "--plot", str(plot)]
    assert cli.main([*SHORT, *options]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert all(word in captured.out for word in ("plain-bf16", "ngram-bf16", "tokens/s", str(out)))
    result = json.loads(out.read_text())
    assert {
        "machine",
        "commit",
        "date",
        "seed",
        "threads",
        "methods",
        "ratios",
        "agreement",
        "cost",
        "c",
    } <= set(result)
    assert result["prompts"] == "benchmarks/prompts.json"
    assert [len(rates) for rates in result["rates"]["plain-bf16"]] == [2]
    assert result["methods"]["plain-bf16"]["new_tokens"] == [5]
    assert result["c"]["ngram-bf16"]["c"] < 0.1
    assert plot.read_text().startswith("<?xml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "r.svg"]


@pytest.mark.weights
def test_ctrl_c_ends_with_130_keeps_the_rows_and_says_how_to_go_on(tmp_path):
    out, part = tmp_path / "r.json", tmp_path / "r.part.jsonl"
    process = subprocess.Popen(
        [*COMMAND, *SHORT, "--repeats", "1000", "--max-new-tokens", "4", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and (not part.exists() or part.read_text().count("\n") < 4):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, b"")
    sentence, last = stderr.decode().splitlines()
    assert sentence == f"specdec: {part} keeps what was measured: the same command goes on from there."
    assert last == "specdec: interrupted."
    assert all(json.loads(line) for line in part.read_text().splitlines())
    assert not out.exists()
