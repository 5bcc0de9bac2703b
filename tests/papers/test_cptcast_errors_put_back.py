"""The errors of the thesis' printed algorithms, put back one by one: its schedule then fails.

`test_cptcast_thesis` has the schedules, and shows that ours pass. E2, E3, E8, E11 and E20 are put
back there, because what goes wrong is told in more detail. E21 is no slip but a limit of the idea:
without a safe path a link never becomes safe, as the tests of mass crashes show.
"""

from collections.abc import Callable
from typing import Any

import pytest
import test_cptcast_thesis as thesis

from causalcast.core.ids import NodeId, message_id
from causalcast.parts.safe_links.links import Link, SafeLinks
from causalcast.parts.safe_links.safe_path_setup import (
    DISCOVER,
    IDLE,
    SEARCHING,
    Adopt,
    Exchange,
    SafePathSetup,
)
from causalcast.protocols.cptcast.announcements import Announcements
from causalcast.protocols.cptcast.messages import IHave
from causalcast.protocols.cptcast.sender_order import SenderOrder
from causalcast.simulator.worlds import lives

_attempt_wait = SafePathSetup._wait
_note = Announcements.note
_on_buffer = SafePathSetup._on_buffer
_on_control = SafePathSetup._on_control
_on_discover = SafePathSetup._on_discover
_on_neighbour_up = SafeLinks.on_neighbour_up
_on_token = SenderOrder.on_token
_speak = SafePathSetup._speak


def number_of_the_tick(origin: NodeId, number: int) -> int:
    return message_id(origin, 1)  # two in one tick have the same


def pushed_after_a_payload(self: SenderOrder, link: Any, message: Any, out: Any) -> None:
    link.safe_out = True
    link.modes.make_eager(message)


def head_removed(self: SenderOrder, link: Any, message: Any, out: Any) -> None:
    if self._place(link, message) >= 0:
        link.queue.pop(0)
        self._pump(link, out)


def timer_started_again(self: SenderOrder, message: Any, out: Any) -> None:
    link = self.announcements.ran_out(message)
    if link is not None:
        self._graft(link, message, out)
    self.announcements.wait_again(message, out)


def first_announcer_noted(
    self: Announcements, link: Any, message: Any, hops: int, out: Any
) -> None:
    if message not in self.timed:
        _note(self, link, message, hops, out)


def both_directions_finished(self: SafePathSetup, exchange: Any, buffer: Any, out: Any) -> None:
    _on_buffer(self, exchange, buffer, out)
    exchange.state = IDLE
    out.cancel_timer(DISCOVER, exchange.link.name)


def late_control_taken(self: SafePathSetup, control: Any, out: Any) -> None:
    if control.target == self.owner.me and control.link not in self.exchanges:
        self.exchanges[control.link] = Exchange(Link(control.origin, control.link), False)
    _on_control(self, control, out)


def kept_by_peer(self: SafeLinks, peer: Any, link: Any, out: Any) -> None:
    if peer not in self.links:
        _on_neighbour_up(self, peer, link, out)


def path_polled(self: SafePathSetup, exchange: Any, kind: int, out: Any) -> None:
    _speak(self, exchange, kind, out)
    exchange.path = []


def one_timer_for_all(self: SafePathSetup, exchange: Any, out: Any) -> None:
    if exchange.state == SEARCHING:
        _attempt_wait(self, exchange, out)


def announced_back(self: SenderOrder, link: Any, message: Any, count: int, out: Any) -> None:
    out.send(link.peer, IHave(message, 0), link.name)


def announcement_taken(self: SenderOrder, link: Any, message: Any, out: Any) -> None:
    if isinstance(message, IHave):
        self._on_i_have(link, message, out)
    else:
        _on_token(self, link, message, out)


def own_flood_ignored(self: SafePathSetup, name: str, subject: int, out: Any) -> None:
    """Nothing follows an attempt that failed."""


def own_direction_reset(self: SafePathSetup, link: Any, discover: Any, out: Any) -> None:
    exchange = self.exchanges.get(discover.link)
    if discover.target == self.owner.me and exchange is not None:
        exchange.state = IDLE
    _on_discover(self, link, discover, out)


def safe_at_once(self: SafePathSetup, exchange: Any, hello: Any, out: Any) -> None:
    exchange.forget_beginning()
    self.owner.make_in_safe(exchange.link, {}, out)
    self.owner.make_out_safe(exchange.link, out)


def adopted_by_all(self: SafePathSetup, out: Any) -> None:
    for exchange in self.exchanges.values():
        if exchange.peer_born and not self.owner.born:
            self._send(exchange.link, Adopt(), out)


def a_new_link_becomes_safe_without_any_timer() -> None:
    """A–C–B and a new link A–B, everything prompt: the first attempts of both ends succeed."""
    edges = [(0, 2), (1, 2), (0, 1)]
    story = thesis.Story("prc_broadcast", edges, [(0, 1)], link_setup="safe_path")
    story.do("publish 2 all", "bring 2 0", "bring 2 1")
    story.link_appears(0, 1)
    for _ in range(8):
        for a in range(3):
            for b in range(3):
                story.all_from(a, b)
    assert story.link(0, 1).safe_out and story.link(1, 0).safe_out


def test_a_new_link_becomes_safe_without_any_timer() -> None:
    a_new_link_becomes_safe_without_any_timer()


Patches = list[tuple[Any, str, Any]]
ERRORS: list[tuple[str, Patches, Callable[[], None]]] = [
    (
        "E1",
        [(lives, "message_id", number_of_the_tick)],
        lambda: thesis.test_e1_two_broadcasts_at_once_are_two(*thesis.FAMILY[0]),
    ),
    (
        "E4",
        [(SenderOrder, "_make_eager", pushed_after_a_payload)],
        lambda: thesis.test_e4_nothing_that_is_ordered_travels_on_an_unsafe_direction("queue"),
    ),
    (
        "E5",
        [(SenderOrder, "peer_has", head_removed)],
        lambda: thesis.test_e5_evidence_removes_the_message_it_is_about("queue"),
    ),
    (
        "E6",
        [(SenderOrder, "ask_next", timer_started_again)],
        lambda: thesis.test_e6_the_timer_ends_when_nobody_is_left_to_ask("queue"),
    ),
    (
        "E7",
        [(Announcements, "note", first_announcer_noted)],
        lambda: thesis.test_e7_every_announcer_is_remembered("queue"),
    ),
    (
        "E9",
        [(SafePathSetup, "_on_buffer", both_directions_finished)],
        lambda: thesis.test_e9_and_e17_the_directions_of_a_link_are_made_safe_each_on_its_own(
            "queue"
        ),
    ),
    (
        "E10",
        [(SafePathSetup, "_on_control", late_control_taken)],
        thesis.test_e10_control_messages_of_a_link_that_is_gone_leave_nothing_behind,
    ),
    (
        "E12",
        [(SafeLinks, "on_neighbour_up", kept_by_peer)],
        thesis.test_e12_a_peer_that_comes_back_has_a_new_link,
    ),
    (
        "E13",
        [(SafePathSetup, "_speak", path_polled)],
        a_new_link_becomes_safe_without_any_timer,
    ),
    (
        "E14",
        [(SafePathSetup, "_wait", one_timer_for_all)],
        thesis.test_e14_a_slow_exchange_is_given_time_at_every_step,
    ),
    (
        "E15",
        [
            (SenderOrder, "_on_announced_known", announced_back),
            (SenderOrder, "on_token", announcement_taken),
        ],
        lambda: thesis.test_e15_an_acknowledgement_is_no_announcement("queue"),
    ),
    (
        "E16",
        [(SafePathSetup, "on_timer", own_flood_ignored)],
        thesis.test_e13_and_e16_an_attempt_whose_path_broke_is_followed_by_another,
    ),
    (
        "E17",
        [(SafePathSetup, "_on_discover", own_direction_reset)],
        a_new_link_becomes_safe_without_any_timer,
    ),
    (
        "E18",
        [(SafePathSetup, "_on_hello", safe_at_once)],
        thesis.test_e18_a_node_with_history_is_never_adopted,
    ),
    (
        "E19",
        [(SafePathSetup, "_ask_for_adoption", adopted_by_all)],
        lambda: thesis.test_e19_a_newcomer_is_born_through_one_link_only("safe_path"),
    ),
]


@pytest.mark.parametrize(("error", "patches", "schedule"), ERRORS, ids=[e[0] for e in ERRORS])
def test_with_the_error_put_back_its_schedule_fails(
    error: str,
    patches: Patches,
    schedule: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schedule()
    for owner, name, wrong in patches:
        monkeypatch.setattr(owner, name, wrong)
    with pytest.raises(AssertionError):
        schedule()
