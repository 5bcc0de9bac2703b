"""Compares what applications were told with what the trace of all nodes says.

A publication that was acknowledged may not be lost, no message may be handed over again once its
acknowledgement is durable, and a group's messages of one origin come in the order of their numbers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from causalcast.chaos.chaos_node import LEDGER
from causalcast.core.ids import MessageId, number_of, origin_of
from causalcast.runtime.operating.control_client import id_named, name_of
from causalcast.trace.run_folder import Run

NAMED: Final = 5  # of the messages that something is wrong with


@dataclass
class Ledger:
    """The ledger of one node, over all its lives."""

    published: list[MessageId] = field(default_factory=list)
    received: dict[MessageId, int] = field(default_factory=dict)  # how often
    wrong: list[str] = field(default_factory=list)


def read_ledger(folder: Path) -> Ledger:
    """Read the ledger from a node's folder; contradictions inside it are listed."""
    ledger = Ledger()
    acknowledged: set[MessageId] = set()
    last: dict[tuple[str, int], int] = {}  # by group and origin, of those received first
    path = folder / LEDGER
    for line in path.read_text().splitlines() if path.exists() else []:
        kind, message, *rest = line.split()
        identity = id_named(message)
        if kind == "P":
            ledger.published.append(identity)
        elif kind == "A":
            acknowledged.add(identity)
        elif identity in acknowledged:
            ledger.wrong.append(f"{folder.name}: {message} handed over again after its ack")
        else:
            if identity not in ledger.received:
                key = (rest[0], origin_of(identity))
                if number_of(identity) < last.get(key, 0):
                    ledger.wrong.append(f"{folder.name}: {message} came after {last[key]}")
                last[key] = number_of(identity)
            ledger.received[identity] = ledger.received.get(identity, 0) + 1
    return ledger


def hold_against(run: Run, ledgers: dict[int, Ledger], at_end: Iterable[int]) -> list[str]:
    """List what the ledgers contain and the run does not, and the other way round.

    `at_end` are the nodes that are up at the end: what they published must be there, and they must
    have handed over all they delivered. Where nodes resume these are all nodes.
    """
    published: set[int] = set()
    delivered: dict[int, set[int]] = {}
    columns = run.events.select(["node", "kind", "message"]).to_pydict()
    for node, kind, message in zip(*columns.values(), strict=True):
        if kind == "publish":
            published.add(message)
        elif kind == "deliver":
            delivered.setdefault(node, set()).add(message)
    wrong = [line for ledger in ledgers.values() for line in ledger.wrong]
    for node in at_end:
        ledger = ledgers[node]
        lost = [message for message in ledger.published if message not in published]
        if lost:
            wrong.append(f"node {node} acknowledged to publish, and lost: {_named(lost)}")
        stuck = delivered.get(node, set()) - ledger.received.keys()
        if stuck:
            wrong.append(f"node {node} delivered what its application never got: {_named(stuck)}")
    heard = [
        node
        for node, found in delivered.items()
        if any(origin_of(MessageId(m)) != node for m in found)
    ]
    if len(ledgers) > 1 and not heard:
        wrong.append("no node ever delivered anything of another: nothing was tried here")
    return wrong


def _named(messages: Iterable[int]) -> str:
    """How many, and the first of them."""
    found = sorted(messages)
    names = ", ".join(name_of(MessageId(message)) for message in found[:NAMED])
    return f"{len(found)} ({names}{', …' if len(found) > NAMED else ''})"
