"""A node's numbers in the text format that Prometheus reads."""

import re
from collections.abc import Mapping
from typing import Any

_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")


def _quoted(value: str) -> str:
    """The value of a label: whatever is in it, it ends where it ends."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def exposition(status: Mapping[str, Any]) -> str:
    """The lines for one node, from its status."""
    node = f'node="{status["node"]}"'
    lines: list[str] = []

    def metric(name: str, kind: str, text: str, values: Mapping[str, int]) -> None:
        lines.append(f"# HELP causalcast_{name} {text}")
        lines.append(f"# TYPE causalcast_{name} {kind}")
        for labels, value in values.items():
            lines.append(f"causalcast_{name}{{{node}{labels}}} {value}")

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
    lines.append("# HELP causalcast_log_fsync_seconds What writing and syncing a group took.")
    lines.append("# TYPE causalcast_log_fsync_seconds summary")
    lines.append(f"causalcast_log_fsync_seconds_sum{{{node}}} {journal['sync_seconds']}")
    lines.append(f"causalcast_log_fsync_seconds_count{{{node}}} {journal['syncs']}")
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
