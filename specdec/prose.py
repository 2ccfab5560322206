"""Numbers for the sentences of a notebook: computed in a cell, read by name in the book's text.

`say(alpha="0.83")` prints the pair, which is what a reader in JupyterLab sees, and leaves a hidden record
that the book's build (myst-nb's "glue") pastes wherever the text says {glue:text}`alpha`. No number in prose
is typed by hand. `show(function)` prints the function's own source, so that page and code cannot drift.

Knows nothing of the book's tools: a record is a plain display message, and outside a notebook nothing but the
pair is printed.
"""

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

RECORD = "application/papermill.record/text/plain"


def say(**values: Any) -> None:
    """Record each value under its name, as the text `str(value)`; format numbers before, e.g. f"{x:.3f}"."""
    for name, value in values.items():
        print(f"{name} = {value}")
        _publish({RECORD: repr(str(value))}, {"scrapbook": {"name": name, "mime_prefix": RECORD[:-10]}})


def show(*things: type | ModuleType | Callable[..., Any]) -> None:
    """Display the source of functions, classes or modules, read from their files, as highlighted Python."""
    source = "\n\n".join(inspect.getsource(thing).strip() for thing in things)
    if not _publish({"text/markdown": f"```python\n{source}\n```", "text/plain": source}, {}):
        print(source)


def _publish(data: dict[str, str], metadata: dict[str, Any]) -> bool:
    """Send a display message to the notebook's front end; False outside IPython."""
    try:
        from IPython import get_ipython
        from IPython.display import publish_display_data
    except ImportError:
        return False
    if get_ipython() is None:
        return False
    publish_display_data(data, metadata=metadata)
    return True
