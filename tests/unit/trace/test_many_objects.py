"""While many objects are made and kept nobody looks for garbage, and afterwards as before."""

import gc

import pytest

from causalcast.trace.many_objects import all_are_kept


def test_it_is_off_inside_and_as_before_afterwards() -> None:
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), all_are_kept():
        assert not gc.isenabled()
        with all_are_kept():
            pass
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled()
