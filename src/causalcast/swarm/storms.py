"""Limits on what nodes send: per publication, and when nothing is left to say.

A protocol may keep every promise and still be of no use, because its nodes ask one another for
ever. The limits are generous: several times what any drawn scenario needed.
"""

from typing import Final, get_args, get_origin

from causalcast.core.message import Envelope, Message, Publication
from causalcast.limits import Limit
from causalcast.simulator.scenario_run import ScenarioRun

SECOND: Final = 1_000_000  # microseconds
FRAMES_AT_REST: Final = Limit(
    "swarm.storms.frames_at_rest",
    10,
    least=1,
    most=1000,
    unit="frames",
    about="what a node may send in a second when all is over, for the multicast",
)
BYTES_AT_REST: Final = Limit(
    "swarm.storms.bytes_at_rest",
    4000,
    least=1,
    most=1 << 20,
    unit="bytes",
    about="the same in bytes, of all layers",
)
BODIES: Final = Limit(
    "swarm.storms.bodies",
    50,
    least=1,
    most=100_000,
    unit="frames",
    about="copies of one publication, for each node there is",
)
QUESTIONS: Final = Limit(
    "swarm.storms.questions",
    250,
    least=1,
    most=100_000,
    unit="frames",
    about="frames without one, or in envelopes, for each publication, fault and node there is",
)


def storms_in(running: ScenarioRun) -> list[str]:
    """What was too much; empty if nothing was."""
    world = running.simulation
    sent, nodes = world.shared.sent, len(world.nodes)
    own = world.blueprint.messages()[2]
    told = []
    if sent.rest_us > 0:
        seconds = sent.rest_us / SECOND
        at_rest = {kind.wire.name: n for kind, n in sent.at_rest().items() if kind in own}
        each = sum(at_rest.values()) / seconds / nodes
        if each > FRAMES_AT_REST.value:
            told.append(f"{each:.0f} frames a second and node at rest: {_most(at_rest)}")
        size = (sent.bytes - sent.bytes_before_rest) / seconds / nodes
        if size > BYTES_AT_REST.value:
            told.append(f"{size:.0f} bytes a second and node at rest")
    counts = {kind: n for kind, n in sent.frames.items() if kind in own}
    bodies = {kind.wire.name: n for kind, n in counts.items() if carries(kind)}
    questions = {kind.wire.name: n for kind, n in counts.items() if not carries(kind)}
    published = max(1, world.lives.publications)
    each = sum(bodies.values()) / published / nodes
    if each > BODIES.value:
        told.append(f"{each:.0f} copies of a publication for each node: {_most(bodies)}")
    events = published + len(running.scenario.faults)
    each = sum(questions.values()) / events / nodes
    if each > QUESTIONS.value:
        told.append(f"{each:.0f} questions for each event and node: {_most(questions)}")
    return told


def carries(kind: type[Message]) -> bool:
    """Whether messages of a kind carry publications, or messages that do. What is in an envelope
    may be anything."""
    if issubclass(kind, Envelope):
        return False
    for field in kind.wire.fields.values():
        inner = get_args(field)[0] if get_origin(field) is list else field
        if inner is Publication or inner is Message:
            return True
    return False


def _most(counts: dict[str, int]) -> str:
    name = max(counts, key=lambda one: counts[one])
    return f"{counts[name]} times {name}"
