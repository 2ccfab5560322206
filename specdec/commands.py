"""The commands `fetch`, `demo` and `generate`: options in, a library call, text or JSON out.

Nothing is decided here that the library does not decide; errors are raised, and cli.py turns them into a
sentence and an exit status. torch and the demo are imported inside the commands, so that `specdec --help` is
immediate and `specdec demo` works without torch.
"""

import json
import sys
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from specdec.bench_command import at_least_one, bench
from specdec.errors import SpecdecError
from specdec.files import check_writable
from specdec.policy import Policy, Static, chain, static
from specdec.sampling import Sampling
from specdec.terminal import Writer

if TYPE_CHECKING:
    from specdec.decode import Generation
    from specdec.tokenizer import Tokenizer
    from specdec.verifier import Verifier

LARGEST_PROMPT = 1_000_000  # bytes; the longest context is far smaller, and /dev/zero has no end

app = typer.Typer(
    help="Speculative decoding: fast, and distributed exactly as the verifier alone.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(bench, name="bench")


class Precision(StrEnum):
    fp32 = "fp32"
    bf16 = "bf16"
    int4 = "int4"


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if show_version:
        print(f"specdec {version('specdec')}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def fetch() -> None:
    """Bring the verifier's weights (98 MB) into the cache folder, once, and check them."""
    from specdec import weights

    print(weights.fetch(progress=True))


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0,
    samples: Annotated[
        int, typer.Option(help="Speculative steps to sample.", callback=at_least_one)
    ] = 50_000,
    vocab: Annotated[int, typer.Option(help="Size V of the toy vocabulary.", callback=at_least_one)] = 8,
    draft_length: Annotated[int, typer.Option(help="Draft length N.", callback=at_least_one)] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Speculative decoding in a few seconds: exactness, acceptance, tokens per verifier call, the best N."""
    from specdec import demo as story

    result = story.run(seed=seed, samples=samples, vocab=vocab, draft_length=draft_length)
    if as_json:
        print(json.dumps(result))
    else:
        story.render(result, Console())


@app.command()
def generate(
    prompt: Annotated[
        str | None, typer.Argument(help="What to say to the model.", show_default=False)
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(help="Read the prompt from this file; - is standard input.", show_default=False),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the prompt as it is, without chat template.")
    ] = False,
    temperature: Annotated[float, typer.Option(help="0 is greedy; 1 is the model's own distribution.")] = 0.0,
    top_k: Annotated[int, typer.Option(help="Sample from the k most likely tokens; 0: from all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Then from the most likely of this mass; 1: from all.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0,
    precision: Annotated[Precision, typer.Option(help="Of the verifier's weights.")] = Precision.fp32,
    max_new_tokens: Annotated[
        int, typer.Option(help="Stop after so many tokens.", callback=at_least_one)
    ] = 128,
    draft: Annotated[
        str | None,
        typer.Option(
            help="ngram, none, a head in models/ (eagle3, ...), or a folder: a trained head or a small "
            "checkpoint. Else eagle3 where models/ has it, and ngram where not.",
            show_default=False,
        ),
    ] = None,
    draft_length: Annotated[
        int | None,
        typer.Option(
            help="Draft length N, the most drafts per verifier call; else the draft's own.",
            callback=at_least_one,
            show_default=False,
        ),
    ] = None,
    tree: Annotated[
        str, typer.Option(help="Draft a tree instead: children per depth, as in 2,2,2.", show_default=False)
    ] = "",
    stop: Annotated[
        list[str] | None,
        typer.Option(help="Stop behind this text; may be given several times.", show_default=False),
    ] = None,
    trace_file: Annotated[
        Path | None,
        typer.Option("--trace", help="Write every round to this JSON file (slow).", show_default=False),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Decode without a draft too, and compare.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON.")] = False,
) -> None:
    """Decode the real verifier with a draft: faster, and distributed exactly as its own text.

    In a terminal the drafted tokens that the verifier accepted are underlined.
    """
    sampling = Sampling(temperature, top_k, top_p, seed)
    text = read_prompt(prompt, file)
    wanted = read_tree(tree) if tree else None if draft_length is None else chain(draft_length)
    if trace_file is not None:
        check_writable(trace_file)

    import specdec.decode as decode
    from specdec.drafts.choose import default_draft, load_draft
    from specdec.tokenizer import load_tokenizer
    from specdec.trace import Trace
    from specdec.verifier import Verifier

    verifier = Verifier.load(precision=precision.value)  # first: its loading is what takes most memory
    tokenizer = load_tokenizer()
    tokens = tokenizer.encode(text) if raw else tokenizer.chat(text)
    options: dict[str, Any] = {
        "sampling": sampling,
        "max_new_tokens": max_new_tokens,
        "eos_ids": tokenizer.eos_ids,
        "stop": stop or (),
        "to_text": tokenizer.decode,
    }
    decode.check_request(verifier, [tokens], max_new_tokens)
    proposer = load_draft(default_draft() if draft is None else draft, verifier)
    policy = (wanted or proposer.policy).for_sampling(sampling)
    decode.warm_up(verifier, policy.nodes)
    trace = Trace() if trace_file is not None else None

    writer = Writer(Console(), partial(tokenizer.decode, skip_special=True))
    try:
        generation = decode.generate(
            verifier,
            proposer,
            [tokens],
            policy,
            on_tokens=None if as_json else writer.on_tokens,
            trace=trace,
            **options,
        )
    except KeyboardInterrupt:
        writer.end()
        raise
    if not as_json:
        writer.end()

    if trace is not None and trace_file is not None:
        trace.save(trace_file)
    result = summary(generation, tokenizer, precision.value, proposer.name, policy, sampling)
    if compare:
        plain = decode.generate(verifier, None, [tokens], **options)
        result |= comparison(verifier, generation, plain, sampling, options)
    if as_json:
        print(json.dumps(result, ensure_ascii=False))
    else:
        print(f"\n{closing(result)}")
        if writer.marks:
            writer.console.print("underlined: drafted tokens that the verifier accepted", style="dim")


def read_prompt(prompt: str | None, file: str | None) -> str:
    """The prompt from the argument or the file; SpecdecError unless there is exactly one that can be read."""
    if prompt is None and file is None:
        raise SpecdecError(
            "there is no prompt: give one, or a file with --file; see 'specdec generate --help'"
        )
    if prompt is not None and file is not None:
        raise SpecdecError("there are two prompts, an argument and a --file: give one of them")
    if file is not None:
        prompt = read_text(file)
    assert prompt is not None
    if not prompt.strip():
        raise SpecdecError("the prompt is empty: say something to the model")
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise SpecdecError("the prompt is not valid UTF-8: pass text, or a UTF-8 file with --file") from None
    return prompt


def read_tree(text: str) -> Static:
    """The policy that `--tree` names."""
    try:
        return static([int(children) for children in text.split(",")])
    except SpecdecError:
        raise
    except ValueError:
        raise SpecdecError(f"--tree is {text!r}, but must be children per depth, as in 2,2,2") from None


def read_text(file: str) -> str:
    """The text of a file, or of standard input for "-", without its last line break."""
    name = "standard input" if file == "-" else file
    try:
        if file == "-":
            data = sys.stdin.buffer.read(LARGEST_PROMPT + 1)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(LARGEST_PROMPT + 1)
    except OSError as error:
        raise SpecdecError(f"cannot read the prompt from {name}: {error.strerror or error}") from None
    if len(data) > LARGEST_PROMPT:
        raise SpecdecError(f"{name} is larger than {LARGEST_PROMPT:,} bytes: no context holds such a prompt")
    try:
        return data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise SpecdecError(f"{name} is not UTF-8 text: byte {error.start} cannot be read") from None


def summary(
    generation: "Generation",
    tokenizer: "Tokenizer",
    precision: str,
    draft: str,
    policy: Policy,
    sampling: Sampling,
) -> dict[str, Any]:
    """What `--json` prints without `--compare`. The rate counts the rounds, not the prefill."""
    ids = generation.tokens
    return {
        "text": tokenizer.decode(ids, skip_special=True),
        "tokens": len(ids),
        "verifier_calls": generation.verifier_calls,
        "tau": generation.tau,
        "tokens_per_second": generation.tokens_per_second,
        "seconds": generation.seconds,
        "prefill_seconds": generation.prefill_seconds,
        "prompt_tokens": len(generation.prompt),
        "token_ids": ids,
        "ended": generation.ended,
        "drafted": sum(r.proposed for r in generation.rounds),
        "accepted": sum(r.accepted for r in generation.rounds),
        "draft": draft,
        "draft_length": policy.depth,
        "nodes": policy.nodes,
        "alpha_by_depth": generation.alpha_by_depth,
        "stages": generation.stages,
        "precision": precision,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
    }


def comparison(
    verifier: "Verifier",
    generation: "Generation",
    plain: "Generation",
    sampling: Sampling,
    options: dict[str, Any],
) -> dict[str, Any]:
    """What `--compare` adds. Sampled outputs are two draws from one distribution: then identity is null.

    In fp32 two greedy outputs that part at a near-tie count as identical (exactness.py); in bf16 only equal
    ones do.
    """
    result: dict[str, Any] = {
        "plain_tokens_per_second": plain.tokens_per_second,
        "speedup": generation.tokens_per_second / plain.tokens_per_second,
        "identical_to_plain": None,
    }
    if not sampling.greedy:
        return result
    result["identical_to_plain"] = generation.tokens == plain.tokens
    result["near_ties"] = []
    if not result["identical_to_plain"] and verifier.precision == "fp32":
        from specdec.exactness import compare_with_plain

        found = compare_with_plain(
            verifier, generation.prompt, generation.tokens, options["max_new_tokens"], options["eos_ids"]
        )
        result["identical_to_plain"] = found.identical
        result["near_ties"] = [{"position": tie.position, "gap": tie.gap} for tie in found.parted]
    return result


def closing(result: dict[str, Any]) -> str:
    """The last lines of `specdec generate`."""
    lines = [
        f"{result['tokens']} tokens, {result['verifier_calls']} verifier calls, tau {result['tau']:.2f}, "
        f"{result['tokens_per_second']:.1f} tokens/s"
    ]
    if "speedup" in result:
        lines.append(
            f"plain: {result['plain_tokens_per_second']:.1f} tokens/s; "
            f"speculative is {result['speedup']:.2f} times as fast"
        )
        lines.append(verdict(result))
    return "\n".join(lines)


def verdict(result: dict[str, Any]) -> str:
    if result["identical_to_plain"] is None:
        return "output: two draws from the same distribution, so not compared (use --temperature 0)"
    if not result["identical_to_plain"]:
        if result["precision"] == "fp32":
            return "output: DIFFERS from plain decoding"
        rounded = result["precision"]
        return f"output: differs from plain decoding, by rounding in {rounded} (use --precision fp32)"
    if ties := result["near_ties"]:
        places = ", ".join(str(tie["position"]) for tie in ties)
        return f"output: identical to plain decoding, up to near-ties (best logits within 0.001) at {places}"
    return "output: identical to plain decoding"


# These commands have modules of their own, which need the app and the options from above.
from specdec import data_command as data_command  # noqa: E402
from specdec import ladder_command as ladder_command  # noqa: E402
from specdec import policies_command as policies_command  # noqa: E402
from specdec import train_command as train_command  # noqa: E402
