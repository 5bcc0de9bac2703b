"""The clients of a world: what befalls them, when they have everything, and if it was right."""

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from causalcast.judge.judge import judge
from causalcast.nodeworld.client import GROUPS, ClientHabits, SimClient
from causalcast.nodeworld.drawn_clients import FIRST_DOOR, FIRST_MACHINE
from causalcast.nodeworld.network import Network
from causalcast.nodeworld.plan import Event, Plan
from causalcast.nodeworld.web_groups import WebLedger, as_data, lacking, wrong_of
from causalcast.trace.foreign_line import Record
from causalcast.trace.foreign_log import import_records

COMPLETE_WITHIN: Final = 300.0  # seconds of calm
LOOK_EVERY: Final = 0.25
MOST_TOLD: Final = 3  # of one kind
PROMISED: Final = ("no_creation", "no_duplication", "fifo_order", "causal_order")
MOST_PUBLICATIONS: Final = 60  # of one client
LARGEST_BODY: Final = 2000


def web_of(plan: Plan, number: int) -> tuple[int, int, random.Random] | None:
    """What a client has to know to make groups, in worlds in which they do."""
    if not plan.makes_groups:
        return None
    label = f"groups of clients/{plan.protocol}/{plan.seed}/{number}"
    return number, number % plan.clients + 1, random.Random(label)


class Clients:
    """All of them; none in most worlds."""

    def __init__(self, plan: Plan, network: Network) -> None:
        chance = random.Random(f"lives of clients/{plan.protocol}/{plan.seed}")
        self._network = network
        doors = [FIRST_DOOR + machine for machine in range(1, plan.machines + 1)]
        most = min(plan.publications, MOST_PUBLICATIONS)
        habits = ClientHabits(most, min(plan.largest_body, LARGEST_BODY), plan.until)
        self._clients = {
            number: SimClient(
                FIRST_MACHINE + number,
                doors,
                network,
                random.Random(chance.random()),
                habits,
                self._all_are_in,
                web_of(plan, number),
            )
            for number in range(1, plan.clients + 1)
        }

    def start(self) -> None:
        """All programs begin."""
        for client in self._clients.values():
            client.start()

    def _all_are_in(self) -> bool:
        return all(client.has_been_in for client in self._clients.values())

    async def happens(self, event: Event) -> bool:
        """Whether it did: who is not up cannot be killed."""
        client = self._clients[event.machines[0]]
        if len(event.machines) == 1:
            if event.kind == "client_start":
                client.start()
                return True
            if event.kind == "client_stop":
                return await client.stop()
            return {
                "client_kill": client.crash,
                "client_freeze": client.freeze,
                "client_go_on": client.go_on,
            }[event.kind]()
        here, door = client.machine, FIRST_DOOR + event.machines[1]
        if event.kind == "client_cut":
            return self._network.cut(here, door)
        if event.kind == "client_slow":
            self._network.latency[here, door] = self._network.latency[door, here] = event.value
        else:
            self._network.silence(here, door, one_way=event.kind == "client_one_way")
        return True

    def _webs(self) -> dict[int, WebLedger]:
        """Of those that can go on."""
        return {
            number: client.web.ledger
            for number, client in self._clients.items()
            if client.web is not None and not client.ledger.has_gap
        }

    async def have_everything(self, bring_back_nodes: Callable[[], None]) -> list[str]:
        """Nothing happens any more: whoever is down comes back, and gets what it is owed."""
        loop = asyncio.get_running_loop()
        for client in self._clients.values():
            client.go_on()
            client.start()
        until = loop.time() + COMPLETE_WITHIN
        while loop.time() < until and (
            any(self._lacking().values()) or any(lacking(self._webs()).values())
        ):
            bring_back_nodes()
            await asyncio.sleep(LOOK_EVERY)
        told = [
            f"client {number} lacks {len(lacks)} publications, {COMPLETE_WITHIN:g} seconds after "
            "the last fault"
            for number, lacks in self._lacking().items()
            if lacks
        ]
        told += [
            f"client {number} lacks {count} publications or answers of groups that were made"
            for number, count in lacking(self._webs()).items()
            if count
        ]
        for client in self._clients.values():
            await client.stop()
        return told

    def _lacking(self) -> dict[int, set[bytes]]:
        """What each is owed: all that was answered, and what anybody else got."""
        owed: set[bytes] = set()
        for client in self._clients.values():
            owed |= client.ledger.sure.keys() | client.ledger.handled.keys()
        return {
            number: owed - client.ledger.handled.keys()
            for number, client in self._clients.items()
            if not client.ledger.has_gap
        }

    def wrong_with_groups(self, nodes: Mapping[int, set[str]]) -> list[str]:
        """What is wrong of groups that they made; `nodes`: those that each node knows."""
        return wrong_of(self._webs(), nodes)

    def verdict(self) -> list[str]:
        """What is wrong of what they were told."""
        problems = []
        for number, client in self._clients.items():
            problems += [f"client {number}: {text}" for text in client.ledger.wrong[:MOST_TOLD]]
        lines = list(self._lines())
        if not lines:
            return problems
        found = judge(import_records(iter(lines), "clients", whole=True))
        for guarantee in PROMISED:
            for one in found.violations.get(guarantee, [])[:MOST_TOLD]:
                problems.append(f"told to clients: {guarantee}: {one.kind} at {one.node}")
        return problems

    def _lines(self) -> Iterator[Record]:
        """Their ledgers as a log of another system, each client a process.

        Of a publication without an answer nobody knows when it was made. It is one of a process of
        its own, if anybody got it.
        """
        unsure = {b: None for client in self._clients.values() for b in client.ledger.unsure}
        got = {b for client in self._clients.values() for b in client.ledger.handled}
        for number, client in self._clients.items():
            rows: list[dict[str, Any]] = [{"kind": "join", "group": group} for group in GROUPS]
            for kind, group, body in client.ledger.log:
                row = {"kind": kind, "group": group, "message": body[:8].hex()}
                if kind == "deliver" or body not in unsure:
                    rows.append(row)
                elif body in got:
                    yield _record(f"unsure {body[:8].hex()}", 0, row)
            for pos, row in enumerate(rows):
                yield _record(f"client {number}", pos, row)

    def digest(self) -> str:
        """Of everything that they were told."""
        told: list[Any] = [(n, c.ledger.log, list(c.ledger.sure)) for n, c in self._clients.items()]
        told += as_data(self._webs())
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def seen(self) -> Counter[str]:
        """Rare things that happened to them."""
        total: Counter[str] = Counter()
        for client in self._clients.values():
            total += client.seen
            if client.web is not None:
                total["client_group_changed"] += client.web.ledger.changes
        return total


def _record(node: str, pos: int, row: dict[str, Any]) -> Record:
    return Record(f"{node}:{pos}", {"node": node, "pos": pos, **row})
