"""Which link publishers wait for: what is kept for one is bounded, and must not be outrun.

A link that is being made safe is served from a log that reaches back a bounded number of
deliveries; a safe one is given up when its peer owes too many tokens. Whoever publishes faster than
neighbours follow would lose its links for that, and be alone in the end, though nobody is down. So
publishers wait in time. They do not wait for a link that gets nowhere for long: it is lost or given
up some day, by others.
"""

from typing import Final, final

from causalcast.core.ids import LinkId
from causalcast.parts.safe_links.links import Link, SafeLinks

HALF: Final = 2  # of what is kept at most: the rest is for what is on its way already


@final
class Crowding:
    """Remembers since when publishers wait for a link."""

    def __init__(self, safe: SafeLinks, patience: int) -> None:
        self._safe = safe
        self._patience = patience
        self._since: dict[LinkId, int] = {}

    def words(self, now: int) -> str:
        """What publishers have to wait for; empty if for nothing."""
        safe = self._safe
        if not safe.born:
            ahead = len(safe.backlog)
            return "this node has not joined yet" if ahead > self._most_ahead() else ""
        if safe.setup.is_left_behind():
            return "this node hears nobody, and lacks what its neighbours have forgotten"
        found = ""
        for link in safe.links.values():
            if not self._is_behind(link):
                self._since.pop(link.name, None)
            elif now - self._since.setdefault(link.name, now) < self._patience:
                found = f"node {link.peer} does not follow"
        for name in [name for name in self._since if name not in safe.named]:
            del self._since[name]
        return found

    def _is_behind(self, link: Link) -> bool:
        safe = self._safe
        if link.is_given_up:
            return False
        if link.safe_in and link.safe_out:
            return 0 < safe.most_kept < HALF * link.burden()
        return safe.setup.is_in_reach(link) and safe.delivered - link.up_at > self._most_ahead()

    def _most_ahead(self) -> int:
        reach = self._safe.setup.reach()
        return (self._safe.most_kept if reach < 0 else reach) // HALF
