"""Trained heads on disk: a folder with `model.safetensors`, `config.json` and a card, README.md.

Names and conventions of the tensors are those of the public checkpoints, so an EAGLE-3 head can be loaded by
other engines. What only this library needs stands in `config.json` under "specdec": the family, the layers it
reads, the checksum of the verifier it was trained on, and the policy that suits it. Loading looks at all of
it before anything is decoded: a head of another verifier, or with a broken vocabulary table, would run, and
merely never be right.

EAGLE-1 and Medusa read the verifier's own output matrix; of it only the ids of the rows are stored. The
vanilla draft is a checkpoint of a small Llama, with the table `vocabulary` beside it: there `vocab_size`
counts its own rows, and the verifier's is `target_vocab_size`.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialise
from torch import Tensor, nn

from specdec.checkpoint import read_json
from specdec.drafts.eagle1 import Eagle1
from specdec.drafts.eagle3 import Eagle3
from specdec.drafts.features import FeatureDraft
from specdec.drafts.layer import HeadConfig
from specdec.drafts.medusa import Medusa, MedusaDraft
from specdec.drafts.small_lm import SmallLM
from specdec.drafts.vanilla import Vanilla
from specdec.errors import SpecdecError
from specdec.files import write_json, write_whole
from specdec.policy import Dynamic, Policy, Static
from specdec.verifier import Verifier

ARCHITECTURES = {
    "eagle3": "LlamaForCausalLMEagle3",
    "eagle1": "EagleLlamaForCausalLM",
    "medusa": "MedusaForCausalLM",
    "vanilla": "LlamaForCausalLM",
}
FILES = ("model.safetensors", "config.json")

AnyHead = Eagle3 | Eagle1 | Medusa | Vanilla
HeadDraft = FeatureDraft | MedusaDraft | SmallLM


# -- writing ---------------------------------------------------------------------------------------------


def save_head(folder: Path, head: AnyHead, verifier: Verifier, policy: Policy) -> None:
    """Write a head in bf16, and its configuration; each file whole or not at all.

    Raises SpecdecError when the folder cannot be written.
    """
    tensors = {
        name: (x.to(torch.bfloat16) if x.is_floating_point() else x).contiguous().cpu()
        for name, x in head.state_dict().items()
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        whole = serialise(tensors, metadata={"format": "pt"})
        write_whole(folder / "model.safetensors", lambda file: file.write(whole))
        write_json(folder / "config.json", describe(head, verifier, policy))
    except OSError as error:
        raise SpecdecError(f"cannot write the head to {folder}: {error.strerror or error}") from None


def describe(head: AnyHead, verifier: Verifier, policy: Policy) -> dict[str, Any]:
    """The content of `config.json`, in the words of Hugging Face."""
    own: dict[str, Any] = {
        "family": head.family,
        "taps": list(head.taps),
        "verifier_sha256": verifier.checksum,
        "policy": policy_to_json(policy),
    }
    described: dict[str, Any] = {
        "architectures": [ARCHITECTURES[head.family]],
        "model_type": "llama",
        "hidden_size": verifier.config.hidden,
        "vocab_size": verifier.config.vocab_size,
        "draft_vocab_size": len(head.vocabulary),
        "torch_dtype": "bfloat16",
        "specdec": own,
    }
    if isinstance(head, Medusa):
        return described | {"medusa_num_heads": len(head.medusa_head), "medusa_num_layers": 1}
    c = head.config
    sizes: dict[str, Any] = {
        "num_hidden_layers": 1,
        "intermediate_size": c.intermediate,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads,
        "head_dim": c.head_size,
        "rope_theta": c.rope_base,
        "rms_norm_eps": c.norm_eps,
        "max_position_embeddings": c.context_length,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    }
    if isinstance(head, Vanilla):
        own["target_vocab_size"] = verifier.config.vocab_size
        sizes |= {
            "hidden_size": c.hidden,
            "vocab_size": head.llama.vocab_size,
            "num_hidden_layers": head.llama.layers,
            "tie_word_embeddings": True,
        }
    return described | sizes


def policy_to_json(policy: Policy) -> dict[str, Any]:
    """A policy as JSON can hold it."""
    return {"kind": type(policy).__name__.lower(), **asdict(policy)}


def policy_from_json(data: dict[str, Any]) -> Policy:
    """The policy that `policy_to_json` wrote; raises SpecdecError for anything else."""
    options = {name: value for name, value in data.items() if name != "kind"}
    try:
        if data["kind"] == "static":
            return Static(tuple(options["parents"]), options["rule"])
        return Dynamic(**options)
    except (KeyError, TypeError):
        raise SpecdecError(f"this is not a policy: {json.dumps(data)}") from None


# -- reading ---------------------------------------------------------------------------------------------


def load_head(folder: Path | str, verifier: Verifier) -> HeadDraft:
    """The head in `folder` as a draft for this verifier, in its precision and on its device.

    Raises SpecdecError, naming what does not fit, when files are missing or broken, when the head was trained
    on another verifier, when a tensor is missing, misshapen or unknown, and when the table of the draft
    vocabulary cannot be one.
    """
    folder = Path(folder)
    for name in FILES:
        if not (folder / name).is_file():
            raise SpecdecError(f"there is no head in {folder}: {name} is missing")
    config = read_json(folder / "config.json")
    own = config.get("specdec")
    if not isinstance(own, dict) or own.get("family") not in ARCHITECTURES:
        raise SpecdecError(
            f"{folder / 'config.json'} does not say which family the head is of ('specdec': 'family' must be "
            f"one of {', '.join(ARCHITECTURES)}): save it with specdec.drafts.store"
        )
    check_verifier(folder, config, verifier)
    try:
        state = load_file(folder / "model.safetensors")
    except (OSError, SafetensorError) as error:
        raise SpecdecError(f"{folder / 'model.safetensors'} cannot be read as safetensors: {error}") from None
    head = build(folder, config, state, verifier)
    fill(folder, head, state)
    device, dtype = verifier.embedding.device, verifier.embedding.dtype
    head = head.to(device=device, dtype=dtype).eval().requires_grad_(False)
    policy = policy_from_json(own["policy"])
    if isinstance(head, Vanilla):
        return SmallLM(as_model(head), policy, head.vocabulary, head.family)
    return MedusaDraft(head, policy) if isinstance(head, Medusa) else FeatureDraft(head, policy)


def check_verifier(folder: Path, config: dict[str, Any], verifier: Verifier) -> None:
    """Raise SpecdecError when the head was made for another verifier."""
    expected = {"hidden_size": verifier.config.hidden, "vocab_size": verifier.config.vocab_size}
    found = config
    if config["specdec"]["family"] == "vanilla":  # the two above are its own there, and it reads no features
        expected, found = {"vocab_size": verifier.config.vocab_size}, {"vocab_size": target_size(config)}
    for name, value in expected.items():
        if found.get(name) != value:
            raise SpecdecError(
                f"the head in {folder} is for a verifier with {name} {found.get(name)}, but this one has "
                f"{value}: use a head that was trained on it"
            )
    trained_on = config["specdec"].get("verifier_sha256")
    if trained_on and verifier.checksum and trained_on != verifier.checksum:
        raise SpecdecError(
            f"the head in {folder} was trained on the verifier with sha256 {trained_on[:12]}..., but this "
            f"one has {verifier.checksum[:12]}...: it would be right only by chance"
        )


def target_size(config: dict[str, Any]) -> int:
    """How many tokens the verifier has that the head was made for; 0 where its configuration does not say."""
    own = config["specdec"]
    return int(own.get("target_vocab_size", 0) if own["family"] == "vanilla" else config["vocab_size"])


def as_model(head: Vanilla) -> Verifier:
    """The vanilla draft's Llama, as what runs it with a cache."""
    state = {name: x for name, x in head.state_dict().items() if name.startswith("model.")}
    precision = "fp32" if head.model.norm.weight.dtype == torch.float32 else "bf16"
    return Verifier.from_state(head.llama, state, precision)


def build(folder: Path, config: dict[str, Any], state: dict[str, Tensor], verifier: Verifier) -> AnyHead:
    """An empty head of the family and sizes that `config` names."""
    own, family = config["specdec"], config["specdec"]["family"]
    vocabulary = draft_vocabulary(folder, config, state)
    if family == "medusa":
        count = int(config["medusa_num_heads"])
        return Medusa(verifier.config.hidden, count, vocabulary, verifier.output_rows(vocabulary))
    try:
        sizes = HeadConfig(
            hidden=config["hidden_size"],
            intermediate=config["intermediate_size"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            head_size=config["head_dim"],
            rope_base=float(config["rope_theta"]),
            norm_eps=float(config["rms_norm_eps"]),
            context_length=config["max_position_embeddings"],
        )
        layers = int(config["num_hidden_layers"])
    except KeyError as error:
        raise SpecdecError(f"{folder / 'config.json'} lacks {error}") from None
    if family == "vanilla":
        return Vanilla(sizes, vocabulary, target_size(config), layers)
    if family == "eagle1":
        return Eagle1(sizes, vocabulary, verifier.output_rows(vocabulary))
    return Eagle3(sizes, vocabulary, verifier.config.vocab_size, own["taps"])


def draft_vocabulary(folder: Path, config: dict[str, Any], state: dict[str, Tensor]) -> Tensor:
    """The target id of each draft id, `[Vd]`; raises SpecdecError when the stored table cannot be right."""
    size, target = int(config.get("draft_vocab_size", 0)), target_size(config)
    name = "d2t" if config["specdec"]["family"] == "eagle3" else "vocabulary"
    if name not in state or len(state[name]) != size:
        found = f"has {len(state[name])} entries" if name in state else "is missing"
        raise SpecdecError(
            f"the head in {folder} has a draft vocabulary of {size} tokens, but its table {name} {found}: "
            "without it every token it proposes would be a wrong one"
        )
    table = state[name].long()
    vocabulary = table + torch.arange(size) if name == "d2t" else table
    inside = int(vocabulary.min()) >= 0 and int(vocabulary.max()) < target
    distinct = inside and len(vocabulary.unique()) == size
    shifted = name != "d2t" or size == target or bool(table.any())
    if not distinct or not shifted:
        raise SpecdecError(
            f"the table {name} of the head in {folder} does not name {size} different tokens of {target}"
            + ("" if shifted else " (it is all zero)")
            + ": save the head again with the vocabulary that it was trained on"
        )
    if "t2d" in state and not bool(state["t2d"][vocabulary].all() and state["t2d"].sum() == size):
        raise SpecdecError(f"the tables d2t and t2d of the head in {folder} contradict each other")
    return vocabulary


def fill(folder: Path, head: nn.Module, state: dict[str, Tensor]) -> None:
    """Copy the tensors in; raises SpecdecError, naming the first that is missing, misshapen or unknown."""
    expected = head.state_dict()
    for name, tensor in expected.items():
        if name not in state:
            raise SpecdecError(f"the head in {folder} lacks the tensor {name}")
        if state[name].shape != tensor.shape:
            raise SpecdecError(
                f"{name} of the head in {folder} is {list(state[name].shape)}, but must be "
                f"{list(tensor.shape)}"
            )
    if unknown := sorted(set(state) - set(expected)):
        raise SpecdecError(f"the head in {folder} has a tensor {unknown[0]} that its family does not know")
    head.load_state_dict(state)
