"""The shared editor in Chromium: Yjs over three nodes, of which one is killed.

Needs Playwright, Chromium of the distribution, and `npm install yjs y-protocols`.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from editor_pages import HAS_YJS, NO_YJS, editor, opened

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here"),
    pytest.mark.skipif(not HAS_YJS, reason=NO_YJS),
]
PATIENCE = 60_000  # milliseconds; the machine may be busy
POST = "photos of the party"
TEXT = "document.getElementById('text').value"


@pytest.fixture
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        yield started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


def equal(pages: list[Any], *words: str) -> str:
    """Wait until all pages show the same text, with these words in it."""
    first = pages[0]
    for word in words:
        for page in pages:
            page.wait_for_function(f"(word) => {TEXT}.includes(word)", arg=word)
    for page in pages:
        page.wait_for_function("page.provider._updates.length == 0 && !page.provider._isPublishing")
    for page in pages:
        page.wait_for_function(f"(text) => {TEXT} == text", arg=first.evaluate(TEXT))
    text: str = first.evaluate(TEXT)
    assert {page.evaluate("page.text.toString()") for page in pages} == {text}
    return text


def typed(page: Any, words: str, delay: int = 0) -> None:
    """At the end of the text, letter by letter."""
    page.focus("#text")
    page.keyboard.press("Control+End")
    page.keyboard.type(words, delay=delay)


def test_two_windows_on_two_nodes_one_of_which_is_killed(browser: Any, tmp_path: Path) -> None:
    with editor(tmp_path / "nodes") as served:
        ada, bob = (opened(browser, served.pages[name], PATIENCE) for name in ("Ada", "Bob"))
        ada.wait_for_function("document.getElementById('here').children.length == 2")
        typed(ada, "Ada was here. ")
        equal([ada, bob], "here.")
        typed(bob, "So was Bob. ")
        equal([ada, bob], "here.", "Bob.")
        before = equal([ada, bob])
        assert before == "Ada was here. So was Bob. "
        assert (ada.evaluate("page.client.node"), bob.evaluate("page.client.node")) == (1, 2)
        served.say("kill 1")
        for number in range(10):  # both go on meanwhile
            typed(ada, f"a{number} ")
            typed(bob, f"b{number} ", delay=5)
        ada.wait_for_function("page.client.node != 1")
        words = "".join(f"{who}{number} " for who in "ab" for number in range(10))
        ada.wait_for_function(f"(length) => {TEXT}.length >= length", arg=len(before + words))
        text = equal([ada, bob])
        # Letters of one may stand between those of the other; none is lost or there twice.
        assert text.startswith(before) and sorted(text) == sorted(before + words)
        ada.screenshot(path=tmp_path / "ada.png")
        bob.screenshot(path=tmp_path / "bob.png")
        served.say("start 1")
        cleo = opened(browser, served.pages["Ada"].replace("Ada", "Cleo"), PATIENCE)
        assert equal([ada, bob, cleo]) == text, "who comes late has all of it"


def test_access_is_revoked_and_then_posted(browser: Any, tmp_path: Path) -> None:
    with editor(tmp_path / "nodes") as served:
        ada, bob, boss = (opened(browser, url, PATIENCE) for url in served.pages.values())
        typed(ada, "agenda ")
        equal([ada, bob, boss], "agenda ")
        ada.click("#change-boss")
        bob.wait_for_function("seen.some((one) => one.kind == 'acl')")
        typed(bob, POST)  # after he saw it
        equal([ada, bob], POST)
        boss.wait_for_function("document.getElementById('closed').style.display == 'block'")
        boss.wait_for_function("(page.client.position().seen.doc?.['2'] ?? 0) > 0")
        shown = boss.evaluate("seen")
        assert [one["kind"] for one in shown][-1] == "acl", "nothing is shown after that"
        assert not any("photos" in one["text"] for one in shown)
        kinds = [one["kind"] for one in ada.evaluate("seen")]
        assert kinds.index("acl") < len(kinds) - 1, "the post comes behind it"
        bob.screenshot(path=tmp_path / "bob.png")
        boss.screenshot(path=tmp_path / "boss.png")
