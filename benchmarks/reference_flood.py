"""The plain reference loop: a flood on a heap of event tuples, as anybody would write it first.

It is the unit the simulator's speed is measured in. Its slowness is the point: it imports nothing
of causalcast, is never compiled and never tuned. Prints one JSON object.
"""

import heapq
import json
import random
import sys
import time

NODES = 10_000
DEGREE = 5
BROADCASTS = 25
BROADCAST_EVERY_US = 50_000
LATENCY_US = (10_000, 100_000)


def random_graph(rng):
    neighbours = [set() for _ in range(NODES)]
    for _ in range(DEGREE):
        order = list(range(NODES))
        rng.shuffle(order)
        for a, b in zip(order[::2], order[1::2], strict=True):
            neighbours[a].add(b)
            neighbours[b].add(a)
    return [sorted(peers) for peers in neighbours]


class Copy:
    """One forwarding step of one broadcast."""

    def __init__(self, broadcast, sender):
        self.broadcast = broadcast
        self.sender = sender


class Node:
    """Delivers each broadcast once and passes it on."""

    def __init__(self, name, neighbours, loop):
        self.name = name
        self.neighbours = neighbours
        self.loop = loop
        self.seen = set()
        self.delivered = []

    def publish(self, broadcast):
        self.accept(broadcast, None)

    def receive(self, copy):
        if copy.broadcast not in self.seen:
            self.accept(copy.broadcast, copy.sender)

    def accept(self, broadcast, sender):
        self.seen.add(broadcast)
        self.delivered.append((self.loop.now, broadcast))
        copy = Copy(broadcast, self.name)
        for peer in self.neighbours:
            if peer != sender:
                self.loop.send(peer, copy)


class Loop:
    """Pops the earliest event until none is left."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        graph = random_graph(self.rng)
        self.nodes = [Node(name, graph[name], self) for name in range(NODES)]
        self.heap = []
        self.planned = 0
        self.now = 0
        self.messages = 0

    def plan(self, at, node, copy):
        self.planned += 1
        heapq.heappush(self.heap, (at, self.planned, node, copy))

    def send(self, to, copy):
        self.plan(self.now + self.rng.randint(*LATENCY_US), to, copy)

    def run(self):
        while self.heap:
            self.now, _, name, copy = heapq.heappop(self.heap)
            if isinstance(copy, Copy):
                self.messages += 1
                self.nodes[name].receive(copy)
            else:
                self.nodes[name].publish(copy)


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    loop = Loop(seed)
    for number in range(BROADCASTS):
        loop.plan(number * BROADCAST_EVERY_US, loop.rng.randrange(NODES), number)
    started = time.process_time()
    loop.run()
    seconds = time.process_time() - started
    delivered = sum(len(node.delivered) for node in loop.nodes)
    print(json.dumps({"messages": loop.messages, "delivered": delivered, "cpu_seconds": seconds}))


if __name__ == "__main__":
    main()
