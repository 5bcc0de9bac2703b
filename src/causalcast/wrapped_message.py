"""A message around another one: with a value, or for threads. What its publisher said is the
same."""

from collections.abc import Mapping
from datetime import datetime
from typing import Generic, TypeVar

from causalcast.any_node import MessageFields
from causalcast.core.ids import MessageId, NodeId

Raw = TypeVar("Raw", bound=MessageFields)


class WrappedMessage(Generic[Raw]):
    """All that can be known of a message; how it is acknowledged says who extends this."""

    __slots__ = ("raw",)

    def __init__(self, raw: Raw) -> None:
        self.raw = raw

    @property
    def id(self) -> MessageId:
        """Origin and number in one."""
        return self.raw.id

    @property
    def group(self) -> str:
        """The name of its group."""
        return self.raw.group

    @property
    def payload(self) -> bytes:
        """What was published, as bytes."""
        return self.raw.payload

    @property
    def origin(self) -> NodeId:
        """The node that published it."""
        return self.raw.origin

    @property
    def number(self) -> int:
        """Which of its origin's publications it is."""
        return self.raw.number

    @property
    def published_at(self) -> datetime | None:
        """When it was published, by its publisher's clock; None where it does not say."""
        return self.raw.published_at

    @property
    def headers(self) -> Mapping[str, str]:
        """What its publisher says of it, by name."""
        return self.raw.headers

    @property
    def content_type(self) -> str:
        """What kind of payload it is, in its publisher's words; empty if it does not say."""
        return self.raw.content_type

    @property
    def is_given_back(self) -> bool:
        """Whether it was given back."""
        return self.raw.is_given_back

    def __repr__(self) -> str:
        return repr(self.raw)
