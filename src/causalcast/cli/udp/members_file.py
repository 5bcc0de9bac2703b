"""`members.dat`: who takes part, one line each.

    # host        port   name (optional)
    127.0.0.1     7001   ada
    127.0.0.1     7002   bob
    c.example.org 7001

The report has hosts and ports. Members that share a host are told apart by `host:port` or by the
name in the third column.
"""

import socket
from dataclasses import dataclass
from pathlib import Path

from causalcast.errors import ConfigError
from causalcast.protocols.member_multicast.members import MOST_MEMBERS


@dataclass(frozen=True)
class Member:
    """One line."""

    host: str
    port: int
    name: str
    ip: str  # what the host's name stands for


def read_members(path: Path) -> list[Member]:
    """All members, in the order of the file; ConfigError names the line that is wrong."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise ConfigError(f"{path}: {reason}") from None
    members: list[Member] = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if words:
            try:
                members.append(_member(words, members))
            except ValueError as error:
                raise ConfigError(f"{path}:{number}: {error}") from None
    if len(members) < 2:
        raise ConfigError(f"{path}: {len(members)} members; expected at least 2")
    if len(members) > MOST_MEMBERS:
        raise ConfigError(f"{path}: {len(members)} members; at most {MOST_MEMBERS} have a slot")
    return members


def find_member(members: list[Member], wanted: str, path: Path) -> int:
    """Which member is meant by a name, a host, or host:port; ConfigError if none or several."""
    found = [
        index
        for index, member in enumerate(members)
        if wanted in (member.name, member.host, f"{member.host}:{member.port}")
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        names = ", ".join(member.name for member in members)
        raise ConfigError(f"{path} has no member {wanted!r}; it has {names}")
    several = ", ".join(members[index].name for index in found)
    raise ConfigError(f"{wanted!r} could be {several} in {path}; use one of these")


def resolve(host: str) -> str:
    """The address of a host; ValueError if nobody knows it."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)[0][4][0])
    except (OSError, UnicodeError):
        raise ValueError(f"nobody knows the host {host!r}") from None


def _member(words: list[str], before: list[Member]) -> Member:
    if len(words) not in (2, 3):
        raise ValueError(f"expected 'host port' or 'host port name', found {' '.join(words)!r}")
    host, port = words[:2]
    if not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"expected a port from 1 to 65535, found {port!r}")
    member = Member(host, int(port), words[2] if words[2:] else f"{host}:{port}", resolve(host))
    for other in before:
        if (other.ip, other.port) == (member.ip, member.port):
            raise ValueError(f"{host}:{port} is in the list already")
        if other.name == member.name:
            raise ValueError(f"the name {member.name!r} is in the list already")
    return member
