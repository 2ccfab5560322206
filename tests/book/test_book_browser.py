"""Every page in headless Chromium: nothing is fetched, nothing fails, formulas are drawn, it fits a phone."""

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

pytestmark = pytest.mark.browser
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
FLAGS += ["--no-first-run", "--disable-sync", "--disable-quic"]
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}
DRAWN = "() => !window.MathJax || !MathJax.startup || MathJax.startup.promise.then(() => true)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = next(found for name in NAMES if (found := shutil.which(name)))
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def server(html: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(html))) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}/"
        serving.shutdown()


def open_page(
    browser: Browser, address: str, home: str, size: dict[str, int], theme: str, leads_to: str = ""
) -> tuple[Page, list[str]]:
    """The page at `address`, and what went wrong: errors, failed requests, requests to other places."""
    context = browser.new_context(viewport=size, color_scheme=theme)
    context.add_init_script(
        f"localStorage.setItem('mode', '{theme}'); localStorage.setItem('theme', '{theme}')"
    )
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
    page.on(
        "response",
        lambda answer: wrong.append(f"{answer.status}: {answer.url}") if answer.status >= 400 else 0,
    )
    page.on(
        "request",
        lambda request: wrong.append(f"remote: {request.url}") if is_remote(request.url, home) else 0,
    )
    page.goto(address, wait_until="load")
    if leads_to:
        page.wait_for_url(leads_to, wait_until="load")
    page.evaluate(DRAWN)
    return page, wrong


def is_remote(address: str, home: str) -> bool:
    return not address.startswith((home, "data:", "blob:", "about:"))


def addresses(html: Path, home: str) -> list[str]:
    """Every page but the first, which only leads to the welcome page and has a test of its own."""
    pages = sorted(html.rglob("*.html"))
    return [home + path.relative_to(html).as_posix() for path in pages if path != html / "index.html"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_page_opened_as_a_file_is_whole_and_fits(
    html: Path, browser: Browser, size: dict[str, int], theme: str
) -> None:
    home = html.as_uri() + "/"
    problems: dict[str, list[str]] = {}
    for address in addresses(html, home):
        page, wrong = open_page(browser, address, home, size, theme)
        if page.evaluate("document.documentElement.dataset.theme") not in (theme, None):
            wrong.append("the other theme is shown")
        if page.locator(".math").count() and not page.locator("mjx-container svg").count():
            wrong.append("formulas are not drawn")
        if faulty := page.locator("mjx-merror, [data-mjx-error]").count():
            wrong.append(f"{faulty} formulas have an error")
        if (width := page.evaluate("document.documentElement.scrollWidth")) > size["width"]:
            wrong.append(f"{width} px wide")
        hidden = "plot-dark" if theme == "light" else "plot-light"
        if page.locator(f"img.{hidden}:visible").count():
            wrong.append(f"a plot of the class {hidden} is visible")
        undrawn = (
            "() => [...document.images].filter(i => i.checkVisibility() && !i.naturalWidth).map(i => i.src)"
        )
        wrong += [f"not drawn: {source}" for source in page.evaluate(undrawn) if "_images" in source]
        page.context.close()
        if wrong:
            problems[address.removeprefix(home)] = wrong
    assert not problems


def test_every_page_from_the_server_is_whole(html: Path, browser: Browser, server: str) -> None:
    problems = {}
    for address in addresses(html, server):
        page, wrong = open_page(browser, address, server, DESK, "light")
        page.context.close()
        if wrong:
            problems[address] = wrong
    assert not problems


@pytest.mark.parametrize("origin", ["file", "server"])
def test_search_finds_a_page_by_a_word_of_it(html: Path, browser: Browser, server: str, origin: str) -> None:
    home = server if origin == "server" else html.as_uri() + "/"
    page, wrong = open_page(browser, f"{home}search.html?q=rejection", home, DESK, "light")
    results = page.locator("#search-results li a, .search li a")
    results.first.wait_for(timeout=10_000)
    found = [str(link.get_attribute("href")) for link in results.all()]
    assert any("01-rejection-rule.html" in link for link in found)
    results.first.click()
    page.wait_for_load_state("load")
    assert page.locator("article h1").count() == 1
    page.context.close()
    assert not wrong


def test_the_address_that_make_book_prints_leads_to_the_welcome_page(html: Path, browser: Browser) -> None:
    home = html.as_uri() + "/"
    page, wrong = open_page(browser, f"{home}index.html", home, PHONE, "light", leads_to="**/book/index.html")
    assert page.locator("article h1").inner_text().strip()
    page.context.close()
    assert not wrong


def test_a_self_check_answer_is_hidden_until_its_question_is_opened(html: Path, browser: Browser) -> None:
    home = html.as_uri() + "/"
    page, _ = open_page(browser, f"{home}book/01-rejection-rule.html", home, PHONE, "light")
    question = page.locator("details.selfcheck").first
    answer = question.locator(".sd-summary-content")
    assert not answer.is_visible()
    question.locator("summary").click()
    answer.wait_for(state="visible", timeout=5_000)
    page.context.close()
