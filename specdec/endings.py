"""Where a text ends: an end-of-sequence token, a stop string, or the number of tokens that was asked for.

A round emits several tokens at once, and plain decoding one. So the first token that ends the text may stand
inside an accepted path, and what follows it is dropped: the output is what plain decoding would have emitted.
A stop string ends the text with the token that completes it, whatever that token holds beyond it.

Layout: tokens are plain lists of token ids.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from specdec.errors import SpecdecError

ToText = Callable[[list[int]], str]
BYTES_BEFORE = 4  # a token may begin inside a character, which has at most four bytes


@dataclass(frozen=True)
class Ending:
    """What ends a text. `to_text` turns tokens into text, and is needed for stop strings only.

    Raises SpecdecError for a length below 1, an empty stop string, and stop strings without `to_text`.
    """

    max_new_tokens: int
    eos_ids: frozenset[int] = frozenset()
    stop: tuple[str, ...] = ()
    to_text: ToText | None = None
    window: int = field(init=False)  # how many of the last tokens can hold a stop string

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise SpecdecError(f"max_new_tokens is {self.max_new_tokens}, but must be at least 1")
        if "" in self.stop:
            raise SpecdecError("a stop string is empty, which would end every text at once: leave it out")
        if self.stop and self.to_text is None:
            raise SpecdecError("stop strings need `to_text`, the function that turns tokens into text")
        longest = max((len(s.encode()) for s in self.stop), default=0)
        object.__setattr__(self, "window", longest + BYTES_BEFORE)

    def cut(self, tokens: list[int], emitted: list[int]) -> tuple[list[int], str | None]:
        """`emitted`, which follows the new tokens so far, up to where the text ends; and why it ends there.

        The reason is "eos", "stop", "length" or None.
        """
        for i, token in enumerate(emitted):
            kept = emitted[: i + 1]
            if token in self.eos_ids:
                return kept, "eos"
            if self.stop and self._stopped([*tokens[-self.window :], *kept]):
                return kept, "stop"
            if len(tokens) + i + 1 >= self.max_new_tokens:
                return kept, "length"
        return emitted, None

    def _stopped(self, tokens: list[int]) -> bool:
        assert self.to_text is not None
        text = self.to_text(tokens[-self.window :])
        return any(stop in text for stop in self.stop)


def trim(text: str, stop: Collection[str]) -> str:
    """`text` up to the first stop string in it, which is left out."""
    return text[: min((at for s in stop if (at := text.find(s)) >= 0), default=len(text))]
