"""The lab as a page of the documentation site, in a real browser: any web server will do.

Needs what `test_lab_page.py` needs.
"""

import functools
import importlib.util
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PYODIDE = os.environ.get("CAUSALCAST_PYODIDE", "")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
PATIENCE = 120_000  # milliseconds; the machine may be busy
SCRIPT = Path(__file__).parents[2] / "scripts" / "docs_site.py"


@pytest.fixture
def page() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page()
        opened.set_default_timeout(PATIENCE)
        yield opened
        browser.close()


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, as any web server does, and prints nothing."""

    def log_message(self, *said: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/lab/index.html"
    server.shutdown()
    server.server_close()
    thread.join()


def build(folder: Path, pyodide: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAUSALCAST_PYODIDE", pyodide)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "nothing"))
    found = importlib.util.spec_from_file_location("docs_site", SCRIPT)
    assert found is not None and found.loader is not None
    docs_site = importlib.util.module_from_spec(found)
    found.loader.exec_module(docs_site)
    (folder / "lab.md").write_text("# The lab\n\nText.\n")
    docs_site.write_lab(folder, None)


def test_protocols_run_in_it(
    page: Any, site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not PYODIDE:
        pytest.skip("CAUSALCAST_PYODIDE names no archive of Pyodide")
    build(tmp_path, PYODIDE, monkeypatch)
    assert "[Open the lab](lab/index.html)" in (tmp_path / "lab.md").read_text()
    page.goto(site)
    page.wait_for_selector("body[data-engine=ready]")
    page.select_option("#protocol", "cbcast")
    page.wait_for_selector("body[data-ready='2']")
    assert page.inner_text("#verdicts h3 >> nth=0") == "cbcast: ok"


def test_without_pyodide_it_shows_one_run_and_says_what_it_lacks(
    page: Any, site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path, "", monkeypatch)
    assert "was built without Pyodide" in (tmp_path / "lab.md").read_text()
    page.goto(site)
    page.wait_for_selector("body[data-engine=ready]")
    assert page.inner_text("#verdicts h3 >> nth=0") == "naive_flood: violated"
    page.click("#step")
    page.select_option("#protocol", "cbcast")
    page.wait_for_selector("#message.bad")
    assert "no Python in this page" in page.inner_text("#message")


def test_opened_as_a_file_it_says_what_to_do(
    page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path, "", monkeypatch)
    page.goto((tmp_path / "lab" / "index.html").as_uri())
    page.wait_for_selector("#message.bad")
    assert "python -m http.server" in page.inner_text("#message")
