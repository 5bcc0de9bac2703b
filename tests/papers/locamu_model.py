"""A model of LoCaMu, searched exhaustively: does anybody wait for ever for a node that is down?

It has what decides who waits for whom, and nothing else: which messages a node processed, in which
order, and from whom. Numbers, pasts and what a message depends on follow from that. There are no
acknowledgements and no timers: what can be sent is sent in the end. Suspicions are arbitrary, so a
copy may go to any of its targets, past those between. Names are perfect: who has a message knows
all its numbers. How far the past is known, how many numbers a copy needs, and whom a message is led
to are those of the program.

`fallen` are the nodes that never come back, any set that the fault budget allows. They may as well
all fall at the same moment, after everything else has happened: a node that is up longer only makes
more possible. So what can happen is explored with everybody up, once for all such sets; and in each
state it is asked for each set what would happen if they fell now. If nothing more can happen, every
node that is up must have every message led to it that another one that is up has.

The rules, for f of 1, are what the program does: `lead` (a publication is led to everybody within
reach of its publisher) and `replay` (who got a publication from its publisher sends it in its
place, once that fell). Without one of them nodes wait.

    python tests/papers/locamu_model.py --nodes 5 --messages 3
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator

Edges = tuple[tuple[int, int], ...]
Message = tuple[int, int]  # its publisher; the nodes it is for, as bits
State = tuple[int, ...]  # of each node the last thing it processed, or 0
ALL_RULES = "lead replay"


class Tree:
    """Distances and ways in a tree, and which sets of nodes may fall."""

    def __init__(self, edges: Edges, f: int) -> None:
        self.edges = edges
        self.f = f
        self.size = len(edges) + 1
        self.reach, self.horizon = f + 1, 2 * f + 1
        near: list[list[int]] = [[] for _ in range(self.size)]
        for a, b in edges:
            near[a].append(b)
            near[b].append(a)
        self.way: list[list[list[int]]] = []  # both ends are part of it
        for start in range(self.size):
            ways = {start: [start]}
            for node in self._outwards(start, near):
                for other in near[node]:
                    ways.setdefault(other, [*ways[node], other])
            self.way.append([ways[node] for node in range(self.size)])
        self.distance = [[len(way) - 1 for way in ways] for ways in self.way]
        self.may_fall = [s for s in range(1, 1 << self.size) if self._is_within_budget(s)]

    def _outwards(self, start: int, near: list[list[int]]) -> list[int]:
        found = [start]
        for node in found:
            found += [other for other in near[node] if other not in found]
        return found

    def _is_within_budget(self, nodes: int) -> bool:
        ways = [way for ways in self.way for way in ways if len(way) <= 2 * self.f + 1]
        return all(sum(nodes >> node & 1 for node in way) <= self.f for way in ways)

    def shapes_of_itself(self) -> list[tuple[int, ...]]:
        """The ways to number its nodes anew that give the same tree."""
        edges = {frozenset(edge) for edge in self.edges}
        return [
            order
            for order in itertools.permutations(range(self.size))
            if all(frozenset((order[a], order[b])) in edges for a, b in self.edges)
        ]


class Search:
    """All that can happen to some messages in a tree."""

    def __init__(self, tree: Tree, messages: list[Message], rules: str = ALL_RULES) -> None:
        self.tree = tree
        self.messages = messages
        self.replays = "replay" in rules
        size, count = tree.size, len(messages)
        self.led_to = [self._led_to(message, "lead" in rules) for message in messages]
        # Whom a node that processed a message numbers it for.
        self.targets = [[self._targets(x, m) for m in range(count)] for x in range(size)]
        self.pairs = [(y, z) for y in range(size) for z in range(size) if self._is_pair(y, z)]
        # Which pairs go from one node to another with a copy and are kept there.
        self.kept = [[self._kept(x, k) for k in range(size)] for x in range(size)]
        self.own = [[p for p, (y, _) in enumerate(self.pairs) if y == x] for x in range(size)]
        # What was processed where: the node's last one before, the message, the sender's one.
        self._known: dict[tuple[int, int, int, int], int] = {}
        self.has = [0]  # the messages of the node, with this one
        self.sources = [(-1,) * count]  # of each message of the node: who sent it
        self.steps = [(0,) * count]  # of each message of the node: this step, by message
        self.past: list[tuple[int, ...]] = [(0,) * len(self.pairs)]  # of the node, after it
        self.needs: list[tuple[int, ...]] = [(0,) * size]  # for each target, what it must have
        self.frozen: list[tuple[int, ...]] = [(0,) * len(self.pairs)]  # what it depends on
        # Every copy there can be: for whom, of what, from whom; and on whom it rests that it comes.
        self.copies = [
            (node, m, source, self._rests_on(node, m, source))
            for m in range(count)
            for source in range(size)
            for node in range(size)
            if self.targets[source][m] >> node & 1
        ]
        self.states = 0

    def _rests_on(self, node: int, m: int, source: int) -> int:
        way = self.tree.way[self.messages[m][0]][node]
        near = len(way) - 1 <= self.tree.horizon
        return 1 << node | 1 << source | (0 if near else sum(1 << one for one in way[:-1]))

    def _led_to(self, message: Message, leads: bool) -> int:
        publisher, members = message
        nodes = members
        for node in range(self.tree.size):
            if leads and self.tree.distance[publisher][node] <= self.tree.reach:
                nodes |= 1 << node
        return nodes

    def _targets(self, x: int, m: int) -> int:
        publisher, distance = self.messages[m][0], self.tree.distance
        found = 0
        for z in range(self.tree.size):
            near = z != x and distance[x][z] <= self.tree.reach
            back = x != publisher and self.tree.way[x][z][1:2] == self.tree.way[x][publisher][1:2]
            if near and not back and self.led_to[m] >> z & 1:
                found |= 1 << z
        return found

    def _is_pair(self, y: int, z: int) -> bool:
        return y != z and self.tree.distance[y][z] <= self.tree.reach

    def _kept(self, x: int, k: int) -> list[int]:
        distance, reach, horizon = self.tree.distance, self.tree.reach, self.tree.horizon
        return [
            place
            for place, (y, z) in enumerate(self.pairs)
            if k not in (y, z)
            and distance[k][z] <= reach
            and distance[k][y] <= horizon
            and distance[x][y] <= horizon
            and distance[x][z] <= reach
        ]

    # One step

    def process(self, state: State, node: int, m: int, source: int) -> State:
        """A node processes a message from another; from itself: it publishes."""
        before = state[node]
        sent = self.steps[state[source]][m] if source != node else 0
        key = (node, before, m, sent)
        step = self._known.get(key)
        if step is None:
            step = self._known[key] = self._new_step(node, before, m, source, sent)
        return (*state[:node], step, *state[node + 1 :])

    def _new_step(self, node: int, before: int, m: int, source: int, sent: int) -> int:
        step = len(self.has)
        past = list(self.past[before])
        if source != node:
            for place in self.kept[source][node]:
                past[place] |= self.frozen[sent][place]
            for place in self.own[source]:
                z = self.pairs[place][1]
                near = z != node and self.tree.distance[node][z] <= self.tree.reach
                if near and self.targets[source][m] >> z & 1:
                    past[place] |= 1 << m
        self.frozen.append(tuple(past))
        needs = [0] * self.tree.size
        for place, (_, z) in enumerate(self.pairs):
            needs[z] |= past[place] & ~(1 << m)
        self.needs.append(tuple(needs))
        for place in self.own[node]:
            if self.targets[node][m] >> self.pairs[place][1] & 1:
                past[place] |= 1 << m
        self.past.append(tuple(past))
        self.has.append(self.has[before] | 1 << m)
        for table, news in ((self.sources, source), (self.steps, step)):
            table.append((*table[before][:m], news, *table[before][m + 1 :]))
        return step

    def can_process(self, state: State, node: int, m: int, source: int, fallen: int) -> bool:
        """Whether a copy can come from there, and all that it depends on is here."""
        if not self.has[state[source]] >> m & 1 or not self.targets[source][m] >> node & 1:
            return False
        if self.needs[self.steps[state[source]][m]][node] & ~self.has[state[node]]:
            return False
        if fallen >> source & 1 and not self._replays(state, node, m, source, fallen):
            return False
        return self._is_safe(state, node, m, fallen)

    def _is_safe(self, state: State, node: int, m: int, fallen: int) -> bool:
        """Whether a copy has numbers enough to be recognised: near the publisher they are its own,
        else those of f+1 of the last 2f+1 nodes on the way."""
        way = self.tree.way[self.messages[m][0]][node]
        if len(way) - 1 <= self.tree.horizon:
            return True
        last = way[-1 - self.tree.horizon : -1]
        return sum(self._is_heard(state, y, m, fallen) for y in last) > self.tree.f

    def _is_heard(self, state: State, y: int, m: int, fallen: int) -> bool:
        if not self.has[state[y]] >> m & 1:
            return False
        return not fallen >> y & 1 or any(
            self.sources[step][m] == y and not fallen >> u & 1 for u, step in enumerate(state)
        )

    def _replays(self, state: State, node: int, m: int, source: int, fallen: int) -> bool:
        """Whether somebody stands in for a publisher that fell: its copy goes from those who have
        it to others around it, who then have it too."""
        if not self.replays or source != self.messages[m][0]:
            return False
        up = [u for u in range(self.tree.size) if not fallen >> u & 1 and u != node]
        holders = [u for u in up if self.sources[state[u]][m] == source]
        for holder in holders:
            holders += [
                u
                for u in up
                if u not in holders
                and self.has[state[u]] >> m & 1
                and self.targets[source][m] >> u & 1
                and self.tree.distance[holder][u] <= self.tree.reach
            ]
        return any(self.tree.distance[u][node] <= self.tree.reach for u in holders)

    # Everything that can happen

    def run(self) -> tuple[State, int, int, int] | None:
        """Visit every state; the first that leaves somebody waiting comes back: the state, who
        fell, who waits, and for which message."""
        start: State = (0,) * self.tree.size
        seen = {start}
        todo = [start]
        while todo:
            state = todo.pop()
            self.states += 1
            arrivals = self._arrivals(state)
            for fallen in self.tree.may_fall:
                goes_on = any(not fallen & both for _, _, _, both in arrivals)
                waiting = None if goes_on else self._waiting(state, fallen)
                if waiting is not None:
                    return state, fallen, *waiting
            following = [(node, m, source) for node, m, source, _ in arrivals]
            for node, m, source in following + self._publications(state):
                after = self.process(state, node, m, source)
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
        return None

    def _publications(self, state: State) -> list[tuple[int, int, int]]:
        """What may be published next; of messages that are alike, the first."""
        found: dict[Message, int] = {}
        for m, message in enumerate(self.messages):
            if not self.has[state[message[0]]] >> m & 1:
                found.setdefault(message, m)
        return [(message[0], m, message[0]) for message, m in found.items()]

    def _arrivals(self, state: State) -> list[tuple[int, int, int, int]]:
        """Which node may process what from whom, while all are up; and on whom that rests."""
        has = [self.has[last] for last in state]
        found = []
        for node, m, source, way in self.copies:
            if has[source] >> m & 1 and not has[node] >> m & 1:
                needed = self.needs[self.steps[state[source]][m]][node]
                if not needed & ~has[node] and self._is_safe(state, node, m, 0):
                    found.append((node, m, source, way))
        return found

    def _waiting(self, state: State, fallen: int) -> tuple[int, int] | None:
        """If these fell now and nothing more could happen: a node that lacks what is led to it and
        what another one that is up has; and that message."""
        there = 0
        for node, last in enumerate(state):
            if not fallen >> node & 1:
                there |= self.has[last]
        found: tuple[int, int] | None = None
        for node, m, source, _ in self.copies:
            up = not fallen >> node & 1
            if up and there >> m & 1 and not self.has[state[node]] >> m & 1:
                if self.can_process(state, node, m, source, fallen):
                    return None
                found = found or (node, m)
        return found

    def story(self, state: State) -> list[str]:
        """What happened until then, node by node."""
        return [
            f"{node}: " + ", ".join(self._told(step, node) for step in self._steps_of(last))
            for node, last in enumerate(state)
        ]

    def _steps_of(self, last: int) -> list[int]:
        return sorted(step for step in self.steps[last] if step)

    def _told(self, step: int, node: int) -> str:
        m = self.steps[step].index(step)
        source = self.sources[step][m]
        return f"publishes m{m}" if source == node else f"m{m} from {source}"


def trees(size: int) -> list[Edges]:
    """One of each shape."""
    found: dict[str, Edges] = {}
    for parents in itertools.product(*[range(node) for node in range(1, size)]):
        edges = tuple((parent, node + 1) for node, parent in enumerate(parents))
        found.setdefault(_shape(size, edges), edges)
    return list(found.values())


def _shape(size: int, edges: Edges) -> str:
    def below(node: int, parent: int) -> str:
        others = [b if a == node else a for a, b in edges if node in (a, b)]
        return "(" + "".join(sorted(below(o, node) for o in others if o != parent)) + ")"

    return min(below(root, -1) for root in range(size))


def addresses(tree: Tree, publisher: int, everybody: bool) -> list[int]:
    """Whom a message of this publisher may be for, with those on the way; one of each kind."""
    if everybody:
        return [(1 << tree.size) - 1]
    found: dict[int, None] = {}
    for members in range(1 << tree.size):
        nodes = 1 << publisher
        for node in range(tree.size):
            if members >> node & 1:
                nodes |= sum(1 << one for one in tree.way[publisher][node] if one != publisher)
        if nodes != 1 << publisher:
            found[nodes] = None
    return list(found)


def settings(tree: Tree, messages: int, everybody: bool) -> Iterator[list[Message]]:
    """All messages that may be published, without those that look the same in this tree."""
    choices = [(p, to) for p in range(tree.size) for to in sorted(addresses(tree, p, everybody))]
    same = tree.shapes_of_itself()
    seen: set[tuple[Message, ...]] = set()
    for chosen in itertools.combinations_with_replacement(choices, messages):
        if chosen in seen:
            continue
        for order in same:
            moved = [(order[p], _moved(to, order)) for p, to in chosen]
            seen.add(tuple(sorted(moved)))
        yield list(chosen)


def _moved(nodes: int, order: tuple[int, ...]) -> int:
    return sum(1 << order[node] for node in range(len(order)) if nodes >> node & 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--messages", type=int, default=2)
    parser.add_argument("--f", type=int, default=1)
    parser.add_argument("--groups", action="store_true", help="every group, not only one of all")
    parser.add_argument("--rules", default=ALL_RULES)
    options = parser.parse_args()
    began = time.monotonic()
    count = states = 0
    stuck: list[str] = []
    for edges in trees(options.nodes):
        tree = Tree(edges, options.f)
        for messages in settings(tree, options.messages, not options.groups):
            search = Search(tree, messages, options.rules)
            found = search.run()
            count, states = count + 1, states + search.states
            if found is not None:
                state, fallen, node, m = found
                stuck.append(f"{edges} {messages}: {search.story(state)}; {fallen:b} fell")
                stuck[-1] += f"; {node} waits for m{m}"
        print(f"{edges}: {count} settings, {states} states, {len(stuck)} stuck", flush=True)
    seconds = round(time.monotonic() - began)
    print(json.dumps({**vars(options), "settings": count, "states": states, "stuck": len(stuck)}))
    print(f"{seconds} s", *stuck[:3], sep="\n")
    return 1 if stuck else 0


if __name__ == "__main__":
    raise SystemExit(main())
