"""The ways to make links safe, by name: what protocols that stand on safe links have in common."""

from typing import Final

from causalcast.core.message import Message
from causalcast.core.spec import Option, Setup
from causalcast.parts.safe_links import pieces, safe_path_setup, vector_setup
from causalcast.parts.safe_links.links import LinkSetup, SafeLinks, Tokens
from causalcast.parts.safe_links.safe_path_setup import SafePathSetup
from causalcast.parts.safe_links.vector_setup import VectorSetup

MESSAGES: Final[list[type[Message]]] = [
    *safe_path_setup.MESSAGES,
    *vector_setup.MESSAGES,
    *pieces.MESSAGES,
]
OPTIONS: Final[list[Option]] = [
    Option(
        "link_setup",
        "vector",
        # By measurement: safe paths leave up to two thirds of the survivors of a mass crash deaf.
        "how new links become safe: by comparing what was delivered, or over a path of safe links",
        choices=["vector", "safe_path"],
        change_if="you want the paper's way, without a count per origin",
    ),
    # Far more than are ever in flight: a hundred broadcasts a second for a minute and a half.
    Option(
        "most_kept",
        10_000,
        "kept for one silent link before another is asked for",
        least=0,
        change_if="a link's memory grows too large, or a slow peer is dropped too soon",
    ),
    *vector_setup.OPTIONS,
    *safe_path_setup.OPTIONS,
]
EVENTS: Final[dict[str, str]] = vector_setup.EVENTS
ENDS: Final[dict[str, str]] = vector_setup.ENDS


def safe_links(setup: Setup, tokens: Tokens) -> SafeLinks:
    """Safe links on which these tokens are said, set up as the options ask for."""

    def make(links: SafeLinks) -> LinkSetup:
        if setup.text("link_setup") == "vector":
            log, log_bytes = setup.number("log"), setup.number("log_bytes")
            return VectorSetup(links, log, log_bytes, setup.number("give_up_after"))
        return SafePathSetup(links, setup.number("discover_for"))

    return SafeLinks(setup, tokens, make)
