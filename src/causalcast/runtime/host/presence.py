"""Who of the members is there, as far as one node can know it."""

from typing import Final

from causalcast.core.ids import NodeId
from causalcast.runtime.host.host import Host

HERE: Final = "here"
LINKED: Final = "linked"
SUSPECTED: Final = "suspected"
AWAY: Final = "away"
OUTSIDE: Final = "outside"
UNKNOWN: Final = "unknown"


def presence_of(host: Host) -> dict[NodeId, str]:
    """By node. Nobody is called there or away on hearsay: a node knows its links, and what the
    members have agreed on."""
    parts, topology = host.parts, host.config.blueprint.topology
    found: dict[NodeId, str] = {host.me: HERE}
    if not host.config.is_changing():
        found |= {node: UNKNOWN for node in topology.neighbours if node != host.me}
        found |= {NodeId(node): AWAY for node in topology.neighbours.get(host.me, [])}
    for node in host.links.current_peers():
        found[node] = SUSPECTED if node in parts.silent.suspected else LINKED
    members = parts.stack.multicast.agreed_members()
    if members is not None:
        for node in found:
            if node not in members:
                found[node] = OUTSIDE
        found |= {node: UNKNOWN for node in members if node not in found}
    return {node: found[node] for node in sorted(found)}
