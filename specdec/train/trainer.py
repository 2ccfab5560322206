"""The training loop of a draft head: batches, updates, held-out acceptance, checkpoints, early stopping.

It does not know what a family's loss is (families.py) nor where texts come from (batches.py). What it
promises: the same configuration on the same machine gives the same losses, also when it was interrupted at
any moment and continued; with several processes (torchrun) the gradients are those of one; and what it hands
out is the head with the best held-out acceptance, not the last one.

A head is judged by `promise`: 1 + a1 + a1 a2 + ..., the tokens per verifier call of a chain as deep as it is
evaluated if token k + 1 were accepted with probability a(k + 1). The a are measured along the verifier's own
held-out text, each token the text's, each feature the head's own.

Layout: as in losses.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from specdec.drafts.store import AnyHead
from specdec.errors import SpecdecError
from specdec.files import write_whole
from specdec.train.batches import Texts, pack
from specdec.train.families import family, loss_of, outputs, trained_parameters
from specdec.train.losses import Batch, acceptance, shifted, verifier_laws

EVALUATED_STEPS = 4
EVALUATED_TEXTS = 96
CLIP = 0.5  # norm of the gradient, as in EAGLE's own training
CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True)
class TrainConfig:
    """All numbers of a training run. Raises SpecdecError for one that makes no sense."""

    family: str
    updates: int = 3000
    batch_tokens: int = 2048  # padded tokens per update
    learning_rate: float = 1e-3  # highest; rises linearly over `warm_up` updates, then falls as a cosine
    warm_up: int = 100
    draft_vocabulary: int = 4096
    evaluate_every: int = 250
    patience: int = 4  # evaluations in a row without a better one, after which training stops
    seed: int = 0
    bf16: bool = True  # autocast; weights and updates stay fp32
    warm_start: bool = True
    texts: int | None = None  # train on the first so many; None: on all

    def __post_init__(self) -> None:
        family(self.family)
        for name in ("updates", "batch_tokens", "draft_vocabulary", "evaluate_every", "patience"):
            if getattr(self, name) < 1:
                raise SpecdecError(f"{name} is {getattr(self, name)}, but must be at least 1")
        if not 0 < self.learning_rate < 1:
            raise SpecdecError(f"learning_rate is {self.learning_rate}, but must lie between 0 and 1")
        if self.warm_up < 0 or self.seed < 0:
            raise SpecdecError("warm_up and seed must not be negative")

    def rate(self, update: int) -> float:
        """The learning rate of update 0, 1, ..."""
        if update < self.warm_up:
            return self.learning_rate * (update + 1) / self.warm_up
        done = (update - self.warm_up) / max(1, self.updates - self.warm_up)
        return self.learning_rate * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))


@dataclass
class Progress:
    """Where a run stands; part of its checkpoint."""

    update: int = 0
    tokens: int = 0  # answer tokens trained on, with repetition
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)  # update, sampled, greedy, promise
    worse: int = 0  # evaluations since the best

    @property
    def best(self) -> dict[str, Any]:
        return max(self.evaluations, key=lambda evaluation: evaluation["promise"])


OnUpdate = Callable[[Progress], None]


def train(
    head: AnyHead,
    texts: Texts,
    embedding: Tensor,
    rows: Tensor,
    config: TrainConfig,
    folder: Path,
    on_update: OnUpdate | None = None,
) -> Progress:
    """Train `head` in place and leave it with the weights that were best on held-out text.

    embedding [V, H] and rows [Vd, H] (output rows of the draft's vocabulary) are the verifier's, in fp32.
    Checkpoints go to `folder`; where one of the same configuration lies there, training goes on from it.
    Raises SpecdecError when it is of another configuration, and when a loss is NaN or infinite.
    """
    known = known_tokens(head, len(embedding))
    parameters = trained_parameters(head)
    optimizer = torch.optim.AdamW(parameters, lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    progress = Progress()
    best = {name: x.clone() for name, x in head.state_dict().items()}
    if (stored := load_checkpoint(folder, config)) is not None:
        head.load_state_dict(stored["head"])
        optimizer.load_state_dict(stored["optimizer"])
        progress, best = Progress(**stored["progress"]), stored["best"]

    rank, world = place()
    for batch_ids in batches(texts, config, start=progress.update):
        if progress.worse >= config.patience:
            break
        started = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = config.rate(progress.update)
        own = batch_ids[rank::world]
        optimizer.zero_grad(set_to_none=True)
        loss, count = gradients(head, texts.batch(own) if own else None, embedding, rows, known, config)
        if not math.isfinite(loss):
            raise SpecdecError(
                f"the loss of update {progress.update} is {loss}: lower the learning rate, or look at the "
                "features"
            )
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        progress.losses.append(loss)
        progress.tokens += count
        progress.update += 1
        last = progress.update == config.updates
        progress.seconds += time.perf_counter() - started
        if progress.update % config.evaluate_every == 0 or last:
            found = evaluate(head, texts, embedding, rows, config)
            better = not progress.evaluations or found["promise"] > progress.best["promise"]
            progress.worse = 0 if better else progress.worse + 1
            if better:
                best = {name: x.clone() for name, x in head.state_dict().items()}
            progress.evaluations.append({"update": progress.update, **found})
            if rank == 0:
                save_checkpoint(folder, config, head, optimizer, progress, best)
        if on_update is not None:
            on_update(progress)
    head.load_state_dict(best)
    return progress


def batches(texts: Texts, config: TrainConfig, start: int) -> Iterator[list[int]]:
    """The text numbers of update `start`, `start + 1`, ... up to the last."""
    update = epoch = 0
    while update < config.updates:
        for chosen in texts.epoch(config.seed, epoch, config.batch_tokens):
            if start <= update < config.updates:
                yield chosen
            update += 1
        epoch += 1


def gradients(
    head: AnyHead,
    batch: Batch | None,
    embedding: Tensor,
    rows: Tensor,
    known: Tensor,
    config: TrainConfig,
) -> tuple[float, int]:
    """Accumulate the gradients of the mean loss of a batch; returns that loss and the rows it is a mean of.

    `batch` is this process's part of it, None if it got none. Sums are added up over all processes before
    anything is divided, so that the result does not depend on how the texts were shared out.
    """
    chosen = family(config.family)
    total, count = torch.zeros(()), torch.zeros(())
    if batch is not None:
        with torch.autocast(rows.device.type, torch.bfloat16, enabled=config.bf16):
            total, count = loss_of(chosen, head, embedding, cast(batch, rows.dtype), rows, known)
        total.backward()
    sums = torch.stack((total.detach().float(), count.float()))
    if distributed.is_initialized():
        distributed.all_reduce(sums)
    loss, rows_seen = sums.tolist()
    for parameter in trained_parameters(head):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if distributed.is_initialized():
            distributed.all_reduce(parameter.grad)
        parameter.grad /= max(rows_seen, 1)
    return loss / max(rows_seen, 1), int(rows_seen)


def cast(batch: Batch, dtype: torch.dtype) -> Batch:
    """The batch with its features in another type."""
    return Batch(
        batch.tokens, batch.mask, batch.taps.to(dtype), batch.hidden.to(dtype), batch.best, batch.normaliser
    )


def known_tokens(head: AnyHead, size: int) -> Tensor:
    """[V] bool: which of the verifier's tokens the head can propose."""
    known = torch.zeros(size, dtype=torch.bool, device=head.vocabulary.device)
    known[head.vocabulary] = True
    return known


# -- held-out text ---------------------------------------------------------------------------------------


@torch.no_grad()
def evaluate(
    head: AnyHead, texts: Texts, embedding: Tensor, rows: Tensor, config: TrainConfig
) -> dict[str, Any]:
    """Acceptance by depth on held-out text: {"sampled": [...], "greedy": [...], "promise": ...}.

    sampled[k]: the probability that token k + 1 of a chain, sampled at temperature 1, is accepted; greedy[k]:
    that the head's first choice is the verifier's. Tokens before it are the text's.
    """
    chosen = family(config.family)
    steps = min(EVALUATED_STEPS, chosen.steps) if chosen.head == "medusa" else EVALUATED_STEPS
    known = known_tokens(head, len(embedding))
    sums = torch.zeros(steps, 3)
    ids = sorted(texts.held_out[:EVALUATED_TEXTS], key=lambda i: texts.lengths[i])
    for some in pack(ids, texts.lengths, 2 * config.batch_tokens):
        batch = cast(texts.batch(some), rows.dtype)
        laws = verifier_laws(batch, rows)
        with torch.autocast(rows.device.type, torch.bfloat16, enabled=config.bf16):
            for k, (ahead, out, _) in enumerate(outputs(chosen, head, embedding, batch, steps)):
                target = shifted(batch, ahead, laws, known)
                found = acceptance(head.score(out), target, head.vocabulary)
                sums[k] += torch.stack([x.float() for x in found]).cpu()
    sampled = (sums[:, 1] / sums[:, 0]).tolist()
    greedy = (sums[:, 2] / sums[:, 0]).tolist()
    return {"sampled": sampled, "greedy": greedy, "promise": promise(sampled)}


def promise(alphas: list[float]) -> float:
    """1 + a1 + a1 a2 + ...: tokens per verifier call of a chain with these acceptances."""
    total, reached = 1.0, 1.0
    for alpha in alphas:
        reached *= alpha
        total += reached
    return total


# -- checkpoints and processes ---------------------------------------------------------------------------


def save_checkpoint(
    folder: Path,
    config: TrainConfig,
    head: AnyHead,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    best: dict[str, Tensor],
) -> None:
    """Write everything that going on needs, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "config": asdict(config),
        "head": head.state_dict(),
        "optimizer": optimizer.state_dict(),
        "progress": asdict(progress),
        "best": best,
    }
    write_whole(folder / CHECKPOINT, partial(torch.save, state))


def load_checkpoint(folder: Path, config: TrainConfig) -> dict[str, Any] | None:
    """The checkpoint in `folder`, None if there is none; raises SpecdecError for one of another run."""
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        stored = torch.load(path, weights_only=True)
        theirs = stored["config"]
    except Exception as error:  # whatever a broken file makes torch raise
        raise SpecdecError(f"{path} is not a whole checkpoint ({error}): delete it to start again") from None
    for name, value in asdict(config).items():
        if theirs.get(name) != value:
            raise SpecdecError(
                f"{path} is of a run with {name} {theirs.get(name)}, not {value}: repeat its options to go "
                "on, or choose another folder"
            )
    return stored


def place() -> tuple[int, int]:
    """This process's number and how many there are."""
    if distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
