"""Keys that clients gave their publications: a retry with the same key is no second message.

The window: the last `KEYS` keys of a client, and the `CLIENTS` clients that published last. It is
bounded by client, so that nobody makes the keys of others be forgotten.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from causalcast.limits import Limit

KEYS: Final = Limit(
    "runtime.storage.publication_keys.keys",
    1000,
    least=1,
    most=1 << 16,
    unit="keys",
    about="keys of publications that are remembered of a client, the last ones",
)
CLIENTS: Final = Limit(
    "runtime.storage.publication_keys.clients",
    100,
    least=1,
    most=1 << 16,
    unit="clients",
    about="clients whose keys are remembered, those that published last",
)

StoredKey = tuple[str, int, bytes]  # the key, the number of its publication, a digest of that


class PublicationKeys:
    """Which number the publication of a key has, client by client."""

    def __init__(self, stored: Mapping[str, Sequence[StoredKey]] | None = None) -> None:
        # Both in the order of use, the oldest first.
        self._clients: dict[str, dict[str, StoredKey]] = {}
        for client, keys in (stored or {}).items():
            for key in keys:
                self.add(client, key)

    def find(self, client: str, key: str) -> StoredKey | None:
        """What was published with this key; None if it is new, or was forgotten."""
        return self._clients.get(client, {}).get(key)

    def add(self, client: str, key: StoredKey) -> None:
        """A publication has this key; what is beyond the window is forgotten."""
        keys = self._clients.pop(client, {})
        self._clients[client] = keys
        keys[key[0]] = key
        if len(keys) > KEYS.value:
            del keys[next(iter(keys))]
        if len(self._clients) > CLIENTS.value:
            del self._clients[next(iter(self._clients))]

    def forget_beyond(self, published: int) -> None:
        """Numbers beyond this one were never published: a crash came before."""
        for keys in self._clients.values():
            for key in [key for key, (_, number, _) in keys.items() if number > published]:
                del keys[key]

    def stored(self) -> dict[str, list[StoredKey]]:
        """All of them, for a snapshot."""
        return {client: list(keys.values()) for client, keys in self._clients.items() if keys}
