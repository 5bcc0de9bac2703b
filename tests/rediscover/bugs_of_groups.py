"""Past bugs of protocols that send to members alone, and of those with a link at a time."""

from causalcast.parts.broadcast.reliable_sending import ReliableSending
from causalcast.parts.safe_keeping import SafeKeeping
from causalcast.protocols.cbcast.farewells import Farewells
from causalcast.protocols.cbcast.protocol import Cbcast
from causalcast.protocols.cbcast.vouching import Vouching
from causalcast.protocols.delta_neighbourhood import DeltaNeighbourhood
from causalcast.protocols.member_multicast.protocol import MemberCausalMulticast
from causalcast.swarm.mutant import Patch, Rewritten
from causalcast.swarm.past_bug import PastBug, Place

CBCAST_STORIES = Place("cbcast", by="stories")
CBCAST_DYING = Place("cbcast", for_good=True, overlay="mesh")
PAIRWISE = Place("compaction_pairwise", by="random")

MUTANTS = [
    PastBug(
        name="new_members_wait_for_each_other",
        mechanism="a join named publications too: two new members that waited for each other's "
        "never welcomed each other",
        mended="14a363b",
        patches=[
            Rewritten(
                Cbcast, "_changed_for", "if group == EVERYBODY and other != EVERYBODY:", "if False:"
            )
        ],
        places=[CBCAST_STORIES, CBCAST_DYING],
    ),
    PastBug(
        name="an_effect_reached_a_leaver_without_its_cause",
        mechanism="a node that left a group did not wait for causes of that group; if all others "
        "that had one died, members waited for ever for what the leaver said",
        mended="02dc849",
        patches=[
            Rewritten(Farewells, "lacks", "if leave is None or sender in leave.heard:", "if True:")
        ],
        places=[CBCAST_STORIES, CBCAST_DYING],
    ),
    PastBug(
        name="nobody_asked_as_long_as_nobody_had_said_farewell",
        mechanism="a leave that nobody has heard of did not count as something kept, and questions "
        "about it were not asked",
        mended="b8b6f80",
        patches=[
            Rewritten(
                Farewells,
                "size",
                "1 + len(leave.heard) + len(leave.counts)",
                "len(leave.heard) + len(leave.counts)",
            )
        ],
        places=[CBCAST_STORIES, CBCAST_DYING],
    ),
    PastBug(
        name="questions_about_welcomes_were_given_up",
        mechanism="questions about welcomes and farewells were sent seven times and then given up; "
        "where much is lost none might arrive",
        mended="008cd7a",
        patches=[
            Rewritten(
                Vouching,
                "ask",
                "self._sending.tell(present, Unwelcomed(group, time, counts), out)",
                "[out.send(p, Unwelcomed(group, time, counts)) for p in present]",
                also=[
                    (
                        "self._sending.tell(present, unheard, out)",
                        "[out.send(p, unheard) for p in present]",
                    )
                ],
            ),
            Rewritten(
                Cbcast,
                "on_message",
                "    held = self.waiting.size()\n",
                "    if isinstance(message, Unwelcomed):\n"
                "        self._on_unwelcomed(sender, message, out)\n"
                "        return\n"
                "    if isinstance(message, Unheard):\n"
                "        self._on_unheard(sender, message, out)\n"
                "        return\n"
                "    held = self.waiting.size()\n",
            ),
        ],
        places=[CBCAST_STORIES, CBCAST_DYING],
    ),
    PastBug(
        name="the_hold_back_queue_was_full",
        mechanism="what arrived while 1,024 messages were held was dropped, even the one they "
        "waited for: a member was deaf for ever",
        mended="57636ed",
        schedule="hold_back_queue_was_full",
        patches=[
            Rewritten(
                MemberCausalMulticast,
                "_take",
                "    stamped = Stamped(",
                "    if self.multicast.held_count() >= 1024:\n        return\n"
                "    stamped = Stamped(",
            )
        ],
        places=[Place("member_multicast", by="stories"), Place("member_multicast")],
    ),
    PastBug(
        name="who_died_half_way_held_up_the_living",
        mechanism="after a member died half-way through a message, everything the living said to "
        "each other was held back behind it for ever",
        mended="57636ed",
        patches=[
            Rewritten(
                MemberCausalMulticast,
                "on_neighbour_down",
                "self._send(self.members[other], Lost(peer, has), out)",
                "pass",
            )
        ],
        places=[
            Place("member_multicast"),
            Place("member_multicast", for_good=True),
            Place("member_multicast", by="stories"),
        ],
    ),
    PastBug(
        name="one_publication_began_within_another",
        mechanism="all that was published while a node was down began at one stroke, each from "
        "within the one before: the node died of too deep a recursion",
        mended="57636ed",
        schedule="many_publications_wait_for_a_crashed_node",
        patches=[
            Rewritten(
                DeltaNeighbourhood,
                "_finish",
                "    passage.is_confirmed = True\n",
                "    passage.is_confirmed = True\n"
                "    if passage.back == NOBODY:\n        self._start_next(out)\n",
            )
        ],
        places=[Place("delta_neighbourhood", by="stories"), Place("delta_neighbourhood")],
    ),
    PastBug(
        name="changes_of_an_earlier_link",
        mechanism="a copy that said what had changed on one link waited for the disk and left on "
        "the next; the other end took it for a whole clock",
        mended="84f0efa",
        schedule="changes_of_an_earlier_link",
        patches=[
            Rewritten(
                ReliableSending, "_send", "out.send(peer, message, link)", "out.send(peer, message)"
            )
        ],
        places=[PAIRWISE],
    ),
    PastBug(
        name="a_dead_sender_left_some_members_without",
        mechanism="a message whose sender died for good in the middle was at some members only, "
        "and what followed from it waited for ever elsewhere",
        mended="29c184a",
        patches=[Patch(SafeKeeping, "keep", lambda self, origin, name, message, others: False)],
        places=[CBCAST_DYING, CBCAST_STORIES],
    ),
    PastBug(
        name="kept_again_what_is_everywhere",
        mechanism="a copy that an outsider had forgotten came back from others who had not heard "
        "that it is everywhere, was kept again and entrusted again",
        mended="f98cdd9",
        patches=[
            Rewritten(
                SafeKeeping,
                "keep",
                "if number <= shelf.everywhere or number in shelf.copies:",
                "if number in shelf.copies:",
            )
        ],
        places=[CBCAST_STORIES, CBCAST_DYING, Place("cbcast")],
    ),
]
