"""A number that bounds or times something is a limit with a name, or stands here with a reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

from causalcast.limits import limits_of

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "causalcast"
# What a node is made of. Tools that people run beside it have numbers of their own.
ROOMS = (
    "core",
    "parts",
    "datagrams",
    "detectors",
    "overlays",
    "protocols",
    "wire",
    "trace.log_rows",
    "trace.node_log",
    "runtime",
    "clients",
    "disk",
)

# "phases", "kinds" and the like: numbers that only tell things apart.
CODES = {
    "core.effects": "NOBODY",
    "core.stack": "DETECTOR OVERLAY MULTICAST",
    "core.ids": "NO_MESSAGE ANY_LINK",
    "parts.addressed.addressed_messages": "EVERYBODY",
    "parts.addressed.member_lists": "NOT_ADDRESSED",
    "parts.broadcast.reliable_sending": "ANY_GROUP",
    "parts.causal_delivery": "NOTHING",
    "parts.push_modes": "ALL",
    "parts.safe_links.safe_path_setup": "ALPHA BETA PI RHO IDLE SEARCHING GREETED BUFFERING "
    "NOTING WAITING",
    "parts.tree.neighbourhood": "NOBODY",
    "datagrams.point_to_point": "DATA ACK KEEP_ALIVE ACK_OF_ACK HELLO WELCOME NEVER",
    "datagrams.sealed_bytes": "CALL RETRY REPLY SEALED UNKNOWN RESET",
    "datagrams.send_window": "NO_MOMENT",
    "detectors.adaptive_heartbeat": "NEVER",
    "overlays.hyparview": "TO_JOIN HIGH LOW TO_LOOK",
    "protocols.causal_separators.hosted_zone": "THE_ZONE",
    "protocols.causal_separators.zone_crossing": "CLOSED KEEPING OPEN",
    "protocols.causal_separators.zone_knowledge": "JOINING OPEN PARTING SHUT",
    "protocols.causal_separators.zone_news": "JOIN READY CUT PART DONE CLOSED DROPPED",
    "protocols.causal_separators.zone_unit": "NOWHERE LOCAL PUBLICATION JOINED NEWS",
    "protocols.locamu.link_header": "_ORIGIN_UNKNOWN _ORIGIN_FIRST _ORIGIN_NAMED _EPOCH_FIRST "
    "_SAME_SHAPE _SAME_SHAPE_BUT _OF_ADMISSION",
    "protocols.member_multicast.members": "NOBODY_ASKS",
    "trace.log_rows": "NONE",
    "protocols.viewed_broadcast.agreement": "NO_VIEW",
    "protocols.viewed_broadcast.protocol": "FIRST",
    "runtime.links.greeting": "ANYBODY",
    "runtime.lives": "UNKNOWN",
    "clients.admission": "UNTIL_FOR_EVER",
    "runtime.security.admission": "ANY_NUMBER",
    "runtime.security.authority": "NO_NODE",
    "runtime.storage.durable_entry": "NO_GROUP",
    "runtime.storage.reader_table": "PLAIN ENDED READS LOST",
}
# Widths, versions and lengths: who writes and who reads must have the same.
FORMATS = {
    "core.duration": "MICROSECOND MILLISECOND SECOND",
    "core.ids": "NUMBER_BITS NUMBER_MASK NODE_LIMIT",
    "core.made_groups": "FIRST_MADE NEWS _IDS",
    "datagrams.plain_bytes": "VERSION LARGEST",
    "datagrams.point_to_point": "NUMBERS TOKENS WIDEST EARLY_BITS",
    "datagrams.sealed_bytes": "KEY_BYTES COOKIE_BYTES PROOF_BYTES SEAL_BYTES OVERHEAD",
    "protocols.viewed_broadcast.agreement": "ROUND_SHIFT BALLOTS",
    "protocols.locamu.gap_consultation": "QUESTIONS",
    "protocols.locamu.link_header": "_LONGEST_NUMBER _MOST_BEYOND",
    "protocols.locamu.names": "MOST_HOPS",  # so far from one another are those around a node
    "protocols.member_multicast.members": "MOST_MEMBERS",
    "protocols.member_multicast.protocol": "MOST_NUMBERS",
    "protocols.vector_clock_broadcast": "MANY",  # sorted from here on, as packed clocks want it
    "wire.forms": "WIRE_VERSION",
    "wire.framing": "LENGTH_BYTES MANY BESIDE MORE LONGEST_FRAME",
    "wire.packed_clock": "PACKED_FROM MISSING_AT_MOST",
    "runtime.host.link_listener": "LINK_BITS_PER_LIFE",
    "runtime.links.udp.sealing": "MOST_SEALED _NUMBER_BYTES",
    # Both ends count on it before they have heard of each other.
    "runtime.links.udp.session": "MOST_FLYING LARGEST_DATAGRAM USUAL_DATAGRAM SMALLEST_DATAGRAM",
    "runtime.metadata": "LENGTH_BYTES LATEST_US",
    "runtime.node_config": "SHORTEST_KEY",
    "runtime.operating.control_client": "_LONGEST_PATH",
    "runtime.security.authority": "_LONGEST_NAME",
    "runtime.security.client_token": "LONGEST_NAME LONGEST_TOKEN",
    "clients.protocol": "VERSION LENGTH_BYTES LONGEST_KEY",
    "clients.position_token": "LONGEST",
    "runtime.security.signatures": "SIGNATURE_BYTES LENGTH_BYTES",
    "runtime.storage.reader_table": "_BITS",
    "runtime.storage.journal_frames": "SECTOR ENTRY_HEAD _LIMIT",
    "disk": "OWNER_ALONE WHOM_THE_UMASK_LETS",
}
# Estimates and factors: what they are multiplied with is bounded elsewhere.
FACTORS = {
    "parts.broadcast.reliable_sending": "OVERHEAD",
    "parts.kept_weight": "KEPT_OVERHEAD",
    "protocols.locamu.message_log": "STANDBY_BYTES",
    "protocols.locamu.names": "NAME_BYTES",
    "protocols.locamu.own_names": "_SPARE",
    "protocols.viewed_broadcast.agreement": "OTHERS_WAIT MOST_TRIES MOST_PATIENCE",
    "parts.safe_links.crowding": "HALF",
    "runtime.host.inbox": "OVERHEAD",
    "clients.admission": "FRAME_OVERHEAD",
    "runtime.security.waiting": "OVERHEAD FEW",
    "runtime.links.links": "MOST_COUNTED",  # peers that people are shown numbers of
    "datagrams.point_to_point": "JITTER",
    "datagrams.round_trip": "PER_BYTE",
    "datagrams.send_window": "GAIN GROWTH CONGESTED DECREASE",
}
# People wait for these, or choose them with an option of a command.
OF_TOOLS = {
    "trace.node_log": "READ_AGAIN _SCANNED",
    "runtime.host.status": "HELD_SHOWN",
    "runtime.observing.loop_lag": "EVERY",
    "runtime.host.direct": "LONGEST_ERROR",
    "runtime.links.greeting": "MOST_SHOWN LONGEST_SHOWN",
    "runtime.operating.doctor": "SLOW_SYNC REACH_WITHIN FILES_PER_LINK SYNCS LOOKS",
    "runtime.operating.local_cluster": "READY_WITHIN READY_PER_NODE STOP_WITHIN PORTS",
    "runtime.security.authority": "AUTHORITY_DAYS NODE_DAYS",
    "runtime.wall_clock": "shift_us",
}
NO_LIMITS = {
    f"{module}.{name}"
    for reason in (CODES, FORMATS, FACTORS, OF_TOOLS)
    for module, names in reason.items()
    for name in names.split()
}


def constants() -> Iterator[tuple[str, str, ast.expr]]:
    """Modules, and what they give names to."""
    for room in ROOMS:
        place = SOURCE / room.replace(".", "/")
        paths = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        for path in paths:
            module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.AnnAssign) and node.value is not None:
                    yield module, ast.unparse(node.target), node.value
                elif isinstance(node, ast.Assign):
                    yield module, ast.unparse(node.targets[0]), node.value


def has_number(value: ast.expr) -> bool:
    """Whether a number is given a name: by itself, or as what a call or a sum is made of."""
    if isinstance(value, ast.Constant):
        return type(value.value) in (int, float)
    if isinstance(value, ast.BinOp):
        return has_number(value.left) or has_number(value.right)
    if isinstance(value, ast.UnaryOp):
        return has_number(value.operand)
    if isinstance(value, ast.Call) and not is_limit(value):
        return any(map(has_number, value.args))
    return False


def is_limit(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) in ("Limit", "Span")


def test_every_number_is_a_limit_or_stands_here_with_a_reason() -> None:
    found = {f"{module}.{name}" for module, name, value in constants() if has_number(value)}
    assert sorted(found - NO_LIMITS) == [], "make a limit of it, or say here why it is none"
    assert sorted(NO_LIMITS - found) == [], "there is no such number any more"


def test_limits_are_called_after_their_place_and_all_are_found() -> None:
    made = {
        ast.literal_eval(value.args[0]): f"{module}.{name.lstrip('_').lower()}"
        for module, name, value in constants()
        if isinstance(value, ast.Call) and is_limit(value)
    }
    assert {name: place for name, place in made.items() if name != place} == {}
    assert set(limits_of(*ROOMS)) == set(made)


def test_nobody_but_searches_sets_limits() -> None:
    """A limit that code changes as it likes would be none."""
    for path in SOURCE.rglob("*.py"):
        rooms = path.relative_to(SOURCE).parts
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("set_to"):
                assert rooms[0] in ("nodeworld", "swarm", "simulator", "chaos", "lab"), path
