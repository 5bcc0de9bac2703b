"""The lab in a real browser, without a network: with Python in a process, and inside the page.

Needs Playwright (`pip install -e '.[browser]'`) and Chromium of the distribution. Python inside the
page needs Pyodide too: `CAUSALCAST_PYODIDE` names the archive that `npm pack pyodide` writes.
"""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from causalcast.lab.engine import Lab
from causalcast.lab.serving import EngineProcess, LabServer
from causalcast.lab.site import config, first_run, page_files, site, story

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PYODIDE = os.environ.get("CAUSALCAST_PYODIDE", "")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
PATIENCE = 120_000  # milliseconds; the machine may be busy


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module", params=["process", "page"])
def server(request: pytest.FixtureRequest) -> Iterator[LabServer]:
    if request.param == "page":
        if not PYODIDE:
            pytest.skip("CAUSALCAST_PYODIDE names no archive of Pyodide")
        made = LabServer(site(Path(PYODIDE)), None, 0)
    else:
        first = first_run(Lab(), story())
        files = {**page_files(), "config.json": config("process"), "first.json": first}
        made = LabServer(files, EngineProcess(), 0)
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    made.close()
    thread.join()


class LabPage:
    """One page, and what went wrong in it."""

    def __init__(self, browser: Any, server: LabServer, width: int) -> None:
        self.wrong: list[str] = []
        self.elsewhere: list[str] = []
        self.page = browser.new_page(viewport={"width": width, "height": 1000})
        self.page.set_default_timeout(PATIENCE)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        own = f"http://127.0.0.1:{server.port}/"
        self.page.on(
            "request",
            lambda asked: (
                None
                if asked.url.startswith((own, "data:", "blob:", "about:"))
                else self.elsewhere.append(asked.url)
            ),
        )
        self.runs = 1
        started = time.monotonic()
        self.page.goto(server.address)
        self.page.wait_for_selector("body[data-ready]")
        self.first_picture = time.monotonic() - started
        self.page.wait_for_selector("body[data-engine=ready]")

    def wait_for_run(self) -> None:
        self.runs += 1
        self.page.wait_for_selector(f"body[data-ready='{self.runs}']")

    def clock(self) -> float:
        return float(self.page.inner_text("#clock").split()[0])

    def verdicts(self) -> list[str]:
        return list(self.page.locator("#verdicts h3").all_inner_texts())

    def take(self, entry: str) -> None:
        self.page.click("#open-gallery")
        self.page.click(f"[data-id='{entry}']")
        self.wait_for_run()

    def close(self) -> None:
        self.page.close()
        assert self.wrong == [] and self.elsewhere == []


@pytest.fixture(params=[1400, 420])
def lab(request: pytest.FixtureRequest, browser: Any, server: LabServer) -> Iterator[LabPage]:
    opened = LabPage(browser, server, request.param)
    yield opened
    opened.close()


def test_it_shows_a_run_plays_it_and_goes_back(lab: LabPage) -> None:
    page = lab.page
    assert lab.verdicts() == ["naive_flood: violated", "vector_clock_broadcast: ok"]
    assert page.locator("svg.graph").count() == 2 and page.locator(".diagram canvas").count() == 2
    assert lab.clock() == 0
    page.click("#play")
    page.wait_for_selector("#log li")
    page.click("#play")
    stopped = lab.clock()
    assert stopped > 0
    page.click("#step")
    assert lab.clock() > stopped
    page.locator("body").press("ArrowLeft")
    page.click("#back")
    assert lab.clock() < stopped + 0.01
    page.locator("body").press("Home")
    assert lab.clock() == 0
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0  # nothing stands out at the side


def test_what_is_held_is_told_at_its_node(lab: LabPage) -> None:
    page = lab.page
    page.locator("body").press("Home")
    while lab.clock() < 50:
        page.click("#step")
    page.locator("svg.graph").nth(1).locator(".node").nth(2).focus()
    page.keyboard.press("Enter")
    assert "waits for 0.1" in page.inner_text("#selected")


def test_a_node_is_crashed_by_hand_and_the_change_taken_back(lab: LabPage) -> None:
    page = lab.page
    for _ in range(6):
        page.click("#step")
    page.locator("svg.graph").first.locator(".node").nth(1).click()
    page.click("#selected [data-action=crash]")
    lab.wait_for_run()
    assert "crash n1" in page.inner_text("#edits")
    assert "down" in page.locator(".node").nth(1).get_attribute("class")
    link = page.url
    page.click("#edits li button")
    lab.wait_for_run()
    assert page.inner_text("#edits") == ""
    page.goto("about:blank")
    page.goto(link)  # the link carries the change
    page.wait_for_selector("body[data-engine=ready]")
    assert "crash n1" in page.inner_text("#edits")


def test_a_link_is_cut_with_the_keyboard(lab: LabPage) -> None:
    page = lab.page
    page.locator("svg.graph").first.locator(".link").first.focus()
    page.keyboard.press("Enter")
    page.locator("#selected [data-action=cut]").focus()
    page.keyboard.press("Enter")
    lab.wait_for_run()
    assert "cut n0–n1" in page.inner_text("#edits")


def test_every_way_to_interfere_can_be_pressed(lab: LabPage) -> None:
    page = lab.page
    for _ in range(4):
        page.click("#step")

    def press(what: str, place: int, action: str) -> None:
        page.locator("svg.graph").first.locator(f".{what}").nth(place).focus()
        page.keyboard.press("Enter")
        page.click(f"#selected [data-action={action}]")
        lab.wait_for_run()

    press("node", 1, "crash")
    page.click("#step")
    press("node", 1, "recover")
    press("node", 2, "suspect")
    press("node", 0, "publish")
    press("link", 0, "delay")
    told = page.inner_text("#edits")
    for change in ("crash n1", "recover n1", "suspect n2", "publish n0", "delay n0–n1"):
        assert change in told
    assert len(lab.verdicts()) == 2


def test_a_changed_protocol_breaks_and_the_counter_example_is_shown(lab: LabPage) -> None:
    page = lab.page
    page.select_option("#protocol", "vector_clock_broadcast")
    lab.wait_for_run()
    page.select_option("#other", "")
    lab.wait_for_run()
    assert lab.verdicts() == ["vector_clock_broadcast: ok"]
    page.click("#open-editor")
    page.wait_for_selector("#editor[open]")
    source = page.input_value("#source")
    page.fill("#source", "nonsense here")
    page.click("#run-source")
    page.wait_for_selector("#source-error:not(:empty)")
    assert "SyntaxError" in page.inner_text("#source-error")
    page.fill("#source", source.replace("causes.pop(self.me, None)", "causes.clear()"))
    page.click("#run-source")
    lab.wait_for_run()
    assert lab.verdicts() == ["vector_clock_broadcast (changed): violated"]
    example = page.locator("button.example").first
    assert "n2 delivered 1.1 before its cause 0.1" in example.inner_text()
    assert example.get_attribute("aria-pressed") == "true"
    link = page.url
    page.goto("about:blank")
    page.goto(link)  # it brings code: in a process of this machine somebody has to want it
    page.wait_for_selector("body[data-engine=ready]")
    told = page.inner_text("#message")
    shown = page.locator(".pane").count() > 0
    assert ("would run on your machine" in told) != shown


def test_the_stories_have_their_true_verdicts(lab: LabPage) -> None:
    lab.take("locamu_star")
    assert lab.verdicts() == ["locamu: ok", "vector_clock_broadcast: ok"]
    lab.take("cptcast_new_link")
    assert lab.verdicts() == ["cptcast: ok"]
    lab.take("story")
    assert lab.verdicts() == ["naive_flood: violated", "vector_clock_broadcast: ok"]


def test_light_and_dark_can_be_chosen(lab: LabPage) -> None:
    page = lab.page
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_the_first_picture_comes_before_python_has_started(lab: LabPage) -> None:
    assert lab.first_picture < 20  # a second on a quiet machine
