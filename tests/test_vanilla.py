"""The vanilla draft: p is that of the same Llama in transformers, without a cache; its own cache is that of a
fresh pass, whatever was accepted; what it does not know it reads as one token; on disk it is a Llama."""

import json
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tiny_heads import tiny_vanilla
from tiny_verifier import tiny_verifier

from specdec.decode import Coins, generate, prefill, speculative_round
from specdec.drafts.small_lm import SmallLM
from specdec.drafts.store import as_model, load_head, save_head
from specdec.drafts.vanilla import Vanilla, own_ids, sizes_like
from specdec.errors import SpecdecError
from specdec.generation import Stopwatch
from specdec.policy import chain, dynamic, static
from specdec.sampling import Sampling
from specdec.train.families import family, new_head, outputs
from specdec.train.losses import Batch

pytestmark = pytest.mark.usefixtures("one_thread")

VERIFIER = tiny_verifier()
V = VERIFIER.config.vocab_size
HEAD = tiny_vanilla(VERIFIER)  # knows the even tokens
POLICIES = [chain(3), static([2, 2, 2]), static([3, 1], rule="top-k"), dynamic(3, 2, 5)]


def draft_of(head: Vanilla) -> SmallLM:
    return SmallLM(as_model(head), vocabulary=head.vocabulary, name="vanilla")


def in_transformers(folder):
    from transformers import LlamaForCausalLM

    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def renamed(tokens: list[int]) -> list[int]:
    """The even tokens 0, 2, ... in their order, and the row behind the last of them for all odd ones."""
    return [t // 2 if t % 2 == 0 else V // 2 for t in tokens]


def rounds(draft, prompts, policy, sampling, count):
    """Per round: the outcome, the texts before it, and the session, settled."""
    cache = VERIFIER.new_cache(len(prompts), 60, spare=policy.nodes)
    session = draft.start(VERIFIER, prompts, 60, policy, sampling)
    newest = prefill(VERIFIER, cache, session, prompts)
    texts, coins = [list(prompt) for prompt in prompts], Coins(sampling.seed, len(prompts))
    for _ in range(count):
        outcome = speculative_round(
            VERIFIER, cache, session, policy, newest, sampling, coins, draft, Stopwatch()
        )
        newest = outcome.verdict.token
        counts = [a + 1 for a in outcome.verdict.accepted.tolist()]
        cache.ledger.settle(counts)
        session.settle([[]] * len(prompts), [True] * len(prompts), outcome.told.tolist())
        yield outcome, [list(text) for text in texts], session
        for b, text in enumerate(texts):
            text += outcome.verdict.emitted[b, : counts[b]].tolist()


# -- drafting --------------------------------------------------------------------------------------------


def test_p_of_every_node_is_that_of_the_llama_in_transformers_over_all_that_came_before(tmp_path):
    save_head(tmp_path, HEAD, VERIFIER, chain(3))
    rounded = load_file(tmp_path / "model.safetensors")  # bf16, so the head is rounded too
    head = tiny_vanilla(VERIFIER)
    head.load_state_dict({name: x.to(head.state_dict()[name].dtype) for name, x in rounded.items()})
    theirs = in_transformers(tmp_path)
    checked = 0
    for outcome, (text,), _ in rounds(
        draft_of(head), [[3, 1, 4, 1, 5, 8]], static([2, 2, 2]), Sampling(1.0, seed=2), 3
    ):
        tree, p = outcome.growth.tree, outcome.growth.p
        for row in range(p.shape[1]):
            if not bool((tree.parents[0] == row).any()):
                continue
            path, at = [], row
            while at:
                path.insert(0, int(tree.tokens[0, at - 1]))
                at = int(tree.parents[0, at - 1])
            with torch.no_grad():
                logits = theirs(torch.tensor([renamed(text + path)])).logits[0, -1]
            assert (p[0, row, ::2] - logits[:-1].softmax(-1)).abs().max() < 1e-4
            assert p[0, row, 1::2].sum() == 0
            checked += 1
    assert checked == 3 * 7


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=8), min_size=1, max_size=3),
    st.sampled_from(POLICIES),
    st.sampled_from([0.0, 1.0]),
    st.integers(0, 99),
)
def test_whatever_is_accepted_its_cache_is_that_of_a_fresh_pass_over_what_it_has_read(
    prompts, policy, temperature, seed
):
    """All of the text but the newest token, and the last draft where the round accepted everything."""
    sampling = Sampling(temperature, seed=seed)
    model = as_model(HEAD)
    policy = policy.for_sampling(sampling)
    for outcome, texts, session in rounds(draft_of(HEAD), prompts, policy, sampling, 4):
        for b, text in enumerate(texts):
            accepted = int(outcome.verdict.accepted[b])
            whole = text + outcome.verdict.emitted[b, :accepted].tolist()
            unread = accepted == policy.depth or accepted == int(outcome.growth.tree.depths[b].max())
            length = session.cache.lengths[b]
            assert length in ((len(whole) - 1, len(whole)) if unread else (len(whole),))
            fresh = model.new_cache()
            model.forward(torch.tensor([renamed(whole[:length])]), fresh)
            for kind in ("keys", "values"):
                used, expected = (getattr(c, kind) for c in (session.cache, fresh))
                assert (used[:, b, :, :length] - expected[:, 0, :, :length]).abs().max() < 1e-4


def test_what_it_does_not_know_it_reads_as_one_token_and_never_proposes():
    assert own_ids(torch.tensor([1, 4, 5]), 7).tolist() == [3, 0, 3, 3, 1, 2, 3]
    trees = []
    for prompt in ([2, 3, 4, 5], [2, 9, 4, 15]):
        outcome, _, _ = next(rounds(draft_of(HEAD), [prompt], static([2, 2, 1], rule="top-k"), Sampling(), 1))
        trees.append(outcome.growth.tree.tokens)
    assert torch.equal(*trees)
    assert not (trees[0] % 2).any()


def test_the_training_pass_gives_the_logits_that_drafting_gives():
    tokens = torch.randint(V, (2, 9), generator=torch.Generator().manual_seed(0))
    ids = torch.tensor([renamed(row) for row in tokens.tolist()])
    drafting = as_model(HEAD).forward(ids).logits
    assert (HEAD.score(HEAD.read(tokens)) - drafting[..., :-1]).abs().max() < 1e-4


def test_a_round_reads_nothing_from_the_device():
    from test_batches import on_meta

    verifier, model = on_meta(VERIFIER), on_meta(as_model(HEAD))
    draft = SmallLM(model, vocabulary=HEAD.vocabulary.to("meta"))
    for policy in POLICIES:
        tree = policy.for_sampling(Sampling(1.0))
        cache = verifier.new_cache(2, 40, spare=tree.nodes)
        session = draft.start(verifier, [[0] * 4] * 2, 40, tree, Sampling(1.0))
        rows = torch.zeros(2, 4, dtype=torch.long, device="meta")
        session.read(rows, verifier.forward(rows, cache, check=False))
        newest = torch.zeros(2, dtype=torch.long, device="meta")
        for _ in range(2):
            coins = Coins(0, 2, "meta")
            args = (verifier, cache, session, tree, newest, Sampling(1.0), coins, draft, Stopwatch())
            newest = speculative_round(*args).verdict.token


# -- training --------------------------------------------------------------------------------------------


def test_what_it_says_of_a_token_does_not_depend_on_how_far_ahead_the_token_is_counted():
    """So acceptance by depth along a text is one number, whatever the depth."""
    tokens = torch.randint(V, (2, 9), generator=torch.Generator().manual_seed(1))
    batch = Batch(tokens, *(torch.empty(0) for _ in range(5)))
    first, *others = (found for found in outputs(family("vanilla"), HEAD, VERIFIER.embedding, batch, 4))
    assert first[0] == 2
    for k, step in enumerate(others, start=1):
        assert step[0] == 2 + k
        assert torch.equal(step[1], first[1][:, k:])


def test_a_warm_table_keeps_the_products_of_the_verifiers_embeddings_about_their_mean():
    """All 32 directions of the tiny verifier fit into the table's 256."""
    vocabulary = torch.arange(0, V, 2)
    head = new_head(family("vanilla"), VERIFIER, {}, vocabulary, seed=0)
    known = torch.cat((VERIFIER.embedding[::2], VERIFIER.embedding[1::2].mean(0, keepdim=True)))
    centred = known - known.mean(0)
    table = head.model.embed_tokens.weight.detach()[:, : VERIFIER.config.hidden]
    products, expected = table @ table.T, centred @ centred.T
    scale = products.trace() / expected.trace()
    assert (products - scale * expected).abs().max() < 1e-3 * products.max()
    again = new_head(family("vanilla"), VERIFIER, {}, vocabulary, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(head.parameters(), again.parameters(), strict=True))


def test_it_takes_six_megabytes_with_the_vocabulary_of_the_other_heads():
    head = Vanilla(sizes_like(VERIFIER.config), torch.arange(4096), 49152)
    layer = 256 * (4 + 2 + 2 + 4) * 64 + 3 * 256 * 1024 + 2 * 256
    assert sum(x.numel() for x in head.parameters()) == 4097 * 256 + 2 * layer + 256 < 6.5e6 / 2


# -- on disk ---------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    save_head(tmp_path / "vanilla", HEAD, VERIFIER, chain(2))
    return tmp_path / "vanilla"


def test_it_comes_back_rounded_to_bf16_and_decodes(saved):
    draft = load_head(saved, VERIFIER)
    assert (draft.name, draft.policy, draft.taps) == ("vanilla", chain(2), ())
    assert torch.equal(draft.model.embedding, HEAD.model.embed_tokens.weight.bfloat16().float())
    assert torch.equal(draft.vocabulary, torch.arange(0, V, 2))
    done = generate(VERIFIER, draft, [[1, 2, 3]], max_new_tokens=8)
    assert done.tokens == generate(VERIFIER, None, [[1, 2, 3]], max_new_tokens=8).tokens


def test_its_folder_is_a_llama_checkpoint_with_the_list_of_tokens_beside_it(saved):
    names = set(load_file(saved / "model.safetensors"))
    theirs = in_transformers(saved)
    assert names - {"vocabulary"} == set(theirs.state_dict()) - {"lm_head.weight"}
    config = json.loads((saved / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert (config["vocab_size"], config["draft_vocab_size"]) == (V // 2 + 1, V // 2)
    assert config["specdec"]["target_vocab_size"] == V


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"vocabulary": None}, "draft vocabulary of 8 tokens, but its table vocabulary is missing"),
        ({"vocabulary": torch.arange(8) + 9}, "does not name 8 different tokens of 16"),
        ({"vocabulary": torch.zeros(8, dtype=torch.long)}, "does not name 8 different tokens of 16"),
        ({"model.norm.weight": None}, "lacks the tensor model.norm.weight"),
        (
            {"model.embed_tokens.weight": torch.zeros(8, 24)},
            r"embed_tokens.weight of the head in .* is \[8, 24\], but must be \[9, 24\]",
        ),
        ({"lm_head.weight": torch.zeros(9, 24)}, "has a tensor lm_head.weight that its family does not know"),
    ],
)
def test_tensors_that_do_not_fit_are_named(saved, change, sentence):
    state = load_file(saved / "model.safetensors")
    state = {name: x for name, x in (state | change).items() if x is not None}
    save_file(state, saved / "model.safetensors")
    with pytest.raises(SpecdecError, match=sentence):
        load_head(saved, VERIFIER)


def test_another_verifier_is_refused_by_its_vocabulary_and_by_its_checksum(saved):
    with pytest.raises(SpecdecError, match="verifier with vocab_size 16, but this one has 20"):
        load_head(saved, tiny_verifier(vocabulary=20))
    config = json.loads((saved / "config.json").read_text())
    config["specdec"]["verifier_sha256"] = "a" * 64
    (saved / "config.json").write_text(json.dumps(config))
    other = tiny_verifier()
    other.checksum = "b" * 64
    with pytest.raises(SpecdecError, match=r"sha256 aaaaaaaaaaaa..., but this one has bbbbbbbbbbbb"):
        load_head(saved, other)
    del config["num_hidden_layers"]
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(SpecdecError, match=re.escape("lacks 'num_hidden_layers'")):
        load_head(saved, VERIFIER)


def test_texts_longer_than_its_context_are_refused():
    with pytest.raises(SpecdecError, match="may reach 302 tokens, but the draft's context holds 256"):
        generate(tiny_verifier(context=400), draft_of(HEAD), [[1, 2]], max_new_tokens=300)
