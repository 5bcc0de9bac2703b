"""All that the page shows, from what nodes answered now and a moment ago."""

import collections
import threading
import time
from pathlib import Path
from typing import Any, Final

from causalcast.dashboard.alarms import BAD, WAIT, Alarm, alarms_of, suspicions
from causalcast.dashboard.polling import Answered, Poller
from causalcast.errors import CausalcastError
from causalcast.printable import printable
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.operating.node_folders import find_nodes

EVERY: Final = 1.0  # seconds between two looks, and more where nodes are many
NODES_A_SECOND: Final = 25
UNWATCHED: Final = 15.0  # seconds after which nobody looks at the page any more
HISTORY: Final = 120  # looks that are drawn as a curve
EVENTS: Final = 200
SHOWN: Final = 100  # held messages, and pairs of nodes for whom something is kept
DIRECTIONS: Final = ("sent_bytes", "received_bytes", "sent_messages", "received_messages")


class ClusterView:
    """Looks at a cluster while somebody watches, and keeps the last picture."""

    def __init__(self, place: Path) -> None:
        self._poller = Poller(place)
        self._place = place
        self._edges = _configured_edges(place)
        self._lock = threading.Lock()  # one look at a time
        self._watched_at = 0.0
        self._first: dict[str, dict[str, Any]] = {}  # status when a node was first seen
        self._last: dict[str, tuple[float, dict[str, Any]]] = {}
        self._restarts: collections.Counter[str] = collections.Counter()
        self._events: collections.deque[dict[str, Any]] = collections.deque(maxlen=EVENTS)
        self._history: collections.deque[dict[str, float]] = collections.deque(maxlen=HISTORY)
        self._picture: dict[str, Any] | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def picture(self) -> dict[str, Any]:
        """The last look; the first question takes one."""
        self._watched_at = time.monotonic()
        with self._lock:
            if self._picture is None or self._thread is None:
                self._look()
                self._thread = threading.Thread(target=self._go_on, name="dashboard", daemon=True)
                self._thread.start()
            assert self._picture is not None
            return self._picture

    def explain(self, node: str, message: str) -> dict[str, Any]:
        """What a message waits for there, in words."""
        answer = self._poller.explain(node, message)
        return {**answer, "reasons": [printable(reason) for reason in answer["reasons"]]}

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        self._poller.close()

    def _go_on(self) -> None:
        while not self._closed.wait(max(EVERY, len(self._last) / NODES_A_SECOND)):
            with self._lock:
                if time.monotonic() - self._watched_at > UNWATCHED:
                    self._thread = None  # who comes again begins anew
                    return
                self._look()

    def _look(self) -> None:
        try:
            answers = self._poller.ask_all()
        except CausalcastError as error:  # the folder is gone, and may come back
            answers = []
            self._tell("", f"{error}")
        except RuntimeError:
            return  # closed meanwhile
        nodes = [self._node(answer) for answer in answers]
        self._picture = {
            "at": time.time(),
            "folder": str(self._place),
            "every": max(EVERY, len(nodes) / NODES_A_SECOND),
            "nodes": nodes,
            "links": self._links(nodes),
            "groups": _groups(nodes),
            "held": _held(nodes),
            "kept": _kept(nodes),
            "alarms": self._alarms(answers),
            "events": sorted(self._events, key=lambda event: -event["at"]),
            "history": self._remember(nodes),
        }

    def _node(self, answer: Answered) -> dict[str, Any]:
        status = answer.status
        if status is None:
            state = "silent" if answer.hangs else "down"
            last = self._last.get(answer.name)
            known = {} if last is None else {"starts": last[1]["starts"]}
            restarts = self._restarts[answer.name]
            why = printable(answer.why)
            return {"name": answer.name, "state": state, "why": why, "restarts": restarts, **known}
        now = time.monotonic()
        before = self._last.get(answer.name)
        if before is not None and status["starts"] > before[1]["starts"]:
            self._restarts[answer.name] += 1
            self._tell(answer.name, f"started again, for the {status['starts']}th time")
            before = None
        self._first.setdefault(answer.name, status)
        self._last[answer.name] = (now, status)
        for event in answer.events:
            self._events.append(
                {
                    "at": event["at_us"] / 1e6,
                    "node": answer.name,
                    "name": printable(event["name"]),
                    "text": printable(event["meaning"]),
                }
            )
        return {
            "name": answer.name,
            "state": "up",
            "restarts": self._restarts[answer.name],
            "rates": _rates(status, before, now),
            **_shown(status),
        }

    def _links(self, nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Each pair once: those that are linked, were, or are to be by the plan."""
        pairs: dict[tuple[str, str], dict[str, Any]] = {}

        def of(one: str, other: str) -> dict[str, Any]:
            a, b = sorted((one, other), key=lambda name: (len(name), name))
            fresh = {"a": a, "b": b, "up": False, "rate_bytes": 0.0, "rate_messages": 0.0}
            return pairs.setdefault((a, b), fresh | {"queued": 0})

        for one, other in self._edges:
            of(one, other)
        for node in nodes:
            if node["state"] != "up":
                continue
            for peer in node["links"]:
                of(node["name"], peer)["up"] = True
            for peer, rates in node["rates"]["traffic"].items():
                # What one end sends the other receives: each end tells its own sending.
                link = of(node["name"], peer)
                link["rate_bytes"] += rates["sent_bytes"]
                link["rate_messages"] += rates["sent_messages"]
                link["queued"] += node["queues"].get(peer, 0)
        return list(pairs.values())

    def _alarms(self, answers: list[Answered]) -> list[dict[str, str]]:
        found: list[Alarm] = []
        for answer in answers:
            if answer.status is None:
                found.append(Alarm(WAIT if answer.hangs else BAD, answer.name, answer.why))
            else:
                first = self._first.get(answer.name)
                found += alarms_of(answer.name, answer.status, first, time.time())
        answered = {one.name: one.status for one in answers if one.status is not None}
        found += suspicions({name: status["suspected"] for name, status in answered.items()})
        found.sort(key=lambda alarm: alarm.level != BAD)
        return [{**alarm._asdict(), "text": printable(alarm.text)} for alarm in found]

    def _tell(self, node: str, text: str) -> None:
        event = {"at": time.time(), "node": node, "name": "seen here", "text": printable(text)}
        if not self._events or self._events[-1]["text"] != event["text"]:
            self._events.append(event)

    def _remember(self, nodes: list[dict[str, Any]]) -> list[dict[str, float]]:
        up = [node for node in nodes if node["state"] == "up"]
        self._history.append(
            {
                "published": sum(node["rates"]["published"] for node in up),
                "delivered": sum(node["rates"]["delivered"] for node in up),
                "bytes": sum(node["rates"]["sent_bytes"] for node in up),
                "held": sum(node["held"]["messages"] for node in up),
                "kept": sum(node["kept_bytes"] for node in up),
            }
        )
        return list(self._history)


def _configured_edges(place: Path) -> list[tuple[str, str]]:
    """The links that nodes are told to keep, as far as a TOML can be read."""
    for found in find_nodes(place):
        try:
            config = NodeConfig.read(found.folder / "node.toml")
            if config.is_changing():
                return []
            graph = config.blueprint.topology.neighbours
        except (CausalcastError, OSError):
            continue
        return [(str(a), str(b)) for a, near in graph.items() for b in near if a < b]
    return []


def _shown(status: dict[str, Any]) -> dict[str, Any]:
    """What the page needs of a status; names of others are made harmless for terminals, too."""
    kept = ("starts", "takes_part", "waiting", "unacknowledged", "kept_bytes", "held", "queues")
    return {
        **{key: status[key] for key in kept},
        "called": printable(status["name"]),
        "version": printable(status["version"]),
        "links": [str(peer) for peer in status["links"]],
        "suspected": [str(peer) for peer in status["suspected"]],
        "publishers_wait": [printable(why) for why in status["publishers_wait"]],
        "groups": [printable(name) for name in status["groups"]],
        "published": {printable(name): count for name, count in status["published"].items()},
        "delivered": {printable(name): count for name, count in status["delivered"].items()},
        "inbox": {printable(name): count for name, count in status["inbox"].items()},
        "kept_for": status["kept_for"],
        "repeated": sum(status["repeated"].values()),
        "conditions": {printable(name): value for name, value in status["conditions"].items()},
        "journal_bytes": status["journal"]["bytes"],
        "memory": status["process"].get("resident_bytes", 0),
        "lag": status.get("loop_lag", {}).get("last_seconds", 0.0),
    }


def _rates(
    status: dict[str, Any], before: tuple[float, dict[str, Any]] | None, now: float
) -> dict[str, Any]:
    """How many a second, since the last look."""
    seconds = 0.0 if before is None else now - before[0]
    old = {} if before is None else before[1]

    def rate(new: float, previous: float) -> float:
        return round(max(0.0, new - previous) / seconds, 1) if seconds > 0 else 0.0

    def by_group(what: str) -> dict[str, float]:
        earlier = old.get(what, {})
        return {printable(g): rate(n, earlier.get(g, 0)) for g, n in status[what].items()}

    traffic = {
        peer: {
            name: rate(numbers[name], old.get("traffic", {}).get(peer, {}).get(name, 0))
            for name in DIRECTIONS
        }
        for peer, numbers in status["traffic"].items()
    }
    published, delivered = by_group("published"), by_group("delivered")
    return {
        "published_in": published,
        "delivered_in": delivered,
        "published": sum(published.values()),
        "delivered": sum(delivered.values()),
        "sent_bytes": sum(one["sent_bytes"] for one in traffic.values()),
        "received_bytes": sum(one["received_bytes"] for one in traffic.values()),
        "traffic": traffic,
    }


def _groups(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every group with its members and what goes on in it."""
    found: dict[str, dict[str, Any]] = {}

    def of(name: str) -> dict[str, Any]:
        fresh: dict[str, Any] = {"name": name, "members": [], "inbox": 0}
        return found.setdefault(name, fresh | {"published": 0.0, "delivered": 0.0, "total": 0})

    for node in nodes:
        if node["state"] != "up":
            continue
        for name in node["groups"]:
            of(name)["members"].append(node["name"])
        for name, rate in node["rates"]["published_in"].items():
            of(name)["published"] += rate
            of(name)["total"] += node["published"][name]
        for name, rate in node["rates"]["delivered_in"].items():
            of(name)["delivered"] += rate
        for name, waiting in node["inbox"].items():
            of(name)["inbox"] += waiting
    return list(found.values())


def _held(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What waits for causes anywhere, the longest first."""
    held = [
        {"node": node["name"], "message": message, "seconds": seconds}
        for node in nodes
        if node["state"] == "up"
        for message, seconds in node["held"]["oldest"]
    ]
    return sorted(held, key=lambda one: -one["seconds"])[:SHOWN]


def _kept(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Who keeps how many messages for whom, the most first."""
    kept = [
        {"node": node["name"], "peer": peer, "messages": count}
        for node in nodes
        if node["state"] == "up"
        for peer, count in node["kept_for"].items()
        if count
    ]
    return sorted(kept, key=lambda one: -one["messages"])[:SHOWN]
