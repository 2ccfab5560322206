"""Training on a tiny verifier's text: it learns, goes on where it was interrupted, and two processes take the
same steps as one."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_verifier import tiny_verifier

from specdec.checkpoint import expected_shapes
from specdec.decode import generate
from specdec.drafts.features import FeatureDraft
from specdec.errors import SpecdecError
from specdec.policy import chain
from specdec.train.batches import HELD_OUT, Texts, pack
from specdec.train.families import EAGLE3, FAMILIES, family, new_head
from specdec.train.features import Features, extract
from specdec.train.shards import make_shard, open_run, shard_path, write_shard
from specdec.train.trainer import TrainConfig, gradients, known_tokens, promise, train
from specdec.train.vocabulary import coverage, draft_vocabulary

pytestmark = pytest.mark.usefixtures("one_thread")

VERIFIER = tiny_verifier(layers=6)
V = VERIFIER.config.vocab_size
CONFIG = TrainConfig(
    "eagle3",
    updates=12,
    batch_tokens=200,
    warm_up=2,
    draft_vocabulary=12,
    evaluate_every=4,
    bf16=False,
    learning_rate=3e-3,
)


def tiny_state():
    """The tensors that `tiny_verifier(layers=6)` was made of, under their names."""
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(shape, generator=generator) * (0.3 if len(shape) > 1 else 1.0)
        for name, shape in expected_shapes(VERIFIER.config).items()
    }


@pytest.fixture(scope="module")
def stored(tmp_path_factory, one_thread):
    """Folders with sixty short answers of the verifier and their features, made as the commands make them."""
    data, folder = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("features")
    prompts = [[1 + i % 15, i // 15, i % 7] for i in range(60)]
    done = generate(VERIFIER, None, prompts, max_new_tokens=20)
    settings = {"format": 1, "seed": 0}
    open_run(data, settings)
    answers = [text.tokens for text in done.sequences]
    shard = make_shard(prompts, answers, list(range(60)), ["x"] * 60, [0.0] * 60, settings)
    write_shard(shard_path(data, 0), shard)
    extract(data, folder, VERIFIER, "checksum", (2, 3, 4))
    return data, folder


@pytest.fixture(scope="module")
def texts(stored):
    return open_texts(*stored)


def open_texts(data, folder, **options):
    return Texts(Features(data, folder, "checksum"), folder, VERIFIER.output, **options)


def fresh(texts, config=CONFIG, warm=True):
    vocabulary = draft_vocabulary(texts, config.draft_vocabulary, V)
    head = new_head(family(config.family), VERIFIER, tiny_state(), vocabulary, config.seed, warm)
    if config.family.startswith("eagle3"):
        head.taps = (2, 3, 4)[-len(head.taps) :]
    return head, VERIFIER.output[vocabulary].clone()


def run(texts, folder, config=CONFIG, **options):
    head, rows = fresh(texts, config)
    progress = train(head, texts, VERIFIER.embedding, rows, config, folder, **options)
    return head, progress


# -- what is learned -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_learns_the_verifiers_text(texts, tmp_path, name):
    config = replace(CONFIG, family=name, updates=40, evaluate_every=20)
    _, progress = run(texts, tmp_path, config)
    assert np.mean(progress.losses[-5:]) < 0.9 * np.mean(progress.losses[:5])
    assert len(progress.evaluations) == 2
    steps = len(progress.best["sampled"])
    assert steps == len(progress.best["greedy"]) == 4
    assert progress.best["promise"] == pytest.approx(promise(progress.best["sampled"]))


def test_a_trained_head_is_accepted_more_often_than_one_that_was_not(texts, tmp_path):
    head, _ = run(texts, tmp_path, replace(CONFIG, updates=150, evaluate_every=50, draft_vocabulary=V))
    new, _ = fresh(texts, warm=False)
    prompts = [texts.features[i].tokens[:3].tolist() for i in texts.training]
    trained, untrained = (
        generate(VERIFIER, FeatureDraft(h.eval()), prompts, chain(3), max_new_tokens=20).alpha_by_depth[0]
        for h in (head, new)
    )
    assert trained > untrained + 0.1


def test_the_weights_that_come_out_are_those_of_the_best_evaluation(texts, tmp_path):
    """After the best, a learning rate that ruins everything: the best is what is handed out."""
    head, progress = run(texts, tmp_path, replace(CONFIG, updates=24, learning_rate=0.9, warm_up=20))
    from specdec.train.trainer import evaluate

    again = evaluate(head, texts, VERIFIER.embedding, VERIFIER.output[head.vocabulary], CONFIG)
    assert again["promise"] == pytest.approx(progress.best["promise"])
    assert progress.best["promise"] > progress.evaluations[-1]["promise"]


def test_it_stops_after_as_many_worse_evaluations_as_patience_allows(texts, tmp_path):
    config = replace(CONFIG, updates=200, learning_rate=0.9, warm_up=100, evaluate_every=2, patience=2)
    _, progress = run(texts, tmp_path, config)
    assert progress.update < 200
    assert progress.worse == 2
    best = progress.evaluations.index(progress.best)
    assert best == len(progress.evaluations) - 3


# -- interruption ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["eagle3", "vanilla"])
def test_a_run_that_was_interrupted_goes_on_to_the_same_losses_and_weights(texts, tmp_path, name):
    config = replace(CONFIG, family=name)
    whole, progress = run(texts, tmp_path / "whole", config)

    def stop(at):
        if at.update == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(texts, tmp_path / "parts", config, on_update=stop)
    parts, continued = run(texts, tmp_path / "parts", config)
    assert continued.losses == progress.losses
    assert continued.evaluations == progress.evaluations
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), parts.parameters(), strict=True))


def test_a_checkpoint_of_another_run_and_a_broken_one_are_refused(texts, tmp_path):
    run(texts, tmp_path)
    with pytest.raises(SpecdecError, match=r"run with learning_rate 0\.003, not 0\.001"):
        run(texts, tmp_path, replace(CONFIG, learning_rate=0.001))
    (tmp_path / "checkpoint.pt").write_bytes(b"half")
    with pytest.raises(SpecdecError, match="not a whole checkpoint"):
        run(texts, tmp_path)


def test_a_loss_that_is_no_number_ends_the_run_in_a_sentence(texts, tmp_path):
    head, rows = fresh(texts)
    with torch.no_grad():
        head.fc.weight[0, 0] = torch.nan
    with pytest.raises(SpecdecError, match="loss of update 0 is nan: lower the learning rate"):
        train(head, texts, VERIFIER.embedding, rows, CONFIG, tmp_path)


# -- several processes -----------------------------------------------------------------------------------

WORKER = """
import sys, torch
from pathlib import Path
from torch import distributed
sys.path.insert(0, {tests!r})
torch.set_num_threads(1)
import test_trainer as t
distributed.init_process_group("gloo")
texts = t.open_texts(Path({data!r}), Path({folder!r}))
rank, world = distributed.get_rank(), distributed.get_world_size()
found = t.gradients_of(texts, {ids!r}[rank::world])
if rank == 0:
    torch.save(found, {out!r})
distributed.barrier()
distributed.destroy_process_group()
"""


def gradients_of(texts, ids):
    head, rows = fresh(texts)
    known = known_tokens(head, V)
    batch = texts.batch(ids) if ids else None
    loss, count = gradients(head, batch, VERIFIER.embedding, rows, known, CONFIG)
    return loss, count, [parameter.grad for parameter in head.parameters()]


@pytest.mark.parametrize("texts_in_batch", [7, 1], ids=["shared out", "one process idle"])
def test_two_processes_give_the_gradients_of_one(stored, texts, tmp_path, texts_in_batch):
    ids = texts.training[:texts_in_batch]
    loss, count, grads = gradients_of(texts, ids)
    data, folder = map(str, stored)
    script, out = tmp_path / "worker.py", str(tmp_path / "found.pt")
    here = str(Path(__file__).parent)
    script.write_text(WORKER.format(tests=here, data=data, folder=folder, ids=ids, out=out))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*command, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    their_loss, their_count, theirs = torch.load(out)
    assert their_count == count
    assert their_loss == pytest.approx(loss, rel=1e-6)
    for own, other in zip(grads, theirs, strict=True):
        assert (own - other).abs().max() < 1e-5


# -- what goes in ----------------------------------------------------------------------------------------


def test_an_epoch_holds_every_training_text_once_and_no_batch_exceeds_its_tokens(texts):
    batches = texts.epoch(seed=0, epoch=0, batch_tokens=100)
    assert sorted(i for batch in batches for i in batch) == texts.training
    assert all(len(batch) * max(texts.lengths[i] for i in batch) <= 100 for batch in batches)
    assert batches == texts.epoch(0, 0, 100) != texts.epoch(0, 1, 100)
    assert texts.epoch(1, 0, 100) != batches
    assert set(texts.held_out) == {HELD_OUT - 1, 2 * HELD_OUT - 1, 3 * HELD_OUT - 1}
    assert not set(texts.held_out) & set(texts.training)
    assert pack([0], [500], 100) == [[0]]


def test_a_batch_holds_the_texts_their_masks_and_the_verifiers_own_numbers(texts):
    ids = texts.training[:2] + texts.held_out[:2]
    batch = texts.batch(ids)
    for b, i in enumerate(ids):
        tokens = texts.features[i].tokens
        found = VERIFIER.forward(tokens[None], taps=(2, 3, 4))
        n = len(tokens)
        assert batch.tokens[b, :n].tolist() == tokens.tolist()
        assert batch.mask[b].tolist() == [3 <= j < n for j in range(batch.mask.shape[1])]
        assert torch.equal(batch.taps[b, :n, 1], found.taps[3][0].bfloat16())
        logits = (found.hidden[0].bfloat16().float() @ VERIFIER.output.T).float()
        if i in texts.held_out:
            assert batch.best[b, :n].tolist() == logits.argmax(-1).tolist()
            assert torch.allclose(batch.normaliser[b, :n], logits.logsumexp(-1), atol=1e-4)
        else:  # the first choice up to the rounding of a bf16 product
            chosen = logits.gather(-1, batch.best[b, :n, None]).squeeze(-1)
            assert torch.allclose(chosen, logits.amax(-1), atol=0.03 * float(logits.abs().max()))
            assert batch.normaliser[b, :n].isnan().all()


def test_a_part_of_the_texts_is_that_of_the_first_prompts_and_the_held_out_ones_stay(tmp_path, texts):
    """Two shards, as `specdec data` cuts them: the prompts' numbers are not in the order of the file."""
    data, folder = tmp_path / "data", tmp_path / "features"
    open_run(data, {"format": 1, "seed": 0})
    numbers = np.random.default_rng(0).permutation(60).tolist()
    for shard in range(2):
        ids = numbers[30 * shard : 30 * shard + 30]
        made = make_shard(
            [[1]] * 30, [[i % V, 2] for i in ids], ids, ["x"] * 30, [0.0] * 30, {"format": 1, "seed": 0}
        )
        write_shard(shard_path(data, shard), made)
    extract(data, folder, VERIFIER, "checksum", (2, 3, 4))
    whole = open_texts(data, folder)
    chosen = [open_texts(data, folder, most=n) for n in (1, 20, 57)]
    for n, part in zip((1, 20, 57), chosen, strict=True):
        assert part.held_out == whole.held_out == [19, 39, 59]
        allowed = sorted(number for i, number in enumerate(numbers) if i not in whole.held_out)
        assert sorted(numbers[i] for i in part.training) == allowed[:n]
        assert part.training == sorted(part.training)
    assert chosen[2].training == whole.training
    with pytest.raises(SpecdecError, match="there are 57 texts to train on, so 58 of them cannot be taken"):
        open_texts(data, folder, most=58)
    first = extract(data, tmp_path / "first", VERIFIER, "checksum", (2, 3, 4), most=1)
    assert first["tokens"] == 90
    assert len(Features(data, tmp_path / "first")) == 30


def test_the_draft_vocabulary_is_that_of_the_most_frequent_answer_tokens_and_knows_its_coverage(texts):
    counts = dict.fromkeys(range(V), 0)
    for i in texts.training:
        for token in texts.features[i].tokens[3:].tolist():
            counts[token] += 1
    expected = sorted(sorted(range(V), key=lambda t: (-counts[t], t))[:6])
    found = draft_vocabulary(texts, 6, V)
    assert found.tolist() == expected
    held = [t for i in texts.held_out for t in texts.features[i].tokens[3:].tolist()]
    assert coverage(texts, found, V) == pytest.approx(sum(t in expected for t in held) / len(held))
    with pytest.raises(SpecdecError, match="is to have 17 tokens, but must have 1 to 16"):
        draft_vocabulary(texts, 17, V)


def test_a_warm_head_begins_as_the_verifiers_last_layer_on_its_last_feature(texts):
    head, _ = fresh(texts)
    state = tiny_state()
    hidden = VERIFIER.config.hidden
    assert torch.equal(head.midlayer.mlp.up_proj.weight, state["model.layers.5.mlp.up_proj.weight"])
    q = head.midlayer.self_attn.q_proj.weight
    assert torch.equal(q[:, hidden:], state["model.layers.5.self_attn.q_proj.weight"])
    assert torch.equal(head.lm_head.weight, VERIFIER.output[head.vocabulary])
    assert (head.fc.weight[:, -hidden:] - torch.eye(hidden)).abs().max() < 0.05
    again, _ = fresh(texts)
    assert all(torch.equal(a, b) for a, b in zip(head.parameters(), again.parameters(), strict=True))


def test_numbers_that_make_no_sense_are_refused():
    for name, value in (("updates", 0), ("learning_rate", 0.0), ("patience", 0), ("seed", -1)):
        with pytest.raises(SpecdecError, match=name):
            TrainConfig(**(asdict(CONFIG) | {name: value}))
    with pytest.raises(SpecdecError, match="there is no family 'eagle4': choose one of"):
        TrainConfig("eagle4")


def test_the_learning_rate_rises_then_falls_to_a_tenth():
    config = TrainConfig("eagle3", updates=100, warm_up=10, learning_rate=0.01)
    rates = [config.rate(i) for i in range(101)]
    assert rates[0] == pytest.approx(0.001)
    assert max(rates) == rates[10] == pytest.approx(0.01)
    assert rates[100] == pytest.approx(0.001)
    assert all(a >= b for a, b in pairwise(rates[10:]))


def test_promise_is_the_expected_tokens_of_a_chain():
    assert promise([0.5, 0.5]) == 1 + 0.5 + 0.25
    assert json.dumps(promise([])) == "1.0"


def test_the_ablations_differ_from_eagle3_in_one_thing_each():
    changed = {
        name: [k for k, v in asdict(f).items() if v != getattr(EAGLE3, k) and k != "name"]
        for name, f in FAMILIES.items()
        if name.startswith("eagle3-")
    }
    assert changed == {
        "eagle3-one-step": ["steps"],
        "eagle3-last-feature": ["taps"],
        "eagle3-feature-loss": ["feature_weight"],
    }
