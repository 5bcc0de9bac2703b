"""Which limits a world of whole nodes draws, and which of them cannot matter there."""

from collections.abc import Mapping
from typing import Final

from causalcast.limits import drawn, limits_of
from causalcast.registry import find_protocol

ROOMS: Final = (
    "core",
    "parts",
    "detectors",
    "overlays",
    "wire",
    "trace.node_log",
    "runtime",
    "protocols",
)

# Names begin with these. What no world of ours has cannot be tried there.
LEFT_OUT: Final = {
    "runtime.links.udp": "links are streams of bytes, not sessions over UDP",
    "runtime.links.doorway.handshake_within": "TLS, and sockets of the system",
    "runtime.links.doorway.accept_again": "TLS, and sockets of the system",
    "runtime.links.doorway.backlog": "TLS, and sockets of the system",
    "runtime.links.doorway.farewell_within": "TLS, and sockets of the system",
    "runtime.links.greeting.answer_limit": "nobody comes with a token",
    "runtime.host.newcomers": "worlds with newcomers draw them",
    "runtime.host.direct": "nobody asks so much",
    "runtime.host.asking": "nobody asks",
    "runtime.host.key_watch": "there are no keys",
    "runtime.security": "there are no keys",
    "runtime.operating": "there is no control socket",
    "runtime.observing.metrics_server": "nobody asks for numbers",
    "trace.node_log.most_waiting": "rows are lost on purpose, and a trace with holes is no witness",
    "trace.node_log.max_bytes": "rows are lost on purpose, and a trace with holes is no witness",
    "wire.codec.body_bytes": "what applications publish must fit",
}


def expected(protocol: str) -> list[str]:
    """The limits that a campaign of this protocol has to draw."""
    spec = find_protocol(protocol)
    hosted = [] if spec.contains is None else spec.contains(spec.settings({}))
    own = tuple(f"protocols.{name}." for name in (spec.name, *hosted))
    return [
        name
        for name in limits_of(*ROOMS)
        if not name.startswith(tuple(LEFT_OUT))
        and (not name.startswith("protocols.") or name.startswith(own))
    ]


def import_limits() -> None:
    """Let all limits of nodes be known by their names."""
    limits_of(*ROOMS)


def drawn_limits(protocol: str, seed: int, in_file: Mapping[str, int]) -> dict[str, float]:
    """What the limits are in the world of a seed, where they are not what they are shipped with.

    What the configuration of its nodes sets (`in_file`) is among them.
    """
    every = limits_of(*ROOMS)
    limits = {name: every[name] for name in expected(protocol)}
    values = drawn(limits, f"limits/{protocol}/{seed}")
    for name, limit in limits.items():
        key = limit.setting.removeprefix("[limits] ")
        if key in in_file:
            values.pop(name, None)
            if in_file[key] != limit.default_value:
                values[name] = in_file[key]
    return values
