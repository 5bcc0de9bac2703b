"""The report in a real browser, opened as a file: runs move in it, without a network.

Needs Playwright (`pip install -e '.[browser]'`) and Chromium of the distribution.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import causalcast

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
PATIENCE = 60_000  # milliseconds; the machine may be busy


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("report")
    for name, protocol in (("flood", "naive_flood"), ("causal", "vector_clock_broadcast")):
        causalcast.simulate("revoke_then_post", protocol=protocol, out=place / name)
    causalcast.report([place / "flood", place / "causal"], place / "report.html")
    return Path(place / "report.html").as_uri()


@pytest.fixture(params=[1400, 420])
def page(request: pytest.FixtureRequest, browser: Any, report: str) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": request.param, "height": 1000})
    opened.set_default_timeout(PATIENCE)
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "request",
        lambda asked: None if asked.url.startswith(("file:", "data:")) else wrong.append(asked.url),
    )
    opened.goto(report)
    yield opened
    assert opened.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    opened.close()
    assert wrong == []


def clock(page: Any) -> float:
    return float(page.inner_text("#clock").split()[0])


def test_a_run_is_played_stepped_and_left(page: Any) -> None:
    page.click("a[href='#see-1']")
    page.wait_for_selector("body[data-moving]")
    assert page.locator("svg.graph .node").count() == 3
    assert clock(page) == 0
    page.keyboard.press("ArrowRight")  # the focus is on play, not on a choice of runs
    after = clock(page)
    assert after > 0
    page.keyboard.press("ArrowLeft")
    assert clock(page) == 0
    page.click("#play")
    page.wait_for_function(f"parseFloat(document.getElementById('clock').textContent) > {after}")
    page.click("#play")
    page.locator("svg.graph .node").nth(2).click()
    assert "Node n2" in page.inner_text("#selected")
    page.keyboard.press("Escape")  # first lets go of the node,
    assert page.locator("#moving[open]").count() == 1
    page.keyboard.press("Escape")  # then closes
    page.wait_for_selector("#moving", state="hidden")
    assert "#see" not in page.url


def test_a_violation_leads_to_its_place(page: Any) -> None:
    page.click("text=Show it in the run")
    page.wait_for_selector("body[data-moving]")
    pressed = page.locator("button.example[aria-pressed=true]")
    assert "1.1 at pos 1, and only later its cause 0.1" in pressed.inner_text()
    assert page.inner_text("#log li:first-child").endswith("n2 delivers 0.1")


def test_two_runs_move_side_by_side(page: Any) -> None:
    page.click("text=See two of them move side by side")
    page.wait_for_selector("body[data-moving]")
    assert page.locator("svg.graph").count() == 2 and page.locator(".diagram canvas").count() == 2
    assert page.locator("#verdicts h3").all_inner_texts() == [
        "flood (naive_flood): violated",
        "causal (vector_clock_broadcast): ok",
    ]
    page.select_option("#beside", "")
    page.wait_for_selector("body[data-moving='#see-0']")
    assert page.locator("svg.graph").count() == 1
