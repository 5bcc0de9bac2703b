"""Restarts one node after the other, and goes on when the last one is there again.

    python rolling_restart.py --command 'docker compose restart {}' \\
        node-1=http://127.0.0.1:9461 node-2=http://127.0.0.1:9462

The address is that of `[metrics] listen`. A node is there again when it is another process than
before, says so under /readyz, and has as many links as before; then the next one follows. If that
takes too long it stops there, and all other nodes still run. Publishers go on all the time; what
they publish meanwhile is kept for the node that is away.
"""

import argparse
import http.client
import subprocess
import sys
import time
import urllib.error
import urllib.request


def asked(url: str) -> str:
    """The page; empty if it cannot be had or says no."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError, http.client.HTTPException):
        return ""


def number(page: str, name: str) -> float:
    """A metric that there is once; 0 if it is not there."""
    found = [
        line.split()[-1] for line in page.splitlines() if line.startswith((name + "{", name + " "))
    ]
    return float(found[0]) if found else 0.0


def is_back(url: str, starts: float, links: float) -> bool:
    """Whether a node was started again, takes part, and has its links."""
    page = asked(f"{url}/metrics")
    return (
        number(page, "causalcast_starts_total") > starts
        and number(page, "causalcast_links") >= links
        and bool(asked(f"{url}/readyz"))
    )


def main() -> int:
    """Restart all; 1 if one does not come back."""
    parser = argparse.ArgumentParser(description="Restarts one node after the other.")
    parser.add_argument("--command", required=True, help="restarts a node; {} is its name")
    parser.add_argument("--within", type=float, default=120.0, help="seconds for each")
    parser.add_argument("nodes", nargs="+", metavar="NAME=URL")
    given = parser.parse_args()
    nodes = dict(node.split("=", 1) for node in given.nodes)
    for name, url in nodes.items():
        if not asked(f"{url}/readyz"):
            print(f"{name} is not ready; nothing was restarted", file=sys.stderr)
            return 1
    for name, url in nodes.items():
        before = asked(f"{url}/metrics")
        starts = number(before, "causalcast_starts_total")
        links = number(before, "causalcast_links")
        subprocess.run(given.command.replace("{}", name), shell=True, check=True)
        deadline = time.monotonic() + given.within
        while not is_back(url, starts, links):
            if time.monotonic() > deadline:
                print(f"{name} did not come back; the others were left alone", file=sys.stderr)
                return 1
            time.sleep(0.2)
        print(f"{name} is back", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
