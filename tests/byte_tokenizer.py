"""A tokenizer of the 256 bytes and an end of sequence, for a verifier of few tokens."""

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from specdec.tokenizer import Tokenizer as OurTokenizer

VOCABULARY = 257
TEMPLATE = "{% for message in messages %}{{ message.role[0] }}: {{ message.content }}\n{% endfor %}a: "


def byte_tokenizer() -> OurTokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("<end>", normalized=False, special=True)])
    return OurTokenizer(backend, TEMPLATE, {"eos_token": backend.token_to_id("<end>")})
