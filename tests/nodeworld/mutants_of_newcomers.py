"""Bugs in how states go to newcomers, to be planted one at a time."""

from typing import Any

from causalcast.core.ids import GroupId
from causalcast.runtime.host import newcomers
from causalcast.runtime.host.compaction import Compaction
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.newcomers import Newcomers
from causalcast.runtime.host.state_desk import StateDesk
from causalcast.runtime.storage.durable_entry import Memory, StateStands
from causalcast.swarm.mutant import Mutant, Patch, Rewritten

COMPACTED = Compaction.__init__
TAKES = Memory._take_state


def nothing(*_: Any) -> None:
    """Where something should happen."""


def all_that_was_handled(self: Inbox, group: GroupId) -> dict[int, int]:
    return dict((self.handled or {}).get(group, {}))


def strikes_out_nothing(self: Inbox, group: GroupId, position: dict[int, int]) -> None:
    self.lacking.pop(group, None)


async def the_first_twice(self: Newcomers, peer: Any, group: int, body: bytes) -> bytes:
    nonce, _, start = body.decode().partition(" ")
    cut = self._cuts[peer, GroupId(group)]
    assert cut.state is not None and cut.nonce == nonce
    place = max(0, int(start) - newcomers.PIECE.value)
    return cut.state[place : place + min(newcomers.PIECE.value, len(cut.state) - int(start))]


def forgets_to_strike_out(self: Memory, entry: StateStands) -> None:
    TAKES(self, StateStands(entry.group, entry.lacks, {}))


def remembers_no_lack(self: Memory, entry: StateStands) -> None:
    if not entry.lacks:
        TAKES(self, entry)


def compacted_without_lacks(self: Compaction, snapshot: Any, inbox: Inbox, *more: Any) -> None:
    lacking, inbox.lacking = inbox.lacking, {}
    COMPACTED(self, snapshot, inbox, *more)
    inbox.lacking = lacking


def bug(name: str, mechanism: str, *patches: Patch | Rewritten) -> Mutant:
    return Mutant(name, mechanism, ["any"], patches)


MUTANTS = [
    bug(
        "cut_before_the_wish_is_reached",
        "a state is cut when the application has handled what came before the wish",
        Patch(StateDesk, "unhandled", lambda *_: set()),
    ),
    bug(
        "cut_while_something_is_handled",
        "a state is cut when the application has nothing in its hands",
        Patch(Inbox, "position", all_that_was_handled),
    ),
    bug(
        "handed_over_while_it_is_saved",
        "nothing is handed over while a state is saved",
        Patch(Inbox, "hold", nothing),
    ),
    bug(
        "piece_doubled",
        "pieces follow one another, and a digest says so",
        Patch(newcomers, "_digest", lambda _: b""),
        Patch(Newcomers, "_asked_for_piece", the_first_twice),
    ),
    bug(
        "piece_lost",
        "all pieces of a state are there before it is believed",
        Rewritten(
            Newcomers,
            "_fetch",
            "there += piece",
            "there += piece if there else bytes(len(piece))",
            [(" and _digest(bytes(there)) == answer.check", "")],
        ),
    ),
    bug(
        "stream_doubled",
        "what a state contains is not handed over again",
        Patch(Inbox, "cover", strikes_out_nothing),
    ),
    bug(
        "doubled_after_a_restart",
        "what a state contains is struck out of the journal",
        Patch(Memory, "_take_state", forgets_to_strike_out),
    ),
    bug(
        "lack_forgotten",
        "who crashes before it has the state asks for it again",
        Patch(Memory, "_take_state", remembers_no_lack),
    ),
    bug(
        "lack_compacted_away",
        "that a node lacks a state stands in the new journal",
        Patch(Compaction, "__init__", compacted_without_lacks),
    ),
]
