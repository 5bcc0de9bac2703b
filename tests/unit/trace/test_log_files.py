"""Files as lines: packed or not, whole or torn, one or a folder of them."""

import gzip
import io
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from causalcast.errors import TraceError
from causalcast.trace.foreign_log import records_of
from causalcast.trace.log_files import LogFiles, files_at, log_files, title_of

TEXT = "".join(f'{{"number": {n}}}\n' for n in range(20_000)).encode()


PACKED = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT),
    "zstd": pa.compress(TEXT, codec="zstd", asbytes=True),
}


def read(path: Path) -> tuple[list[int], list[str]]:
    files = LogFiles([path])
    return [record.raw["number"] for record in records_of(files)], files.left_out


@pytest.mark.parametrize("form", PACKED)
def test_packed_or_not_it_is_the_same_whatever_its_name(tmp_path: Path, form: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACKED[form])
    assert read(path) == (list(range(20_000)), [])


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_of_a_torn_packed_file_what_is_whole_is_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACKED[form][: len(PACKED[form]) * 2 // 3])
    numbers, left_out = read(path)
    assert 5_000 < len(numbers) < 20_000 and numbers == list(range(len(numbers)))
    assert "the compressed end is torn" in left_out[0]


def test_a_torn_last_line_is_told_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"number": 1}\n{"num')
    assert read(path) == ([1], [f"{path}: line 2: torn: no JSON, and no end of line after it"])


def test_a_last_line_without_an_end_may_be_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"number": 1}\n{"number": 2}')
    assert read(path) == ([1, 2], [])


@pytest.mark.parametrize("text", ['{"number": 1}\n{"num\n', '{"num\n{"number": 1}'])
def test_half_a_line_elsewhere_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(TraceError, match="not JSON"):
        read(path)


def test_a_folder_is_all_its_files_by_name_but_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a/z.jsonl", ".hidden", "_SUCCESS", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert files_at(tmp_path) == [tmp_path / "a/z.jsonl", tmp_path / "b.jsonl"]


def test_an_empty_folder_and_no_file_at_all_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="a folder without files"):
        files_at(tmp_path)
    with pytest.raises(TraceError, match="no such file"):
        files_at(tmp_path / "nowhere")


def test_standard_input_may_be_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PACKED["gzip"])))
    with log_files([Path("-")]) as files:
        assert len(list(records_of(files))) == 20_000
        assert files.title == "standard input"
        assert files.bytes_of_text > len(TEXT) // 12


def test_what_is_wrong_in_standard_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\nnothing\n")))
    with log_files([Path("-")]) as files, pytest.raises(TraceError) as caught:
        list(records_of(files))
    assert str(caught.value).startswith("standard input: line 2: not JSON")


def test_a_title_has_no_endings() -> None:
    assert [title_of(name) for name in ("a.b.jsonl.gz", "x.zst", "y")] == ["a.b", "x", "y"]
