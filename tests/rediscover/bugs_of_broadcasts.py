"""Past bugs of what brings everything to everybody, and of what is kept for the dead."""

from causalcast.parts.broadcast.reliable_sending import ReliableSending
from causalcast.parts.safe_keeping import SafeKeeping
from causalcast.swarm.mutant import Patch, Rewritten
from causalcast.swarm.past_bug import PastBug, Place

VECTORS = Place("vector_clock_broadcast")
NARROW = Place("vector_clock_broadcast", {"window": 1})
DIRECT = Place("vector_clock_broadcast", {"spread": "direct"}, overlay="mesh")
STORIES = Place("vector_clock_broadcast", {"spread": "direct"}, overlay="mesh", by="stories")
NARROW_STORIES = Place("vector_clock_broadcast", {"window": 1}, by="stories")
DYING = Place("vector_clock_broadcast", {"spread": "direct"}, overlay="mesh", for_good=True)
HASTY = Place("vector_clock_broadcast", {"spread": "direct", "repeat_after": "3ms"}, overlay="mesh")

NO_DEBT = Rewritten(SafeKeeping, "_on_ask", "self._in_debt_to[sender] = None", "pass")

MUTANTS = [
    PastBug(
        name="sent_what_a_neighbour_told_it_has",
        mechanism="what a neighbour had acknowledged already was sent to it, repeated for ever, "
        "and looked for when it was forgotten: the node stopped",
        mended="c4b48ec",
        patches=[
            Rewritten(
                ReliableSending,
                "_spread",
                "if not neighbour.up or neighbour.has.has(identity):",
                "if not neighbour.up:",
            )
        ],
        places=[VECTORS, NARROW],
    ),
    PastBug(
        name="window_full_beyond_a_gap",
        mechanism="what lies beyond a gap was not acknowledged: with a full window it was repeated "
        "for ever, and what closes the gap waited behind it",
        mended="969cc47",
        schedule="window_full_beyond_gap",
        patches=[
            Rewritten(ReliableSending, "_acknowledge", "beyond.append(identity)", "pass"),
            Rewritten(ReliableSending, "_tell_all", "beyond = self.seen.beyond()", "beyond = []"),
            Patch(ReliableSending, "_is_far_ahead", lambda self, identity, neighbour: False),
        ],
        places=[NARROW_STORIES, NARROW],
    ),
    PastBug(
        name="kept_beyond_a_gap",
        mechanism="a message that was acknowledged beyond a gap was kept for ever",
        mended="969cc47",
        schedule="kept_beyond_gap",
        patches=[
            Rewritten(
                ReliableSending,
                "_learn",
                "        self._forget(origin_of(identity))\n",
                "",
            ),
        ],
        places=[VECTORS, NARROW, NARROW_STORIES],
    ),
    PastBug(
        name="kept_what_a_neighbour_sent",
        mechanism="who sends a message has it; it was kept for that neighbour for ever",
        mended="969cc47",
        patches=[
            Rewritten(
                ReliableSending,
                "accept",
                "neighbour.has.add(identity)  # who sends it has it",
                "pass",
            ),
        ],
        places=[VECTORS],
    ),
    PastBug(
        name="a_copy_does_not_free_the_window",
        mechanism="a copy that came from a neighbour took its place in the window, and what waited "
        "behind it was sent only much later, or never",
        mended="4e2c719",
        patches=[
            Rewritten(
                ReliableSending,
                "accept",
                "        if neighbour.queue:\n"
                "            self._send_queued(sender, neighbour, out)\n",
                "",
            ),
        ],
        places=[NARROW, VECTORS],
    ),
    PastBug(
        name="asking_ended_though_one_came_back",
        mechanism="who keeps copies of a living origin ceased to ask when somebody was away, and "
        "kept them for ever; whom the origin could not reach got nothing",
        mended="61fa13a",
        patches=[
            Rewritten(
                SafeKeeping,
                "on_timer",
                "            if not self._is_last_round():\n                continue\n",
                "            continue\n",
            ),
            NO_DEBT,
        ],
        places=[HASTY, STORIES, DYING],
    ),
    PastBug(
        name="offered_beyond_a_gap_without_end",
        schedule="offered_beyond_a_gap",
        mechanism="who has something beyond a gap was offered it without end by another that has "
        "no more",
        mended="61fa13a",
        patches=[
            Rewritten(
                SafeKeeping,
                "_on_answer",
                "if lacking and not self.is_away(origin):",
                "if lacking:",
            )
        ],
        places=[STORIES, DYING, DIRECT],
    ),
    PastBug(
        name="kept_after_the_asking_had_ended",
        mechanism="an origin told once that its copies are everywhere; where that was lost after "
        "the asking had ended, copies stayed for ever",
        mended="7c4ba97",
        patches=[NO_DEBT],
        places=[HASTY, STORIES, DYING],
    ),
    PastBug(
        name="last_offer_not_repeated",
        mechanism="the last offer of a copy was made once; lost, it was never made again",
        mended="7c4ba97",
        patches=[
            Rewritten(
                SafeKeeping,
                "tend",
                "if not self._is_last_round() or self._unanswered:",
                "if not self._is_last_round():",
            )
        ],
        places=[HASTY, STORIES, DYING],
    ),
    PastBug(
        name="asking_ended_while_all_was_on_its_way",
        mechanism="who keeps copies ceased to ask while they were only slow, and kept them",
        mended="d4dd887",
        patches=[
            Rewritten(
                SafeKeeping,
                "_on_ask",
                "soon = soon or (count < oldest and self._owner.is_on_its_way(group, oldest))",
                "pass",
                also=[("self._in_debt_to[sender] = None", "pass")],
            ),
        ],
        places=[HASTY, STORIES, DYING],
    ),
    PastBug(
        name="a_dead_origin_took_its_message_along",
        mechanism="copies that go straight from their origin were lost to some if it died for good "
        "in the middle of sending them",
        mended="2799be5",
        patches=[Patch(ReliableSending, "_keep_safe", lambda self, identity, message: None)],
        places=[DYING, STORIES],
    ),
    PastBug(
        name="a_run_has_no_size",
        mechanism="publications that came as one and were kept had no size: a node without a "
        "journal stopped",
        mended="3ddcfaa",
        patches=[
            Rewritten(
                ReliableSending,
                "body_bytes",
                "    if isinstance(message, Run):\n        return message.size\n",
                "",
            )
        ],
        places=[Place("vector_clock_broadcast", nodes=True), DIRECT],
    ),
]
