"""From the book's MyST to Markdown that JupyterLab shows as it is meant.

Handles exactly the syntax listed in `book/_ext/README.md` and raises `UnknownSyntax` on the rest, so
that a page cannot gain syntax that its notebook would show raw.

    :::{note} ... :::                 quoted block with a bold title
    :::{dropdown} Q? ... :::          <details>, the answer inside
    :::{prf:theorem} Name ... :::     quoted block, bold heading; a proof ends with a box
    $$ ... $$ (label)                 \\tag{label}, cited as (label)
    {cite:t}`key`, [..](page.md)      names and year; link to the notebook, or the words alone

Display maths inside a quoted block is put on one line: JupyterLab would read the `>` of a second line
as maths.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .pages import is_notebook

ADMONITIONS = {"note", "tip", "hint", "important", "warning", "caution", "attention", "seealso", "admonition"}
THEOREMS = {"theorem", "lemma", "proposition", "corollary", "definition", "remark", "example", "algorithm"}
FENCE = re.compile(r"^(?P<fence>:{3,}|`{3,}|~{3,})(?:\{(?P<name>[\w:-]+)\})?[ ]*(?P<argument>.*)$")
OPTION = re.compile(r"^:([\w-]+):[ ]*(.*)$")
# A role, else a code span (kept as it is), else a Markdown link.
INLINE = re.compile(
    r"\{(?P<role>[\w:-]+)\}`(?P<content>[^`]+)`"
    r"|(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)",
    re.DOTALL,
)
TARGET = re.compile(r"^\([\w:.-]+\)=$")
MATHS = re.compile(r"\$\$(?P<body>.+?)\$\$(?:[ ]*\((?P<label>[\w:.-]+)\))?", re.DOTALL)


class UnknownSyntax(ValueError):
    """A page uses syntax that has no plain form."""


@dataclass
class Page:
    """What is known about the page: its folder and the bibliography, key -> (names, year, URL)."""

    folder: Path
    citations: dict[str, tuple[str, str, str]] = field(default_factory=dict)


def plain(text: str, page: Page) -> str:
    """Plain Markdown for the MyST `text` of one cell."""
    return "\n".join(_blocks(text.split("\n"), page))


def _blocks(lines: list[str], page: Page) -> list[str]:
    out: list[str] = []
    prose: list[str] = []

    def flush() -> None:
        if prose:
            out.extend(_prose("\n".join(prose), page).split("\n"))
            prose.clear()

    position = 0
    while position < len(lines):
        line = lines[position]
        opening = FENCE.match(line)
        if opening:
            flush()
            body, position = _fenced(lines, position, opening["fence"])
            if opening["name"]:
                out += _directive(opening["name"], opening["argument"].strip(), body, page)
            elif opening["fence"].startswith(":"):
                raise UnknownSyntax(f"a fence without a directive: {line!r}")
            else:
                out += [line, *body, opening["fence"]]
        elif TARGET.match(line) or line.startswith("% "):
            position += 1
        else:
            prose.append(line)
            position += 1
    flush()
    return out


def _fenced(lines: list[str], start: int, fence: str) -> tuple[list[str], int]:
    """The lines inside the fence that opens at `start`, and the position after its end."""
    for end in range(start + 1, len(lines)):
        closing = lines[end].strip()
        if closing.startswith(fence) and set(closing) == {fence[0]}:
            return lines[start + 1 : end], end + 1
    raise UnknownSyntax(f"a fence that is never closed: {lines[start]!r}")


def _directive(name: str, argument: str, body: list[str], page: Page) -> list[str]:
    options = {}
    while body and (option := OPTION.match(body[0])):
        options[option[1]] = option[2]
        body = body[1:]
    while body and not body[0].strip():
        body = body[1:]
    title = _prose(argument, page)
    kind = name.removeprefix("prf:")
    if name in ADMONITIONS:
        title = title if name == "admonition" or title else name.capitalize()
        return _quoted([f"**{title}**", "", *_blocks(body, page)])
    if name == "dropdown":
        inner = _blocks(body, page)
        return ["<details>", f"<summary>{_summary(title)}</summary>", "", *inner, "", "</details>"]
    if name.startswith("prf:") and kind in THEOREMS:
        heading = f"**{kind.capitalize()} ({title}).**" if title else f"**{kind.capitalize()}.**"
        return _quoted([heading, "", *_blocks(body, page)])
    if name == "prf:proof":
        return ["**Proof.**", "", *_blocks(body, page), "", "∎"]
    if name == "math":
        label = f" ({options['label']})" if "label" in options else ""
        return _prose("\n".join(["$$", *body, "$$" + label]), page).split("\n")
    if name == "code-block":
        return [f"```{argument}", *body, "```"]
    if name == "table":
        return [f"**{title}**", "", *_blocks(body, page)]
    raise UnknownSyntax(f"the directive {{{name}}}")


def _summary(title: str) -> str:
    """A question as HTML: Markdown is not read inside <summary>, so code and emphasis become tags."""
    title = re.sub(r"`([^`]+)`", r"<code>\1</code>", title)
    title = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", title)
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", title)


def _quoted(lines: list[str]) -> list[str]:
    one_line = MATHS.sub(lambda match: " ".join(match[0].split()), "\n".join(lines))
    return [f"> {line}".rstrip() for line in one_line.strip().split("\n")]


def _prose(text: str, page: Page) -> str:
    return INLINE.sub(lambda match: _inline(match, page), MATHS.sub(_tagged, text))


def _tagged(match: re.Match[str]) -> str:
    if match["label"] is None:
        return match[0]
    separator = "\n" if match["body"].endswith("\n") else " "
    return f"$${match['body'].rstrip()} \\tag{{{match['label']}}}{separator}$$"


def _inline(match: re.Match[str], page: Page) -> str:
    if match["code"]:
        return match[0]
    if match["role"]:
        return _role(match["role"], match["content"], page)
    return _link(match["text"], match["target"], page)


def _titled(content: str) -> tuple[str, str]:
    """(text, target) of a role's content: "text <target>" or the target alone, which then serves as text."""
    titled = re.fullmatch(r"(.+?)\s*<([^>]+)>", content, re.DOTALL)
    return (titled[1], titled[2]) if titled else (content, content)


def _role(name: str, content: str, page: Page) -> str:
    text, target = _titled(content)
    if name in {"cite", "cite:p", "cite:t"}:
        return _citation(name, [key.strip() for key in content.split(",")], page)
    if name == "doc":
        return _link("" if text == target else text, f"{target}.md", page)
    simple: dict[str, Callable[[], str]] = {
        "glue:text": lambda: f"`{content.split(':')[0]}`",
        "eq": lambda: f"({target})",
        "math": lambda: f"${content}$",
        "term": lambda: f"*{text}*",
        "ref": lambda: f"*{text}*",
        "numref": lambda: f"Figure [{target}]" if text == target else text.replace("%s", f"[{target}]"),
        "prf:ref": lambda: text if text != target else f"*{target}*",
        "kbd": lambda: f"<kbd>{content}</kbd>",
    }
    if name not in simple:
        raise UnknownSyntax(f"the role {{{name}}}")
    return simple[name]()


def _citation(name: str, keys: list[str], page: Page) -> str:
    parts = []
    for key in keys:
        if key not in page.citations:
            raise UnknownSyntax(f"a citation of {key!r}, which is not in the bibliography")
        names, year, url = page.citations[key]
        words = f"{names} ({year})" if name == "cite:t" else f"{names}, {year}"
        parts.append(f"[{words}]({url})" if url else words)
    return ", ".join(parts) if name == "cite:t" else f"({'; '.join(parts)})"


def _link(text: str, target: str, page: Page) -> str:
    if re.match(r"[a-z][a-z+.-]*:", target):
        return f"[{text}]({target})"
    name, _, _ = target.partition("#")
    if not name:
        return text or f"*{target[1:]}*"
    other = page.folder / name
    if not name.endswith(".md") or not other.is_file():
        raise UnknownSyntax(f"a link to {target!r}, which is not a page of the book")
    words = text or _title(other)
    return f"[{words}]({other.stem}.ipynb)" if is_notebook(other) else words


def _title(page: Path) -> str:
    heading = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return heading[1].strip() if heading else page.stem
