"""The tokenizer and the chat template, against Hugging Face transformers reading the same GGUF file."""

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from specdec import weights
from specdec.checkpoint import open_gguf
from specdec.errors import SpecdecError
from specdec.tokenizer import Tokenizer, load_tokenizer

pytestmark = pytest.mark.weights

TEXTS = {
    "English": "It's a truth widely acknowledged; she'd say they've all \"read\" it (twice), haven't they?",
    "Spanish": "¿Qué pasó ayer? El pingüino comió jalapeños: ¡doce! Mañana será otro día, según mi tía.",
    "Chinese": "推测解码用一个小模型先写几个词，再由大模型一次检查。结果与大模型自己写的完全一样！",
    "emoji": "👋🏽 hi 👩‍👩‍👧 family 🏳️‍🌈 flag 🇪🇸 ❤️‍🔥 ☕️🙂🙃",
    "code": "def f(x: int) -> list[int]:\n    if x <= 0:\n        return []\n\n\treturn [i**2 for i in x]\n",
    "digits": "In 1984, 3.14159 and 1,000,000 are not 007; call +34 600-123-456 at 09:30. x2 y10 ½ ٣٤ Ⅷ 二〇",
    "whitespace runs": "a  b   c\t\td \t e\n\n\nf\r\n\r\n  g\u00a0\u00a0h\u3000i    \n   ",
    "whitespace before digits": "1.\n\n2. two\n    3\t\t4   5\r\n\r\n6",
    "control tokens": "<|im_start|>user\nhi<|im_end|>\n<|endoftext|> <|im_start |> <repo_name>x",
    "marks and scripts": "e\u0301 \u202bשלום\u202c مرحبا नमस्ते 한국어 𝒳 \ufeff\u200d\x00\x7f",
    "empty": "",
}


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer()


@pytest.fixture(scope="module")
def untouched():
    """transformers' tokenizer as it reads the GGUF file."""
    from transformers import AutoTokenizer

    path = weights.ensure()
    return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


@pytest.fixture(scope="module")
def oracle(untouched):
    """The same with the word-cutting rule that the file names, `smollm`, as in the model's tokenizer.json.

    transformers knows some of these names when it reads a GGUF file; for this one it falls back on GPT-2's.
    """
    from copy import deepcopy

    assert open_gguf(weights.ensure())[0]["tokenizer.ggml.pre"] == "smollm"
    oracle = deepcopy(untouched)
    oracle.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
        ]
    )
    return oracle


@pytest.mark.parametrize("kind", TEXTS)
def test_ids_equal_those_of_transformers_and_decode_back_to_the_text(tokenizer, oracle, kind):
    ids = tokenizer.encode(TEXTS[kind])
    assert ids == oracle(TEXTS[kind], add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == TEXTS[kind]


@pytest.mark.parametrize(
    "kind", ["English", "Spanish", "Chinese", "emoji", "code", "whitespace runs", "control tokens"]
)
def test_ids_equal_those_of_untouched_transformers_where_no_digit_follows_whitespace(
    tokenizer, untouched, kind
):
    assert tokenizer.encode(TEXTS[kind]) == untouched(TEXTS[kind])["input_ids"]


def test_a_whitespace_run_before_a_digit_stays_whole_as_in_training_which_untouched_transformers_misses(
    tokenizer, untouched
):
    def pieces(ids):
        return [tokenizer.decode([i]) for i in ids]

    assert pieces(tokenizer.encode("one\n\n2.   3")) == ["one", "\n\n", "2", ".", "   ", "3"]
    assert pieces(untouched("one\n\n2.   3")["input_ids"]) == ["one", "\n", "\n", "2", ".", "  ", " ", "3"]


# Bytes without a token: the tokenizer's training text had none of these in its UTF-8 form.
ABSENT = {0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2}
PRESENT = st.characters(codec="utf-8").filter(lambda c: not ABSENT & set(c.encode()))


@given(st.text(PRESENT))
@settings(max_examples=200, deadline=None)
def test_any_text_decodes_back(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("byte", sorted(ABSENT - {0xF1, 0xF2}))
def test_a_byte_that_the_vocabulary_lacks_is_dropped_as_in_transformers(tokenizer, oracle, byte):
    assert tokenizer.encode(f"a{chr(byte)}b") == tokenizer.encode("a") + tokenizer.encode("b")
    assert oracle(f"a{chr(byte)}b")["input_ids"] == tokenizer.encode(f"a{chr(byte)}b")


@given(st.text(alphabet="ab1 2\n\t.é你😀'", max_size=30))
@settings(max_examples=200, deadline=None)
def test_ids_of_any_mix_equal_those_of_transformers(tokenizer, oracle, text):
    assert tokenizer.encode(text) == oracle(text, add_special_tokens=False)["input_ids"]


def test_control_tokens_can_be_left_out_when_decoding(tokenizer):
    ids = tokenizer.encode("<|im_start|>assistant\nYes.<|im_end|>")
    assert tokenizer.decode(ids, skip_special=True) == "assistant\nYes."


def test_generation_ends_at_the_end_of_a_turn(tokenizer):
    assert tokenizer.eos_ids == tokenizer.encode("<|im_end|>") == [2]
    assert tokenizer.vocab_size == 49_152


CHATS = {
    "one question": [{"role": "user", "content": "What is 2 + 2?"}],
    "own system message": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "¿Qué tal?"},
    ],
    "several turns": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello!\n\n1. What now?"},
        {"role": "user", "content": "  spaces  and {{ braces }}"},
    ],
}


@pytest.mark.parametrize("generation_prompt", [True, False])
@pytest.mark.parametrize("chat", CHATS)
def test_the_chat_template_gives_the_text_and_ids_of_transformers(tokenizer, oracle, chat, generation_prompt):
    expected = oracle.apply_chat_template(
        CHATS[chat], tokenize=False, add_generation_prompt=generation_prompt
    )
    assert tokenizer.chat_text(CHATS[chat], generation_prompt) == expected
    ids = oracle.apply_chat_template(CHATS[chat], add_generation_prompt=generation_prompt, return_dict=False)
    assert tokenizer.chat(CHATS[chat], generation_prompt) == ids


def test_a_plain_string_is_one_user_message(tokenizer):
    assert tokenizer.chat("What is 2 + 2?") == tokenizer.chat(CHATS["one question"])


def test_a_folder_with_tokenizer_json_gives_the_same_ids_and_chats(tokenizer, oracle, tmp_path):
    oracle.save_pretrained(tmp_path)
    loaded = load_tokenizer(tmp_path)
    for text in TEXTS.values():
        assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.chat(CHATS["several turns"]) == tokenizer.chat(CHATS["several turns"])
    assert loaded.eos_ids == [2]


# --- what does not fit ---


@pytest.mark.parametrize(
    "message",
    [{"role": "user"}, {"content": "hi"}, {"role": "user", "content": 3}, {"role": 1, "content": "hi"}],
)
def test_a_malformed_message_is_refused_and_shown(tokenizer, message):
    with pytest.raises(SpecdecError, match="a role and a content, both text, got"):
        tokenizer.chat([message])


def with_template(tokenizer, template):
    return Tokenizer(tokenizer._backend, template, {"eos_token": 2})


def test_a_template_may_reject_a_chat_and_its_reason_is_shown(tokenizer):
    picky = with_template(tokenizer, "{{ raise_exception('the last turn must be the user') }}")
    with pytest.raises(SpecdecError, match="cannot render this chat: the last turn must be the user"):
        picky.chat("hi")


@pytest.mark.parametrize("template", ["{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{% if %}"])
def test_a_template_is_kept_in_its_sandbox(tokenizer, template):
    with pytest.raises(SpecdecError, match="cannot render this chat"):
        with_template(tokenizer, template).chat("hi")


def test_a_model_without_a_chat_template_says_so(tokenizer):
    with pytest.raises(SpecdecError, match="no chat template"):
        with_template(tokenizer, None).chat("hi")


def write_vocabulary(path, rule="smollm", merges=True):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(rule)
    writer.add_token_list(["a", "b", "ab"])
    writer.add_token_types([1, 1, 1])
    if merges:
        writer.add_token_merges(["a b"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def test_an_unknown_word_cutting_rule_is_refused_by_name_instead_of_guessed(tmp_path):
    write_vocabulary(tmp_path / "v.gguf")
    assert load_tokenizer(tmp_path / "v.gguf").encode("abba") == [2, 1, 0]
    write_vocabulary(tmp_path / "v.gguf", rule="tekken")
    with pytest.raises(SpecdecError, match="pre-tokenizer 'tekken', which is not known here"):
        load_tokenizer(tmp_path / "v.gguf")


def test_a_tokenizer_that_is_not_there_is_named(tmp_path):
    write_vocabulary(tmp_path / "v.gguf", merges=False)
    with pytest.raises(SpecdecError, match=r"v.gguf lacks the metadata key tokenizer.ggml.merges"):
        load_tokenizer(tmp_path / "v.gguf")
    with pytest.raises(SpecdecError, match=r"lacks tokenizer.json"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(SpecdecError, match=r"tokenizer.json is not a readable tokenizer"):
        load_tokenizer(tmp_path)
