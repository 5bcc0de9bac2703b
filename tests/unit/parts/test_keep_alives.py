"""Keep-alives begin with the program: whoever is silent from the start is noticed too."""

import random

from causalcast.core.duration import SECOND
from causalcast.datagrams.point_to_point import (
    HELLO,
    NEVER,
    Effects,
    Failed,
    PointToPoint,
    PointToPointOptions,
    Transmit,
)


def layer(**options: int) -> PointToPoint:
    return PointToPoint(PointToPointOptions(**options), random.Random(1))


def test_a_peer_that_was_never_spoken_to_is_called_after_a_while() -> None:
    end = layer(retransmissions=2)
    end.watch(SECOND)
    assert end.deadline() == 11 * SECOND
    out: Effects = []
    end.poll(11 * SECOND - 1, out)
    assert out == []
    end.poll(11 * SECOND, out)
    (sent,) = out
    assert isinstance(sent, Transmit) and sent.datagram.kind == HELLO
    while not any(isinstance(effect, Failed) for effect in out):
        end.poll(end.deadline(), out)
    assert end.deadline() == NEVER


def test_who_speaks_first_calls_at_once_and_only_once() -> None:
    end = layer(retransmissions=0)
    end.watch(0)
    out: Effects = []
    end.send(b"hello", SECOND, out)
    while not any(isinstance(effect, Failed) for effect in out):
        end.poll(end.deadline(), out)
    calls = [e for e in out if isinstance(e, Transmit) and e.datagram.kind == HELLO]
    assert len(calls) == 1


def test_without_keep_alives_nobody_is_called() -> None:
    end = layer(keep_alive_every=0)
    end.watch(0)
    assert end.deadline() == NEVER
