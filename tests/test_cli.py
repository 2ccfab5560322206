"""The command line: what it prints and how it ends, for good input, bad input, Ctrl-C and a full disk."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from specdec import cli
from specdec.terminal import TextStream, Writer

COMMAND = [sys.executable, "-m", "specdec.cli"]
LONG = ["generate", "Tell me a long story about a fox and a lighthouse.", "--max-new-tokens", "400"]


def run(*args, stdin=b"", **environment):
    """The command in a process of its own, its output piped."""
    return subprocess.run(
        [*COMMAND, *args], input=stdin, capture_output=True, env={**os.environ, **environment}, timeout=300
    )


def one_sentence(stderr):
    """What `specdec` wrote, checked to be one line and no traceback."""
    text = stderr.decode() if isinstance(stderr, bytes) else stderr
    assert re.fullmatch(r"specdec: [^\n]+\.\n", text), text
    return text


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--nonsense"], "No such option: --nonsense; see 'specdec --help'"),
        (["nonsense"], "No such command 'nonsense'; see 'specdec --help'"),
        (["fetch", "--nonsense"], "No such option: --nonsense; see 'specdec fetch --help'"),
        (["generate", "--tepid"], "No such option: --tepid"),
        (["demo", "--samples", "0"], "'--samples': 0 is below 1"),
        (["demo", "--samples", "-5"], "'--samples': -5 is below 1"),
        (["demo", "--vocab", "0"], "'--vocab': 0 is below 1"),
        (["demo", "--draft-length", "-1"], "'--draft-length': -1 is below 1"),
        (["demo", "--seed", "x"], "'--seed'"),
        (["demo", "--seed", "-1"], "seed"),
        (["generate", "hi", "--draft-length", "0"], "'--draft-length': 0 is below 1"),
        (["generate", "hi", "--draft-length", "-2"], "'--draft-length': -2 is below 1"),
        (["generate", "hi", "--draft-length", "1.5"], "'--draft-length'"),
        (["generate", "hi", "--max-new-tokens", "0"], "'--max-new-tokens': 0 is below 1"),
        (["generate", "hi", "--temperature", "-0.1"], "temperature is -0.1"),
        (["generate", "hi", "--temperature", "nan"], "temperature is nan"),
        (["generate", "hi", "--temperature", "warm"], "'--temperature'"),
        (["generate", "hi", "--top-p", "0"], "top_p is 0.0"),
        (["generate", "hi", "--top-p", "1.1"], "top_p is 1.1"),
        (["generate", "hi", "--top-k", "-1"], "top_k is -1"),
        (["generate", "hi", "--seed", "-1"], "seed is -1"),
        (["generate", "hi", "--precision", "fp8"], "'fp8' is not one of 'fp32', 'bf16', 'int4'"),
        (["generate"], "there is no prompt"),
        (["generate", "hi", "--file", "x"], "there are two prompts"),
        (["generate", "hi", "there"], "unexpected extra argument"),
        (["generate", "  "], "the prompt is empty"),
        (["generate", "\udcff"], "the prompt is not valid UTF-8"),
        (["generate", "--file", "no/such/file"], "no/such/file: No such file"),
        (["generate", "--file", "."], "from .: Is a directory"),
        (["generate", "--file", "/dev/zero"], "/dev/zero is larger than 1,000,000 bytes"),
    ],
)
def test_bad_input_gets_one_sentence_and_status_two(capsys, args, sentence):
    assert cli.main(args) == 2
    captured = capsys.readouterr()
    assert sentence in one_sentence(captured.err)
    assert captured.out == ""


def test_a_file_that_is_not_text_is_named_with_the_byte(capsys, tmp_path):
    file = tmp_path / "binary"
    file.write_bytes(b"abc\xff")
    assert cli.main(["generate", "--file", str(file)]) == 2
    assert f"{file} is not UTF-8 text: byte 3" in one_sentence(capsys.readouterr().err)


def test_generate_without_the_weights_says_what_is_missing(capsys, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the engine is not installed")
    monkeypatch.setenv("SPECDEC_HOME", str(tmp_path))
    assert cli.main(["generate", "hi"]) == 2
    assert str(tmp_path) in one_sentence(capsys.readouterr().err)


def test_generate_without_torch_says_how_to_install_it():
    code = (
        "import sys; sys.modules['torch'] = None; from specdec.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    found = subprocess.run([sys.executable, "-c", code, "generate", "hi"], capture_output=True, timeout=60)
    assert found.returncode == 2
    assert "needs the package torch" in one_sentence(found.stderr)


def test_an_error_of_ours_is_not_dressed_up_as_the_users(monkeypatch):
    def broken(args):
        raise TypeError("a bug")

    monkeypatch.setattr(cli, "run", broken)
    with pytest.raises(TypeError, match="a bug"):
        cli.main([])


# -- fetch, demo, help -----------------------------------------------------------------------------


def test_help_names_every_command_and_loads_neither_torch_nor_scipy():
    code = (
        "import sys; from specdec.cli import main; status = main(['--help']);"
        "assert not {'torch', 'scipy', 'numpy'} & set(sys.modules); sys.exit(status)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    assert all(name in found.stdout for name in ("fetch", "demo", "generate"))


def test_no_command_prints_the_help_and_version_the_version(capsys):
    assert cli.main([]) == 0
    assert "Usage: specdec" in capsys.readouterr().out
    assert cli.main(["--version"]) == 0
    assert re.fullmatch(r"specdec \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_demo_prints_json_and_nothing_else_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None; from specdec.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    args = ["demo", "--json", "--samples", "2000", "--vocab", "5", "--draft-length", "3", "--seed", "4"]
    found = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, timeout=60)
    assert (found.returncode, found.stderr) == (0, b"")
    result = json.loads(found.stdout)
    assert {"chi_square", "exact_distance", "tokens_per_call", "wall_time", "optimum", "ledger"} <= set(
        result
    )
    assert result["chi_square"]["samples"] == 2000


def test_demo_prints_its_story_for_readers(capsys):
    assert cli.main(["demo", "--samples", "2000"]) == 0
    assert "chi-square" in capsys.readouterr().out.lower()


# -- ends that are nobody's fault ------------------------------------------------------------------


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_gets_one_sentence_and_status_two():
    with open("/dev/full", "wb") as full:
        found = subprocess.run(
            [*COMMAND, "demo", "--samples", "2000"], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert found.returncode == 2
    assert "no space left" in one_sentence(found.stderr)


def test_a_reader_that_leaves_is_not_an_error_to_talk_about():
    read, write = os.pipe()
    os.close(read)
    found = subprocess.run(
        [*COMMAND, "demo", "--samples", "2000"], stdout=write, stderr=subprocess.PIPE, timeout=60
    )
    os.close(write)
    assert (found.returncode, found.stderr) == (cli.PIPE_CLOSED, b"")


def start(*args):
    """The command in a process of its own, which prints "begun" as soon as the command line is in charge."""
    code = (
        "import sys; from specdec import cli; run = cli.run;"
        "cli.run = lambda args: (print('begun', flush=True), run(args))[1]; sys.exit(cli.main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A test run in the background ignores SIGINT, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == b"begun\n"
    return process


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.3, 0.6])
def test_ctrl_c_while_libraries_are_imported_ends_with_130_and_no_traceback(seconds):
    process = start(*LONG)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"specdec: interrupted.\n")


@pytest.mark.weights
def test_ctrl_c_in_the_middle_of_a_text_keeps_the_text_and_ends_with_130():
    process = start(*LONG)
    beginning = process.stdout.read(8)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"specdec: interrupted.\n")
    assert len(beginning) == 8
    assert out.endswith(b"\n")
    assert b"tau" not in out


@pytest.mark.weights
def test_fetch_prints_where_the_weights_are(capfd):
    from specdec.weights import weights_path

    assert cli.main(["fetch"]) == 0
    assert capfd.readouterr().out == f"{weights_path()}\n"


# -- generate, on the real verifier ----------------------------------------------------------------


@pytest.fixture(scope="module")
def loaded():
    """Loading takes seconds: the commands that run in this process share one verifier per precision."""
    from specdec import tokenizer, verifier

    with pytest.MonkeyPatch.context() as patch:
        load = verifier.Verifier.load
        patch.setattr(
            verifier.Verifier, "load", cache(lambda path=None, precision="fp32": load(path, precision))
        )
        patch.setattr(tokenizer, "load_tokenizer", cache(tokenizer.load_tokenizer))
        yield


@pytest.fixture
def generate(loaded, capsys):
    """Run `specdec generate` in this process; returns what it printed on stdout."""

    def command(*args):
        status = cli.main(["generate", *args])
        captured = capsys.readouterr()
        assert (status, captured.err) == (0, "")
        return captured.out

    return command


REPEAT = "Repeat this sentence: The small red fox jumps over the lazy dog and the small red fox runs away."


@pytest.mark.weights
def test_json_holds_the_text_its_tokens_and_the_ledger_and_agrees_with_the_printed_form(generate):
    ngram = ("--draft", "ngram")
    result = json.loads(generate(REPEAT, "--json", "--compare", "--max-new-tokens", "40", *ngram))
    assert len(result["token_ids"]) == result["tokens"]
    assert result["tau"] == pytest.approx(result["tokens"] / result["verifier_calls"])
    assert result["tau"] > 1.5
    assert result["tokens_per_second"] == pytest.approx(result["tokens"] / result["seconds"])
    assert result["plain_tokens_per_second"] > 0
    assert result["identical_to_plain"] is True
    assert (result["precision"], result["temperature"], result["draft_length"]) == ("fp32", 0.0, 8)
    assert "fox" in result["text"]

    printed = generate(REPEAT, "--max-new-tokens", "40", *ngram)
    text, _, closing = printed.rpartition("\n\n")
    assert text == result["text"]
    assert closing.startswith(
        f"{result['tokens']} tokens, {result['verifier_calls']} verifier calls, tau {result['tau']:.2f}, "
    )


@pytest.mark.weights
def test_compare_closes_with_plain_speed_and_whether_the_output_is_identical(generate):
    printed = generate("Name three colours.", "--compare", "--max-new-tokens", "8")
    assert re.search(r"plain: [\d.]+ tokens/s; speculative is [\d.]+ times as fast\n", printed)
    assert printed.endswith("output: identical to plain decoding\n")


@pytest.mark.weights
def test_sampled_outputs_are_not_compared_and_the_seed_decides_them(generate):
    args = [
        "Tell me about a fox.",
        "--temperature",
        "1",
        "--top-k",
        "50",
        "--top-p",
        "0.9",
        "--max-new-tokens",
        "8",
    ]
    first = json.loads(generate(*args, "--seed", "1", "--json", "--compare"))
    assert first["identical_to_plain"] is None
    assert json.loads(generate(*args, "--seed", "1", "--json"))["text"] == first["text"]
    assert json.loads(generate(*args, "--seed", "2", "--json"))["text"] != first["text"]


@pytest.mark.weights
@pytest.mark.parametrize("precision", ["bf16", "int4"])
def test_other_precisions_run_and_say_so(generate, precision):
    shown = json.loads(generate("Hi", "--precision", precision, "--json", "--max-new-tokens", "3"))
    assert shown["precision"] == precision


@pytest.mark.weights
def test_a_file_and_an_argument_give_the_same_text_and_raw_another(generate, tmp_path):
    file = tmp_path / "a prompt.txt"
    file.write_text("Name three colours.\n", encoding="utf-8")
    options = ["--json", "--max-new-tokens", "6"]
    told = json.loads(generate("Name three colours.", *options))
    read = json.loads(generate("--file", str(file), *options))
    raw = json.loads(generate("Name three colours.", "--raw", *options))
    assert read["token_ids"] == told["token_ids"] != raw["token_ids"]
    assert raw["prompt_tokens"] < told["prompt_tokens"]


@pytest.mark.weights
def test_a_prompt_from_standard_input_is_streamed_as_plain_text_into_a_pipe():
    found = run("generate", "--file", "-", "--max-new-tokens", "12", stdin=REPEAT.encode(), NO_COLOR="1")
    assert (found.returncode, found.stderr) == (0, b"")
    assert b"\x1b" not in found.stdout
    assert re.search(rb"\n\n\d+ tokens, \d+ verifier calls, tau [\d.]+, [\d.]+ tokens/s\n$", found.stdout)


@pytest.mark.weights
@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["word " * 9000], r"the prompt has \d{4,} tokens, but the verifier's context holds 8192"),
        (
            ["hi", "--max-new-tokens", "8192"],
            r"tokens and 8192 new ones exceed the verifier's context of 8192",
        ),
    ],
)
def test_what_does_not_fit_into_the_context_is_refused_with_the_numbers(loaded, capsys, args, sentence):
    assert cli.main(["generate", *args]) == 2
    captured = capsys.readouterr()
    assert re.search(sentence, one_sentence(captured.err))
    assert captured.out == ""


@pytest.mark.weights
def test_a_tree_and_a_trace_of_it(generate, tmp_path):
    file = tmp_path / "trace.json"
    shown = json.loads(
        generate(REPEAT, "--tree", "2,2,1", "--trace", str(file), "--json", "--max-new-tokens", "12")
    )
    chain = json.loads(generate(REPEAT, "--json", "--max-new-tokens", "12"))
    assert shown["text"] == chain["text"]
    assert (shown["draft_length"], shown["nodes"]) == (3, 10)
    rounds = json.loads(file.read_text())["rounds"]
    assert [token for r in rounds for token in r["emitted"]] == shown["token_ids"]


@pytest.mark.weights
def test_a_stop_text_ends_the_output_with_the_token_that_completes_it(generate):
    whole = json.loads(generate(REPEAT, "--json", "--max-new-tokens", "12"))["text"]
    stop = whole.split()[2]
    stopped = json.loads(generate(REPEAT, "--json", "--max-new-tokens", "12", "--stop", stop))["text"]
    assert whole.startswith(stopped)
    assert stopped.count(stop) == 1
    assert stop in stopped[-len(stop) - 8 :]


@pytest.mark.weights
def test_other_drafts_give_the_same_greedy_text_and_say_who_they_are(generate, loaded, tmp_path):
    from dataclasses import replace

    from specdec.drafts.eagle1 import Eagle1
    from specdec.drafts.layer import HeadConfig
    from specdec.drafts.store import save_head
    from specdec.policy import chain
    from specdec.verifier import Verifier

    verifier = Verifier.load()
    sizes = replace(HeadConfig.like(verifier.config), intermediate=32)
    vocabulary = torch.arange(1000)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = Eagle1(sizes, vocabulary, verifier.output_rows(vocabulary))
    save_head(tmp_path / "head", head, verifier, chain(2, "top-k"))
    expected = json.loads(generate("Hi", "--json", "--max-new-tokens", "6"))["text"]
    for name, kind, depth in (("none", "plain", 0), (str(tmp_path / "head"), "eagle1", 2)):
        shown = json.loads(generate("Hi", "--json", "--max-new-tokens", "6", "--draft", name))
        assert (shown["text"], shown["draft"], shown["draft_length"]) == (expected, kind, depth)


@pytest.mark.weights
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda folder: "nobody", "there is no draft 'nobody': choose ngram, none, or a folder"),
        (str, "lacks config.json"),
        (
            lambda folder: saved_llama(folder),
            "the draft has a vocabulary of 50 tokens and the verifier one of 49152",
        ),
    ],
)
def test_a_draft_that_is_none_or_does_not_fit_is_refused(loaded, capsys, tmp_path, make, sentence):
    name = make(tmp_path)
    capsys.readouterr()  # saving a checkpoint shows a bar
    assert cli.main(["generate", "hi", "--draft", name]) == 2
    assert sentence in one_sentence(capsys.readouterr().err)


def saved_llama(folder):
    """A small checkpoint in Hugging Face layout, of another vocabulary."""
    from random_llama import random_llama

    random_llama().save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--tree", "2,x"], "--tree is '2,x', but must be children per depth"),
        (["--tree", "2,0"], "at least 1 child per node"),
        (["--trace", "/no/such/folder/trace.json"], "cannot write /no/such/folder/trace.json"),
    ],
)
def test_a_tree_or_a_trace_file_that_makes_no_sense_is_refused_before_the_model_is_loaded(
    capsys, args, sentence
):
    assert cli.main(["generate", "hi", *args]) == 2
    assert sentence in one_sentence(capsys.readouterr().err)


@pytest.mark.weights
def test_ctrl_c_with_json_prints_nothing_half_written(loaded, capsys, monkeypatch):
    from specdec import decode

    def pressed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(decode, "speculative_round", pressed)
    assert cli.main(["generate", "hi", "--json"]) == 130
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "specdec: interrupted.\n")


# -- text as it comes ------------------------------------------------------------------------------


def decode_bytes(tokens):
    """A vocabulary of the 256 bytes: the hardest case for whole characters."""
    return bytes(tokens).decode("utf-8", errors="replace")


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), max_size=12),
    st.integers(1, 3),
)
def test_streamed_text_is_the_text_and_never_half_a_character(text, size):
    tokens = list(text.encode())
    stream = TextStream(decode_bytes)
    pieces = [stream.feed(tokens[i : i + size]) for i in range(0, len(tokens), size)]
    assert not any("\ufffd" in piece for piece in pieces)
    assert "".join(pieces) + stream.end() == text


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([0x41, 0xC3, 0xA9, 0xF0, 0x9F, 0xA6, 0x8A, 0xFF]), max_size=12),
    st.integers(1, 3),
)
def test_bytes_that_are_no_character_come_out_as_the_decoder_shows_them(tokens, size):
    stream = TextStream(decode_bytes)
    pieces = [stream.feed(tokens[i : i + size]) for i in range(0, len(tokens), size)]
    assert "".join(pieces) + stream.end() == decode_bytes(tokens)


def write(rounds, **options):
    file = io.StringIO()
    writer = Writer(Console(file=file, **options), decode_bytes)
    for text, accepted in rounds:
        writer.on_tokens(list(text.encode()), accepted)
    writer.end()
    return file.getvalue()


def test_accepted_drafts_are_underlined_in_a_terminal():
    written = write([("abc", 2), ("d", 0)], force_terminal=True, color_system="standard", no_color=False)
    underlined = "".join(re.findall(r"\x1b\[4;32m(.*?)\x1b\[0m", written))
    assert underlined == "ab"
    assert re.sub(r"\x1b\[[\d;]*m", "", written) == "abcd\n"


@pytest.mark.parametrize(
    "options",
    [{"force_terminal": False}, {"force_terminal": True, "no_color": True}],
    ids=["piped", "NO_COLOR"],
)
def test_without_a_terminal_or_with_no_color_the_text_is_plain(options):
    assert write([("[b]été [/b]" * 30, 5), ("d", 0)], **options) == "[b]été [/b]" * 30 + "d\n"
