"""Past bugs of overlays that change, and of protocols that live on them."""

from causalcast.overlays.hyparview import HyParView
from causalcast.parts.safe_links.links import SafeLinks
from causalcast.parts.safe_links.vector_setup import VectorSetup
from causalcast.swarm.mutant import Patch, Rewritten
from causalcast.swarm.past_bug import PastBug, Place

PRC_VECTORS = Place("prc_broadcast", {"link_setup": "vector"}, by="random")
CPTCAST = Place("cptcast")
PLUMTREE = Place("plumtree", by="random")

MUTANTS = [
    PastBug(
        name="newcomers_among_themselves",
        mechanism="newcomers that had only one another as neighbours never complained: nobody was "
        "there to let them be born",
        mended="e1f8362",
        patches=[Patch(SafeLinks, "_complain", lambda self, out: None)],
        places=[PRC_VECTORS],
    ),
    PastBug(
        name="newcomers_cease_to_ask_their_contact",
        mechanism="two newcomers that were linked with one another only had links, so neither "
        "asked its contact again",
        mended="40e6217",
        patches=[
            Rewritten(
                HyParView,
                "_fill",
                "if self._is_newcomer() and TO_JOIN not in self.asked.values() and not "
                "self._fill_armed:",
                "if False:",
            ),
            Rewritten(
                HyParView,
                "_arm_fill",
                "hungry = len(self.active) < self.settings.active or self._is_newcomer()",
                "hungry = len(self.active) < self.settings.active",
                also=[
                    (
                        "hopeful = bool(self.passive) or not self.active or self._is_newcomer()",
                        "hopeful = bool(self.passive) or not self.active",
                    )
                ],
            ),
        ],
        places=[PRC_VECTORS, PLUMTREE],
    ),
    PastBug(
        name="counts_asked_for_without_end",
        mechanism="where the log of a vector set-up did not reach, both ends asked one another "
        "again and again for ever",
        mended="c420307",
        patches=[
            Rewritten(
                VectorSetup,
                "_on_too_far_behind",
                "        self._behind[link.name] = Gap(needed, told.hears)\n",
                "        self._tell_counts(link, out)\n",
            )
        ],
        places=[Place("prc_broadcast", {"link_setup": "vector", "log": 4}, by="random"), CPTCAST],
    ),
    PastBug(
        name="a_dead_contact_is_dialled_without_a_pause",
        mechanism="a newcomer whose contact died before its welcome arrived dialled it without a "
        "pause, thousands of times a second",
        mended="57636ed",
        patches=[
            Rewritten(
                HyParView,
                "_fill",
                "TO_JOIN not in self.asked.values() and not self._fill_armed:",
                "TO_JOIN not in self.asked.values():",
            ),
            Rewritten(
                HyParView,
                "_could_not_dial",
                "if self.active or self.passive:",
                "if True:",
            ),
        ],
        places=[PLUMTREE],
    ),
    PastBug(
        name="turned_round_in_a_circle",
        mechanism="a few nodes without room turned a newcomer to one another in a circle, without "
        "a pause",
        mended="57636ed",
        patches=[
            Rewritten(
                HyParView,
                "_on_turn_to",
                "and self._turns <= self.settings.active_walk",
                "",
            )
        ],
        places=[PLUMTREE],
    ),
    PastBug(
        name="newcomers_evict_one_another",
        mechanism="evictions cut newcomers off while they depended on one link: overlays that many "
        "joined at once ended in several parts",
        mended="76fa412",
        patches=[Patch(HyParView, "_takes_newcomers", lambda self, now: True)],
        places=[PLUMTREE],
    ),
    PastBug(
        name="parts_never_look_for_each_other",
        mechanism="overlays stayed split by joins alone: parts were full of one another and never "
        "looked elsewhere",
        mended="57636ed",
        patches=[Patch(HyParView, "_look", lambda self, out: None)],
        places=[PLUMTREE],
    ),
]
