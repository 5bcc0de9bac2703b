"""One Spark session for the whole test run: starting it costs more than most tests."""

from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Any:
    from causalcast.pipeline.session import make_session

    return make_session("local[2]")
