"""What applications have to put up with, beside promises about messages: waiting, memory, losses.

Only worlds in which it can be said what is too much are judged so.
"""

from collections.abc import Mapping
from typing import Final

from causalcast.nodeworld.plan import Plan
from causalcast.nodeworld.process import SimProcess
from causalcast.nodeworld.tales import LONG_MESSAGES, STANDS_STILL

# Detectors need some seconds to notice that a neighbour stands still.
LONGEST_WAIT: Final = 15.0
KEPT_BESIDE: Final = 60  # bodies that others had published when a node had kept all that it may


def too_much(plan: Plan, processes: Mapping[int, SimProcess]) -> list[str]:
    """What was too much, in words."""
    told = []
    stood_still = {event.machines[0] for event in plan.events if event.kind == "freeze"}
    for machine, process in processes.items():
        ledgers = process.ledgers.values()
        waited = max((ledger.longest_wait for ledger in ledgers), default=0.0)
        if plan.tale == STANDS_STILL and machine not in stood_still and waited > LONGEST_WAIT:
            told.append(f"a publisher at machine {machine} waited for {waited:.0f} seconds")
        kept = max((ledger.most_kept for ledger in ledgers), default=0)
        limit = plan.limits.get("kept_bytes")
        if limit is not None and kept > 2 * limit + KEPT_BESIDE * plan.largest_body:
            told.append(f"machine {machine} kept {kept} bytes for others (kept_bytes = {limit})")
        if plan.tale == LONG_MESSAGES and process.seen["cut_silent"]:
            told.append(f"machine {machine} cut a link to somebody who was sending")
    return told


def vanished(processes: Mapping[int, SimProcess]) -> list[str]:
    """What a node with an old disk published and nobody got, though it has all its links.

    Whoever has an older disk than others know must get no link. Who has links is believed, and is
    owed what every publisher is. That is judged only where a protocol brings every publication to
    every node, so that neighbours know all numbers that were used, and where nothing waits to be
    handed over.
    """
    told = []
    for machine, process in processes.items():
        if process.node is None or not process.has_old_disk:
            continue
        multicast = process.node.host().parts.stack.multicast
        if multicast.furthest(process.config.node) < 0:
            continue
        topology = process.config.blueprint.topology
        links = set(process.node.host().links.current_peers())
        if not links.issuperset(topology.neighbours[process.config.node]):
            continue
        everybody = process.config.blueprint.groups.names[0]
        receipts = set(process.ledgers[process.config.node].published.values())
        log = process.ledgers[process.config.node].log[process.said_before :]
        said = {b for kind, group, b in log if (kind, group) == ("publish", everybody)} & receipts
        for other in processes.values():
            lacks = said - set(other.ledgers[other.config.node].handed.values())
            is_behind = other.node is None or other.node.status()["waiting"] > 0
            if lacks and not other.has_old_disk and not is_behind:
                told.append(
                    f"machine {machine} is linked with all others, and {len(lacks)} that it "
                    f"published did not reach node {other.config.node}"
                )
    return told
