"""Two publications that one origin signed under one number: kept, so that anybody can check it.

Each stands in a file of its own in the node's storage, `evidence/ORIGIN.NUMBER.json`, with both
signed bodies as they travelled: signature, certificate and body. No relay can make that up.
"""

import base64
import json
import logging
from pathlib import Path
from typing import Final

from causalcast.core.ids import number_of, origin_of
from causalcast.core.message import Publication
from causalcast.limits import Limit

log = logging.getLogger(__name__)

MOST_KEPT: Final = Limit(
    "runtime.security.evidence.most_kept",
    64,
    least=1,
    most=1 << 16,
    unit="files",
    about="pairs of publications under one number that are kept; one is proof enough",
)


class Evidence:
    """The folder with what was signed twice, and who did so."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, first: Publication, second: Publication) -> None:
        """Write both down; a disk that takes nothing is told in the log."""
        origin, number = origin_of(first.id), number_of(first.id)
        path = self._folder / f"{origin}.{number}.json"
        content = {
            "origin": int(origin),
            "number": number,
            "publications": [
                {"group": int(one.group), "signed": base64.b64encode(one.body).decode()}
                for one in (first, second)
            ],
        }
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if path.exists() or len([*self._folder.iterdir()]) >= MOST_KEPT.value:
                return
            path.write_text(json.dumps(content) + "\n")
        except OSError as error:
            log.error("evidence against node %d cannot be kept: %s", origin, error)
