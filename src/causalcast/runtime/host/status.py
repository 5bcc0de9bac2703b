"""What a node is doing, in numbers; `up`, `status` and metrics show it."""

from typing import Any, Final

from causalcast.core.ids import GroupId, MessageId, number_of, origin_of
from causalcast.runtime.host.host import Host
from causalcast.runtime.links.udp.carrier import UdpCarrier
from causalcast.runtime.observing.this_process import process_numbers
from causalcast.version import VERSION, build_kind

HELD_SHOWN: Final = 20  # messages that wait longest for a cause


def status_of(host: Host) -> dict[str, Any]:
    """Everything that an operator may want to see of a node."""
    config, parts, observed, links = host.config, host.parts, host.observed, host.links
    name_of = parts.directory.name_of
    multicast = parts.stack.multicast
    return {
        "node": host.me,
        "name": config.name,
        "version": VERSION,
        "build": build_kind(),
        "starts": host.earlier.starts,
        "takes_part": multicast.takes_part(),
        "groups": [name_of(GroupId(group)) for group in parts.stack.groups],
        "made_groups": len(parts.directory.made),
        "asked_for": [name_of(GroupId(group)) for group in multicast.asked_for()],
        "links": links.current_peers(),
        "certificate_expires": None if links.tls is None else links.tls.expires(),
        "published": {name_of(GroupId(g)): n for g, n in sorted(observed.published_in.items())},
        "delivered": {name_of(GroupId(g)): n for g, n in sorted(observed.delivered_in.items())},
        "suspected": sorted(parts.silent.suspected),
        "publishers_wait": parts.pressure.reasons_to_wait(parts.silent.linked()),
        "waiting": host.inbox.waiting_count(),
        "unacknowledged": host.inbox.unacknowledged_count(),
        "readers": parts.readers.numbers(),
        "lacking": [name_of(group) for group in host.inbox.lacking],
        "waits_for_state": {name_of(g): why for g, why in sorted(parts.newcomers.waits.items())},
        "journal": _journal_numbers(host),
        "kept_bytes": multicast.kept_bytes(),
        "kept_for": {str(peer): count for peer, count in sorted(multicast.kept_for().items())},
        "held": _held_numbers(host),
        "inbox": {name_of(GroupId(g)): n for g, n in sorted(host.inbox.waiting_by_group().items())},
        "traffic": _traffic(host),
        "queues": {str(peer): size for peer, size in sorted(links.queued_bytes().items())},
        "repeated": _repeated(host),
        "delivery_seconds": observed.took.as_numbers(),
        "whole_way_seconds": observed.since_published.as_numbers(),
        "from_the_future": observed.from_the_future,
        "process": process_numbers(),
        "trace": _trace_numbers(host),
        "trouble": _link_counts(host),
        "conditions": multicast.conditions(),
        "notes": dict(observed.notes),
    }


def _held_numbers(host: Host) -> dict[str, Any]:
    """What waits for causes: how much, how long, and which of it waits longest."""
    waiting, now = host.parts.effects.waiting, host.clock.wall_us()
    oldest = [
        (_name(message), round(max(0, now - since) / 1e6, 3))
        for message, since in waiting.oldest(HELD_SHOWN)
    ]
    return {
        "messages": len(waiting.by_message),
        "bytes": waiting.weight(),
        "oldest_seconds": oldest[0][1] if oldest else 0.0,
        "oldest": oldest,
    }


def _name(message: MessageId) -> str:
    return f"{origin_of(message)}.{number_of(message)}"


def _traffic(host: Host) -> dict[str, dict[str, int]]:
    """What went over the links to each peer in this life."""
    return {
        str(peer): {
            "sent_bytes": traffic.sent_bytes,
            "received_bytes": traffic.received_bytes,
            "sent_messages": traffic.sent_messages,
            "received_messages": traffic.received_messages,
        }
        for peer, traffic in sorted(host.links.traffic().items())
    }


def _repeated(host: Host) -> dict[str, int]:
    """What was sent again, by who did it: parts of the protocol that note it, and datagrams."""
    repeated = {
        note.removesuffix(".repeated"): times
        for note, times in host.observed.notes.items()
        if note.endswith(".repeated")
    }
    carrier = host.links.carrier
    if isinstance(carrier, UdpCarrier):
        repeated["datagrams"] = carrier.counts["retransmissions"]
    return repeated


def _link_counts(host: Host) -> dict[str, int]:
    """What went wrong on links, by kind."""
    counts = dict(host.links.counts)
    if host.links.strangers.turned_away:
        counts["turned_away"] = host.links.strangers.turned_away
    if host.parts.arrivals.unproven:
        counts["unproven_gone"] = host.parts.arrivals.unproven
    if host.links.tls is not None and not host.links.tls.is_kept():
        counts["revocations_not_kept"] = 1
    return counts


def _journal_numbers(host: Host) -> dict[str, float]:
    """How large it is, how much is on its way to it, and what syncs have cost."""
    storage = host.earlier.storage
    return {
        "bytes": storage.size,
        "held_bytes": host.parts.steps.held.bytes,
        "syncs": storage.syncs,
        "sync_seconds": round(storage.sync_seconds, 6),
    }


def _trace_numbers(host: Host) -> dict[str, int]:
    """What the trace takes on disk, and how many rows could not be written."""
    trace = host.rows.trace
    return {} if trace is None else {"bytes": trace.disk_bytes(), "lost_rows": trace.lost_rows}
