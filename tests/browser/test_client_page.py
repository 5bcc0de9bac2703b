"""The JavaScript client in a real browser: it speaks with nodes, moves, and goes on.

Needs Playwright (`pip install -e '.[browser]'`) and Chromium of the distribution.
"""

import asyncio
import functools
import shutil
import sys
import threading
from collections.abc import Coroutine, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))
from door_nodes import Doors, crash
from http_client import HttpDoors
from loopback_nodes import until

import causalcast.clients
from causalcast import Node

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
PATIENCE = 60_000  # milliseconds; the machine may be busy
SCRIPT = Path(causalcast.clients.__file__).parent / "causalcast.js"
PAGE = """<!doctype html><title>client</title><script type="module">
  import { connect } from "./causalcast.js";
  window.heard = [];
  window.open_client = async (urls, position) => {
    window.node = connect(urls, "", { name: "page", position });
    await node.subscribe(["all"], (message) => { heard.push(message.text()); });
  };
  window.ready = true;
</script>"""


class Quiet(SimpleHTTPRequestHandler):
    """Says nothing about what it serves."""

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def page(tmp_path: Path) -> Iterator[tuple[Any, str]]:
    """A page with the client, and its origin."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text(PAGE)
    shutil.copy(SCRIPT, site)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    origin = f"http://127.0.0.1:{server.server_address[1]}"
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page()
        opened.set_default_timeout(PATIENCE)
        opened.goto(origin)
        opened.wait_for_function("window.ready")
        yield opened, origin
        browser.close()
    server.shutdown()
    serving.join()
    server.server_close()


class Loop:
    """An event loop in a thread, for nodes beside a browser."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> "Loop":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Let it do something, and wait for that."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


async def linked(node: Node) -> None:
    await until(lambda: len(node.status()["links"]) == 1)


async def has(node: Node, count: int) -> None:
    await until(lambda: node.status()["delivered"].get("all", 0) >= count)


def test_a_page_moves_to_another_node_and_goes_on(page: tuple[Any, str], tmp_path: Path) -> None:
    tab, origin = page
    doors = Doors(tmp_path / "nodes", 2, door=f'origins = ["{origin}"]')
    one, two = doors.node(1), doors.node(2)
    with Loop() as loop:
        loop.run(one.start())
        loop.run(two.start())
        loop.run(linked(two))
        urls = [doors.url(1), doors.url(2)]
        tab.evaluate("(urls) => open_client(urls, null)", urls)
        assert tab.evaluate("node.publish('all', 'grüße')") == "1.1"
        assert tab.evaluate("node.publish('all', new Uint8Array([50]), {key: 'k'})") == "1.2"
        assert tab.evaluate("node.publish('all', '2', {key: 'k'})") == "1.2"  # no second message
        tab.wait_for_function("heard.length == 2")
        loop.run(has(two, 2))
        loop.run(crash(one))
        tab.wait_for_function("node.node == 2")
        assert tab.evaluate("node.publish('all', '3')") == "2.1"
        tab.wait_for_function("heard.length == 3")
        assert tab.evaluate("heard") == ["grüße", "2", "3"]
        assert tab.evaluate("node.node") == 2
        tab.wait_for_function("node.position().seen.all['2'] == 1")
        position = tab.evaluate("node.position()")
        assert position["seen"] == {"all": {"1": 2, "2": 1}}
        tab.evaluate("node.close()")
        loop.run(two.group("all").publish(b"4"))
        tab.evaluate("([urls, position]) => open_client(urls, position)", [urls, position])
        tab.wait_for_function("heard.length == 4")
        assert tab.evaluate("heard.at(-1)") == "4"
        loop.run(two.stop())


def test_a_page_of_another_origin_gets_nothing(page: tuple[Any, str], tmp_path: Path) -> None:
    tab, _ = page
    doors = Doors(tmp_path / "nodes", 1, door='origins = ["https://other.example"]')
    node = doors.node(1)
    with Loop() as loop:
        loop.run(node.start())
        script = """(url) => new Promise((resolve) => {
          const socket = new WebSocket(url);
          socket.onopen = () => resolve("open"); socket.onclose = () => resolve("closed");
        })"""
        assert tab.evaluate(script, doors.url(1)) == "closed"
        loop.run(node.stop())


def test_a_page_reads_events_and_goes_on_by_itself(page: tuple[Any, str], tmp_path: Path) -> None:
    """EventSource connects again when its node is back, with the id of the last event."""
    tab, origin = page
    doors = HttpDoors(tmp_path / "nodes", 1, door=f'origins = ["{origin}"]')
    url = f"http://127.0.0.1:{doors.http[1]}"
    with Loop() as loop:
        node = doors.node(1)
        loop.run(node.start())
        tab.evaluate(
            """(url) => new Promise((resolve) => {
              window.heard = [];
              window.source = new EventSource(`${url}/v1/messages?group=all`);
              source.onmessage = (event) => heard.push(JSON.parse(event.data).text);
              source.addEventListener("subscribed", resolve, {once: true});
            })""",
            url,
        )
        script = """async (url) => {
          const body = JSON.stringify({do: "publish", id: 1, group: "all", text: "grüße"});
          const headers = {"Content-Type": "application/json"};
          const answer = await fetch(`${url}/v1/ask`, {method: "POST", body, headers});
          return [(await answer.json()).message, answer.headers.get("Causalcast-Past")];
        }"""
        message, past = tab.evaluate(script, url)
        assert message == "1.1"
        assert past.startswith("p.")
        tab.wait_for_function("heard.length == 1")
        loop.run(node.group("all").publish(b"2"))
        tab.wait_for_function("heard.length == 2")
        loop.run(crash(node))
        node = doors.node(1)
        loop.run(node.start())
        loop.run(node.group("all").publish(b"3"))
        tab.wait_for_function("heard.length == 3")
        assert tab.evaluate("heard") == ["grüße", "2", "3"]
        tab.evaluate("source.close()")
        loop.run(node.stop())
