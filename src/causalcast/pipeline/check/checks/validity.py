"""Validity: a member that publishes a message delivers it too, if it is up and still a member."""

import numpy as np

from causalcast.pipeline.check.checks.finding import Finding, first_few
from causalcast.pipeline.check.log_view import LogView

NAME = "validity"
WORDS = {"missing": "published a message to its own group and never delivered it"}


def find(log: LogView) -> list[Finding]:
    """Publications of this log that it owes itself."""
    publications = log.graph.publications
    place = publications.place_of_origin(log.node)
    if place < 0 or log.down_at_the_end:
        return []
    own = np.flatnonzero((publications.origin == place) & (log.delivered >= log.rows))
    found = [
        Finding(NAME, "missing", log.node, int(publications.message[m]), int(publications.pos[m]))
        for m in own
        for membership in log.final_memberships()
        if membership.group == publications.group[m]
        and membership.start <= publications.pos[m]
        and membership.share is None
    ]
    found.sort(key=lambda finding: finding.message)
    return first_few(found, len(found))
