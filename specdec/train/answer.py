"""Answers of the verifier to many prompts at once, by plain decoding.

All prompts of a batch start together. Their tokens go through the verifier padded on the right, and a row
that is shorter forgets what the padding left in its cache. Then every pass reads one token per row. A row
that has ended is frozen, and as soon as a quarter of the rows has, the others move into a smaller cache, so
that no pass computes mostly dead rows. Rows are drawn with coins that the caller brings, one per new token.

Same prompts in the same batch on the same machine with the same number of threads: the same answers. In bf16
a row's logits depend on the rows beside it by rounding, so another batch may give others.
"""

from collections.abc import Callable, Collection, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from specdec.errors import SpecdecError
from specdec.kv_cache import KVCache
from specdec.sampling import draw
from specdec.verifier import Verifier

BLOCK = 256  # tokens of the vocabulary that are summed together when one is drawn
PREFILL_TOKENS = 4096  # of all rows together in one pass over the prompts
FULL = 0.75  # share of running rows below which the batch is narrowed


def sample(logits: Tensor, temperatures: Tensor, coins: Tensor) -> Tensor:
    """One token per row [B]: softmax(logits / temperature) by inverse CDF, the most likely at temperature 0.

    logits [B, V] fp32, temperatures [B], coins [B] float64 in [0, 1). The sum over the vocabulary runs over
    blocks first and then inside the block that the coin falls into, which reads the vocabulary twice and
    sorts nothing: 10 ms for 96 rows of 49,152 tokens, where a float64 running sum over all takes 60.
    """
    tokens = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    greedy = temperatures == 0
    if bool(greedy.any()):
        tokens[greedy] = logits[greedy].argmax(-1)
    if not bool(greedy.all()):
        warm = ~greedy
        tokens[warm] = _draw_blockwise(logits[warm], temperatures[warm], coins[warm])
    return tokens


def _draw_blockwise(logits: Tensor, temperatures: Tensor, coins: Tensor) -> Tensor:
    scaled = (logits - logits.amax(-1, keepdim=True)).div_(temperatures[:, None].float())
    weights = scaled.exp_()  # [B, V]
    blocks = F.pad(weights, (0, -weights.shape[-1] % BLOCK)).unflatten(-1, (-1, BLOCK))
    sums = blocks.sum(-1, dtype=torch.float64)  # [B, V / BLOCK]
    block = draw(sums, coins)[:, None]  # [B, 1]
    # What is left of the coin once the blocks before are passed, as a share of this block.
    before = sums.cumsum(-1).gather(-1, block) - sums.gather(-1, block)
    left = (coins[:, None] * sums.sum(-1, keepdim=True) - before) / sums.gather(-1, block)
    inside = blocks.take_along_dim(block[:, :, None], dim=1)[:, 0]  # [B, BLOCK]
    return block[:, 0] * BLOCK + draw(inside, left[:, 0].clamp(0, 1 - 2**-53))


@torch.no_grad()
def answer(
    verifier: Verifier,
    prompts: Sequence[Sequence[int]],
    temperatures: Sequence[float],
    coins: Tensor,
    max_new_tokens: int,
    eos_ids: Collection[int] = (),
    on_step: Callable[[int, int], None] | None = None,
) -> list[list[int]]:
    """An answer to each prompt: up to `max_new_tokens` token ids, the first of `eos_ids` being the last.

    coins    [B, max_new_tokens] float64 in [0, 1): coin j of row b decides its token j, whenever it is drawn.
    on_step  called after each pass with how many rows ended in it and how many tokens it gave.

    Raises SpecdecError when a prompt is empty or does not fit into the context with its answer.
    """
    longest = max(map(len, prompts))
    if not all(prompts):
        raise SpecdecError("a prompt has no tokens, but the verifier needs at least one to continue")
    if longest + max_new_tokens > verifier.config.context_length:
        raise SpecdecError(
            f"a prompt of {longest} tokens and {max_new_tokens} new ones exceed the verifier's context of "
            f"{verifier.config.context_length}: ask for fewer new tokens"
        )
    cache = prefill(verifier, prompts, longest + max_new_tokens)
    device = verifier.embedding.device
    newest = torch.tensor([prompt[-1] for prompt in prompts], device=device)
    heat = torch.tensor(temperatures, dtype=torch.float32, device=device)
    coins = coins.to(device)
    answers: list[list[int]] = [[] for _ in prompts]
    rows = list(range(len(prompts)))  # row of the cache -> which prompt it answers
    running = [True] * len(prompts)  # by row of the cache
    for step in range(max_new_tokens):
        logits = verifier.forward(newest[:, None], cache).logits[:, 0]  # [rows, V]
        newest = sample(logits, heat[rows], coins[rows, step])
        before = sum(running)
        for row, token in enumerate(newest.tolist()):
            if running[row]:
                answers[rows[row]].append(token)
                running[row] = token not in eos_ids and step + 1 < max_new_tokens
                if not running[row]:
                    cache.ledger.end(row)
        left = sum(running)
        if on_step is not None:
            on_step(before - left, before)
        if not left:
            break
        if left < FULL * len(rows):
            keep = [row for row, runs in enumerate(running) if runs]
            cache, newest = narrowed(verifier, cache, keep), newest[keep]
            rows, running = [rows[row] for row in keep], [True] * left
    return answers


def prefill(verifier: Verifier, prompts: Sequence[Sequence[int]], capacity: int) -> KVCache:
    """A cache that holds all tokens of each prompt but its last."""
    lengths = [len(prompt) - 1 for prompt in prompts]
    padded = torch.zeros(len(prompts), max(lengths), dtype=torch.int64)
    for row, (prompt, length) in enumerate(zip(prompts, lengths, strict=True)):
        padded[row, :length] = torch.tensor(prompt[:-1], dtype=torch.int64)
    cache = verifier.new_cache(len(prompts), capacity)
    padded = padded.to(verifier.embedding.device)
    for chunk in padded.split(max(1, PREFILL_TOKENS // len(prompts)), dim=1):
        if chunk.shape[1]:
            verifier.forward(chunk, cache, logits_from=-1)
    cache.rollback(lengths)
    return cache


def narrowed(verifier: Verifier, cache: KVCache, keep: list[int]) -> KVCache:
    """A cache with only these rows of another one, in this order."""
    lengths = [cache.lengths[row] for row in keep]
    used = max(lengths)
    smaller = verifier.new_cache(len(keep), cache.capacity)
    smaller.keys[..., :used, :] = cache.keys[:, keep, :, :used]
    smaller.values[..., :used, :] = cache.values[:, keep, :, :used]
    smaller.ledger.keep(used)
    smaller.rollback(lengths)
    return smaller
