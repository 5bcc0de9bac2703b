"""What a node says when a connection begins, and what it makes of what the other end says."""

import collections
import logging
from typing import Protocol

import msgspec

from causalcast.core.ids import LinkId, NodeId, dialler_of
from causalcast.errors import CausalcastError
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.greeting import (
    ANYBODY,
    Greeting,
    differences,
    for_refused,
    in_short,
)
from causalcast.runtime.lives import ADVICE, Known, went_back
from causalcast.runtime.security.identity import Passport
from causalcast.runtime.security.tls import Tls, objection_to

log = logging.getLogger(__name__)


class Acquainted(Protocol):
    """Who knows the other nodes, and is told what greetings bring to light."""

    def known_of(self, peer: NodeId) -> Known | None:
        """What is known of `peer` from earlier links."""

    def peer_went_back(self, peer: NodeId, reason: str) -> None:
        """The storage of `peer` is older than what is known of it; it gets no link."""

    def went_back(self, peer: NodeId, reason: str) -> None:
        """`peer` knows more of this node than this node itself; there is no link to it."""

    def enrol(self, passport: Passport, greeting: Greeting) -> bytes:
        """The certificate for somebody who came with a token; raises what is said instead."""


class Greeter:
    """The greeting of a node, and who gets no link, and why."""

    def __init__(
        self,
        greeting: Greeting,
        events: Acquainted,
        tls: Tls | None,
        counts: "collections.Counter[str]",
    ) -> None:
        self._all_facts = greeting.facts  # for those who only ask
        self.greeting = msgspec.structs.replace(greeting, facts=in_short(greeting.facts))
        if tls is not None:
            self.tell_revocations(tls.revocations.der)
        self._me = NodeId(greeting.node)
        self._events = events
        self._counts = counts

    def tell_revocations(self, revoked: bytes) -> None:
        """Greetings bring this list from now on."""
        self.greeting = msgspec.structs.replace(self.greeting, revoked=revoked)

    def hello(self, peer: NodeId, link: LinkId) -> Greeting:
        """To somebody whom we dialled."""
        known = self._events.known_of(peer)
        return msgspec.structs.replace(self.greeting, link=link, wanted=peer, known=known)

    def reply(self, greeting: Greeting, refusal: str) -> Greeting:
        """To somebody who dialled us."""
        known = self._events.known_of(NodeId(greeting.node))
        reply = msgspec.structs.replace(
            self.greeting, link=greeting.link, refusal=refusal, known=known
        )
        if greeting.wanted == ANYBODY:
            reply = msgspec.structs.replace(reply, facts=self._all_facts)
        elif refusal:
            reply = msgspec.structs.replace(reply, facts=for_refused(self._all_facts))
        return reply

    def why_refused(self, theirs: Greeting) -> str:
        """Why somebody whom we dialled refuses us, as it looks from here if facts differ."""
        mine = msgspec.structs.replace(self.greeting, facts=self._all_facts)
        return "; ".join(differences(mine, theirs)) or theirs.refusal

    def enrol(self, passport: Passport, greeting: Greeting) -> Greeting:
        """Somebody came with a token: an identity or a refusal, and what to know of the cluster."""
        refusal, certificate = "now you know who is here", b""
        try:
            if greeting.certificate:
                certificate = self._events.enrol(passport, greeting)
                self._counts["enrolled"] += 1
        except CausalcastError as error:
            self._counts["refused_tokens"] += 1
            log.warning("refusing a token: %s", error)
            refusal = str(error)
        return msgspec.structs.replace(
            self.greeting, refusal=refusal, certificate=certificate, facts=self._all_facts
        )

    def objection(self, greeting: Greeting, is_closing: bool) -> str:
        """Why whoever dialled gets no link; empty if it does."""
        if is_closing:
            return "this node is about to stop"
        if greeting.wanted != self._me:
            return f"you want node {greeting.wanted}, this is node {self._me}"
        found = differences(self.greeting, greeting)
        if not found and dialler_of(LinkId(greeting.link)) != greeting.node:
            found = [f"link {greeting.link} was not dialled by node {greeting.node}"]
        if not found and not _is_address(greeting.address):
            found = [f"{greeting.address!r} is no address"]
        return "; ".join(found) or self.older_storage(greeting)

    def older_storage(self, greeting: Greeting) -> str:
        """Why there is no link, if the storage of one end is older than the other end knows."""
        peer = NodeId(greeting.node)
        theirs = went_back(greeting.life, self._events.known_of(peer))
        mine = went_back(self.greeting.life, greeting.known)
        if theirs:
            self._counts["older_storage"] += 1
            self._events.peer_went_back(peer, theirs)
        if mine:
            self._counts["own_storage_is_older"] += 1
            self._events.went_back(peer, mine)
        if not theirs and not mine:
            return ""
        who = peer if theirs else self._me
        return f"the storage of node {who} is older than others know: {theirs or mine}; {ADVICE}"


def imposture_of(passport: Passport | None, greeting: Greeting) -> str:
    """Why whoever greets is not who it says; empty without TLS: then nobody can tell."""
    return "" if passport is None else objection_to(passport, greeting.node)


def _is_address(text: str) -> bool:
    try:
        Address.parse(text)
    except ValueError:
        return False
    return True
