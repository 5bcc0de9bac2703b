"""The shape of event rows: where each log begins, and whether anything is missing."""

from typing import Any

from causalcast.pipeline.kernels.compiled import compiled
from causalcast.pipeline.kernels.kinds import DELIVER, PUBLISH


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def is_sorted(node: Any, pos: Any) -> bool:
    """Whether the rows are in the order of node, then pos."""
    for row in range(1, len(node)):
        if node[row] < node[row - 1] or (node[row] == node[row - 1] and pos[row] < pos[row - 1]):
            return False
    return True


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def count_logs(node: Any) -> int:
    """How many logs there are in sorted rows."""
    count = min(len(node), 1)
    for row in range(1, len(node)):
        count += node[row] != node[row - 1]
    return int(count)


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def starts_of_logs(node: Any, pos: Any, starts: Any) -> int:
    """First row of each log, and the end; returns the first row with a wrong `pos`, or -1."""
    wrong = -1
    logs = 0
    start = 0
    for row in range(len(node)):
        if row == 0 or node[row] != node[row - 1]:
            starts[logs] = start = row
            logs += 1
        if wrong < 0 and pos[row] != row - start:
            wrong = row
    starts[logs] = len(node)
    return wrong


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def first_without_id(kind: Any, message: Any, group: Any) -> int:
    """The first publish or deliver row that lacks message or group, or -1."""
    for row in range(len(kind)):
        if (message[row] < 0 or group[row] < 0) and (kind[row] == DELIVER or kind[row] == PUBLISH):
            return row
    return -1
