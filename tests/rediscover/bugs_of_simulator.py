"""Past bugs of the simulated world, which protocols were blamed for."""

from causalcast.simulator.worlds.directed_world import DirectedWorld
from causalcast.simulator.worlds.links import Links
from causalcast.simulator.worlds.lives import Lives
from causalcast.simulator.worlds.sim_node import SimNode
from causalcast.simulator.worlds.simulation import Simulation
from causalcast.simulator.worlds.steps import Steps
from causalcast.swarm.mutant import Rewritten
from causalcast.swarm.past_bug import PastBug, Place

VECTORS = Place("vector_clock_broadcast", by="random")
LOCAMU = Place("locamu", by="adversary")
PAIRWISE = Place("compaction_pairwise", by="random")
PRC = Place("prc_broadcast", by="random")

MUTANTS = [
    PastBug(
        name="crash_after_recovery",
        mechanism="a crash that was to happen in the next step came after the recovery, and the "
        "node stayed down",
        mended="456763d",
        patches=[Rewritten(SimNode, "forget_volatile", "    self.crash_after = None\n", "")],
        places=[VECTORS],
    ),
    PastBug(
        name="crash_in_step_overtook_the_disk",
        mechanism="a node that crashed in the middle of a step sent what should have waited for "
        "the disk",
        mended="456763d",
        schedule="crash_in_step_overtook_disk",
        patches=[
            Rewritten(
                Steps,
                "_finish_half",
                "if node.disk.waiting or (entry is not None and self._sync_us > 0):",
                "if False:",
            )
        ],
        places=[VECTORS],
    ),
    PastBug(
        name="dial_never_answered",
        mechanism="a node crashed while it stood still; the dial that waited there was never "
        "answered nor given up",
        mended="456763d",
        schedule="dial_never_answered",
        patches=[
            Rewritten(
                Links,
                "dial",
                "self._world.plan(self._out.now + DIAL_TIMEOUT, lambda: self._refused(dialler, to, "
                "link))",
                "pass",
            )
        ],
        places=[VECTORS],
    ),
    PastBug(
        name="link_up_while_down",
        mechanism="a node crashed in the middle of losing an old link, and the new one came up all "
        "the same; nobody dialled any more",
        mended="efe2f59",
        schedule="link_up_while_down",
        patches=[
            Rewritten(
                Links,
                "_answer",
                "if self._is_down(other.me):",
                "if False:",
            )
        ],
        places=[VECTORS],
    ),
    PastBug(
        name="crash_while_told_of_a_new_link",
        mechanism="two worlds went on with a dial after the called node had crashed in the step "
        "that told it of the old link's end",
        mended="d6bf622",
        schedule="crash_while_told_of_a_new_link",
        patches=[
            Rewritten(DirectedWorld, "_dial", "if not self._is_down(to):", "if True:"),
        ],
        places=[Place("locamu", by="stories"), LOCAMU],
    ),
    PastBug(
        name="went_on_leaving_after_a_crash",
        mechanism="a node crashed in the step in which it left its last group, and went on leaving",
        mended="e1f8362",
        schedule="crash_while_leaving",
        patches=[Rewritten(Lives, "_fell", "return not node.up", "return False")],
        places=[PRC],
    ),
    PastBug(
        name="a_sync_let_out_twice",
        mechanism="a node that left waited for its disk; the sync under way then found an empty "
        "queue",
        mended="8ba1f13",
        patches=[
            Rewritten(
                Steps,
                "_sync",
                "if node.lives != lives or not node.up or node.disk.flushed != flushed:",
                "if node.lives != lives or not node.up:",
            )
        ],
        places=[PRC, VECTORS, Place("cptcast")],
    ),
    PastBug(
        name="overtaken_when_a_node_resumes",
        mechanism="what arrived in the instant a node resumed, or a link became known, overtook "
        "what had waited, on links that keep the order",
        mended="e5d3e89",
        patches=[
            Rewritten(
                Simulation,
                "resume",
                "            self.traffic.arrive(event)\n",
                "            self.plan(self.now, lambda event=event: self.traffic.arrive(event))\n",
            ),
            Rewritten(
                Links,
                "_answered",
                "        self._traffic.arrive(event)\n",
                "        self._world.plan(\n"
                "            self._out.now, lambda event=event: self._traffic.arrive(event))\n",
            ),
        ],
        places=[PRC, PAIRWISE, Place("cptcast")],
    ),
    PastBug(
        name="messages_passed_after_a_quick_heal",
        mechanism="a loud cut that healed before anybody heard of it left a gap on a link that "
        "promises order",
        mended="574535f",
        patches=[Rewritten(Links, "announce_loss", "one.current = False", "pass")],
        places=[PAIRWISE, PRC],
    ),
    PastBug(
        name="a_cut_announced_to_nobody",
        mechanism="a loud cut while only the accepting end knew a new link was told to nobody",
        mended="57636ed",
        patches=[
            Rewritten(
                Links,
                "announce_loss",
                "channel = self._nodes[a].channels.get(b) or self._nodes[b].channels.get(a)",
                "channel = self._nodes[a].channels.get(b)",
            ),
            Rewritten(
                Links,
                "linked_pairs",
                "linked = (pair(node.me, peer) for node in self._nodes for peer in node.channels)",
                "linked = (\n        (node.me, peer) for node in self._nodes for peer in "
                "node.channels if node.me < peer\n    )",
            ),
            Rewritten(
                Links, "_answered", "    self._refresh_channel(channel)  # it may", "    # it"
            ),
        ],
        places=[PAIRWISE],
    ),
]
