"""How smoothly the lab plays a run of a hundred nodes, and how soon it shows it; printed with -s.

Needs what `test_lab_page.py` needs. The numbers of `docs/lab.md` are from here:

    pytest tests/browser/test_lab_smooth.py -s
"""

import shutil
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from causalcast.lab.engine import Lab
from causalcast.lab.serving import EngineProcess, LabServer
from causalcast.lab.site import config, first_run, page_files

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
HUNDRED = """
protocol = "vector_clock_broadcast"
until_ms = 300
seed = 7
[overlay]
kind = "random_regular"
nodes = 100
degree = 4
[network]
latency_ms = {kind = "uniform", low = 2, high = 30}
[[publish]]
node = [0, 25, 50, 75]
count = 4
interval_ms = 60
"""
PLAYED = 5  # seconds
# Frames at which the run moved on, and the longest time between two of them.
COUNTER = """
(seconds) => new Promise((done) => {
  const times = [];
  let before = document.getElementById("time").value;
  const start = performance.now();
  const look = (now) => {
    const place = document.getElementById("time").value;
    if (place !== before) times.push(now);
    before = place;
    if (now - start < seconds * 1000) requestAnimationFrame(look); else {
      const gaps = times.slice(1).map((t, i) => t - times[i]).sort((a, b) => a - b);
      done({ frames: times.length, seconds: (times.at(-1) - times[0]) / 1000,
        middle: gaps[gaps.length >> 1], late: gaps[Math.floor(gaps.length * 0.95)],
        longest: gaps.at(-1) });
    }
  };
  requestAnimationFrame(look);
})
"""


@pytest.fixture
def server() -> Iterator[LabServer]:
    choice = {
        "scenario": "",
        "text": HUNDRED,
        "protocol": "vector_clock_broadcast",
        "other": "",
        "seed": None,
        "options": {},
        "about": "A hundred nodes.",
    }
    files = {**page_files(), "config.json": config("process"), "first.json": b""}
    files["first.json"] = first_run(Lab(), choice)
    made = LabServer(files, EngineProcess(), 0)
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    made.close()
    thread.join()


def test_a_hundred_nodes_are_played_smoothly(server: LabServer) -> None:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page: Any = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(120_000)
        before = time.monotonic()
        page.goto(server.address)
        page.wait_for_selector("body[data-ready]")
        first = time.monotonic() - before
        page.wait_for_selector("body[data-engine=ready]")
        assert page.locator("svg.graph .node").count() == 100
        page.click("#play")
        played = page.evaluate(COUNTER, PLAYED)
        messages = page.inner_text(".cost")
        browser.close()
    rate = played["frames"] / played["seconds"]
    print(
        f"\n100 nodes, {messages}: first picture after {first:.2f} s, {rate:.0f} frames a second;"
        f" half within {played['middle']:.0f} ms, 95 % within {played['late']:.0f} ms,"
        f" the longest took {played['longest']:.0f} ms"
    )
    assert rate > 8  # a quiet machine shows several times as many
    assert first < 30
