"""Asks every node of a folder what it does, side by side: one that hangs keeps no other waiting."""

import concurrent.futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from causalcast.errors import NodeError
from causalcast.runtime.operating.control_client import ControlClient
from causalcast.runtime.operating.node_folders import FoundNode, find_nodes

WITHIN: Final = 1.5  # seconds for an answer; who takes longer is shown as silent
AT_ONCE: Final = 16


@dataclass(frozen=True)
class Answered:
    """What one node said, or why it said nothing."""

    name: str  # its id, or "new"
    status: dict[str, Any] | None
    why: str = ""  # it did not answer
    hangs: bool = False  # there is a process, and it does not answer in time
    events: list[dict[str, Any]] = field(default_factory=list)
    next_event: int = 0


class Poller:
    """Remembers how far the events of each node were read."""

    def __init__(self, place: Path) -> None:
        find_nodes(place)  # NodeError where there is no folder
        self._place = place
        self._next_event: dict[tuple[str, int], int] = {}  # by node and life
        self._pool = concurrent.futures.ThreadPoolExecutor(AT_ONCE, "dashboard")

    def ask_all(self) -> list[Answered]:
        """Every node there is now, in order."""
        return list(self._pool.map(self._ask, find_nodes(self._place)))

    def explain(self, name: str, message: str) -> dict[str, Any]:
        """In words what a message waits for at a node; NodeError if it cannot be asked."""
        for found in find_nodes(self._place):
            if found.name == name:
                with ControlClient(found.folder, found.name, WITHIN) as client:
                    return client.ask("explain", message=message)
        raise NodeError(f"no node {name} there")

    def close(self) -> None:
        """Ask no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, found: FoundNode) -> Answered:
        if not found.socket().is_socket():
            return Answered(found.name, None, "does not run")
        try:
            with ControlClient(found.folder, found.name, WITHIN) as client:
                status = client.ask("status")
                life = (found.name, int(status.get("starts", 0)))
                told = client.ask("events", since=self._next_event.get(life, 0))
        except NodeError as error:
            why = (
                str(error).removeprefix(f"node {found.name} ").removeprefix(f"node {found.name}: ")
            )
            return Answered(found.name, None, why, "did not answer within" in why)
        except (OSError, ValueError) as error:
            return Answered(found.name, None, f"{error}")
        self._next_event[life] = int(told["next"])
        return Answered(found.name, status, events=told["events"], next_event=int(told["next"]))
