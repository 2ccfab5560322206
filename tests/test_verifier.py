"""The verifier's forward pass, against Hugging Face transformers on the same weights.

The oracle reads the same files with its own code: the fetched GGUF file for SmolLM2, and small random models
of other shapes (heads per key-value head, tied and untied output, stretched rotations) built by it from a
seed."""

import os
import subprocess
import sys
import time

import pytest
import torch
from random_llama import SHAPES, ours, random_llama, some_tokens

from specdec import weights
from specdec.errors import SpecdecError
from specdec.finite import first_fault
from specdec.slots import chain_ancestors, tree_mask
from specdec.verifier import PRECISIONS, Verifier, norm_of, turn

TEXT = """The verifier reads eight tokens in about the time it takes to read one, because reading the weights
from memory is most of the work. A draft that is right three times out of four therefore saves more than half
of the passes. Nobody would notice from the text: what comes out is distributed as if the draft had never been
there.

El borrador propone y el verificador decide. Si la propuesta se rechaza, se toma otra palabra de la
distribución residual, y la distribución final sigue siendo exactamente la del modelo grande. ¿Por qué? Porque
las dos probabilidades suman.

def accept(q, p, u):
    if q == 0:
        return False
    return u * p < q

for i in range(10):
    print(i, accept(0.25, 0.5, i / 10))

On 14 March 1879, 3.14159 metres of rope cost 12 francs; by 1905 it was 15.75, or 31% more. Numbers are split
into single digits by this tokenizer, so a page of prices is a long sequence. """


# --- SmolLM2 against transformers on the same GGUF file ---


@pytest.fixture(scope="module")
def oracle():
    """transformers' model, read from the GGUF file by transformers."""
    from transformers import AutoModelForCausalLM

    path = weights.ensure()
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)


@pytest.fixture(scope="module")
def verifier():
    return Verifier.load()


@pytest.fixture(scope="module")
def tokens():
    from specdec.tokenizer import load_tokenizer

    return torch.tensor([load_tokenizer().encode(TEXT)])


@pytest.fixture(scope="module")
def expected(oracle, tokens):
    with torch.no_grad():
        return oracle(tokens, output_hidden_states=True)


def assert_agrees(logits, reference):
    """To 2e-3 everywhere, and the same argmax wherever the reference's two best differ by more than that."""
    assert (logits - reference).abs().max() < 2e-3
    best = reference.topk(2, dim=-1)
    clear = best.values[..., 0] - best.values[..., 1] > 2e-3
    assert clear.float().mean() > 0.99
    assert torch.equal(logits.argmax(-1)[clear], best.indices[..., 0][clear])


@pytest.mark.weights
def test_logits_agree_with_transformers_to_2e3_on_real_text(verifier, tokens, expected):
    assert tokens.shape[1] >= 250
    assert_agrees(verifier.forward(tokens).logits, expected.logits)


@pytest.mark.weights
def test_passes_of_any_width_over_a_cache_give_the_logits_of_one_long_pass(verifier, tokens, expected):
    cache = verifier.new_cache()
    widths, logits = [100, 1, 2, 3, 5, 8, 1, 16, 64], []
    for chunk in tokens[:, :200].split(widths, dim=1):
        logits.append(verifier.forward(chunk, cache).logits)
    assert cache.length == 200
    assert_agrees(torch.cat(logits, dim=1), expected.logits[:, :200])


@pytest.mark.weights
def test_taps_are_the_inputs_of_their_layers_and_hidden_is_what_the_output_matrix_reads(
    verifier, tokens, expected
):
    found = verifier.forward(tokens, taps=(0, 2, 15, 27))
    assert set(found.taps) == {0, 2, 15, 27}
    for layer, tap in found.taps.items():
        # Hidden states grow to several hundred in a few channels, so the tolerance is relative there.
        torch.testing.assert_close(tap, expected.hidden_states[layer], rtol=1e-4, atol=2e-3)
    torch.testing.assert_close(found.hidden, expected.hidden_states[-1], rtol=1e-4, atol=2e-3)
    torch.testing.assert_close(found.hidden @ verifier.output.T, found.logits, rtol=1e-4, atol=1e-3)


@pytest.mark.weights
def test_bf16_names_the_same_most_likely_token_nearly_everywhere(tokens, expected):
    logits = Verifier.load(precision="bf16").forward(tokens).logits
    assert logits.dtype == torch.float32
    assert (logits.argmax(-1) == expected.logits.argmax(-1)).float().mean() > 0.93
    q, found = expected.logits.log_softmax(-1), logits.log_softmax(-1)
    assert (q.exp() * (q - found)).sum(-1).mean() < 0.01  # mean KL divergence in nats


@pytest.mark.weights
@pytest.mark.parametrize("precision", PRECISIONS)
def test_loading_takes_under_six_seconds_of_processor_time(precision):
    seconds = []
    for _ in range(2):  # the better of two: processor time, too, grows while others use the machine
        start = time.process_time()
        Verifier.load(precision=precision)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 6


@pytest.mark.weights
def test_the_fetched_model_has_the_published_sizes(verifier):
    config = verifier.config
    assert (config.layers, config.hidden, config.heads, config.kv_heads, config.head_size) == (
        30,
        576,
        9,
        3,
        64,
    )
    assert (config.vocab_size, config.context_length, config.rope_base, config.tied) == (
        49_152,
        8192,
        100_000,
        True,
    )


# --- small random models of other shapes ---


@pytest.fixture(scope="module")
def theirs():
    return random_llama()


@pytest.fixture(scope="module")
def small(theirs):
    return ours(theirs)


def logits_of(theirs, tokens):
    with torch.no_grad():
        return theirs(tokens).logits


@pytest.mark.parametrize("shape", SHAPES)
def test_a_random_model_of_another_shape_agrees_with_transformers(shape):
    theirs = random_llama(**SHAPES[shape])
    tokens = some_tokens(2, 200)
    torch.testing.assert_close(
        ours(theirs).forward(tokens).logits, logits_of(theirs, tokens), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 2.0**-8)], ids=["fp32", "bf16"]
)
def test_a_norm_divides_by_the_root_mean_square_and_adds_eps_under_the_root(dtype, tolerance):
    random = torch.Generator().manual_seed(0)
    weight = torch.rand(48, generator=random) + 0.5
    for size in (1e-4, 1.0, 300.0):  # eps of 1e-5 decides the first
        x = (size * torch.randn(2, 3, 48, generator=random)).to(dtype)
        exact = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
        found = norm_of(weight, 1e-5).scale(x)
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), exact, rtol=tolerance, atol=1e-7)


def test_rotation_multiplies_each_channel_pair_by_a_complex_number_and_leaves_values_alone(small):
    config, half = small.config, small.config.head_size // 2
    x = torch.randn(1, 5, config.heads + 2 * config.kv_heads, 2, half)
    at = torch.tensor([[0, 3, 3, 200, 7]])
    found = turn(x, *small._rotations(5, None, at, None))
    turning = config.heads + config.kv_heads
    angles = at.double()[..., None] * config.rope_base ** (-torch.arange(half).double() / half)
    factor = torch.polar(torch.ones_like(angles), angles)[:, :, None]
    pair = torch.complex(x[..., 0, :].double(), x[..., 1, :].double())[:, :, :turning] * factor
    torch.testing.assert_close(
        found[:, :, :turning].double(), torch.stack((pair.real, pair.imag), dim=3), rtol=1e-4, atol=1e-4
    )
    assert torch.equal(found[:, :, turning:], x[:, :, turning:])


def test_one_row_that_sees_everything_needs_no_mask_and_gets_the_same_logits(small):
    """Alone it does; with another span, or a sequence of another length beside it, it has a mask."""
    tokens, next_token = some_tokens(1, 9), some_tokens(1, 1, seed=1)
    caches = [small.new_cache(capacity=32) for _ in range(2)]
    for cache in caches:
        small.forward(tokens, cache)
    assert small._bias(1, caches[0], None, None, None) is None
    assert small._bias(1, caches[0], None, None, 9) is None
    plain = small.forward(next_token, caches[0])
    masked = small.forward(next_token, caches[1], span=20)
    torch.testing.assert_close(plain.logits, masked.logits)
    batch = small.new_cache(batch=2, capacity=32)
    small.forward(some_tokens(2, 9), batch)
    batch.rollback([9, 4])
    batch.start(1)
    assert small._bias(1, batch, None, None, None) is not None


def test_nodes_of_a_tree_see_their_ancestors_only_and_share_positions(theirs, small):
    """Prefix of 5, then a root with children a and b, and a child of each: two paths in one pass.

    nodes      root  a  b  aa  bb        root  1 . . . .
    positions  5     6  6  7   7         a     1 1 . . .
                                         b     1 . 1 . .
                                         aa    1 1 . 1 .
                                         bb    1 . 1 . 1
    """
    prefix, nodes = some_tokens(1, 5), torch.tensor([[7, 11, 23, 3, 42]])
    tree = torch.tensor(
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 1, 0], [1, 0, 1, 0, 1]],
        dtype=torch.bool,
    )
    mask = torch.cat((torch.ones(5, 5, dtype=torch.bool), tree), dim=1)[None]
    cache = small.new_cache()
    small.forward(prefix, cache)
    found = small.forward(nodes, cache, positions=torch.tensor([[5, 6, 6, 7, 7]]), mask=mask).logits[0]
    for path in ([0, 1, 3], [0, 2, 4]):
        alone = logits_of(theirs, torch.cat((prefix, nodes[:, path]), dim=1))[0, 5:]
        torch.testing.assert_close(found[path], alone, rtol=1e-4, atol=1e-4)


def test_a_batch_with_a_length_per_sequence_equals_each_sequence_alone(theirs, small):
    first, second = some_tokens(3, 7), some_tokens(3, 4, seed=1)
    cache = small.new_cache(batch=3)
    small.forward(first, cache)
    cache.rollback([7, 4, 2])
    found = small.forward(second, cache).logits
    for b, kept in enumerate([7, 4, 2]):
        alone = logits_of(theirs, torch.cat((first[b, :kept], second[b]))[None])[0, kept:]
        torch.testing.assert_close(found[b], alone, rtol=1e-4, atol=1e-4)


def test_the_mask_of_a_chain_shows_the_cached_slots_the_earlier_new_ones_and_the_token_itself():
    assert tree_mask(torch.tensor([2, 0]), chain_ancestors(3), span=2).int().tolist() == [
        [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]],
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]],
    ]


@pytest.mark.parametrize(("start", "rows"), [(0, 6), (4, 2), (-1, 1)])
def test_logits_from_computes_only_the_last_rows_and_leaves_the_rest_of_the_pass_alone(small, start, rows):
    tokens = some_tokens(2, 6)
    whole, part = small.forward(tokens), small.forward(tokens, logits_from=start)
    assert part.logits.shape == (2, rows, 50)
    assert part.hidden.shape == (2, 6, 64)
    torch.testing.assert_close(part.logits, whole.logits[:, start:])


def test_a_pass_leaves_no_graph_behind_and_its_features_can_be_trained_on(small):
    found = small.forward(some_tokens(1, 4), taps=(1,))
    assert not found.logits.requires_grad
    head = torch.zeros(64, 50, requires_grad=True)
    (found.taps[1] @ head).sum().backward()  # refused for tensors made in inference mode
    assert head.grad is not None


def test_importing_the_engine_changes_no_global_state_of_torch():
    code = (
        "import torch; f = lambda: (torch.get_num_threads(), torch.get_default_dtype(),"
        "torch.is_grad_enabled(), torch.random.get_rng_state().sum().item()); before = f();"
        "import specdec.verifier, specdec.tokenizer, specdec.bench; assert f() == before, (before, f())"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_loading_brings_the_threads_down_to_the_cores(tmp_path):
    random_llama().save_pretrained(tmp_path)
    code = (
        "import sys, torch; torch.set_num_threads(64); from specdec.verifier import Verifier;"
        "Verifier.load(sys.argv[1]); print(torch.get_num_threads())"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 1 <= int(done.stdout) <= len(os.sched_getaffinity(0))


TOKENS = torch.zeros(1, 3, dtype=torch.int64)
FULL = torch.ones(1, 3, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"tokens": torch.zeros(3, dtype=torch.int64)}, r"int64 \[B, n\], not empty, got torch.int64 \[3\]"),
        ({"tokens": TOKENS.float()}, "got torch.float32"),
        ({"tokens": TOKENS[:, :0]}, r"not empty, got torch.int64 \[1, 0\]"),
        ({"tokens": TOKENS + 50}, "token ids must be from 0 to 49, got 50"),
        ({"tokens": TOKENS - 1}, "token ids must be from 0 to 49, got -1"),
        ({"tokens": TOKENS.repeat(1, 100)}, "position 299 is outside the verifier's context of 256 tokens"),
        ({"positions": torch.tensor([[0, 1, 256]])}, "position 256 is outside"),
        ({"positions": torch.tensor([[0, -1, 2]])}, "position -1 is outside"),
        ({"positions": torch.tensor([[0, 1]])}, r"positions must be \[B, n\] = \[1, 3\], got \[1, 2\]"),
        ({"mask": FULL[:, :2]}, r"mask must be bool \[B, n, S\] = \[1, 3, 3\], got torch.bool \[1, 2, 3\]"),
        ({"mask": FULL.float()}, "got torch.float32"),
        ({"mask": FULL.tril(-1)}, "row without any True"),
        ({"taps": (3,)}, "taps must be layers from 0 to 2, got 3"),
        ({"logits_from": 3}, "logits_from must be from -3 to 2 for 3 new tokens, got 3"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_one_sentence(small, arguments, sentence):
    with pytest.raises(SpecdecError, match=sentence):
        small.forward(**({"tokens": TOKENS} | arguments))


def test_a_cache_of_another_batch_or_precision_is_refused(small):
    with pytest.raises(
        SpecdecError, match=r"the cache is for 2 sequences in torch.float32, but the pass has 1"
    ):
        small.forward(TOKENS, small.new_cache(batch=2))
    half = ours(random_llama())
    half = Verifier.from_state(half.config, random_llama().state_dict(), precision="bf16")
    with pytest.raises(SpecdecError, match=r"1 sequences in torch.bfloat16"):
        small.forward(TOKENS, half.new_cache())


def test_a_refused_pass_leaves_the_cache_as_it_was(small):
    cache = small.new_cache(capacity=8)
    small.forward(TOKENS, cache)
    before = cache.keys.clone()
    with pytest.raises(SpecdecError):
        small.forward(TOKENS, cache, taps=(9,))
    with pytest.raises(SpecdecError):
        small.forward(TOKENS, cache, mask=FULL)
    assert cache.length == 3
    assert torch.equal(cache.keys, before)


def test_an_unknown_precision_is_refused_with_the_known_ones():
    with pytest.raises(SpecdecError, match="one of fp32, bf16, int4, got 'fp16'"):
        Verifier.load(precision="fp16")


# --- logits that are none ---


def broken(where: str) -> Verifier:
    """A random verifier with one infinite weight, in the tensor of that name."""
    theirs = random_llama()
    state = {name: t.clone() for name, t in theirs.state_dict().items()}
    state[where].view(-1)[0] = torch.inf
    return Verifier.from_state(ours(theirs).config, state)


@pytest.mark.parametrize(
    ("where", "stage"),
    [
        ("model.embed_tokens.weight", "the embedding puts out"),
        ("model.layers.0.mlp.down_proj.weight", r"layer 0 \(of 3, counted from 0\) puts out"),
        ("model.layers.1.self_attn.v_proj.weight", r"layer 1 \(of 3, counted from 0\) puts out"),
        ("model.layers.2.mlp.up_proj.weight", r"layer 2 \(of 3, counted from 0\) or the final norm puts out"),
        ("model.norm.weight", r"layer 2 \(of 3, counted from 0\) or the final norm puts out"),
        ("lm_head.weight", "the output matrix puts out"),
    ],
)
def test_logits_that_are_not_finite_are_refused_with_the_first_layer_that_is_not_and_nothing_is_cached(
    where, stage
):
    verifier = broken(where)
    tokens = torch.tensor([[5, 0, 7]])  # the embedding of token 0 is the one with the infinite weight
    row = 1 if "embed" in where else 0
    for cache in (None, verifier.new_cache()):
        with pytest.raises(
            SpecdecError, match=rf"^{stage} NaN or infinite numbers in row {row} of sequence 0"
        ):
            verifier.forward(tokens, cache)
    assert cache.length == 0


def test_a_pass_that_is_not_checked_tells_whether_its_logits_are_finite(small):
    assert small.forward(TOKENS, check=False).finite
    verifier = broken("lm_head.weight")
    cache = verifier.new_cache()
    assert not verifier.forward(TOKENS, cache, wait=True, check=False).finite
    assert first_fault(verifier, TOKENS, cache).startswith("the output matrix puts out")
    assert cache.length == 0
