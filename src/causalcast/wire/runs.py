"""Messages that each continue the one before: taken together to travel, and unfolded again.

Compiled: every message of a busy link passes here.
"""

from causalcast.core.message import LONGEST_RUN, Message, Publication, Single

# A message from a peer: its layer, itself, and the publications that it carries.
Arrived = tuple[int, Message, tuple[Publication, ...]]


def in_runs(messages: list[Message]) -> list[list[Message]]:
    """The same messages, in order; those of one list each continue the one before."""
    runs: list[list[Message]] = []
    run: list[Message] = []
    before: Single | None = None
    for message in messages:
        if isinstance(message, Single):
            if before is None or len(run) == LONGEST_RUN or not message.continues(before):
                run = []
                runs.append(run)
            run.append(message)
            before = message
        else:
            runs.append([message])
            before = None
    return runs


def unfold(layer: int, first: Single, bodies: list[bytes]) -> list[Arrived]:
    """`first`, which has the first body, and those that continue it."""
    found: list[Arrived] = [(layer, first, (first.publication,))]
    message = first
    for place in range(1, len(bodies)):
        message = message.followed_by(bodies[place])
        found.append((layer, message, (message.publication,)))
    return found
