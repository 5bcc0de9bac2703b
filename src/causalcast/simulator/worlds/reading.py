"""What was read at once is handed to a node as a host does it: messages that continue one another
come as a run."""

from causalcast.core.ids import NodeId
from causalcast.core.message import Message, Single
from causalcast.core.outbox import Outbox
from causalcast.core.stack import Stack
from causalcast.wire.runs import in_runs


def in_layered_runs(arrived: list[tuple[int, Message]]) -> list[tuple[int, list[Message]]]:
    """The same messages, in order, each with its layer; those of one list are a run."""
    found = []
    at = 0
    for run in in_runs([message for _, message in arrived]):
        found.append((arrived[at][0], run))
        at += len(run)
    return found


def hand_over(stack: Stack, layer: int, sender: NodeId, run: list[Message], out: Outbox) -> None:
    """A run, or one message, reaches its layer."""
    first = run[0]
    if len(run) == 1 or not isinstance(first, Single):
        stack.receive(layer, sender, first, out)
        return
    publications = [one.publication for one in run if isinstance(one, Single)]
    stack.receive_run(sender, first, tuple(publications), out)
