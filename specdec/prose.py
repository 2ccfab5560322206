"""Numbers for the sentences of a notebook: computed in a cell, read by name in the book's text.

`say(alpha="0.83")` prints the pair, which is what a reader in JupyterLab sees, and leaves a hidden record that the book's
build (myst-nb's "glue") pastes wherever the text says {glue:text}`alpha`. No number in prose is typed by hand.

Knows nothing of the book's tools: the record is a plain display message, and outside a notebook only the pair is printed.
"""

from typing import Any

RECORD = "application/papermill.record/text/plain"


def say(**values: Any) -> None:
    """Record each value under its name, as the text `str(value)`; format numbers before, e.g. f"{x:.3f}"."""
    for name, value in values.items():
        print(f"{name} = {value}")
        record(name, str(value))


def record(name: str, text: str) -> None:
    """Leave the hidden record of one value in the cell's output; does nothing outside IPython."""
    try:
        from IPython import get_ipython
        from IPython.display import publish_display_data
    except ImportError:
        return
    if get_ipython() is None:
        return
    metadata = {"scrapbook": {"name": name, "mime_prefix": RECORD.removesuffix("text/plain")}}
    publish_display_data({RECORD: text}, metadata=metadata)


def show(thing: Any) -> Any:
    """The source of a function, class or module, as a highlighted block in a notebook, read from the file itself."""
    import inspect

    from IPython.display import Code

    return Code(inspect.getsource(thing), language="python")
