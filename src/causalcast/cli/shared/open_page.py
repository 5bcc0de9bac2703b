"""Serves a page until Ctrl-C, and opens it in a browser where somebody looks at the terminal."""

import os
import webbrowser

from causalcast.lab.page_server import PageServer


def serve_page(server: PageServer, address: str, what: str, opens_browser: bool) -> None:
    """Say where `what` is, and serve it."""
    print(f"{what} is at {address} (Ctrl-C ends it)", flush=True)
    if opens_browser and os.isatty(1):
        webbrowser.open(address)
    try:
        server.serve()
    except KeyboardInterrupt:
        print()
