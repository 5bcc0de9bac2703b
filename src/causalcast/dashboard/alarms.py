"""What an operator should look at now, from what nodes say of themselves."""

from typing import Any, Final, NamedTuple

HELD_LONG: Final = 10.0  # seconds that a message waits for a cause
LOOP_LATE: Final = 0.5  # seconds
CERTIFICATE_SOON: Final = 14 * 86400.0  # seconds
NAMED: Final = 5  # of those who believe the same
BAD: Final = "bad"
WAIT: Final = "wait"


class Alarm(NamedTuple):
    """One line; `bad` asks for action, `wait` may pass by itself."""

    level: str
    node: str
    text: str


def alarms_of(
    name: str, status: dict[str, Any], before: dict[str, Any] | None, now: float
) -> list[Alarm]:
    """What is wrong with a node that answers; `before` is its status when it was first seen."""
    found = [Alarm(BAD, name, f"publishers wait: {why}") for why in status["publishers_wait"]]
    if not status["takes_part"]:
        found.append(Alarm(WAIT, name, "has not found its place in the cluster yet"))
    if not status["links"] and status["traffic"]:
        found.append(Alarm(BAD, name, "has no links"))
    held = status["held"]
    if held["oldest_seconds"] > HELD_LONG:
        message, seconds = held["oldest"][0]
        found.append(Alarm(BAD, name, f"{message} has waited {seconds:.0f} s for a cause"))
    lag = status.get("loop_lag", {}).get("last_seconds", 0.0)
    if lag > LOOP_LATE:
        found.append(Alarm(WAIT, name, f"its event loop is {lag:.1f} s late"))
    if (status["trace"] or {}).get("lost_rows"):
        found.append(Alarm(BAD, name, f"{status['trace']['lost_rows']} rows of its trace are lost"))
    expires = status.get("certificate_expires")
    if expires is not None and expires - now < CERTIFICATE_SOON:
        days = (expires - now) / 86400
        text = (
            f"its certificate lapses in {days:.0f} days"
            if days > 0
            else "its certificate has lapsed"
        )
        found.append(Alarm(BAD, name, text))
    if status["conditions"].get("within_fault_budget") == 0:
        found.append(Alarm(BAD, name, "more nodes are away than its protocol survives"))
    for kind, count in status["trouble"].items():
        more = count - (before or {}).get("trouble", {}).get(kind, 0)
        if more > 0 and kind != "dials_failed":  # those are told by who does not answer
            found.append(Alarm(WAIT, name, f"{kind.replace('_', ' ')}: {more} since you look"))
    return found


def suspicions(suspected: dict[str, list[int]]) -> list[Alarm]:
    """Who is believed to be down, told once however many believe it; by who believes whom."""
    believed: dict[str, list[str]] = {}
    for name, whom in suspected.items():
        for one in whom:
            believed.setdefault(str(one), []).append(name)
    return [
        Alarm(WAIT, one, f"is believed to be down by {_listed(names)}")
        for one, names in believed.items()
    ]


def _listed(names: list[str]) -> str:
    if len(names) <= NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
