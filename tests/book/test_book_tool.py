"""`make book`, on a small course: what is built, what is kept, and how it ends when something is wrong."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_course import Course

pytestmark = pytest.mark.weights


def test_the_build_prints_the_page_to_open_and_a_second_one_has_nothing_to_do(course: Course) -> None:
    built = course.make_book()
    assert built.returncode == 0, built.stdout + built.stderr
    index = course.root / "_build" / "html" / "index.html"
    assert built.stdout.splitlines()[-1].strip() == index.as_uri()
    assert "book/index.html" in index.read_text()
    before = {path: path.stat().st_mtime_ns for path in index.parent.rglob("*")}

    start = time.monotonic()
    again = course.make_book()
    assert again.returncode == 0
    assert time.monotonic() - start < 20
    assert again.stdout.splitlines()[-1].strip() == index.as_uri()
    assert {path: path.stat().st_mtime_ns for path in index.parent.rglob("*")} == before

    # A page that went missing is noticed, and brought back without executing anything.
    (index.parent / "book" / "first.html").unlink()
    assert course.make_book().returncode == 0
    assert "tokens: 1.875" in course.page("first")
    assert course.executions() == ["First", "Second"]


def test_a_warning_fails_the_build_every_time_and_the_last_good_book_stays(course: Course) -> None:
    assert course.make_book().returncode == 0
    course.edit("book/index.md", lambda text: text + "\n[a page](nowhere.md)\n")
    for _ in range(2):
        failed = course.make_book()
        assert failed.returncode == 1
        assert "nowhere.md" in failed.stderr
        assert "index.md:3: WARNING" in failed.stderr
    assert "a page" not in course.page("index")
    assert not (course.root / "_build" / "next").exists()
    assert course.executions() == ["First", "Second"]
    course.edit("book/index.md", lambda text: text.replace("[a page](nowhere.md)", "Mended."))
    assert course.make_book().returncode == 0
    assert "Mended." in course.page("index")


def test_a_cell_that_raises_fails_the_build_and_names_the_error(course: Course) -> None:
    course.edit("book/second.md", lambda text: text.replace("time.sleep(", "time.sleep(1 / 0 + "))
    assert course.run(sys.executable, "tools/sync.py").returncode == 0
    failed = course.make_book()
    assert failed.returncode == 1
    assert "ZeroDivisionError" in failed.stderr
    assert "second.md" in failed.stderr
    assert not (course.root / "_build" / "html").exists()


def test_a_page_that_prints_to_stderr_fails_the_build(course: Course) -> None:
    course.edit(
        "book/second.md",
        lambda text: text.replace("time.sleep(", "__import__('sys').stderr.write('oh no'); time.sleep("),
    )
    assert course.run(sys.executable, "tools/sync.py").returncode == 0
    failed = course.make_book()
    assert failed.returncode == 1
    assert "stderr" in failed.stderr


def test_an_interrupted_build_leaves_no_process_and_goes_on_with_the_page_it_had_reached(
    course: Course,
) -> None:
    runs = Path(course.environment["RUNS"])
    process = subprocess.Popen(
        [sys.executable, "tools/book.py"],
        cwd=course.root,
        env={**course.environment, "PAUSE": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while course.executions() != ["First", "Second"]:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)  # what the terminal sends on Ctrl-C
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("interrupted")
    assert "Traceback" not in errors
    assert not (course.root / "_build" / "next").exists()

    kernel = int(runs.read_text().split()[-1])
    deadline = time.monotonic() + 10
    while Path(f"/proc/{kernel}").exists():
        assert time.monotonic() < deadline, "the kernel outlived the build"
        time.sleep(0.2)

    assert course.make_book().returncode == 0
    assert course.executions() == ["First", "Second", "Second"], "the first page came from the cache"


def test_without_weights_and_without_the_network_the_build_stops_with_one_sentence(course: Course) -> None:
    offline = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_TIMEOUT": "1"}
    stopped = course.make_book(SPECDEC_HOME=str(course.root / "no weights"), **offline)
    assert stopped.returncode == 2
    assert "SmolLM2" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert course.executions() == []
