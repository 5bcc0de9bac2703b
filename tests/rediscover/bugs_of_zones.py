"""Past bugs of `causal_separators`: zones, their joints and the servers between them."""

from causalcast.protocols.causal_separators.channels import Channels
from causalcast.protocols.causal_separators.outgoing import Outgoing
from causalcast.protocols.causal_separators.zone_joining import ZoneJoining
from causalcast.protocols.causal_separators.zone_knowledge import ZoneKnowledge
from causalcast.protocols.causal_separators.zone_travel import ZoneTravel
from causalcast.swarm.mutant import Rewritten
from causalcast.swarm.past_bug import PastBug, Place

PAIRS = Place("causal_separators", {"zone_size": 2}, by="adversary")
PAIRS_AT_RANDOM = Place("causal_separators", {"zone_size": 2}, by="random")
STORIES = Place("causal_separators", {"zone_size": 2}, by="stories")
MESH = Place("causal_separators", {"zone_size": 2}, overlay="mesh")
DYING = Place("causal_separators", overlay="mesh", for_good=True)

MUTANTS = [
    PastBug(
        name="unit_overtook_what_its_lead_brought",
        mechanism="what a lead had brought itself it no longer named, though it was still on its "
        "way: an effect overtook it on another channel",
        mended="10a86dc",
        patches=[
            Rewritten(
                Outgoing, "_named", "        if carrier != self.ends.me:", "        if False:"
            )
        ],
        places=[MESH, STORIES, PAIRS],
    ),
    PastBug(
        name="group_of_one_zone_again",
        mechanism="when a zone was parted, a group had members in one zone only and its messages "
        "stayed there: a late member elsewhere got an older one and missed the next",
        mended="e202bed",
        schedule="group_of_one_zone_again_when_another_was_parted",
        patches=[
            Rewritten(
                ZoneKnowledge,
                "is_local",
                "return group not in self.spread",
                "return all(zone == self.home for zone in self.group_zones.get(group, {}))",
            )
        ],
        places=[STORIES, PAIRS, PAIRS_AT_RANDOM],
    ),
    PastBug(
        name="the_cut_was_there_before",
        mechanism="a server that came back opened its joint when the other side had the cut "
        "already, and kept the cut for ever",
        mended="1737317",
        schedule="the_cut_was_there_before",
        patches=[
            Rewritten(
                Outgoing,
                "begin_with",
                "    for place in list(self.kept):  # another server may have been faster\n"
                "        self._forget_if_there(place)\n",
                "",
            )
        ],
        places=[STORIES, PAIRS, PAIRS_AT_RANDOM],
    ),
    PastBug(
        name="units_brought_in_one_from_within_another",
        mechanism="a server that caught up brought one waiting unit in from within another, and "
        "died of too deep a recursion, again at every restart",
        mended="57636ed",
        schedule="catching_up_with_many_units",
        patches=[
            Rewritten(ZoneTravel, "_bring_in", "self._take_in(zone", "self.pass_on(zone"),
        ],
        places=[STORIES, PAIRS, PAIRS_AT_RANDOM],
    ),
    PastBug(
        name="what_is_said_when_done_crossed_at_some_servers",
        mechanism="servers that heard of the last one that was done at different times kept "
        "different units, asked one another for them, and the joint stayed half closed",
        mended="daf6411",
        patches=[
            Rewritten(
                ZoneJoining,
                "let_leave",
                "if not self._is_done(crossing, unit, news):",
                "if True:",
            )
        ],
        places=[STORIES, PAIRS, PAIRS_AT_RANDOM],
    ),
    PastBug(
        name="words_of_a_lead_in_the_other_zone_alone",
        mechanism="a server that died for good as it published could leave its words in the other "
        "zone alone; its own zone waited for ever for what everything from there named",
        mended="b64f1e0",
        patches=[
            Rewritten(
                Outgoing,
                "_way",
                "if kept.unit.origin == self.ends.me and in_turn != [self.ends.me]:",
                "if False:",
            ),
            Rewritten(
                Outgoing,
                "_turn_for",
                "for_another = unit.origin == self.ends.me == self.ends.servers[self.turn]",
                "for_another = False",
            ),
        ],
        places=[STORIES, DYING],
    ),
    PastBug(
        name="who_is_gone_is_not_doubted_after_a_restart",
        mechanism="a server that restarts was told by nobody who has long been gone, waited for "
        "that server, and nothing crossed",
        mended="e3fa840",
        patches=[
            Rewritten(
                Channels, "doubt_whom_no_link_leads_to", "if peer not in self._linked:", "if False:"
            )
        ],
        places=[STORIES, DYING],
    ),
]
