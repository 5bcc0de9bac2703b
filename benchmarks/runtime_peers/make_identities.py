"""An authority, and the identities of nodes 1 to 5, in the folder that is named."""

import sys
from pathlib import Path

from causalcast.runtime.security.authority import Authority

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    authority = Authority.found(folder / "authority", "causalcast")
    for node in range(1, 6):
        authority.make_identity(folder / f"node-{node}", node)
