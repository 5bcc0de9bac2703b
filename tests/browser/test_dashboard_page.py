"""The dashboard in a real browser, with fifty nodes that only say how they are.

Needs Playwright (`pip install -e '.[browser]'`) and Chromium of the distribution.
"""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_nodes import FakeNodes

from causalcast.dashboard.cluster_view import ClusterView
from causalcast.dashboard.serving import DashboardServer
from causalcast.runtime.links.address_book import Address

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
PATIENCE = 60_000  # milliseconds; the machine may be busy
HOSTILE = "<img src=x onerror=document.title='owned'>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[FakeNodes]:
    with FakeNodes(tmp_path, 50) as made:
        yield made


@pytest.fixture
def server(nodes: FakeNodes) -> Iterator[DashboardServer]:
    made = DashboardServer(ClusterView(nodes.place), Address("127.0.0.1", 0))
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    made.close()
    thread.join()


@pytest.mark.parametrize("width", [1400, 420])
def test_it_shows_the_cluster_and_what_becomes_of_it(
    browser: Any, server: DashboardServer, nodes: FakeNodes, width: int
) -> None:
    held = {"messages": 2, "bytes": 9, "oldest_seconds": 12.0, "oldest": [["1.7", 12.0]]}
    nodes.said[7] |= {"held": held, "kept_for": {"8": 40}, "kept_bytes": 5000}
    nodes.said[9]["groups"] = ["chat", HOSTILE]
    wrong: list[str] = []
    elsewhere: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme="dark")
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    own = f"http://127.0.0.1:{server.port}/"
    page.on(
        "request",
        lambda asked: None if asked.url.startswith((own, "data:")) else elsewhere.append(asked.url),
    )
    page.goto(server.address)
    page.wait_for_selector("body[data-looks]")
    assert "token" not in page.url
    assert page.locator("svg.graph .node").count() == 50
    assert page.locator("#nodes tbody tr").count() == 50
    assert page.inner_text("#tiles .tile b >> nth=0") == "50 of 50"
    assert "1.7 has waited 12 s for a cause" in page.inner_text("#alarms")
    assert "node 7 keeps 40 messages for node 8" in page.inner_text("#kept")
    assert HOSTILE in page.inner_text("#groups") and "owned" not in page.title()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0

    page.click("#held button")  # why does it wait?
    page.wait_for_selector("#held p:has-text('waits for 1.1')")
    page.focus("svg.graph .node[data-node='9']")
    page.keyboard.press("Enter")
    page.wait_for_selector("#h-chosen:has-text('Node 9')")
    assert "none at node 9" in page.inner_text("#held")
    page.focus("[data-key='sort-held']")
    page.keyboard.press("Enter")
    assert page.inner_text("#nodes tbody tr >> nth=0").split()[0] == "7"
    assert page.evaluate("document.activeElement.dataset.key") == "sort-held"

    nodes.stop(9)
    page.wait_for_selector(".tile.bad b:has-text('49 of 50')")
    page.wait_for_selector("svg.graph .node.down[data-node='9']")
    assert "does not run" in page.inner_text("#chosen")
    page.click("#pause")
    nodes.start(9)
    page.click("#pause")
    page.wait_for_selector(".tile.good b:has-text('50 of 50')")
    page.close()
    assert wrong == [] and elsewhere == []


def test_without_the_token_there_is_nothing_to_see(browser: Any, server: DashboardServer) -> None:
    page = browser.new_page()
    assert page.goto(f"http://127.0.0.1:{server.port}/").status == 403
    assert "open the whole address" in page.inner_text("body")
    page.close()
