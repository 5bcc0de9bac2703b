"""Clients of `door_chaos.py` that are pages in Chromium, with `causalcast.js` as it is shipped.

What a page publishes and sees it keeps in a list, which is taken from it ten times a second and
written to its log. Needs Playwright (the extra `browser`) and Chromium of the distribution.
"""

import asyncio
import functools
import json
import shutil
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import causalcast.clients
from causalcast.errors import MissingDependency

# Pages that nobody looks at are slow otherwise.
AWAKE = (
    "--no-sandbox",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
)
TAKEN_EVERY = 0.1  # seconds
PAGE = """<!doctype html><title>client</title><script type="module">
import { connect } from "./causalcast.js";
const GROUPS = ["acl", "posts"];
const far = { published: 0, sure: 0, handled: 0, failure: "" };
let rows = [], place = 0, enough = false, node;

function write(name, row) {
  rows.push({ node: name, pos: place, at_us: Date.now() * 1000, ...row });
  return `${name}-${place++}`;
}

async function live(name, urls, times) {
  node = connect(urls, "", { name, ...times });
  node.onfailure = (error) => (far.failure = `${error.code}: ${error.message}`);
  for (const group of GROUPS) write(name, { kind: "join", group });
  const handle = (message) => {
    write(name, { kind: "deliver", message: message.text(), group: message.group });
    far.handled += 1;
  };
  await node.subscribe(GROUPS, handle, { since: "kept" });
  while (!enough) {
    const group = GROUPS[Math.floor(Math.random() * GROUPS.length)];
    const id = write(name, { kind: "publish", message: `${name}-${place}`, group });
    far.published += 1;
    await node.publish(group, id);
    far.sure += 1;
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 100));
  }
}

window.live = (...all) => {
  live(...all).catch((error) => (far.failure = `${error.code}: ${error.message}`));
};
window.take = () => {
  const taken = rows;
  rows = [];
  return { rows: taken, far };
};
window.cut = () => node._socket?.close();
window.stopPublishing = () => (enough = true);
window.ready = true;
</script>"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""


class Browser:
    """One Chromium, and the origin of its pages."""

    def __init__(self, folder: Path) -> None:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        if path is None:
            raise MissingDependency("there is no Chromium here; --chromium 0 goes without")
        self._path = path
        folder.mkdir(parents=True)
        (folder / "index.html").write_text(PAGE)
        shutil.copy(Path(causalcast.clients.__file__).parent / "causalcast.js", folder)
        serve = functools.partial(_Quiet, directory=str(folder))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), serve)
        self._serving = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._serving.start()
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._playwright: Any = None
        self._browser: Any = None

    async def page(self) -> Any:
        """A new one, of an origin that doors know."""
        if self._browser is None:
            try:
                from playwright.async_api import async_playwright
            except ModuleNotFoundError as error:
                raise MissingDependency(
                    f"clients in Chromium need {error.name}: pip install 'causalcast[browser]'"
                ) from None
            self._playwright = await async_playwright().start()
            self._browser = await self._playwright.chromium.launch(
                executable_path=self._path, args=[*AWAKE]
            )
        page = await (await self._browser.new_context()).new_page()
        await page.goto(self.origin)
        await page.wait_for_function("window.ready")
        return page

    async def close(self) -> None:
        """End it, and its server."""
        if self._browser is not None:
            await self._browser.close()
            await self._playwright.stop()
        self._server.shutdown()
        self._server.server_close()


class ChromiumClient:
    """One page."""

    def __init__(self, name: str, browser: Browser, times: dict[str, float]) -> None:
        self.name = name
        self._browser = browser
        self._times = times
        self._far: dict[str, Any] = {"published": 0, "sure": 0, "handled": 0, "failure": ""}
        self._page: Any = None
        self._log: Path
        self._taking: asyncio.Task[None]
        self._asked: set[asyncio.Task[Any]] = set()

    async def start(self, urls: list[str], log: Path) -> None:
        """Open the page and let it begin."""
        self._log = log
        self._page = await self._browser.page()
        await self._page.evaluate(
            "([name, urls, times]) => live(name, urls, times)", [self.name, urls, self._times]
        )
        self._taking = asyncio.create_task(self._take_for_ever())

    async def _take_for_ever(self) -> None:
        while True:
            await self._take()
            await asyncio.sleep(TAKEN_EVERY)

    async def _take(self) -> None:
        taken = await self._page.evaluate("take()")
        with self._log.open("a") as log:
            for row in taken["rows"]:
                log.write(json.dumps(row) + "\n")
        self._far = taken["far"]

    def cut(self) -> None:
        """Break the connection."""
        self._ask("cut()")

    def stop_publishing(self) -> None:
        """It is enough."""
        self._ask("stopPublishing()")

    def far(self) -> dict[str, Any]:
        """What it has done, as it said last."""
        if self._taking.done() and not self._far["failure"]:
            self._far["failure"] = f"its page is gone: {self._taking.exception()!r}"
        return self._far

    async def close(self) -> None:
        """Close the page."""
        self._taking.cancel()
        await asyncio.gather(self._taking, *self._asked, return_exceptions=True)
        await self._take()
        await self._page.close()

    def _ask(self, words: str) -> None:
        asking = asyncio.ensure_future(self._page.evaluate(words))
        self._asked.add(asking)
        asking.add_done_callback(self._asked.discard)
