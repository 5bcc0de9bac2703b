"""Past bugs of whole nodes: journal, links, inbox, trace, and what a stop leaves behind."""

import asyncio
from typing import Any

from causalcast.detectors.adaptive_heartbeat import AdaptiveHeartbeat
from causalcast.detectors.heartbeat import Heartbeat
from causalcast.protocols.causal_separators.spec import SPEC as ZONES
from causalcast.runtime.host import host
from causalcast.runtime.host.acknowledgements import Acknowledgements
from causalcast.runtime.host.back_pressure import BackPressure
from causalcast.runtime.host.earlier_life import EarlierLife
from causalcast.runtime.host.host import Host
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.link_listener import LinkListener
from causalcast.runtime.host.silent_neighbours import SilentNeighbours
from causalcast.runtime.host.steps import Steps
from causalcast.runtime.links import greeter
from causalcast.runtime.links.links import Links
from causalcast.runtime.received_message import Caller, ReceivedMessage
from causalcast.runtime.security.admission import Admission
from causalcast.runtime.storage.journal import Journal, JournalFile
from causalcast.swarm.mutant import Patch, Rewritten
from causalcast.swarm.past_bug import PastBug, Place
from causalcast.trace.node_log import NodeLog
from causalcast.wire.framing import FrameReader

VECTORS = Place("vector_clock_broadcast", nodes=True)
CBCAST = Place("cbcast", nodes=True)
LOCAMU = Place("locamu", nodes=True)
CPTCAST = Place("cptcast", nodes=True)


def about(tale: str) -> Place:
    return Place("vector_clock_broadcast", nodes=True, tale=tale)


POURED = about("somebody stops while all publish")
DIALLING = about("somebody stops while it dials")
DIALLING_FAR = Place("locamu", nodes=True, tale="somebody stops while it dials")
TRACE = about("a trace that fails")
TIGHT = about("a tight disk")
STILL = about("a neighbour stands still")
FLAKY = about("a link that does not last")
OLD = about("an old disk alone")
LONG = about("long messages on slow ways")
AWAY = about("somebody is away")


async def drain_when_idle(self: Journal) -> None:
    """Wait for a moment in which nothing is under way."""
    while self._running is not None or self._jobs:
        self.commit()
        drained: asyncio.Future[None] = self._loop.create_future()
        self._drains.append((self._sequence, drained))
        await drained


def call_apart(self: Inbox, groups: list[Any], handle: Any) -> None:
    for group in groups:
        self.call(group, handle)


# A node once took everything in until its last link was closed, and waited for the disk once.
NO_SECOND_LOOK = Rewritten(
    Host,
    "stop",
    "    running.has_gone = True\n",
    "",
    also=[("    await self._drain()  # what came meanwhile, too: its rows", "    # its rows")],
)
AT_THE_END = (
    "    running.has_gone = True\n    self._timers.cancel_all()\n    await self.links.close()\n"
)

MUTANTS = [
    PastBug(
        name="stop_waits_for_an_idle_journal",
        mechanism="a node that stopped waited for a moment in which its journal had nothing to do: "
        "never, while its application went on publishing",
        mended="57636ed",
        patches=[Patch(Journal, "drain", drain_when_idle)],
        places=[POURED],
    ),
    PastBug(
        name="a_send_while_links_close",
        mechanism="a send while a node closed its links raised KeyError: effects of a durable step "
        "were lost, or the node failed",
        mended="57636ed",
        patches=[
            Rewritten(Links, "send", "dial = self._dials.get(to)", "dial = self._dials[to]"),
        ],
        places=[POURED],
    ),
    PastBug(
        name="a_send_while_links_close_unheard",
        mechanism="… and as what was performed was counted first and errors were not caught, the "
        "trace claimed rows that it did not have",
        mended="57636ed",
        patches=[
            Rewritten(Links, "send", "dial = self._dials.get(to)", "dial = self._dials[to]"),
            Rewritten(
                Steps,
                "on_durable",
                "    first = sequence - len(places) + 1\n",
                "    first = sequence - len(places) + 1\n    self.performed = sequence\n",
                also=[
                    ("except Exception as error:", "except ZeroDivisionError as error:"),
                ],
            ),
        ],
        places=[POURED],
    ),
    PastBug(
        name="stopped_while_it_dialled",
        mechanism="a node that stopped while it dialled raised CancelledError out of a callback",
        mended="2175480",
        patches=[
            Rewritten(Links, "_crossed_by", " or connection.greeted.cancelled()", ""),
        ],
        places=[DIALLING],
    ),
    PastBug(
        name="rows_behind_the_farewell",
        mechanism="while its links closed a node still took messages in, and their rows stood "
        "behind its last one: it looked like a crash",
        mended="d345479",
        patches=[NO_SECOND_LOOK],
        places=[DIALLING],
    ),
    PastBug(
        name="a_drop_behind_the_last_row",
        mechanism="what could not leave any more was noted behind the last row of a node that "
        "stopped: it looked like a crash",
        mended="a3ad89b",
        patches=[
            Rewritten(LinkListener, "dropped", "if not self._running.has_gone:", "if True:"),
        ],
        places=[DIALLING_FAR, DIALLING],
    ),
    PastBug(
        name="a_publisher_hears_last",
        mechanism="a publisher heard of its durable record after all other effects; if one of them "
        "stopped the node, it waited for ever",
        mended="b995eb6",
        patches=[
            Rewritten(
                Steps,
                "on_durable",
                "            if step.publisher is not None:\n"
                "                self._announce_published(step)  # first: it is, whatever comes of "
                "the rest\n"
                "            self._happen(step.rows, step.actions)\n",
                "            self._happen(step.rows, step.actions)\n"
                "            if step.publisher is not None:\n"
                "                self._announce_published(step)\n",
            )
        ],
        places=[VECTORS, CBCAST],
    ),
    PastBug(
        name="a_damaged_trace_keeps_a_node_from_starting",
        mechanism="after a power cut a node refused to start because of its trace log, though its "
        "journal was whole",
        mended="57636ed",
        patches=[
            Rewritten(
                host,
                "open_log",
                "except TraceError as error:",
                "except ZeroDivisionError:",
                also=[
                    ('on_trouble(f"{error}; it is put aside, and a new one begins")', "pass"),
                    ("except (OSError, TraceError) as error:", "except OSError as error:"),
                ],
            )
        ],
        places=[TRACE],
    ),
    PastBug(
        name="a_full_trace_stops_a_node",
        mechanism="a trace that could not be written stopped a node",
        mended="57636ed",
        patches=[
            Rewritten(NodeLog, "_append", "self._failed(error)\n        return False", "raise")
        ],
        places=[TRACE],
    ),
    PastBug(
        name="an_async_callback_is_never_run",
        mechanism="an async function given to on_message was never run, and every message counted "
        "as handled",
        mended="57636ed",
        patches=[
            Rewritten(
                Caller,
                "hand_over",
                "if result is not None and inspect.isawaitable(result):",
                "if False:",
            )
        ],
        places=[VECTORS],
    ),
    PastBug(
        name="given_back_twice_comes_twice",
        mechanism="what was given back twice was handed over twice",
        mended="57636ed",
        patches=[
            Rewritten(ReceivedMessage, "give_back", "if not self.is_given_back:", "if True:"),
        ],
        places=[VECTORS],
    ),
    PastBug(
        name="an_acknowledgement_after_the_end_hangs",
        mechanism="a durable acknowledgement after the node had stopped waited for ever",
        mended="57636ed",
        patches=[
            Rewritten(Acknowledgements, "add", "if self._running.is_over:", "if False:"),
        ],
        places=[POURED],
    ),
    PastBug(
        name="no_room_for_a_compaction_stops_the_node",
        mechanism="a compaction for which the disk had no room stopped the node, instead of being "
        "put off",
        mended="e9dc9fb",
        patches=[
            Rewritten(
                JournalFile,
                "_write_beside",
                "raise NotCompacted(str(error.strerror)) from None",
                "raise JournalError('it cannot be compacted') from None",
            )
        ],
        places=[TIGHT],
    ),
    PastBug(
        name="a_silent_neighbour_stops_publishers",
        mechanism="a process that stood still kept its links, and no publisher of its neighbours "
        "went on until it woke",
        mended="57636ed",
        patches=[Patch(SilentNeighbours, "_look", lambda self: None)],
        places=[STILL],
    ),
    PastBug(
        name="groups_read_apart",
        mechanism="groups that an application reads together were handed over one after the other: "
        "an effect before its cause in another group",
        mended="c7d702f",
        patches=[
            Patch(Inbox, "call_together", call_apart),
        ],
        places=[VECTORS, CBCAST],
    ),
    PastBug(
        name="acknowledged_twice_is_not_waited_for",
        mechanism="what was acknowledged again while its mark was on its way counted as durable at "
        "once",
        mended="57636ed",
        patches=[
            Rewritten(
                Acknowledgements,
                "add",
                "return next(reversed(self._marked_later), None)",
                "return None",
            )
        ],
        places=[VECTORS, CBCAST],
    ),
    PastBug(
        name="links_are_dialled_without_a_pause",
        mechanism="a link that was lost as soon as it was there was dialled again at once, 125 "
        "times a second",
        mended="57636ed",
        patches=[Patch(Links, "_think_of_pause", lambda self, connection: None)],
        places=[FLAKY],
    ),
    PastBug(
        name="an_old_disk_is_believed",
        mechanism="a disk that went back in time was not noticed: the node gave out numbers a "
        "second time, others took them for old ones, and acknowledged publications vanished",
        mended="57636ed",
        patches=[
            Patch(greeter, "went_back", lambda now, known: ""),
            Patch(EarlierLife, "check_trace", lambda self, trace: None),
        ],
        places=[OLD],
    ),
    PastBug(
        name="a_lost_tail_that_was_used_up_again",
        mechanism="where only the end of a journal was missing, a node that used up as many "
        "numbers again, alone, and then started once more, was not noticed",
        mended="9012599",
        patches=[
            Rewritten(
                greeter,
                "went_back",
                "following = now.at(known.start + 1) or PastLife(now.life, now.began)",
                "following = PastLife(now.life, now.began)",
            ),
            Patch(EarlierLife, "check_trace", lambda self, trace: None),
        ],
        places=[OLD],
    ),
    PastBug(
        name="numbers_that_went_to_other_groups_cut_a_link",
        mechanism="a number far ahead of the greatest that was seen of its origin, over all "
        "groups, was refused: who had published much to other groups lost its link for ever",
        mended="57636ed",
        patches=[
            Rewritten(
                Admission,
                "_check_new",
                "furthest = self._furthest(origin)",
                "from causalcast.parts.broadcast.reliable_sending import LEAST_AHEAD\n"
                "        furthest = self._greatest.get(origin, 0) + LEAST_AHEAD.value",
            )
        ],
        places=[CBCAST, LOCAMU],
    ),
    PastBug(
        name="what_is_longer_than_a_frame_is_refused",
        mechanism="a message that is longer than a frame ended its link, which was dialled again, "
        "for ever: nobody could join where much is kept",
        mended="57636ed",
        patches=[
            Rewritten(
                FrameReader,
                "filled",
                "        more = length & MORE\n",
                "        more = length & MORE\n"
                "        if more:\n            raise WireError('a message in pieces')\n",
            )
        ],
        places=[VECTORS, CPTCAST],
    ),
    PastBug(
        name="beats_wait_behind_what_is_long",
        mechanism="only whole messages were a sign of life: who sent something long over a slow "
        "link was suspected in the middle, again and again",
        mended="57636ed",
        patches=[
            Patch(AdaptiveHeartbeat, "on_heard", lambda self, peer, out: None),
            Patch(Heartbeat, "on_heard", lambda self, peer, out: None),
        ],
        places=[LONG],
    ),
    PastBug(
        name="publishers_that_wait_for_room_never_hear_of_the_end",
        mechanism="publishers that waited for room when their node stopped waited for ever",
        mended="57636ed",
        patches=[
            Rewritten(
                BackPressure,
                "is_overloaded",
                "if self._running.is_over or self._running.is_stopping:",
                "if False:",
            )
        ],
        places=[POURED],
    ),
    PastBug(
        name="a_given_back_message_wakes_nobody",
        mechanism="what was given back stayed there until something else came",
        mended="57636ed",
        patches=[Rewritten(Inbox, "give_back", "    self._something_is_there(inbox)\n", "")],
        places=[VECTORS, CBCAST],
    ),
    PastBug(
        name="what_is_kept_for_the_absent_has_no_limit",
        mechanism="what an absent neighbour lacks was kept without limit or word",
        mended="69c0b33",
        patches=[
            Rewritten(
                BackPressure,
                "_others_wait",
                "or self._stack.multicast.kept_bytes() > self._kept_bytes",
                "",
            )
        ],
        places=[AWAY],
    ),
    PastBug(
        name="what_waited_for_the_disk_stood_behind_the_farewell",
        mechanism="what came while a node stopped and waited for the disk was noted behind its "
        "last row: it looked like a crash",
        mended="34571bb",
        patches=[
            Rewritten(
                Host,
                "stop",
                "    running.has_gone = True\n    self._timers.cancel_all()\n"
                "    await self._drain()  # what came meanwhile, too: its rows stand before the "
                "last one\n",
                "",
                also=[("    await self.links.close()\n", AT_THE_END)],
            )
        ],
        places=[DIALLING],
    ),
    PastBug(
        name="a_healthy_node_is_refused_as_older_storage",
        mechanism="what others had passed on of a neighbour counted, after a crash, as if the "
        "neighbour had said it in the life that was known: it was refused for ever",
        mended="fd9616a",
        patches=[
            Rewritten(
                Host,
                "_begin",
                "    self.parts.steps.persisting.update(",
                "    if not self.blueprint.hosted():\n"
                "        from causalcast.core.ids import number_of, origin_of\n"
                "        from causalcast.runtime.lives import Known\n"
                "        met = self._acquaintances._met\n"
                "        for record in records:\n"
                "            for one in self.wire.codec.publications(record.message):\n"
                "                known = met.get(origin_of(one.id))\n"
                "                if known is not None and number_of(one.id) > known.published:\n"
                "                    met[origin_of(one.id)] = Known(\n"
                "                        known.incarnation, known.start, known.life,\n"
                "                        number_of(one.id))\n"
                "    self.parts.steps.persisting.update(",
            )
        ],
        places=[VECTORS, CBCAST],
    ),
    PastBug(
        name="bodies_at_the_limit_grow_in_zones",
        mechanism="a body of body_bytes did not fit where zones add to it: its link was cut, "
        "again and again",
        mended="fd9616a",
        patches=[Patch(ZONES, "adds_to_bodies", 0)],
        places=[Place("causal_separators", nodes=True)],
    ),
]
