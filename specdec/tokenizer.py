"""Text to token ids and back, and the chat template, as the verifier was trained with them.

Byte-level BPE by the `tokenizers` library, from a GGUF file's metadata or from a folder's `tokenizer.json`.
This module knows nothing of the model behind the ids.

GGUF stores tokens and merges, but only a name for the rule that cuts text into words before merging. `smollm`
means: every digit alone, then GPT-2's pattern on each stretch between digits (llama.cpp,
`LLAMA_VOCAB_PRE_TYPE_SMOLLM`; the published `tokenizer.json` of SmolLM2 has the same two steps). Hugging Face
transformers 5.24 does not know this name when it reads a GGUF file and applies GPT-2's pattern alone. The ids
then differ where two or more whitespace characters stand before a digit, as in "\\n\\n1. " (the last one is
cut off from the others), and where a space stands before a digit outside ASCII. We follow the model's rule.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from specdec import weights
from specdec.checkpoint import open_gguf, read_json
from specdec.errors import SpecdecError

Message = dict[str, str]  # {"role": "system" | "user" | "assistant", "content": text}

CONTROL = 3  # GGUF token type of tokens such as <|im_end|>, which are never cut or merged

# GGUF name of the word-cutting rule -> what runs before the byte-level step with GPT-2's pattern.
PRE_TOKENIZERS: dict[str, list[Any]] = {
    "smollm": [pre_tokenizers.Digits(individual_digits=True)],
    "gpt-2": [],
}


class Tokenizer:
    """Encodes, decodes, and renders chats. Build it with `load_tokenizer`."""

    def __init__(self, backend: Backend, template: str | None, special: dict[str, int]) -> None:
        """`special` maps bos_token and eos_token (and others the template names) to token ids."""
        self._backend = backend
        self._template = template
        self._special = special
        self.eos_ids = (
            [special["eos_token"]] if "eos_token" in special else []
        )  # generation ends at any of these

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return self._backend.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`. Control tokens written out in it, such as <|im_end|>, become that one token.

        Bytes for which the vocabulary has no token are dropped, as in transformers: SmolLM2 lacks a few
        control characters, and the planes 4 to 11 of Unicode, where no text lives.
        """
        return self._backend.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """Text of token ids; bytes that are not UTF-8 (yet) become U+FFFD. `skip_special` leaves out control
        tokens.
        """
        return self._backend.decode(list(ids), skip_special_tokens=skip_special)

    def chat_text(self, messages: str | Sequence[Message], add_generation_prompt: bool = True) -> str:
        """The chat as the model expects it, ending where the assistant's answer begins. A str is one user
        message.

        Raises SpecdecError when a message is malformed, the template rejects the chat, or there is no
        template.
        """
        if self._template is None:
            raise SpecdecError("this model has no chat template: encode the plain text instead (--raw)")
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        for message in messages:
            if not all(isinstance(message.get(key), str) for key in ("role", "content")):
                raise SpecdecError(
                    f"a message is a dict with a role and a content, both text, got {message!r}"
                )
        # A template is a program that came with the weights: it runs in jinja's sandbox, as in transformers.
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _reject
        names = {name: self._backend.id_to_token(index) for name, index in self._special.items()}
        try:
            template = environment.from_string(self._template)
            return template.render(messages=messages, add_generation_prompt=add_generation_prompt, **names)
        except TemplateError as error:
            raise SpecdecError(f"the chat template cannot render this chat: {error}") from error

    def chat(self, messages: str | Sequence[Message], add_generation_prompt: bool = True) -> list[int]:
        """Token ids of `chat_text`."""
        return self.encode(self.chat_text(messages, add_generation_prompt))


def load_tokenizer(path: Path | str | None = None) -> Tokenizer:
    """The tokenizer of a GGUF file or a checkpoint folder; None is the fetched SmolLM2-135M-Instruct.

    Raises MissingWeights when the weights were never fetched, SpecdecError when there is no tokenizer or its
    kind is not known.
    """
    path = weights.ensure() if path is None else Path(path)
    return _from_folder(path) if path.is_dir() else _from_gguf(path)


def _from_gguf(path: Path) -> Tokenizer:
    meta, _ = open_gguf(path)
    try:
        kind, rule = meta["tokenizer.ggml.model"], meta["tokenizer.ggml.pre"]
        tokens, merges, types = (meta[f"tokenizer.ggml.{key}"] for key in ("tokens", "merges", "token_type"))
    except KeyError as error:
        raise SpecdecError(f"{path} lacks the metadata key {error.args[0]}") from error
    if kind != "gpt2" or rule not in PRE_TOKENIZERS:
        raise SpecdecError(
            f"{path} has a tokenizer {kind!r} with pre-tokenizer {rule!r}, which is not known here"
        )
    vocabulary = {token: index for index, token in enumerate(tokens)}
    backend = Backend(models.BPE(vocab=vocabulary, merges=[tuple(merge.split(" ")) for merge in merges]))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [*PRE_TOKENIZERS[rule], pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    backend.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, types, strict=True) if kind == CONTROL]
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in control])
    special = {
        f"{name}_token": meta[f"tokenizer.ggml.{name}_token_id"]
        for name in ("bos", "eos")
        if f"tokenizer.ggml.{name}_token_id" in meta
    }
    return Tokenizer(backend, meta.get("tokenizer.chat_template"), special)


def _from_folder(folder: Path) -> Tokenizer:
    file = folder / "tokenizer.json"
    if not file.exists():
        raise SpecdecError(f"{folder} lacks tokenizer.json")
    try:
        backend = Backend.from_file(str(file))
    except Exception as error:  # the library raises bare Exception
        raise SpecdecError(f"{file} is not a readable tokenizer: {error}") from error
    config = read_json(folder / "tokenizer_config.json")
    special = {}
    for name in ("bos_token", "eos_token"):
        token = config.get(name)
        token = token.get("content") if isinstance(token, dict) else token
        if token is not None and (index := backend.token_to_id(token)) is not None:
            special[name] = index
    separate = folder / "chat_template.jinja"
    template = separate.read_text(encoding="utf-8") if separate.exists() else config.get("chat_template")
    return Tokenizer(backend, template, special)


def _reject(message: str) -> None:
    raise TemplateError(message)
