"""What `causalcast watch` cannot do it says at once, before Spark starts."""

from pathlib import Path

import pytest

from causalcast.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["hdfs://name/runs/7"], "hdfs://name/runs/7: watch reads node logs and run.json"),
        (["RUN", "s3a://bucket/runs"], "s3a://bucket/runs: watch reads node logs and run.json"),
        (["RUN", "--remote", "sc://gateway:15002"], "--remote: a watch keeps its state"),
        (["file:///no/such/place"], "/no/such/place: no such folder"),
    ],
)
def test_what_it_cannot_watch_is_refused(
    capsys: pytest.CaptureFixture[str], good: Path, arguments: list[str], complaint: str
) -> None:
    assert main(["watch", *(str(good) if word == "RUN" else word for word in arguments)]) == 2
    assert complaint in capsys.readouterr().err
