"""The decoding loop: draft, verify, accept, roll back. For one text or many, any draft, any tree.

`speculative_round` is one round on the device, read top to bottom; `generate` repeats it until all texts
have ended. Plain decoding is the same loop with a draft that proposes nothing, so that a comparison
compares only speculation. How drafts propose is their own business (drafts/interface.py), which tree they
grow is the policy's, what is kept verify.py's, and where a text ends endings.py's. Terminals and
prompts' templates are the caller's.

The ledger: the newest token has not been through the verifier, so `cached == len(tokens) - 1` before and
after every round, for every sequence. A round feeds that token and m drafts, and keeps the rows of the
accepted path. The device's part of a round has static shapes and is never read by the host; at its end the
host reads one small tensor, and decides with it where texts end.

Layout: B sequences, m nodes; rows [B, m + 1], newest [B], logits [B, m + 1, V]. A text that has ended stays
in its batch with its length frozen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from specdec.drafts.interface import Draft, NoDraft, Session
from specdec.drafts.ngram import DRAFT_LENGTH
from specdec.endings import Ending, ToText
from specdec.errors import SpecdecError
from specdec.generation import Generation, Round, Stopwatch, Text, Try
from specdec.grow import Growth
from specdec.kv_cache import Cache
from specdec.parents import ABSENT
from specdec.policy import Policy
from specdec.sampling import Sampling
from specdec.trace import Trace
from specdec.tree import DraftTree
from specdec.verifier import Pass, Verifier
from specdec.verify import Verdict, raise_faults, verify_tree

PREFILL_CHUNK = 512  # prompt tokens per prefill pass: bounds the memory that attention needs

OnTokens = Callable[[list[int], int], None]


def generate(
    verifier: Verifier,
    draft: Draft | None,
    prompts: Sequence[Sequence[int]],
    policy: Policy | None = None,
    sampling: Sampling | None = None,
    max_new_tokens: int = 128,
    eos_ids: Collection[int] = (),
    stop: Collection[str] = (),
    to_text: ToText | None = None,
    on_tokens: OnTokens | None = None,
    trace: Trace | None = None,
) -> Generation:
    """Continue each prompt (token ids) by at most `max_new_tokens`, up to the first of `eos_ids`, included.

    draft      None: plain decoding, one token per verifier call.
    policy     the tree that is drafted; None: the draft's own. No round drafts beyond `max_new_tokens`.
    sampling   default: greedy. Sequence b draws its coins from a generator with seed `sampling.seed + b`.
    stop       strings that end a text with the token that completes one; needs `to_text`.
    on_tokens  for one prompt: called after each round with the tokens it emitted; the second number says how
               many of them, from the first, were drafts.
    trace      gets every round, see specdec/trace.py.

    Same seed, same device, same result. Raises SpecdecError when a prompt is empty, holds a token that the
    verifier does not have, or does not fit into the context together with `max_new_tokens`, when the draft
    does not fit the verifier, and when logits are NaN or infinite.
    """
    ending = Ending(max_new_tokens, frozenset(eos_ids), tuple(stop), to_text)
    check_request(verifier, prompts, max_new_tokens)
    if on_tokens is not None and len(prompts) > 1:
        raise SpecdecError(f"on_tokens follows one text, but there are {len(prompts)} prompts: leave it out")
    sampling = sampling or Sampling()
    draft = draft or NoDraft()
    policy = (policy or draft.policy).for_sampling(sampling)
    coins = Coins(sampling.seed, len(prompts), verifier.embedding.device)
    capacity = max(map(len, prompts)) + max_new_tokens
    cache = verifier.new_cache(len(prompts), capacity, spare=policy.nodes)
    session = draft.start(verifier, prompts, capacity, policy, sampling)
    done = Generation([Text(list(prompt)) for prompt in prompts])

    start = time.perf_counter()
    newest = prefill(verifier, cache, session, prompts, draft.taps)
    done.prefill_seconds = time.perf_counter() - start

    while going := [sequence for sequence in done.sequences if sequence.reason is None]:
        # A round emits one token more than its tree is deep.
        room = max_new_tokens - 1 - min(len(sequence.tokens) for sequence in going)
        watch = Stopwatch()
        outcome = speculative_round(
            verifier,
            cache,
            session,
            policy if policy.depth <= room else policy.up_to(room),
            newest,
            sampling,
            coins,
            draft,
            watch,
        )
        newest = outcome.verdict.token
        rounds = settle(outcome, done.sequences, ending, cache, session)
        watch.lap("rollback")
        done.add(watch)
        if trace is not None:
            trace.record(outcome, done.sequences, rounds, sampling, watch)
        if on_tokens is not None and (last := rounds[0]) is not None:
            on_tokens(last.emitted, last.accepted)
    return done


class Outcome(NamedTuple):
    """What the device's part of a round leaves: tensors, none of which has been read."""

    growth: Growth
    found: Pass
    verdict: Verdict
    coins: Tensor  # [B, D * K + 1]: what the verdict was decided by
    newest: Tensor  # [B]: row 0 of every tree
    told: Tensor  # [B]: what the draft's session wants to know


def speculative_round(
    verifier: Verifier,
    cache: Cache,
    session: Session,
    policy: Policy,
    newest: Tensor,
    sampling: Sampling,
    coins: Coins,
    draft: Draft,
    watch: Stopwatch,
) -> Outcome:
    """One round: draft a tree, read it in one verifier pass, keep a path, forget the other rows.

    Before: the cache holds every sequence's tokens but the newest. After: also the newest and the accepted
    drafts, that is, all but the newest again, which is now the verdict's token.
    """
    growth = session.propose(policy, newest, coins.draw(policy.coins if draft.samples else 0))
    watch.lap("draft")

    tree = growth.tree
    branched = tree.branching > 1  # a chain's rows lie in the cache as they are read: nothing to mask or move
    found = verifier.forward(
        tree.by_row(newest),
        cache,
        ancestors=tree.ancestors if branched else None,
        wait=True,
        taps=draft.taps,
        check=False,
    )
    watch.lap("verify")

    drawn = coins.for_tree(tree, policy)
    verdict = verify_tree(found.logits, tree, sampling, drawn, growth.p)
    watch.lap("accept")

    cache.accept(verdict.path if branched else None, verdict.accepted + 1)
    told = session.accept(growth, verdict, found)
    watch.lap("rollback")
    return Outcome(growth, found, verdict, drawn, newest, told)


def settle(
    outcome: Outcome,
    sequences: list[Text],
    ending: Ending,
    cache: Cache,
    session: Session,
) -> list[Round | None]:
    """The host's part: read the verdict, end texts, and bring cache and draft to what was kept.

    Returns what the round was for each sequence, None for those that had ended before.
    """
    tree, verdict = outcome.growth.tree, outcome.verdict
    numbers = torch.stack((verdict.accepted, outcome.told, verdict.bad_logits, verdict.bad_p), dim=1)
    read = torch.cat(
        (numbers, verdict.emitted, verdict.path, tree.parents), dim=1
    ).tolist()  # the one reading
    d = tree.depth + 1
    going = [sequence.reason is None for sequence in sequences]
    raise_faults(
        [row[2] if goes else -1 for row, goes in zip(read, going, strict=True)],
        [row[3] if goes else -1 for row, goes in zip(read, going, strict=True)],
        [len(sequence.prompt) + len(sequence.tokens) - 1 for sequence in sequences],
    )
    cache.ledger.settle([row[0] + 1 for row in read])
    rounds: list[Round | None] = []
    for sequence, (accepted, _, _, _, *row) in zip(sequences, read, strict=True):
        if sequence.reason is not None:
            rounds.append(None)
            continue
        path, parents = row[d : 2 * d], row[2 * d :]
        emitted, sequence.reason = ending.cut(sequence.tokens, row[: accepted + 1])
        sequence.tokens += emitted
        done = Round(
            proposed=len(parents) - parents.count(ABSENT),
            accepted=min(accepted, len(emitted)),
            emitted=emitted,
            cached=len(sequence.prompt) + len(sequence.tokens) - 1,
            tries=tries(parents, path[: accepted + 1]),
        )
        sequence.rounds.append(done)
        rounds.append(done)
    # Changes something only where the text ended inside the path.
    cache.rollback([len(sequence.prompt) + len(sequence.tokens) - 1 for sequence in sequences])
    for b, sequence in enumerate(sequences):
        if going[b] and sequence.reason is not None:
            cache.ledger.end(b)
    session.settle(
        [[] if r is None else r.emitted for r in rounds],
        [sequence.reason is None for sequence in sequences],
        [row[1] for row in read],
    )
    return rounds


def tries(parents: Sequence[int], path: Sequence[int]) -> list[Try]:
    """The rows of the walk along `path` that had children, and which child each of them accepted."""
    found = []
    for row, following in zip(path, [*path[1:], None], strict=True):
        children = [node for node, parent in enumerate(parents, 1) if parent == row]
        if children:
            found.append(Try(len(children), None if following is None else children.index(following)))
    return found


def prefill(
    verifier: Verifier,
    cache: Cache,
    session: Session,
    prompts: Sequence[Sequence[int]],
    taps: tuple[int, ...] = (),
) -> Tensor:
    """Bring all of each prompt but its newest token into the empty cache; returns the newest, `[B]`.

    Shorter prompts are padded at their end, and what was padded is rolled back: no row looks ahead.
    """
    device = verifier.embedding.device
    lengths = [len(prompt) - 1 for prompt in prompts]
    rows = torch.tensor([[*prompt[:-1], *[0] * (max(lengths) - len(prompt) + 1)] for prompt in prompts])
    for chunk in rows.long().to(device).split(PREFILL_CHUNK, dim=1) if max(lengths) else ():
        found = verifier.forward(chunk, cache, taps=taps, logits_from=-1)
        session.read(chunk, found)
    cache.rollback(lengths)
    session.rollback(lengths)
    return torch.tensor([prompt[-1] for prompt in prompts], device=device)


class Coins:
    """The uniform draws of a batch: one generator per sequence, on the host whatever the device.

    So a sequence draws the same coins alone as in a batch, and on a GPU as on a CPU.
    """

    def __init__(self, seed: int, batch: int, device: torch.device | str = "cpu") -> None:
        self.generators = [torch.Generator().manual_seed((seed + b) % 2**63) for b in range(batch)]
        self.device = device

    def draw(self, n: int) -> Tensor:
        """`[B, n]` in [0, 1), float64."""
        rows = [torch.rand(n, dtype=torch.float64, generator=generator) for generator in self.generators]
        return torch.stack(rows).to(self.device, non_blocking=True)

    def for_tree(self, tree: DraftTree, policy: Policy) -> Tensor:
        """`[B, D * K + 1]` for a tree of depth D and branching K, cut from what the whole policy needs.

        Drawn for the policy, so that how much a lookup has found this time, or finds for other sequences,
        does not move the coins of later rounds.
        """
        drawn = self.draw(policy.depth * policy.branching + 1)
        grid = drawn[:, :-1].unflatten(1, (policy.depth, policy.branching)) if policy.nodes else drawn[:, :0]
        used = grid[:, : tree.depth, : tree.branching].flatten(1) if policy.nodes else grid
        return torch.cat((used, drawn[:, -1:]), dim=1)


def check_request(verifier: Verifier, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> None:
    """Raise SpecdecError, naming the numbers, unless this can be decoded."""
    context, vocabulary = verifier.config.context_length, verifier.config.vocab_size
    if not prompts:
        raise SpecdecError("there is no prompt: pass a list of prompts, each a list of token ids")
    for b, prompt in enumerate(prompts):
        which = "the prompt" if len(prompts) == 1 else f"prompt {b}"
        if isinstance(prompt, int):
            raise SpecdecError("prompts are lists of token ids: for one prompt pass [prompt]")
        if not prompt:
            raise SpecdecError(f"{which} has no tokens, but the verifier needs at least one to continue")
        for place, token in enumerate(prompt):
            if not 0 <= token < vocabulary:
                raise SpecdecError(
                    f"token {token} at place {place} of {which} is not in the vocabulary of "
                    f"{vocabulary} tokens"
                )
        if len(prompt) >= context:
            raise SpecdecError(
                f"{which} has {len(prompt)} tokens, but the verifier's context holds {context}, new tokens "
                "included: shorten the prompt"
            )
        if len(prompt) + max_new_tokens > context:
            raise SpecdecError(
                f"{which}'s {len(prompt)} tokens and {max_new_tokens} new ones exceed the verifier's context "
                f"of {context}: ask for at most {context - len(prompt)} new tokens or shorten the prompt"
            )


def warm_up(verifier: Verifier, draft_length: int = DRAFT_LENGTH) -> None:
    """Two passes whose results are dropped: the first round is not to pay for torch's start."""
    for n in (draft_length + 1, 1):
        verifier.forward(torch.zeros(1, n, dtype=torch.long, device=verifier.embedding.device))
