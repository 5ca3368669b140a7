"""The demo in a real browser: Chromium, driven by Playwright, against a server of its own.

Skipped where there is no Chromium or no Playwright.  Pictures of the page are written to the folder that
DOCVISION_SHOTS names, if it is set; DOCVISION_DEMO_MODEL names another model than the packaged one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_pdfs import MadePage, write_pdf

pytest.importorskip("gradio")
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ROOT = Path(__file__).resolve().parents[2]
WAIT_MS = 300_000
LAPTOP, PHONE = {"width": 1366, "height": 850}, {"width": 390, "height": 844}
HOSTILE = "<img src=x onerror=document.title='owned'> <script>document.title='owned'</script>"
QUIET = ("Password field is not contained", "Method not implemented")
"""Messages of gradio's own page that are no errors."""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """(address, temporary folder) of a demo that runs as people run it; afterwards the folder is empty."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "apps.cli", "demo", "--port", "0", "--max-pages", "12", "--max-mb", "20"]
    if model := os.environ.get("DOCVISION_DEMO_MODEL"):
        command += ["--model", model]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)}
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    address = re.search(r"http://127\.0\.0\.1:\d+", line)
    assert address, line
    yield address[0], folder
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 130
    assert list(folder.glob("docvision-demo-*")) == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


class Visitor:
    """One tab, and what went wrong in it."""

    def __init__(self, browser: Any, address: str, size: dict[str, int]) -> None:
        self.context = browser.new_context(viewport=size, accept_downloads=True)
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.faults: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._see)
        self.address = address
        self.page.goto(address)
        self.page.wait_for_selector("#read")

    def _hear(self, message: Any) -> None:
        if message.type == "error" and not any(known in message.text for known in QUIET):
            self.faults.append(message.text)

    def _see(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.faults.append(f"a request to {request.url}")

    def upload(self, *paths: Path) -> None:
        self.page.set_input_files("#desk input[type=file]", [str(path) for path in paths])
        for path in paths:
            self.page.wait_for_selector(f"#desk .file-preview :text('{path.stem[:3]}')")

    def read(self, *paths: Path) -> None:
        self.upload(*paths)
        self.page.click("#read")
        self.page.wait_for_selector("#status :text('read.')")
        self.page.wait_for_selector("#picture svg image")

    def tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name, exact=True).click()

    def shot(self, name: str) -> None:
        folder = os.environ.get("DOCVISION_SHOTS")
        if folder:
            self.page.screenshot(path=str(Path(folder, f"{name}.png")))

    def leave(self) -> None:
        self.context.close()
        assert self.faults == []


@pytest.fixture
def visit(browser: Any, server: tuple[str, Path]) -> Iterator[Any]:
    """A function that opens tabs; closing them all checks that nothing went wrong in them."""
    made: list[Visitor] = []

    def enter(size: dict[str, int] = LAPTOP) -> Visitor:
        made.append(Visitor(browser, server[0], size))
        return made[-1]

    yield enter
    for visitor in made:
        visitor.leave()


@pytest.fixture
def three_pages(tmp_path: Path) -> Path:
    lines = ["The sea rises.", "Harbours wait for it.", "Clocks are set by it."]
    return write_pdf(tmp_path / "pages.pdf", [MadePage([line, HOSTILE]) for line in lines])


def test_a_pdf_is_read_checked_and_corrected(visit: Any, examples: Path, tmp_path: Path) -> None:
    visitor = visit()
    visitor.shot("start")
    visitor.read(examples / "two-columns.pdf")
    page = visitor.page
    assert "How tide tables were computed" in page.inner_text("#text")
    page.click("#picture g[data-block='1-2']")
    assert page.get_attribute("#picture g.chosen", "data-block") == "1-2"
    assert "Abstract" in page.inner_text(".audit-told")
    visitor.shot("laptop")
    visitor.tab("Blocks")
    page.click("#blocks button[data-block='1-0']")
    assert page.get_attribute("#picture g.chosen", "data-block") == "1-0"
    visitor.shot("blocks")
    assert "chosen" in page.get_attribute("#blocks button[data-block='1-0']", "class")
    visitor.tab("Tables")
    cell = page.locator("#cells [role=gridcell]").filter(has_text="1.42").first
    cell.dblclick()
    page.keyboard.press("Control+A")
    page.keyboard.type("9.99")
    page.keyboard.press("Enter")
    page.wait_for_selector(":text('Corrected here')")
    visitor.shot("tables")
    with page.expect_download() as download:
        page.click("#zip")
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    with zipfile.ZipFile(path) as file:
        assert sorted(file.namelist()) == sorted(
            f"two-columns{suffix}" for suffix in (".md", ".html", ".json", ".p1-t1.csv", ".overlay.html")
        )
        assert "9.99" in file.read("two-columns.p1-t1.csv").decode()
        assert "edited by hand" in json.loads(file.read("two-columns.json"))["warnings"][0]


def test_pages_turn_and_hostile_text_stays_text(visit: Any, three_pages: Path) -> None:
    visitor = visit()
    visitor.read(three_pages)
    page = visitor.page
    page.click("button:has-text('Next')")
    page.wait_for_selector("#text :text('Harbours wait for it.')")
    page.click("#thumbnails [data-page='3']")
    page.wait_for_selector("#text :text('Clocks are set by it.')")
    assert page.get_attribute("#thumbnails .chosen", "data-page") == "3"
    for tab in ("Blocks", "Markdown", "JSON", "Text"):
        visitor.tab(tab)
    assert "<script>" in page.inner_text("#text") and page.title() == "docvision"


def test_a_scan_is_read_and_a_broken_file_is_a_message(visit: Any, examples: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 and no more")
    visitor = visit()
    visitor.read(broken, examples / "scanned-letter.png")
    assert "broken.pdf is damaged" in visitor.page.inner_text("#status [role=alert]")
    assert visitor.page.locator("#picture g.model").count() > 3
    visitor.shot("scan")


def test_two_visitors_and_a_stop(visit: Any, server: tuple[str, Path], three_pages: Path, examples: Path) -> None:
    first, second = visit(), visit()
    first.upload(examples / "scanned-letter.png")
    first.page.click("#read")
    first.page.click("#stop")
    second.read(three_pages)
    assert "The sea rises." in second.page.inner_text("#text")
    first.page.wait_for_selector("#status :text('stopped')")
    first.page.wait_for_selector("#read:not([disabled])")
    assert not first.page.is_visible("#results")
    visits = server[1] / next(server[1].glob("docvision-demo-*")).name / "visits"
    assert list(visits.rglob("pages.pdf"))
    second.page.goto("about:blank")
    for _ in range(100):
        if not list(visits.rglob("pages.pdf")):
            break
        first.page.wait_for_timeout(300)
    assert not list(visits.rglob("pages.pdf"))


def test_the_decoder_is_watched_or_the_page_says_why_not(visit: Any, examples: Path) -> None:
    visitor = visit()
    visitor.read(examples / "two-columns.pdf")
    page = visitor.page
    visitor.tab("Tokens")
    page.wait_for_selector("#model :text('million parameters')")
    if "has no trained decoder" in page.inner_text("#model"):
        assert page.is_disabled("#watch") and not page.inner_text("#race")
        visitor.shot("tokens-none")
        return
    page.click("#picture g[data-block='1-2']")
    assert page.input_value("#from-block input") == "3"
    page.click("#watch")
    page.wait_for_selector("#race .dv-kept, #race .dv-own")
    page.wait_for_selector("#race [data-replay]")
    assert re.match(r"[\d.]+ times as fast as plain decoding, with the same text", page.inner_text("#race .dv-verdict"))
    plain, drafted = (page.locator(f"#race figure:first-of-type .dv-arm:nth-of-type({row}) p") for row in (1, 2))
    assert plain.inner_text() == drafted.inner_text() != ""
    visitor.shot("tokens")
    page.click("#race [data-replay]")
    assert page.locator("#race .dv-race.replay").count() == 1


def test_images_are_drawn_by_seed(visit: Any) -> None:
    visitor = visit()
    page = visitor.page
    visitor.tab("Images")

    def drawn(seed: int) -> list[str]:
        page.fill("#seed input", str(seed))
        page.click("#draw")
        page.wait_for_selector(f"#images :text('seed {seed}')")
        page.wait_for_selector("#images a[download]")
        return [image.get_attribute("src") for image in page.locator("#images img").all()]

    first = drawn(3)
    assert len(first) == 8 and drawn(4) != first and drawn(3) == first
    visitor.shot("images")
    with page.expect_download() as download:
        page.click("#images a[download]")
    assert download.value.suggested_filename == "t-shirt-seed3-guidance1.5.png"
    page.fill("#seed input", "5")
    page.click("#draw")
    page.click("#stop-draw")
    page.wait_for_selector("#draw-status :text('stopped')")
    page.wait_for_selector("#draw:not([disabled])")


def test_a_phone_shows_all_of_it(visit: Any, examples: Path) -> None:
    visitor = visit(PHONE)
    visitor.shot("phone-start")
    visitor.read(examples / "two-columns.pdf")
    page = visitor.page
    for tab in ("Text", "Blocks", "Tables"):
        visitor.tab(tab)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], tab
    page.evaluate("document.querySelector('#results').scrollIntoView()")
    visitor.shot("phone")


def test_no_serious_fault_for_people_with_disabilities(visit: Any, examples: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    visitor = visit()
    check(axe, visitor, "start")
    visitor.read(examples / "two-columns.pdf")
    for tab in ("Text", "Blocks", "Tables", "Tokens", "Markdown", "JSON", "Images"):
        visitor.tab(tab)
        check(axe, visitor, tab)


def check(axe: Any, visitor: Visitor, name: str) -> None:
    """No violation that axe-core calls serious or critical."""
    serious = [
        f"{fault['id']}: {node['target']}"
        for fault in axe.Axe().run(visitor.page).response["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]
    assert serious == [], name
