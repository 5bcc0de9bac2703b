"""The codec of a simulation: that of real nodes, or the plain one where there is no msgspec."""

from collections.abc import Sequence

from causalcast.core.message import Message
from causalcast.wire.forms import Forms
from causalcast.wire.plain_codec import PlainCodec


def codec_of(layers: Sequence[Sequence[type[Message]]]) -> Forms:
    """A codec of these messages. Both kinds give the same bytes."""
    try:
        from causalcast.wire.codec import codec_of as checked_codec_of
    except ModuleNotFoundError as error:
        if error.name != "msgspec":
            raise
        return PlainCodec(layers)
    return checked_codec_of(layers)
