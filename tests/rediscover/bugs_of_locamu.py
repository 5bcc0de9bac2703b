"""Past bugs of `locamu`: questions around gaps, nodes that are declared gone, joins."""

from typing import Any

from causalcast.core.outbox import Outbox
from causalcast.protocols.locamu.departures import Departures
from causalcast.protocols.locamu.durable_records import DurableRecords
from causalcast.protocols.locamu.forwarding import Forwarding
from causalcast.protocols.locamu.gap_consultation import GapConsultation
from causalcast.protocols.locamu.giving_up import GivingUp
from causalcast.protocols.locamu.late_members import LateMembers
from causalcast.protocols.locamu.message_log import MessageLog
from causalcast.protocols.locamu.messages import Copy
from causalcast.protocols.locamu.processing import Processing
from causalcast.protocols.locamu.protocol import Locamu
from causalcast.protocols.locamu.safe_path import SafePath
from causalcast.protocols.locamu.substitution import Substitution
from causalcast.swarm.mutant import Patch, Rewritten
from causalcast.swarm.past_bug import PastBug, Place

ONE = Place("locamu", by="adversary")
TWO = Place("locamu", {"f": 2}, by="adversary")
GONE_STORIES = Place("locamu", gone=True, by="stories")
GONE_STORIES_TWO = Place("locamu", {"f": 2}, gone=True, by="stories")
STORIES = Place("locamu", by="stories")
STORIES_TWO = Place("locamu", {"f": 2}, by="stories")

_on_message = Locamu.on_message


def hold_while_joining(self: Locamu, publication: Any, out: Outbox) -> None:
    if self.members.asked_for():
        self.__dict__.setdefault("held_for_join", []).append(publication)
    else:
        self.processing.begin(Copy(publication, b""), _epoch(self, publication), out)


def _epoch(self: Locamu, publication: Any) -> int:
    return self.members.epochs.get(publication.group, 0)


def on_message_then_publish(self: Locamu, sender: Any, message: Any, out: Outbox) -> None:
    _on_message(self, sender, message, out)
    while self.__dict__.get("held_for_join") and not self.members.asked_for():
        publication = self.__dict__["held_for_join"].pop(0)
        self.processing.begin(Copy(publication, b""), _epoch(self, publication), out)


MUTANTS = [
    PastBug(
        name="answer_to_an_earlier_life",
        mechanism="questions around gaps were numbered from 1 again after a restart: an answer to "
        "the earlier life's question passed for one to the new one",
        mended="57636ed",
        schedule="answer_to_an_earlier_life",
        patches=[
            Rewritten(
                GapConsultation,
                "__init__",
                "self._next_question = first_question",
                "self._next_question = 1",
            ),
            Patch(GapConsultation, "on_neighbour_up", lambda self, peer, out: None),
        ],
        places=[STORIES_TWO, TWO],
    ),
    PastBug(
        name="given_up_before_a_crash",
        mechanism="that something was given up did not survive a crash: it was taken when it was "
        "handed on, after its effects",
        mended="57636ed",
        schedule="given_up_before_a_crash",
        patches=[
            Rewritten(
                DurableRecords,
                "restore",
                "self._departures.give_up(entry.peer, entry.held)",
                "pass",
            )
        ],
        places=[GONE_STORIES, GONE_STORIES_TWO],
    ),
    PastBug(
        name="given_up_before_all_was_passed_on",
        mechanism="who held a copy of a node that is gone said that it had nothing of it: others "
        "took that copy for too late, and waited for its number for ever",
        mended="72bfe20",
        schedule="given_up_before_all_was_passed_on",
        patches=[
            Rewritten(
                GivingUp,
                "_news_for",
                "and all(copy.origin != peer for copy in self._holdback.copies.values())",
                "",
                also=[
                    ("and all(self._past.has_arrived(*key) for key in self._departures.held)", "")
                ],
            ),
            Patch(Processing, "_take_numbers_only", lambda self, copy, out: None),
            Patch(Departures, "expects", lambda self, issuer, number: False),
        ],
        places=[GONE_STORIES, GONE_STORIES_TWO],
    ),
    PastBug(
        name="given_up_what_was_only_passed_on",
        mechanism="only what a node that is gone had published was handed on, not what it had "
        "passed on: others gave that up, and got it after its effects",
        mended="44e3497",
        schedule="given_up_what_was_only_passed_on",
        patches=[
            Rewritten(
                Substitution,
                "_is_from",
                "return peer in record.numbers",
                "return record.origin == peer and peer in record.numbers",
            )
        ],
        places=[GONE_STORIES, GONE_STORIES_TWO],
    ),
    PastBug(
        name="handed_on_waits_for_itself",
        mechanism="two neighbours handed on the same message, and each copy waited for the number "
        "of the other",
        mended="1f03240",
        schedule="handed_on_waits_for_itself",
        patches=[
            Patch(MessageLog, "numbers_onward", lambda self: [r.numbers for r in self.records]),
            Rewritten(
                GapConsultation,
                "_ask",
                "if its_own < count:",
                "if True:",
                also=[("if its_own > 0:", "if False:")],
            ),
        ],
        places=[GONE_STORIES_TWO],
    ),
    PastBug(
        name="forgotten_while_others_may_hand_it_on",
        mechanism="what others may still hand on for a node that is gone was forgotten, and not "
        "recognised when it came",
        mended="e2de1d0",
        patches=[
            Rewritten(
                Substitution,
                "is_needed",
                "for peer in self._departures.gone\n",
                "for peer in ()\n",
            )
        ],
        places=[GONE_STORIES, GONE_STORIES_TWO],
    ),
    PastBug(
        name="two_gone_and_one_skipped",
        mechanism="numbers that never come, since their issuers are gone or were skipped, were "
        "waited for: with two nodes gone the cluster was divided for ever",
        mended="57636ed",
        schedule="gone_before_anybody_stood_in",
        patches=[
            Rewritten(
                SafePath,
                "is_enough",
                "return numbered >= self.quorum or (numbered > 0 and self.is_all(message, before, "
                "target))",
                "return numbered >= self.quorum",
            )
        ],
        places=[GONE_STORIES, GONE_STORIES_TWO],
    ),
    PastBug(
        name="a_second_gone_does_not_help_the_first",
        mechanism="when a second node was declared gone, others did not think again about the "
        "first, whose last word they waited for from the second, and held everything for ever",
        mended="57636ed",
        patches=[
            Rewritten(
                GivingUp,
                "declare_gone",
                "for other in list(self._departures.gone):",
                "for other in [peer]:",
            )
        ],
        places=[GONE_STORIES, GONE_STORIES_TWO],
    ),
    PastBug(
        name="gone_at_both_ends_beyond_the_budget",
        mechanism="told at both ends of two fallen neighbours, both were accepted as gone, beyond "
        "what messages can pass",
        mended="57636ed",
        patches=[
            Rewritten(
                GivingUp,
                "on_gone_told",
                "fits = self._peers.fits_budget(peer, departures.gone)",
                "fits = True",
            ),
            Rewritten(GivingUp, "objection", "if not peers.fits_budget(peer, away):", "if False:"),
        ],
        places=[GONE_STORIES, GONE_STORIES_TWO],
    ),
    PastBug(
        name="said_to_wait_when_it_was_processed",
        mechanism="word that a copy waits came when it was processed already; the sender never "
        "sent it again with the numbers it had learnt since",
        mended="57636ed",
        schedule="said_to_wait_when_it_was_processed",
        patches=[
            Rewritten(
                Locamu,
                "_on_ack",
                "if record is not None and sender not in record.known_at:",
                "if record is not None:",
            ),
            Rewritten(Forwarding, "confirm_in_part", "record.held_at.pop(node, None)", "pass"),
        ],
        places=[STORIES, Place("locamu", by="random")],
    ),
    PastBug(
        name="a_member_from_its_question_on",
        mechanism="a node counted as a member when it asked, not when it was admitted: what others "
        "answered in the group was owed to it, and did not lead there",
        mended="c1e586f",
        schedule="published_far_away_while_a_join_was_open",
        patches=[
            Patch(Locamu, "joins_at_once", lambda self, group: True),
            Rewritten(Processing, "_hear_of_members", "if is_member:", "if False:"),
        ],
        places=[STORIES, ONE],
    ),
    PastBug(
        name="an_open_join_holds_up_publications",
        mechanism="a node that asked to join a group held back everything it published, to "
        "whatever group: for ever, if the node that admits stayed away",
        mended="c1e586f",
        schedule="published_to_another_group_while_a_coordinator_was_away",
        patches=[
            Patch(Locamu, "on_publish", hold_while_joining),
            Patch(Locamu, "on_message", on_message_then_publish),
        ],
        places=[STORIES, ONE],
    ),
    PastBug(
        name="a_join_never_ends_when_its_coordinator_is_gone",
        mechanism="a node that joined a group whose coordinator is gone waited for ever",
        mended="57636ed",
        patches=[
            Rewritten(
                LateMembers,
                "asked_for",
                "        and self.coordinator(group) not in self.gone\n",
                "",
            ),
            Patch(LateMembers, "refusal", lambda self, group, suspected: ""),
        ],
        places=[GONE_STORIES, GONE_STORIES_TWO],
    ),
    PastBug(
        name="questions_after_what_is_finished_become_rare_too_soon",
        mechanism="on links that lose much, eight questions without news made the ninth wait for "
        "long, and records stayed",
        mended="ebb4d3c",
        patches=[Rewritten(Substitution, "ask_what_is_finished", "OFTEN_ASKED.value", "8")],
        places=[Place("locamu", by="random")],
    ),
    PastBug(
        name="repeats_what_waits_without_backing_off",
        mechanism="every copy that waits at its receiver was repeated whole, four times a second",
        mended="57636ed",
        patches=[
            Rewritten(
                Forwarding,
                "repeat_to",
                "after << min(tries + late, most.value)",
                "after",
                also=[("or node in record.held_at", "")],
            )
        ],
        places=[STORIES, ONE],
    ),
]
