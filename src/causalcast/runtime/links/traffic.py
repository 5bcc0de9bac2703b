"""What went over the links to one peer, in both directions."""

from typing import final


@final
class Traffic:
    """Bytes before encryption, and messages; of one life of this node."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.received_bytes = 0
        self.sent_messages = 0
        self.received_messages = 0

    def add(self, other: "Traffic") -> None:
        """Count what went over another link, too."""
        self.sent_bytes += other.sent_bytes
        self.received_bytes += other.received_bytes
        self.sent_messages += other.sent_messages
        self.received_messages += other.received_messages
