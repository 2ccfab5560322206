"""Text that appears as it is decoded, with the drafted tokens that were accepted marked.

Tokens of a byte-level vocabulary may end in the middle of a character, so tokens are held back until their
bytes make whole characters. Marks are for eyes only: where the output is piped, or NO_COLOR is set, the text
comes out plain.
"""

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

MARK = "underline green"
UNFINISHED = "\ufffd"  # what a decoder puts where bytes make no character


class TextStream:
    """Whole characters out of tokens: `feed` tokens, get the text that has become readable."""

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self.decode = decode
        self.held: list[int] = []  # tokens back to the last one that ended with a whole character
        self.shown = 0  # characters of their text that were handed out

    def feed(self, tokens: list[int]) -> str:
        self.held += tokens
        text = self.decode(self.held)
        unfinished = text.endswith(UNFINISHED)  # or truly no character: the next token shows which
        new = text[self.shown : len(text) - unfinished]
        self.shown += len(new)
        if not unfinished:
            self.held, self.shown = [], 0
        return new

    def end(self) -> str:
        """What is still held when no more tokens come."""
        text = self.decode(self.held)[self.shown :]
        self.held, self.shown = [], 0
        return text


class Writer:
    """Writes the rounds of `decode.generate` to a console: pass it `on_tokens`, and call `end` behind it."""

    def __init__(self, console: Console, decode: Callable[[list[int]], str]) -> None:
        self.console = console
        self.stream = TextStream(decode)
        self.marks = console.is_terminal and not console.no_color and not console.is_dumb_terminal
        self.written = False

    def on_tokens(self, tokens: list[int], accepted: int) -> None:
        for i, token in enumerate(tokens):
            self.write(self.stream.feed([token]), marked=i < accepted)
        self.console.file.flush()

    def write(self, text: str, marked: bool = False) -> None:
        if text and self.marks:
            self.console.print(Text(text, MARK if marked else ""), end="", soft_wrap=True, highlight=False)
        elif text:
            self.console.file.write(text)
        self.written = self.written or bool(text)

    def end(self) -> None:
        """Write what was held back, and end the line."""
        self.write(self.stream.end())
        if self.written:
            self.console.file.write("\n")
        self.console.file.flush()
