"""A SPEC promises only what can be judged."""

import pytest

from causalcast.core import Multicast, ProtocolSpec
from causalcast.core.spec import GUARANTEES
from causalcast.trace import schema


def test_what_can_be_promised_can_be_judged() -> None:
    assert {*GUARANTEES} == {*schema.GUARANTEES, *schema.WEAKER_FORMS}


def test_a_promise_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="mine: no guarantee 'causal'"):
        ProtocolSpec("mine", "a protocol", lambda setup: Multicast(), [], ["causal"])
