"""A node's numbers in the text format that Prometheus reads."""

import re
from collections.abc import Callable, Mapping
from typing import Any

Metric = Callable[..., None]  # name, kind, text, values by labels
Labelled = Callable[[str, Mapping[str, int]], dict[str, int]]

_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")


def _quoted(value: str) -> str:
    """The value of a label: whatever is in it, it ends where it ends."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def exposition(status: Mapping[str, Any]) -> str:
    """The lines for one node, from its status."""
    node = f'node="{status["node"]}"'
    lines: list[str] = []

    def head(name: str, kind: str, text: str) -> None:
        lines.append(f"# HELP {name} {text}")
        lines.append(f"# TYPE {name} {kind}")

    def metric(
        name: str, kind: str, text: str, values: Mapping[str, float], prefix: str = "causalcast_"
    ) -> None:
        head(prefix + name, kind, text)
        for labels, value in values.items():
            lines.append(f"{prefix}{name}{{{node}{labels}}} {value}")

    def histogram(name: str, text: str, numbers: Mapping[str, Any]) -> None:
        head(f"causalcast_{name}", "histogram", text)
        for bound, count in [*numbers["below"], ("+Inf", numbers["count"])]:
            lines.append(f'causalcast_{name}_bucket{{{node},le="{bound}"}} {count}')
        lines.append(f"causalcast_{name}_sum{{{node}}} {numbers['sum']}")
        lines.append(f"causalcast_{name}_count{{{node}}} {numbers['count']}")

    def labelled(label: str, values: Mapping[str, int]) -> dict[str, int]:
        return {f',{label}="{_quoted(name)}"': value for name, value in values.items()}

    metric("links", "gauge", "Links that are up.", {"": len(status["links"])})
    text = "Neighbours that the detector believes to be down."
    metric("suspected", "gauge", text, {"": len(status["suspected"])})
    text = "Reasons for which publishers wait now."
    metric("publishers_wait", "gauge", text, {"": len(status["publishers_wait"])})
    expires = status.get("certificate_expires")
    if expires is not None:
        text = "When the certificate lapses, in seconds since 1970."
        metric("certificate_expires_seconds", "gauge", text, {"": expires})
    metric("starts_total", "counter", "How often the node started.", {"": status["starts"]})
    groups = "by group, over all lives."
    metric(
        "published_total", "counter", f"Published, {groups}", labelled("group", status["published"])
    )
    metric(
        "delivered_total", "counter", f"Delivered, {groups}", labelled("group", status["delivered"])
    )
    metric("waiting", "gauge", "Delivered, not taken yet.", {"": status["waiting"]})
    metric("unacknowledged", "gauge", "Taken, not handled yet.", {"": status["unacknowledged"]})
    journal = status["journal"]
    metric("journal_bytes", "gauge", "Size of the journal.", {"": journal["bytes"]})
    metric("held_bytes", "gauge", "On its way to the journal.", {"": journal["held_bytes"]})
    text = "Messages that are kept because a neighbour lacks them."
    metric("kept_bytes", "gauge", text, {"": status["kept_bytes"]})
    if status["trace"]:
        metric("trace_bytes", "gauge", "Size of the trace.", {"": status["trace"]["bytes"]})
        text = "Rows of the trace that could not be written."
        metric("trace_lost_rows_total", "counter", text, {"": status["trace"]["lost_rows"]})
    text = "What writing and syncing a group took."
    head("causalcast_log_fsync_seconds", "summary", text)
    lines.append(f"causalcast_log_fsync_seconds_sum{{{node}}} {journal['sync_seconds']}")
    lines.append(f"causalcast_log_fsync_seconds_count{{{node}}} {journal['syncs']}")
    _readers(status.get("readers", {}), metric)
    _links(status, metric, labelled)
    _waiting(status, metric, labelled)
    histogram(
        "delivery_delay_seconds",
        "From the arrival of a message at this node, or its publication here, to its delivery: "
        "what it waited for causes and for the disk, by the clock of this node alone.",
        status["delivery_seconds"],
    )
    histogram(
        "publication_to_delivery_seconds",
        "From the publication of a message, at whatever node, to its delivery here, by the clocks "
        "of both. Of the messages that say when they were published: one in 10 ms of each "
        "publisher, unless its [limits] stamp_every_us says otherwise.",
        status["whole_way_seconds"],
    )
    text = "Messages published, by their publisher's clock, after their delivery here."
    metric("published_in_the_future_total", "counter", text, {"": status["from_the_future"]})
    if "loop_lag" in status:
        text = "How much later than planned the event loop did something, looked at twice a second."
        histogram("loop_lag_seconds", text, status["loop_lag"]["seconds"])
    if "clients" in status:
        _clients(status["clients"], metric, labelled)
    _process(status["process"], metric)
    metric(
        "link_trouble_total",
        "counter",
        "What went wrong on links.",
        labelled("kind", status["trouble"]),
    )
    metric(
        "notes_total",
        "counter",
        "Rare branches of the protocol.",
        labelled("note", status["notes"]),
    )
    for name, value in status["conditions"].items():
        plain = _NO_NAME.sub("_", name)
        metric(f"protocol_{plain}", "gauge", "What the protocol says of itself.", {"": value})
    return "\n".join(lines) + "\n"


def _links(status: Mapping[str, Any], metric: Metric, labelled: Labelled) -> None:
    """What goes over links, by the node at the other end."""
    since = "by peer, since this node started"
    for direction, words in (("sent", "sent to"), ("received", "received from")):
        for what, about in (
            ("bytes", "Bytes before encryption"),
            ("messages", "Messages of all layers"),
        ):
            of_peers = {
                peer: numbers[f"{direction}_{what}"] for peer, numbers in status["traffic"].items()
            }
            text = f"{about} {words} other nodes, {since}."
            metric(f"link_{direction}_{what}_total", "counter", text, labelled("peer", of_peers))
    text = "What waits for the socket of a peer, or for a dial, in bytes."
    metric("link_queued_bytes", "gauge", text, labelled("peer", status["queues"]))
    text = "Whether there is a link to a peer that once had one."
    linked = {peer: int(int(peer) in status["links"]) for peer in status["traffic"]}
    metric("link_up", "gauge", text, labelled("peer", linked))
    text = "Messages that were sent again, by the part that noted it."
    metric("retransmissions_total", "counter", text, labelled("part", status["repeated"]))


def _waiting(status: Mapping[str, Any], metric: Metric, labelled: Labelled) -> None:
    """What waits: for causes, for neighbours, for the application."""
    held = status["held"]
    text = "Messages that wait here for a cause."
    metric("held_messages", "gauge", text, {"": held["messages"]})
    text = "What messages that wait for a cause take in memory, roughly."
    metric("held_messages_bytes", "gauge", text, {"": held["bytes"]})
    text = "How long the message that waits longest for a cause has done so; 0 if none does."
    metric("held_oldest_seconds", "gauge", text, {"": held["oldest_seconds"]})
    text = "Messages that a neighbour lacks and that are kept for it, where the protocol can tell."
    metric("kept_messages", "gauge", text, labelled("peer", status["kept_for"]))
    text = "Delivered, not taken by the application yet, by group."
    metric("inbox_messages", "gauge", text, labelled("group", status["inbox"]))


def _readers(readers: Mapping[str, Mapping[str, Mapping[str, int]]], metric: Metric) -> None:
    """Readers with names: what each has yet to handle, and whether it was asked for at all."""
    for name, key, text in (
        ("messages", "unacknowledged", "Messages that a reader with a name has not acknowledged."),
        ("bytes", "bytes", "The same in bytes; at [limits] reader_bytes it is ended."),
        ("here", "here", "Whether the application has asked for the reader in this life."),
        ("lost", "lost", "Whether the reader was ended because it fell too far behind."),
    ):
        values = {
            f',group="{_quoted(group)}",reader="{_quoted(reader)}"': int(numbers[key])
            for group, of_group in readers.items()
            for reader, numbers in of_group.items()
        }
        if values:
            metric(f"reader_{name}", "gauge", text, values)


def _clients(clients: Mapping[str, Any], metric: Metric, labelled: Labelled) -> None:
    """The door: who is there, what is kept for those who come back, who was let go and why."""
    for name, text in (
        ("connections", "Clients that are connected."),
        ("unacknowledged", "Messages that clients were sent and did not acknowledge."),
        ("kept_messages", "The last deliveries, kept for clients that come back."),
        ("kept_bytes", "The same in bytes."),
    ):
        metric(f"client_{name}", "gauge", text, {"": clients[name]})
    text = "Requests and connections of clients that were refused, slowed down or ended, by reason."
    metric("client_refusals_total", "counter", text, labelled("reason", clients["let_go"]))


def _process(process: Mapping[str, float], metric: Metric) -> None:
    """What the operating system says, by the names that every exporter uses."""
    for name, kind, text, key in (
        ("resident_memory_bytes", "gauge", "Resident memory size in bytes.", "resident_bytes"),
        ("cpu_seconds_total", "counter", "Processor time in seconds.", "cpu_seconds"),
        ("open_fds", "gauge", "Open file descriptors.", "open_files"),
    ):
        if key in process:
            metric(name, kind, text, {"": process[key]}, "process_")
