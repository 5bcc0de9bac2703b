"""Whom a node sends to: the first live node on each way, and whether that can be enough."""

from line_of_five import N0, N1, N2, N3, N4, state_of

from causalcast.core import Outbox
from causalcast.protocols.locamu.messages import StartOver


def test_the_first_live_node_on_each_way_is_sent_to() -> None:
    peers = state_of(N2).peers
    assert list(peers.active) == [N1, N3]
    peers.suspected[N3] = None
    peers.refresh()
    assert list(peers.active) == [N1, N4]


def test_it_is_said_once_when_too_many_are_down_and_when_no_longer() -> None:
    peers, out = state_of(N2).peers, Outbox()
    peers.suspected = {N3: None}
    peers.watch_budget(out)
    assert not out.effects
    peers.suspected = {N3: None, N4: None}
    peers.watch_budget(out)
    peers.watch_budget(out)
    peers.suspected = {}
    peers.watch_budget(out)
    names = [effect.name for effect in out.effects]  # type: ignore[attr-defined]
    assert names == ["locamu.too_many_down", "locamu.within_budget"]
    assert peers.fits_budget(N1, {N4: None}) and not peers.fits_budget(N1, {N0: None})


def test_nothing_is_sent_where_there_is_no_link() -> None:
    peers, out = state_of(N2).peers, Outbox()
    del peers.links[N1]
    peers.tell(N1, StartOver(), out)
    peers.tell(N3, StartOver(), out)
    assert [effect.to for effect in out.effects] == [N3]  # type: ignore[attr-defined]
