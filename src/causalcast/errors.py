"""Every exception that crosses a border of the library.

    CausalcastError
    ├── ConfigError        a file, key, option or name is wrong; says where and what was expected
    ├── WireError          a peer sent nonsense: that link is closed and counted, the node goes on
    │   └── Rejected       what it sent can be read, and cannot be true or is not allowed
    ├── JournalError       this node's own disk failed or holds damaged records: the node stops
    ├── TraceError         a trace cannot be read, or contradicts its own format
    ├── MissingDependency  this machine lacks Java, a compiler or an extra; says what to do
    └── NodeError          the application asked a node for something it cannot do
        ├── LeftBehind     the others go on without this node: start it again, as somebody new
        ├── Unanswered     a client cannot know whether a publication was made
        ├── Undecodable    a message of a typed group carries no value of the type; has the message
        ├── GroupRefused   a node does not serve a group to a client (any more); others go on
        └── Gap            a client cannot go on where it was: what it lacks is not kept any more

Bugs are assertions, not exceptions of this tree.
"""

from typing import Any


class CausalcastError(Exception):
    """Root of all; the command line prints its text in one line and exits with `exit_code`."""

    exit_code = 2


class ConfigError(CausalcastError):
    """A file, key or option is wrong: the text names it and says what was expected."""


class WireError(CausalcastError):
    """A peer sent bytes that are no message: close that link, count it, go on."""


class Rejected(WireError):
    """A peer brought a publication that cannot be true, or that somebody had no right to."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind  # under which it is counted


class JournalError(CausalcastError):
    """This node's durable records are damaged or cannot be written: stop the node."""


class TraceError(CausalcastError):
    """A trace is unreadable, truncated, or breaks its own format."""


class MissingDependency(CausalcastError):
    """This machine lacks something; the text says how to get it."""


class NodeError(CausalcastError):
    """The application asked a node for something it cannot do."""


class LeftBehind(NodeError):
    """What this node lacks nobody has any more; it stopped, and can come back as somebody new."""


class Unanswered(NodeError):
    """The node that was asked to publish is gone: it may have been done, or not."""


class Undecodable(NodeError):
    """A message of a typed group carries no value of the type. It is not acknowledged."""

    def __init__(self, text: str, message: Any) -> None:
        super().__init__(text)
        self.message = message  # with its bytes: acknowledge it or give it back


class GroupRefused(NodeError):
    """A node does not serve a group to this client, because it was removed or for want of a right;
    other groups of the client go on."""

    def __init__(self, text: str, group: str) -> None:
        super().__init__(text)
        self.group = group


class Gap(NodeError):
    """What comes next for this client is not kept any more: begin anew, with state of others."""

    def __init__(self, text: str, group: str) -> None:
        super().__init__(text)
        self.group = group
