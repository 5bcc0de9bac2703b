"""One Spark session for all tests of a worker: starting it costs more than most tests."""

from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Any:
    from causalcast.pipeline.session import make_session

    return make_session("local[2]", brief=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write transcripts down as they happen now"
    )
