"""Publications that came as one are looked at as strictly as one by one."""

from collections.abc import Callable

import pytest

from causalcast.core import GroupId, Groups, NodeId, Publication, message_id
from causalcast.errors import Rejected, WireError
from causalcast.runtime.security.admission import ANY_NUMBER, Admission
from causalcast.runtime.security.rights import Rights
from causalcast.runtime.security.signatures import Signatures

ME, OTHER = NodeId(1), NodeId(2)
GROUPS = Groups({"all": [ME, OTHER]})


class OneBadSignature(Signatures):
    """Believes every publication but number 8."""

    def __init__(self) -> None:
        """Needs no keys."""
        self.liars = {}

    def check(self, publication: Publication) -> None:
        if publication.id == message_id(OTHER, 8):
            raise WireError("signed by somebody else")


def admission(
    signatures: Signatures | None = None, furthest: Callable[[NodeId], int] = lambda _: ANY_NUMBER
) -> Admission:
    return Admission(ME, GROUPS, [ME, OTHER], Rights(), lambda: 3, furthest, signatures)


def a_run(origin: NodeId, first: int, count: int, group: int = 0) -> tuple[Publication, ...]:
    numbers = range(first, first + count)
    return tuple(Publication(message_id(origin, n), GroupId(group), b"") for n in numbers)


def test_every_signature_of_a_run_is_looked_at() -> None:
    gate = admission(OneBadSignature())
    gate.check_run(OTHER, a_run(OTHER, 1, 6))
    with pytest.raises(Rejected, match="somebody else"):
        gate.check_run(OTHER, a_run(OTHER, 7, 3))


def test_the_protocol_says_how_far_numbers_may_run_ahead() -> None:
    gate = admission(furthest=lambda _: 100)
    gate.check_run(OTHER, a_run(OTHER, 1, 10))
    gate.check(OTHER, a_run(OTHER, 100, 1))
    with pytest.raises(Rejected, match="at most 100"):
        gate.check(OTHER, a_run(OTHER, 102, 1))


def test_where_it_says_nothing_any_number_may_come() -> None:
    """What was published to other groups never comes here, however much it was."""
    gate = admission()
    gate.check(OTHER, a_run(OTHER, 1, 1))
    gate.check(OTHER, a_run(OTHER, 1 << 30, 1))
    gate.check_run(OTHER, a_run(OTHER, 2, 3))


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        (a_run(ME, 3, 2), "as_myself"),  # 3 is mine, 4 is not
        (a_run(NodeId(9), 1, 2), "unknown_origin"),
        (a_run(OTHER, 1, 2, group=5), "unknown_group"),
    ],
)
def test_what_cannot_be_true_is_rejected(run: tuple[Publication, ...], kind: str) -> None:
    with pytest.raises(Rejected) as rejected:
        admission().check_run(OTHER, run)
    assert rejected.value.kind == kind
