"""Finds steps whose order makes no difference, so that a search need try only one order.

A node's steps are what arrives there, first of each queue, and its publications. Such a step reads
and changes that node alone, takes the head of one queue into it and adds to the ends of queues that
lead away. So steps of different nodes commute: neither hinders the other, and both orders lead to
the same state.

In a state, take some nodes such that into each of them every queue from outside has a head already,
or its link is gone. Whatever the others do, in whatever order and however often, cannot add to what
these nodes can do next, nor take from it: their steps are a *persistent set* (P. Godefroid,
"Partial-Order Methods for the Verification of Concurrent Systems", 1996). It is enough to try only
these steps here: in any other run the first of them that happens can be moved to the front, for it
commutes with all that came before; and a run in which none of them happens can still be made when
they have happened.

So of every run that is left out one is searched in which each node takes the same steps in the same
order, and perhaps further ones. What is judged survives that: every memory of every node is seen
(invariants, exceptions); logs in which order is broken or something came twice stay broken, however
they go on; and a state in which nothing is left to happen is reached as it is (agreement, what must
hold at rest).

What this takes, and who sees to it:

- Links are FIFO, and publications and arrivals are the only steps. The explorer reduces nothing
  while a fault may still happen: a cut that is left could come before or after any step. It refuses
  to go on if a step dials or hangs up, which touches two nodes at once.
- Nobody is put off for ever by others that go round in circles: where a choice leads back to places
  that were expanded before, the explorer tries everything.
"""

from collections.abc import Sequence

from causalcast.core.ids import NodeId
from causalcast.simulator.scenarios.director import Step
from causalcast.simulator.worlds.directed_world import Way
from causalcast.swarm.world_states import State


def enough_to_try(state: State, steps: Sequence[Step]) -> Sequence[Step]:
    """The smallest such set of steps that is found; all of them if there is no smaller one."""
    silent = _ways_that_may_begin_to_speak(state)
    best = steps
    for start in range(len(state.memories)):
        nodes = {start}
        size = 0
        while len(nodes) > size:
            size = len(nodes)
            nodes |= {sender for sender, to in silent if to in nodes}
        chosen = [step for step in steps if node_of(step) in nodes]
        if 0 < len(chosen) < len(best):
            best = chosen
    return best


def node_of(step: Step) -> int:
    """Whose step it is: where something arrives, or who publishes."""
    return int(step[2] if step[0] == "arrive" else step[1])


def _ways_that_may_begin_to_speak(state: State) -> list[Way]:
    """Nothing is under way on them, and their links are live."""
    under_way = dict(state.queues)
    return [
        (NodeId(sender), to)
        for sender, links in enumerate(state.links)
        for to, link in links
        if (sender, to) not in under_way and link in state.live
    ]
