"""What a node says on the wire: its messages, layer by layer, and how they are encoded."""

from causalcast.core.message import Message
from causalcast.runtime.links.introductions import Addresses
from causalcast.runtime.metadata import most_overhead
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.security.signatures import MOST_OVERHEAD
from causalcast.wire.codec import Codec


class Wire:
    """The codec of a node, and which messages are treated differently from others."""

    def __init__(self, config: NodeConfig) -> None:
        blueprint = config.blueprint
        layers = blueprint.messages()
        # Which nodes a message of the overlay names matters where nodes have to be found.
        self.naming: set[type[Message]] = set()
        self.naming_layer = -1  # of messages that say where nodes are; -1 if there are none
        if config.is_changing():
            self.naming = set(blueprint.overlay.messages)
            self.naming_layer = len(layers)
            layers = [*layers, [Addresses]]
        # What detectors say all the time is of use to few, and would fill an idle node's trace.
        self.untraced: set[type[Message]] = set()
        if config.trace_level != "full":
            self.untraced.update(blueprint.detector.messages)
        overhead = MOST_OVERHEAD.value if config.security.sign else 0
        overhead += blueprint.protocol.adds_to_bodies + most_overhead()
        self.codec = Codec(layers, config.limits.body_bytes + overhead)
