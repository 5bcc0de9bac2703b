"""Messages that each continue the one before: taken together to travel, and apart again.

Compiled: every message of a busy link passes here.
"""

from causalcast.core.ids import MessageId
from causalcast.core.message import LONGEST_RUN, Message, Publication, Single

# A message from a peer: its layer, itself, and the publications that it carries. Messages that
# travelled as one are the first of them, with the publications of all.
Arrived = tuple[int, Message, tuple[Publication, ...]]


def in_runs(messages: list[Message]) -> list[list[Message]]:
    """The same messages, in order; those of one list each continue the one before."""
    runs: list[list[Message]] = []
    run: list[Message] = []
    before: Single | None = None
    for message in messages:
        if isinstance(message, Single):
            if before is None or len(run) == LONGEST_RUN.value or not message.continues(before):
                run = []
                runs.append(run)
            run.append(message)
            before = message
        else:
            runs.append([message])
            before = None
    return runs


def publications_of(first: Publication, bodies: list[bytes]) -> tuple[Publication, ...]:
    """`first`, which has the first body, and those that follow it."""
    found = [first]
    identity, group = first.id, first.group
    for place in range(1, len(bodies)):
        found.append(Publication(MessageId(identity + place), group, bodies[place]))
    return tuple(found)


def one_by_one(arrived: Arrived) -> list[Arrived]:
    """The messages that travelled as one."""
    layer, message, carried = arrived
    if not isinstance(message, Single) or len(carried) == 1:
        return [arrived]
    return [(layer, message.around(publication), (publication,)) for publication in carried]
