"""Other engines as methods of the benchmark: the same weights, prompts, threads and end of sequence.

A peer is built once and gives two methods, plain greedy decoding and prompt lookup, each with its engine's
own cache, loop and lookup. The prefill is timed apart, see compete.py.

transformers: a LlamaForCausalLM that takes over our own dequantised tensors, in bf16, and `generate` with
the options of its documentation: its default cache and attention, greedy; the lookup is
`prompt_lookup_num_tokens`, with as many tokens as our draft. The clock is a streamer: `generate` hands it the
new tokens after each forward pass; the first hand-over ends the prefill, the last one the decoding.

llama.cpp: xllamacpp, its server inside this process (no network between us; the server also listens on a
free local port, which nobody uses), on the same GGUF file, temperature 0. The times are the server's own:
`predicted_ms` begins when the first token is sampled. The lookup is llama.cpp's `ngram-simple` with our
draft's numbers, 3 tokens to match and 8 to draft: its default of 12 and 48 hardly ever finds a match in 128
tokens. Which tokens came out is asked for once per prompt in a run that is not timed, since reporting them
(`logprobs`) costs a softmax per token.

Why xllamacpp: of the bindings with wheels it loads everywhere that was tried, and brings llama.cpp's lookup.
There are wheels for Linux on x86-64, macOS on Apple silicon, and Windows; none for Linux on ARM. Its build
for x86-64 uses AVX2 and no AVX-512. llama-cpp-py-sync 0.11739 uses no AVX-512 either, and its wheel needs
glibc 2.38. llama-cpp-python 0.3.36 has no wheel: compiled here with AVX-512, it decoded at 43 to 57 tokens/s
on one thread where xllamacpp did 43 to 46 (Xeon with AMX, a busy machine); compiled with AMX too, as its
default is there, it died of an illegal instruction.

Both install with the extra `peers`.
"""

import time
from collections.abc import Collection
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec.compete import Method, Run
from specdec.drafts.ngram import DRAFT_LENGTH
from specdec.errors import SpecdecError

if TYPE_CHECKING:
    from torch import Tensor, dtype

    from specdec.checkpoint import LlamaConfig, State

PACKAGES = {"transformers": "transformers", "llama-cpp": "xllamacpp"}  # peer -> what must be installed
METHODS = {peer: (f"{peer}-plain", f"{peer}-lookup") for peer in PACKAGES}
INSTALL = "pip install 'specdec[peers]'"
MATCH = 3  # tokens that llama.cpp's lookup matches: the longest of our draft's


def check_peer(peer: str) -> None:
    """Raise SpecdecError unless this peer is known and installed."""
    if peer not in PACKAGES:
        raise SpecdecError(f"there is no peer {peer!r}: the peers are {', '.join(PACKAGES)}")
    package = PACKAGES[peer]
    try:
        missing = find_spec(package) is None
    except ValueError:  # blocked by a None in sys.modules
        missing = True
    if missing:
        raise SpecdecError(f"--peer {peer} needs the package {package}: install it with {INSTALL}")


def build_peer(peer: str, path: Path, threads: int, eos_ids: Collection[int]) -> dict[str, Method]:
    """The two methods of a peer on the GGUF file at `path`, see METHODS for their names."""
    check_peer(peer)
    if peer == "transformers":
        import torch

        from specdec.checkpoint import load_gguf

        torch.set_num_threads(threads)
        return transformers_methods(*load_gguf(path, torch.bfloat16), eos_ids)
    return llama_cpp_methods(path, threads, eos_ids)


def describe_peer(peer: str) -> dict[str, Any]:
    """What a result says of a peer: package and version, and which instructions llama.cpp was built for."""
    about: dict[str, Any] = {"package": PACKAGES[peer], "version": version(PACKAGES[peer])}
    if peer == "llama-cpp":
        import xllamacpp

        about["system"] = " ".join(xllamacpp.get_system_info().split())
    return about


# -- transformers ------------------------------------------------------------------------------------------


class Clock:
    """A streamer for `generate`: when each batch of tokens came. The first batch is the prompt."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.counts: list[int] = []

    def put(self, tokens: "Tensor") -> None:
        self.times.append(time.perf_counter())
        self.counts.append(tokens.numel())

    def end(self) -> None:
        pass


def transformers_methods(
    config: "LlamaConfig", state: "State", eos_ids: Collection[int]
) -> dict[str, Method]:
    """Both methods, from a state whose tensors all have one type; `state` must not be used afterwards."""
    import torch

    model = transformers_model(config, state, next(iter(state.values())).dtype)  # type: ignore[union-attr]

    def method(**options: Any) -> Method:
        def run(prompt: list[int], max_new_tokens: int) -> Run:
            ids, clock = torch.tensor([prompt]), Clock()
            start = time.perf_counter()
            found = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=max_new_tokens,
                eos_token_id=list(eos_ids) or None,
                pad_token_id=next(iter(eos_ids), 0),
                streamer=clock,
                **options,
            )
            tokens = found[0, len(prompt) :].tolist()
            return Run(
                tokens=tokens,
                timed=len(tokens) - clock.counts[1],
                seconds=clock.times[-1] - clock.times[1],
                prefill_seconds=clock.times[1] - start,
                calls=len(clock.times) - 2,
            )

        return run

    plain, lookup = METHODS["transformers"]
    return {plain: method(), lookup: method(prompt_lookup_num_tokens=DRAFT_LENGTH)}


def transformers_model(config: "LlamaConfig", state: "State", dtype: "dtype") -> Any:
    """A transformers LlamaForCausalLM with the tensors of `state`; no copy is made."""
    import torch
    from transformers import LlamaConfig as TheirConfig
    from transformers import LlamaForCausalLM

    if config.rope_scaling is not None:
        raise SpecdecError("the transformers peer has no stretched rotations: compare without it")
    theirs = TheirConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden,
        intermediate_size=config.intermediate,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        head_dim=config.head_size,
        max_position_embeddings=config.context_length,
        rms_norm_eps=config.norm_eps,
        tie_word_embeddings=config.tied,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_base},
        bos_token_id=None,
        eos_token_id=None,
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        model = LlamaForCausalLM(theirs)
    finally:
        torch.set_default_dtype(before)
    if config.tied:
        state = {**state, "lm_head.weight": state["model.embed_tokens.weight"]}
    model.load_state_dict(state, assign=True)
    model.tie_weights()
    return model.eval()


# -- llama.cpp ---------------------------------------------------------------------------------------------


def llama_cpp_methods(path: Path, threads: int, eos_ids: Collection[int]) -> dict[str, Method]:
    """Both methods, each with a server of its own."""
    import xllamacpp

    def method(lookup: bool) -> Method:
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx = 0  # the model's own
        params.n_parallel = 1
        params.verbosity = -1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        if lookup:
            params.speculative.types = [
                xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE
            ]
            params.speculative.ngram_simple.size_n = MATCH
            params.speculative.ngram_simple.size_m = DRAFT_LENGTH
        server = xllamacpp.Server(params)
        known: dict[tuple[tuple[int, ...], int], list[int]] = {}

        def ask(prompt: list[int], max_new_tokens: int, **options: Any) -> dict[str, Any]:
            wanted = {"prompt": prompt, "n_predict": max_new_tokens, "temperature": 0, "cache_prompt": False}
            found = server.handle_completions(wanted | options)
            if "timings" not in found:
                raise SpecdecError(f"llama.cpp refused a prompt of {len(prompt)} tokens: {found}")
            return found

        def run(prompt: list[int], max_new_tokens: int) -> Run:
            which = (tuple(prompt), max_new_tokens)
            if which not in known:
                told = ask(prompt, max_new_tokens, logprobs=1)["choices"][0]["logprobs"]["content"]
                known[which] = [token["id"] for token in told]
            timings = ask(prompt, max_new_tokens)["timings"]
            timed = timings["predicted_n"] - 1
            return Run(
                tokens=known[which],
                timed=timed,
                seconds=timings["predicted_ms"] / 1000,
                prefill_seconds=timings["prompt_ms"] / 1000,
                calls=timed - timings.get("draft_n_accepted", 0),
            )

        return run

    plain, lookup = METHODS["llama-cpp"]
    return {plain: method(False), lookup: method(True)}
