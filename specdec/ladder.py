"""The ladder's measurements: every rung on every prompt in turn with plain decoding, and V(n) in between.

On one prompt, in this order: the time of verifier passes of several widths behind as many tokens as the text
will have on average; then per temperature every rung once, with plain decoding before and behind every few of
them: plain, a, b, c, plain, d, e, f, plain. A rung is compared with the mean of the two plain runs around it,
so that a slow spell of the machine cancels; and each prompt begins with another rung. At temperature 0 in
fp32 a text that is not the plain one is compared with it position by position (exactness.py); in other
precisions that is done on request, for it takes as long as plain decoding.

Every finished run is a line of the part file with all of its rounds, so an interrupted ladder goes on where
it stopped; what the rows say is ladder_summary.py. Which rungs there are is rungs.py.

A line: kind "run", "curve" or "check"; precision, prompt (index), temperature (none for a curve), method and
group (those between the plain runs `group` and `group + 1`), and what was found. A round:
[nodes proposed, tokens emitted, [the child taken at each row of the walk that had children, from 0, or -1]].
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from specdec.bench import cost_curve
from specdec.compete import append
from specdec.rungs import Rung
from specdec.sampling import Sampling

if TYPE_CHECKING:
    from specdec.bench_prompts import Prompt
    from specdec.drafts.interface import Draft
    from specdec.verifier import Verifier

PLAIN = "plain"
CURVE = "V"
BASIC_WIDTHS = (1, 2, 4, 8, 16)
REPEATS = 2  # of each width per prompt, behind two that are not counted
WARM_UP_TOKENS = 8
BETWEEN = 3  # rungs between two runs of plain decoding

Line = dict[str, Any]


class Turn(NamedTuple):
    """One measurement (of a curve: temperature None).

    A rung is between the plain runs `group` and `group + 1`.
    """

    precision: str
    prompt: int
    temperature: float | None
    method: str
    group: int = 0


@dataclass
class Plan:
    """What is to be measured.

    rungs   by precision and temperature
    wanted  the temperatures of each prompt
    """

    prompts: Sequence[Prompt]
    tokens: Sequence[list[int]]
    wanted: Sequence[Sequence[float]]
    rungs: Mapping[tuple[str, float], Sequence[Rung]]
    max_new_tokens: int
    eos_ids: Collection[int]
    seed: int
    check: bool = False

    def turns(self, precision: str) -> list[Turn]:
        """All turns in one precision, in their order."""
        found = []
        for prompt, temperatures in enumerate(self.wanted):
            found.append(Turn(precision, prompt, None, CURVE))
            for temperature in temperatures:
                names = [rung.name for rung in self.rungs.get((precision, temperature), ())]
                first = (prompt + self.seed) % max(len(names), 1)
                for place, name in enumerate(names[first:] + names[:first]):
                    group, follows = divmod(place, BETWEEN)
                    if not follows:
                        found.append(Turn(precision, prompt, temperature, PLAIN, group))
                    found.append(Turn(precision, prompt, temperature, name, group))
                if names:
                    found.append(found[-1]._replace(method=PLAIN, group=group + 1))
        return found

    def widths(self, precision: str) -> list[int]:
        """The passes whose time is needed: those of the rungs' trees, and some between for smaller ones."""
        policies = [rung.policy for (of, _), found in self.rungs.items() if of == precision for rung in found]
        return sorted({*BASIC_WIDTHS, *(policy.nodes + 1 for policy in policies)})

    def sampling(self, turn: Turn) -> Sampling:
        return Sampling(turn.temperature or 0.0, seed=self.seed + turn.prompt)


def key_of(line: Line) -> Turn:
    return Turn(*(line[name] for name in Turn._fields))


def climb(
    plan: Plan,
    precision: str,
    verifier: Verifier,
    drafts: Mapping[str, Draft],
    part: Path,
    before: Sequence[Line],
    on_turn: Callable[[Turn], None] | None = None,
) -> Iterator[Line]:
    """Measure what `before` lacks in one precision; each line is appended to `part` before it is yielded.

    drafts: by head. Every method first runs once, uncounted.
    """
    own = [line for line in before if line["precision"] == precision]
    done = {key_of(line) for line in own if line["kind"] != "check"}
    checked = {key_of(line) for line in own if line["kind"] == "check"}
    texts = {key_of(line): line["tokens"] for line in own if line["kind"] == "run"}
    turns = plan.turns(precision)
    if any(turn not in done for turn in turns):
        warm_up(plan, precision, verifier, drafts)
    for prompt in range(len(plan.prompts)):
        # All of a prompt's texts are compared when they are there.
        block = [turn for turn in turns if turn.prompt == prompt]
        for turn in block:
            if turn in done:
                continue
            if on_turn is not None:
                on_turn(turn)
            line = measure(plan, turn, verifier, drafts)
            append(part, line)
            if line["kind"] == "run":
                texts[turn] = line["tokens"]
            yield line
        for turn in block:
            if turn not in checked and (found := check(plan, turn, verifier, texts)) is not None:
                append(part, found)
                yield found


def warm_up(plan: Plan, precision: str, verifier: Verifier, drafts: Mapping[str, Draft]) -> None:
    """A few tokens by every method."""
    few = min(WARM_UP_TOKENS, plan.max_new_tokens)
    seen = set()
    for turn in plan.turns(precision):
        if turn.method != CURVE and (turn.temperature, turn.method) not in seen:
            seen.add((turn.temperature, turn.method))
            decode(plan, turn, verifier, drafts, few)


def measure(plan: Plan, turn: Turn, verifier: Verifier, drafts: Mapping[str, Draft]) -> Line:
    """The line of one turn."""
    line: Line = {"kind": "curve" if turn.method == CURVE else "run", **turn._asdict()}
    if turn.method == CURVE:
        widths = plan.widths(turn.precision)
        room = verifier.config.context_length - widths[-1]
        context = min(len(plan.tokens[turn.prompt]) + plan.max_new_tokens // 2, room)
        curve = cost_curve(verifier, widths, context, REPEATS, plan.seed)
        return line | {"context": context, "widths": widths, "ms": curve["ms"]}
    return line | decode(plan, turn, verifier, drafts, plan.max_new_tokens)


def decode(
    plan: Plan, turn: Turn, verifier: Verifier, drafts: Mapping[str, Draft], max_new_tokens: int
) -> Line:
    """Decode the turn's prompt by its method."""
    from specdec.decode import generate

    draft, policy = None, None
    if turn.method != PLAIN:
        assert turn.temperature is not None
        rung = next(r for r in plan.rungs[turn.precision, turn.temperature] if r.name == turn.method)
        draft, policy = drafts[rung.head], rung.policy
    found = generate(
        verifier,
        draft,
        [plan.tokens[turn.prompt]],
        policy,
        plan.sampling(turn),
        max_new_tokens,
        plan.eos_ids,
    )
    return {
        "tokens": found.tokens,
        "seconds": found.seconds,
        "prefill_seconds": found.prefill_seconds,
        "stages": dict(found.stages),
        "rounds": [
            [r.proposed, len(r.emitted), [-1 if t.taken is None else t.taken for t in r.tries]]
            for r in found.rounds
        ],
    }


def check(plan: Plan, turn: Turn, verifier: Verifier, texts: Mapping[Turn, list[int]]) -> Line | None:
    """Where a greedy text parts from the plain one, or None where that is not asked or it does not.

    In fp32: `identical` up to near-ties, and those where it parted; else `agreement`, the share of positions
    at which a pass over one token picks the emitted one.
    """
    fp32 = turn.precision == "fp32"
    if turn.temperature != 0 or turn.method == PLAIN or not (fp32 or plan.check):
        return None
    tokens = texts[turn]
    if tokens == texts[turn._replace(method=PLAIN)]:  # the plain run before it
        return None
    from specdec.exactness import agreement, compare_with_plain

    prompt = plan.tokens[turn.prompt]
    line: Line = {"kind": "check", **turn._asdict()}
    if not fp32:
        return line | {"agreement": agreement(verifier, prompt, tokens)}
    found = compare_with_plain(verifier, prompt, tokens, plan.max_new_tokens, plan.eos_ids)
    return line | {
        "identical": found.identical,
        "first_difference": found.first_difference,
        "near_ties": [{"position": tie.position, "gap": round(tie.gap, 6)} for tie in found.parted],
    }
