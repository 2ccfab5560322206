"""Numbers and sources on a page: `say` and `show`, in a plain Python and in a notebook."""

import inspect
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest
from small_course import Course

from specdec import prose
from specdec.theory import rejection


def test_outside_a_notebook_say_prints_pairs_and_show_prints_the_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    prose.say(alpha="0.83", best=7)
    prose.show(rejection.accept)
    assert (
        capsys.readouterr().out
        == "alpha = 0.83\nbest = 7\n" + inspect.getsource(rejection.accept).strip() + "\n"
    )


def test_prose_and_plotting_need_neither_ipython_nor_matplotlib_to_be_imported() -> None:
    code = (
        "import sys; sys.modules.update({'IPython': None, 'matplotlib': None})\n"
        "from specdec import plotting, prose; prose.say(x=1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "x = 1\n", "")


def test_in_the_book_a_said_value_stands_in_the_sentence_even_when_its_cell_is_removed(
    course: Course,
) -> None:
    text = (
        "\nThe answer is {glue:text}`answer`, as ever.\n\n```{code-cell} ipython3\n:tags: [remove-cell]\n\n"
        "from specdec.prose import say, show\nsay(answer=f'{6 * 7} tokens')\n```\n\n"
        "```{code-cell} ipython3\nfrom specdec.theory.rejection import accept\nshow(accept)\n```\n"
    )
    course.edit("book/second.md", lambda page: page + text)
    assert course.run(sys.executable, "tools/sync.py").returncode == 0
    built = course.jupyter_book()
    assert built.returncode == 0, built.stdout + built.stderr
    page = course.page("second")
    assert 'The answer is <span class="pasted-text">42 tokens</span>, as ever.' in page
    assert "answer = 42" not in page
    assert '<span class="k">def</span>' in page
    assert '<span class="nf">accept</span>' in page


def test_every_value_that_a_sentence_names_is_said_once_on_its_page() -> None:
    import re

    for page in sorted((Path(__file__).resolve().parents[2] / "book").glob("*.md")):
        named = set(re.findall(r"\{glue:text\}`(\w+)", page.read_text(encoding="utf-8")))
        cells = (
            [cell.source for cell in jupytext.read(page).cells if cell.cell_type == "code"] if named else []
        )
        said = re.findall(
            r"\b(\w+)=", " ".join(re.findall(r"say\((.*?)\)\s*$", "\n".join(cells), re.S | re.M))
        )
        assert named <= set(said), page.name
