"""Which messages others numbered how, for whoever waits for a number of a node that is down.

A node z waits for the number s that y gave a message for it, and y is down. z may have that message
from somebody else, and cannot tell that it is the same. So whoever gets a copy from y learns with
it which messages y numbered for others and they may lack, and remembers that until y says that they
have it: who depends on a number of y depends on somebody who got a copy from y. If y is down, who
waits asks those near y.

A name is a fact: y fixed it when it numbered the message. So names never have to be agreed on.
"""

from typing import Final

from causalcast.core.ids import NodeId
from causalcast.core.outbox import Outbox
from causalcast.parts.tree.neighbourhood import Pair
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.messages import AskNames, Key, Named, Names, key_of
from causalcast.protocols.locamu.node_state import NodeState

# Between two nodes within two hops of a third: to a neighbour of that, across it, and on.
MOST_HOPS: Final = 3
NAME_BYTES: Final = 200  # that a name takes, roughly


class KnownNames:
    """The names of numbers that others gave, for others and for this node."""

    def __init__(self, state: NodeState) -> None:
        self._me = state.me
        self._peers = state.peers
        self._around = state.around
        self._past = state.past
        self._log = state.log
        self._holdback = state.holdback
        self._departures = state.departures
        self._settled: dict[Pair, int] = {}  # up to which number nobody need know any more
        self._count = 0  # of names of numbers for others
        # Survives a crash.
        self._keys: dict[Pair, dict[int, Key]] = {}  # (issuer, node) -> number -> message
        self.mine: dict[Key, dict[NodeId, int]] = {}  # numbers of messages that are not here yet

    # What is learnt

    def learn(self, issuer: NodeId, names: dict[Key, dict[NodeId, int]], out: Outbox) -> list[Key]:
        """An issuer tells how it numbered messages: remember it, also over a crash. Those come back
        that are here, or held, and that it numbered for this node."""
        news: dict[NodeId, dict[int, list[int]]] = {}
        mine: list[Key] = []
        for key, row in names.items():
            for node, number in row.items():
                if self._remember(issuer, node, number, key):
                    news.setdefault(node, {})[number] = list(key)
                    if node == self._me:
                        mine.append(key)
        if news:
            out.persist(Named(issuer, news))
        return mine

    def take_over(self, record: Record) -> list[Named]:
        """A message is kept no longer: how those numbered it who sent it here is still known."""
        if not self._peers.goes_on:
            return []
        key = key_of(record.message)
        found: list[Named] = []
        for issuer in record.heard_from:
            news: dict[NodeId, dict[int, list[int]]] = {}
            for node, number in record.numbers.get(issuer, {}).items():
                # Whom this node numbered it for has it, with all its numbers.
                needed = node != self._me and node not in record.targets
                if needed and self._remember(issuer, node, number, key):
                    news[node] = {number: list(key)}
            if news:
                found.append(Named(issuer, news))
        return found

    def _remember(self, issuer: NodeId, node: NodeId, number: int, key: Key) -> bool:
        """Take a name in; False if it is known, or nobody needs it."""
        if issuer in self._departures.gone or node in self._departures.gone:
            return False
        if node == self._me:
            if self._past.has_arrived(issuer, number) or issuer not in self._past.arrived:
                return False
            row = self.mine.setdefault(key, {})
            is_new = issuer not in row
            row[issuer] = number
            return is_new
        if number <= self._settled.get((issuer, node), 0):
            return False
        keys = self._keys.setdefault((issuer, node), {})
        if number in keys:
            return False
        keys[number] = key
        self._count += 1
        return True

    def take_mine(self, key: Key) -> dict[NodeId, int]:
        """A message is here: the numbers for this node that only their names tell of."""
        return self.mine.pop(key, {})

    def own_number(self, key: Key, issuer: NodeId) -> int:
        """What an issuer numbered this message for this node, if a name tells; else 0."""
        return self.mine[key].get(issuer, 0) if key in self.mine else 0

    # What need not be known any more

    def settle(self, issuer: NodeId, to: dict[NodeId, int]) -> None:
        """These nodes have all of an issuer's numbers up to these."""
        for node, number in to.items():
            pair = (issuer, node)
            self._settled[pair] = max(number, self._settled.get(pair, 0))
            keys = self._keys.get(pair)
            if keys is not None:
                for old in [known for known in keys if known <= number]:
                    del keys[old]
                    self._count -= 1
                if not keys:
                    del self._keys[pair]

    def forget_gone(self, gone: NodeId) -> None:
        """A node never comes back: nobody waits for its numbers, nor for those given for it."""
        self._keys = {pair: keys for pair, keys in self._keys.items() if gone not in pair}
        self._count = sum(map(len, self._keys.values()))
        rows = {
            key: {issuer: number for issuer, number in row.items() if issuer != gone}
            for key, row in self.mine.items()
        }
        self.mine = {key: row for key, row in rows.items() if row}

    def issuers(self) -> dict[NodeId, None]:
        """Whose numbers names are kept of, until they say that these are settled."""
        return {issuer: None for issuer, _ in self._keys}

    def size(self) -> int:
        """Names kept."""
        return self._count

    def kept_bytes(self) -> int:
        """That they take, roughly; they are kept for the nodes that the numbers are for."""
        return NAME_BYTES * (self._count + len(self.mine))

    def is_empty(self) -> bool:
        """Whether no name is kept."""
        return not self._keys

    # Questions

    def ask(self, issuer: NodeId, numbers: list[int], out: Outbox) -> None:
        """Ask those near an issuer that is down which messages it gave these numbers for me."""
        self._ask_on(AskNames(issuer, self._me, numbers, MOST_HOPS - 1), [self._me], out)

    def on_ask(self, sender: NodeId, ask: AskNames, out: Outbox) -> None:
        """Tell what is known; ask others for the rest, which is told when the question is
        repeated."""
        # Not in the paper: there a number is known to nobody but its issuer and its receiver.
        if not self._around.knows(ask.issuer):  # who asks may be too far away to be known
            out.note("locamu.nonsense", sender)
            return
        keys: dict[int, list[int]] = {}
        unknown: list[int] = []
        for number in ask.numbers:
            key = self._key(ask.issuer, ask.node, number)
            if key is None:
                unknown.append(number)
            else:
                keys[number] = list(key)
        if keys:
            self._peers.tell(sender, Names(ask.issuer, ask.node, keys), out)
        if unknown and 0 < ask.hops < MOST_HOPS:
            on = AskNames(ask.issuer, ask.node, unknown, ask.hops - 1)
            self._ask_on(on, [sender, ask.node], out)

    def _ask_on(self, ask: AskNames, but: list[NodeId], out: Outbox) -> None:
        for node in self._peers.reachable:
            near = 0 < self._around.distance(node, ask.issuer) <= self._peers.reach
            if near and node not in but and node not in self._peers.suspected:
                self._peers.tell(node, ask, out)

    def _key(self, issuer: NodeId, node: NodeId, number: int) -> Key | None:
        record = self._log.at((issuer, node, number))
        if record is not None:
            return key_of(record.message)
        for held in self._holdback.carrying((issuer, node, number)):
            return key_of(self._holdback.copies[held].message)
        return self._keys.get((issuer, node), {}).get(number)

    # Records

    def restore(self, named: Named) -> list[tuple[Record, NodeId, int]]:
        """What a record says. Of messages that are here, those come back that an issuer numbered
        for this node."""
        found: list[tuple[Record, NodeId, int]] = []
        for node, keys in named.keys.items():
            for number, key in keys.items():
                record = self._log.named(tuple(key)) if node == self._me else None
                if record is not None:
                    found.append((record, named.issuer, number))
                else:
                    self._remember(named.issuer, node, number, tuple(key))
        return found

    def forget_arrived(self) -> None:
        """After a crash: of messages that were here and forgotten, nothing is waited for."""
        arrived = self._past.has_arrived
        rows = {
            key: {issuer: number for issuer, number in row.items() if not arrived(issuer, number)}
            for key, row in self.mine.items()
        }
        self.mine = {key: row for key, row in rows.items() if row}

    def snapshot(self) -> list[Named]:
        """The records from which all of this can be rebuilt."""
        found = [
            Named(issuer, {node: {number: list(key) for number, key in keys.items()}})
            for (issuer, node), keys in self._keys.items()
        ]
        for key, row in self.mine.items():
            found += [Named(issuer, {self._me: {n: list(key)}}) for issuer, n in row.items()]
        for record in self._log.records:
            key = key_of(record.message)
            found += [
                Named(issuer, {self._me: {number: list(key)}})
                for issuer, number in record.apart.items()
            ]
        return found
