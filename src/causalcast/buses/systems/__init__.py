"""One file per message bus: how its servers are started, and how a process of ours talks to it."""
