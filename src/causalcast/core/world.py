"""The world: what lets effects happen. The simulation is one, the host of a real node another.

`perform` is the only place that looks at the types of effects. A new effect is a class, a method
of the outbox, a line here, and a method that the type checker demands of both worlds.
"""

from mypy_extensions import mypyc_attr

from causalcast.core.effects import (
    Belief,
    CancelTimer,
    CloseLink,
    Deliver,
    Duplicate,
    Effect,
    Expelled,
    Hold,
    Joined,
    Note,
    OpenLink,
    Release,
    Send,
    Stable,
    StartTimer,
)
from causalcast.core.ids import NodeId


@mypyc_attr(allow_interpreted_subclasses=True)
class World:
    """What nodes may ask for. Every method gets the node that asks."""

    def send(self, node: NodeId, effect: Send) -> None:
        """Bring a message to a peer."""
        raise AssertionError("a world must know how to send")

    def open_link(self, node: NodeId, effect: OpenLink) -> None:
        """Dial a peer."""
        raise AssertionError("a world must know how to open links")

    def close_link(self, node: NodeId, effect: CloseLink) -> None:
        """Hang up."""
        raise AssertionError("a world must know how to close links")

    def deliver(self, node: NodeId, effect: Deliver) -> None:
        """Hand a publication to the application."""
        raise AssertionError("a world must know how to deliver")

    def joined(self, node: NodeId, effect: Joined) -> None:
        """Let the node be a member of a group from here on."""
        raise AssertionError("a world must know who is in which group")

    def expelled(self, node: NodeId, effect: Expelled) -> None:
        """Let the node be a member of no group from here on."""
        raise AssertionError("a world must know who is in which group")

    def start_timer(self, node: NodeId, effect: StartTimer) -> None:
        """Wake a layer later."""
        raise AssertionError("a world must know how to start timers")

    def cancel_timer(self, node: NodeId, effect: CancelTimer) -> None:
        """Do not wake it after all."""
        raise AssertionError("a world must know how to cancel timers")

    def hold(self, node: NodeId, effect: Hold) -> None:
        """Record that a message has to wait."""
        raise AssertionError("a world must know what is held")

    def release(self, node: NodeId, effect: Release) -> None:
        """Record that it waits no longer."""
        raise AssertionError("a world must know what is released")

    def duplicate(self, node: NodeId, effect: Duplicate) -> None:
        """Record a further copy."""
        raise AssertionError("a world must count duplicates")

    def stable(self, node: NodeId, effect: Stable) -> None:
        """Tell the application that every member has its message."""
        raise AssertionError("a world must know what is stable")

    def belief(self, node: NodeId, effect: Belief) -> None:
        """Record what the detector says of a peer."""
        raise AssertionError("a world must hear the detector")

    def note(self, node: NodeId, effect: Note) -> None:
        """Count something rare."""
        raise AssertionError("a world must count notes")


def perform(effects: list[Effect], node: NodeId, world: World) -> None:
    """Let the effects of one step happen, in their order."""
    for effect in effects:
        if isinstance(effect, Send):
            world.send(node, effect)
        elif isinstance(effect, Deliver):
            world.deliver(node, effect)
        elif isinstance(effect, StartTimer):
            world.start_timer(node, effect)
        elif isinstance(effect, CancelTimer):
            world.cancel_timer(node, effect)
        elif isinstance(effect, OpenLink):
            world.open_link(node, effect)
        elif isinstance(effect, CloseLink):
            world.close_link(node, effect)
        elif isinstance(effect, Duplicate):
            world.duplicate(node, effect)
        elif isinstance(effect, Hold):
            world.hold(node, effect)
        elif isinstance(effect, Release):
            world.release(node, effect)
        elif isinstance(effect, Stable):
            world.stable(node, effect)
        elif isinstance(effect, Belief):
            world.belief(node, effect)
        elif isinstance(effect, Joined):
            world.joined(node, effect)
        elif isinstance(effect, Expelled):
            world.expelled(node, effect)
        else:
            assert isinstance(effect, Note)
            world.note(node, effect)


def is_timer(effect: Effect) -> bool:
    """Timers act at once, even where a step's visible effects wait for the disk."""
    return isinstance(effect, (StartTimer, CancelTimer))
