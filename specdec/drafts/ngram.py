"""The n-gram draft (prompt lookup): what followed the last few tokens the last time they occurred.

No model and almost no cost: good where the output repeats the prompt or itself (summaries, code edits,
quotes), useless elsewhere. It proposes one continuation for certain, so its p is one-hot: verify.py accepts
draft x with probability q(x). Source: Saxena 2023, "Prompt Lookup Decoding"; also Yang et al. 2023,
"Inference with Reference".

Layout: tokens are plain lists of token ids.
"""

DRAFT_LENGTH = 8  # N: the fastest on two cores over prompts of every kind, see benchmarks/LOG.md


class NgramDraft:
    """Looks for the last `max_ngram` tokens earlier in the text, then for fewer, down to `min_ngram`.

    Of several matches of the same length the most recent counts. Raises ValueError unless 1 <= min_ngram <=
    max_ngram.
    """

    def __init__(self, max_ngram: int = 3, min_ngram: int = 1) -> None:
        if not 1 <= min_ngram <= max_ngram:
            raise ValueError(
                f"min_ngram is {min_ngram} and max_ngram {max_ngram}, but must be 1 <= min_ngram <= max_ngram"
            )
        self.max_ngram = max_ngram
        self.min_ngram = min_ngram

    def propose(self, tokens: list[int], n: int) -> list[int]:
        """Up to `n` tokens that followed the match: fewer where the text ends first, none without a match."""
        follow = self.find(tokens)
        return [] if follow is None else tokens[follow : follow + n]

    def find(self, tokens: list[int]) -> int | None:
        """Index of the token after the longest, then most recent earlier match of the ending, or None.

        One walk from the end: most positions are dismissed by their last token alone.
        """
        last = len(tokens) - 1
        longest, follow = self.min_ngram - 1, None
        for end in range(last - 1, -1, -1):
            if tokens[end] != tokens[last]:
                continue
            length = 1
            while length < self.max_ngram and length <= end and tokens[end - length] == tokens[last - length]:
                length += 1
            if length > longest:
                longest, follow = length, end + 1
                if length == self.max_ngram:
                    break
        return follow
