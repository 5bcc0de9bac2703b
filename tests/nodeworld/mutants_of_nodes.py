"""Bugs of the runtime, to be planted one at a time: worlds of whole nodes find each of them."""

import contextlib
from collections.abc import Callable
from typing import Any

from causalcast.parts.safe_links.vector_setup import VectorSetup
from causalcast.runtime.host.acknowledgements import Acknowledgements
from causalcast.runtime.host.back_pressure import BackPressure
from causalcast.runtime.host.compaction import Compaction
from causalcast.runtime.host.earlier_life import EarlierLife
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.journal_keeper import JournalKeeper
from causalcast.runtime.host.link_listener import LinkListener
from causalcast.runtime.host.steps import Steps
from causalcast.runtime.links import outlet
from causalcast.runtime.links.greeter import Greeter
from causalcast.runtime.links.links import Connection, Links
from causalcast.runtime.links.outlet import Outlets
from causalcast.runtime.security.admission import Admission
from causalcast.runtime.storage.durable_entry import StillWaiting, encode
from causalcast.runtime.storage.journal import Journal, JournalFile
from causalcast.runtime.storage.journal_frames import frame
from causalcast.swarm.mutant import Mutant, Patch, Rewritten
from causalcast.wire import codec

SETTLE = Steps.settle


def speaks_at_once(self: Steps, publication: Any = None, *more: Any, **named: Any) -> None:
    SETTLE(self, publication, *more, **named)
    for step in self.held._steps:
        sends = [one for one in step.actions if one[0].__name__ == "_transmit"]
        step.actions = [one for one in step.actions if one not in sends]
        self._happen([], sends)


def nothing_waits(self: Compaction, chunk: Any) -> Callable[[], bytes]:
    return lambda: encode(StillWaiting([]))


def append_whatever_happens(self: JournalFile, entries: Any) -> Any:
    data, places = frame(self.next_sequence, entries, self.size)
    with contextlib.suppress(OSError):
        self._file.write(self.size, data)
        self._file.sync_content()
    self.next_sequence += len(entries)
    self.size += len(data)
    return places


def does_nothing(*_: Any) -> None:
    """Where something should happen."""


def bug(name: str, mechanism: str, *patches: Patch | Rewritten) -> Mutant:
    return Mutant(name, mechanism, ["any"], patches)


MUTANTS = [
    # Steps and what they show
    bug(
        "speaks_before_it_is_durable",
        "messages of a step leave at once, and its entry follows",
        Patch(Steps, "settle", speaks_at_once),
    ),
    bug(
        "what_waits_is_overtaken",
        "a step without an entry does not wait for those before it",
        Rewritten(Steps, "settle", "elif self.held:", "elif False:"),
    ),
    bug(
        "receipt_before_the_disk",
        "a publisher hears of success when the entry is made, not when it is durable",
        Rewritten(
            Steps,
            "settle",
            "sequence = self.journal.append(data)",
            "sequence = self.journal.append(data)\n"
            "        if publisher is not None and publication is not None:\n"
            "            publisher.set_result(publication.id)",
        ),
    ),
    # Admission
    bug(
        "admission_refuses_the_last_group",
        "publications to the last group cannot be true",
        Rewritten(Admission, "check", "group < self._groups and", "group < self._groups - 1 and"),
    ),
    bug(
        "admission_knows_one_origin",
        "numbers of all origins are taken for those of one",
        Rewritten(
            Admission, "check", "origin = publication.id >> NUMBER_BITS", "origin = self._me"
        ),
    ),
    # Outlets
    bug(
        "outlet_shares_bytes_of_others",
        "what two links carry is taken for the same if there is as much of it",
        Rewritten(
            Outlets,
            "_encode",
            "if messages != self._last:",
            "if len(messages) != len(self._last):",
        ),
    ),
    bug(
        "outlet_stays_congested",
        "a link that has room again is not known to have it",
        Patch(Connection, "resume_writing", does_nothing),
    ),
    bug(
        "publishers_are_not_woken",
        "those who wait for room never look again",
        Patch(BackPressure, "end_turn", does_nothing),
        Patch(BackPressure, "relieve", does_nothing),
    ),
    # Inbox
    bug(
        "what_is_given_back_is_lost",
        "a message that the application gives back never comes again",
        Patch(Inbox, "give_back", does_nothing),
    ),
    bug(
        "what_is_given_back_comes_last",
        "… or comes behind what followed it",
        Rewritten(
            Inbox, "give_back", "inbox.queue.appendleft(waiting)", "inbox.queue.append(waiting)"
        ),
    ),
    bug(
        "inbox_stays_full",
        "an inbox that was full once is full for ever",
        Rewritten(Inbox, "_taken", "self._in_memory * 2 <", "self._in_memory * 2 < 0 *"),
    ),
    bug(
        "inbox_reads_old_places",
        "after a compaction bodies are looked for where they were",
        Patch(Inbox, "moved", does_nothing),
    ),
    bug(
        "acknowledged_before_it_is_written",
        "a durable acknowledgement is told with the next entry, whichever it is",
        Rewritten(Acknowledgements, "durable_up_to", "self._marks[0][0] <= sequence", "True"),
    ),
    bug(
        "acknowledges_without_writing",
        "one of several acknowledgements is not written",
        Rewritten(
            Acknowledgements, "take", "taken = self._messages,", "taken = self._messages[1:],"
        ),
    ),
    # Journal
    bug(
        "journal_syncs_nothing",
        "entries are written, and never synced",
        Rewritten(JournalFile, "append", "self._file.sync_content()", "pass"),
    ),
    bug(
        "journal_keeps_torn_tails",
        "what is torn stays there, and the next entry follows it",
        Rewritten(JournalFile, "_mend", "if self.cut_bytes:", "if False:"),
    ),
    bug(
        "journal_has_no_name",
        "the name of a new journal is not synced",
        Rewritten(JournalFile, "_create", "self.disk.sync_folder(self.path.parent)", "pass"),
    ),
    bug(
        "journal_reads_the_replaced_file",
        "after a compaction the old file is read",
        Patch(JournalFile, "read_replaced", does_nothing),
    ),
    bug(
        "journal_takes_all_for_durable",
        "with one frame everything that was appended counts as durable",
        Rewritten(
            Journal,
            "_finish",
            "self._on_durable(durable, job.places)",
            "self._on_durable(self._sequence, job.places)",
        ),
    ),
    bug(
        "journal_takes_failures_for_success",
        "what could not be synced counts as durable",
        Patch(JournalFile, "append", append_whatever_happens),
    ),
    bug(
        "start_is_not_written",
        "a life begins without a word of it in the journal",
        Patch(EarlierLife, "write_start", does_nothing),
    ),
    # Compaction
    bug(
        "compaction_drops_the_inbox",
        "what the application has not handled is not in the new journal",
        Patch(Compaction, "_still_waiting", nothing_waits),
    ),
    bug(
        "compaction_drops_what_is_on_its_way",
        "deliveries whose entries are not durable are not in the new journal",
        Rewritten(JournalKeeper, "keep_short", "held.deliveries()", "[]"),
    ),
    bug(
        "compaction_loses_numbers",
        "the new journal knows nothing of what was published",
        Rewritten(JournalKeeper, "_snapshot", "self._publishing.published,", "0,"),
    ),
    bug(
        "compaction_is_undone",
        "the name of the new journal is not synced: a power cut brings the old one back",
        Rewritten(JournalFile, "replace", "self.disk.sync_folder(self.path.parent)", "pass"),
    ),
    # Greetings and dials
    bug(
        "greeting_refuses_a_second_link",
        "a node that is known is taken for one with older storage",
        Rewritten(
            Greeter,
            "older_storage",
            "mine = went_back(",
            'mine = greeting.known and "known" or went_back(',
        ),
    ),
    bug(
        "greeting_limit_stays",
        "frames may not be longer than greetings",
        Rewritten(
            Connection,
            "speak",
            "self._reader.limit = self._links.max_frame",
            "self._reader.limit = 1000",
        ),
    ),
    bug(
        "never_dials_again",
        "a link that is lost is not told to anybody",
        Patch(LinkListener, "link_lost", does_nothing),
    ),
    bug(
        "dial_waits_for_ever",
        "a dial that nobody answers is not given up",
        Rewritten(
            Links, "_connect", "asyncio.timeout(DIAL_TIMEOUT.value)", "asyncio.timeout(None)"
        ),
    ),
    bug(
        "a_dead_link_stays_current",
        "a link to an earlier life of a peer is kept when it dials again",
        Rewritten(
            Links, "_crosses_ours", "return greeting.start == current.peer_start", "return True"
        ),
        Rewritten(Links, "lost", "self._forget_current(connection)", "return"),
    ),
    # Who was left behind
    bug(
        "left_behind_goes_on",
        "a node that hears nobody does not notice that others go on without it",
        Rewritten(VectorSetup, "_look_whether_alone", "if not self.owner.born", "if True"),
    ),
    # Runs
    bug(
        "run_swaps_bodies",
        "of messages that travel as one each but the first has the body of the one before",
        Rewritten(codec, "publications_of", "bodies[place])", "bodies[place - 1])"),
    ),
    bug(
        "run_mixes_groups",
        "messages to another group travel as if they went to the group of the first",
        Rewritten(outlet, "in_runs", "not message.continues(before)", "False"),
    ),
]
