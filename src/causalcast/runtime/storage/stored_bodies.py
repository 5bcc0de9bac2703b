"""Bodies of deliveries, read back from the journal.

Several deliveries may stand in one entry, and they are asked for in order. So the last entry stays
in memory: each is read and decoded once, not once for every delivery in it.
"""

from collections.abc import Callable

from causalcast.core.ids import NodeId
from causalcast.runtime.storage import durable_entry
from causalcast.runtime.storage.durable_entry import Entry
from causalcast.runtime.storage.journal_frames import Place


class StoredBodies:
    """The bodies in one journal. Not to be shared by threads."""

    def __init__(self, read: Callable[[Place], bytes], me: NodeId) -> None:
        self._read = read
        self._me = me
        self._place: Place | None = None
        self._entry: Entry | None = None

    def load(self, place: Place, index: int) -> bytes:
        """The body of the `index`-th delivery in the entry at `place`."""
        if self._entry is None or self._place != place:
            self._entry = durable_entry.decode(self._read(place))
            self._place = place
        return durable_entry.delivery_in(self._entry, index, self._me)[2]

    def forget(self) -> None:
        """Another file has other entries at the same places."""
        self._place = self._entry = None
