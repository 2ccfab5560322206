"""Methods against each other: every method on every prompt, several times, in turn.

What is compared is decoding: the time from the end of the prefill to the last token, and the tokens that this
time paid for. Ours reads all of the prompt but its newest token in the prefill, so every new token is paid
for by a round. A peer reads the whole prompt and has its first token (with drafts: its first few) when the
prefill ends, so those are not counted. Either way one timed token of plain decoding is one pass over one
token.

Per prompt and repeat every method runs once, in shuffled order, so that a slow spell of the machine hits all
of them alike. Each finished run is a line of the part file (JSON lines, the first line the settings): an
interrupted benchmark goes on where it stopped. What the rows say is worked out in bench_summary.py.
"""

import json
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec.errors import SpecdecError

if TYPE_CHECKING:
    from specdec.drafts.interface import Draft
    from specdec.verifier import Verifier

WARM_UP_TOKENS = 16  # new tokens of the run that is not counted


@dataclass(frozen=True)
class Run:
    """What one method did with one prompt."""

    tokens: list[int]  # new ones, the end-of-sequence token included
    timed: int  # how many of them, from the last, `seconds` paid for
    seconds: float  # of decoding, without the prefill
    prefill_seconds: float
    calls: int  # passes of the verifier within `seconds`
    stages: dict[str, float] | None = None  # stage -> seconds, where the method can tell


Method = Callable[[list[int], int], Run]  # prompt, most new tokens -> run
Row = dict[str, Any]  # a Run, and which: prompt (index), repeat, method


def ours(verifier: "Verifier", draft: "Draft | None", eos_ids: Collection[int]) -> Method:
    """Greedy decoding with this library; no draft is plain decoding."""
    from specdec.decode import generate

    def run(prompt: list[int], max_new_tokens: int) -> Run:
        found = generate(verifier, draft, [prompt], max_new_tokens=max_new_tokens, eos_ids=eos_ids)
        return Run(
            tokens=found.tokens,
            timed=len(found.tokens),
            seconds=found.seconds,
            prefill_seconds=found.prefill_seconds,
            calls=found.verifier_calls,
            stages=dict(found.stages),
        )

    return run


def compete(
    methods: Mapping[str, Method],
    prompts: Sequence[list[int]],
    max_new_tokens: int,
    repeats: int,
    seed: int,
    part: Path,
    done: Collection[tuple[int, int, str]] = (),
) -> Iterator[Row]:
    """Run what is not in `done`, (prompt, repeat, method), and append each row to `part` before yielding it.

    Every method first runs once on the first prompt, uncounted.
    """
    left = [turn for turn in schedule(list(methods), len(prompts), repeats, seed) if turn not in done]
    for name in {name: None for _, _, name in left}:
        methods[name](prompts[0], min(WARM_UP_TOKENS, max_new_tokens))
    for prompt, repeat, name in left:
        run = methods[name](prompts[prompt], max_new_tokens)
        row = {"prompt": prompt, "repeat": repeat, "method": name, **asdict(run)}
        append(part, row)
        yield row


def schedule(names: Sequence[str], prompts: int, repeats: int, seed: int) -> list[tuple[int, int, str]]:
    """(prompt, repeat, method) in the order of the runs: within a prompt and repeat the methods shuffled."""
    turns = []
    for prompt in range(prompts):
        for repeat in range(repeats):
            order = list(names)
            random.Random(f"{seed} {prompt} {repeat}").shuffle(order)
            turns += [(prompt, repeat, name) for name in order]
    return turns


# -- the part file -----------------------------------------------------------------------------------------


def part_of(out: Path) -> Path:
    """Where the rows of an unfinished benchmark lie: beside its result."""
    return out.with_name(f"{out.stem}.part.jsonl")


def resume(part: Path, settings: dict[str, Any]) -> list[Row]:
    """The rows of an earlier run with the same settings; without one, begin the file and return none.

    Half a line at the end, of a run that was killed, is cut off. Raises SpecdecError when the file cannot be
    written, is no part file, or holds rows of other settings.
    """
    settings = json.loads(json.dumps(settings))
    try:
        with part.open("a+b") as file:
            file.seek(0)
            whole, newline, _ = file.read().rpartition(b"\n")
            file.truncate(len(whole + newline))
    except OSError as error:
        raise SpecdecError(f"cannot write {part}: {error.strerror or error}") from None
    if not whole:
        append(part, {"settings": settings})
        return []
    try:
        first, *rows = [json.loads(line) for line in whole.decode().split("\n")]
        before = first["settings"]
    except (ValueError, TypeError, KeyError):
        raise SpecdecError(
            f"{part} is not the beginning of a benchmark: move it away, or choose another --out"
        ) from None
    if before != settings:
        name = next(key for key in {**settings, **before} if before.get(key) != settings.get(key))
        raise SpecdecError(
            f"{part} holds an unfinished benchmark with other settings ({name} is {short(before.get(name))} "
            f"there and {short(settings.get(name))} now): finish that one, delete the file, or choose "
            "another --out"
        )
    return rows


def append(part: Path, line: dict[str, Any]) -> None:
    """Add one line to the part file, whole or not at all as far as readers can tell."""
    with part.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def short(value: object) -> str:
    """A setting for a sentence: cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
