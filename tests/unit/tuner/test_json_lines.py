"""Lines of measurements, in a folder that others can write to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright.core.errors import InputError
from tilewright.tuning.json_lines import append, read_lines


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    assert list(read_lines(file)) == []
    append(file, [{"a": 1}])
    append(file, [{"a": 2}, {"a": 3}])
    assert list(read_lines(file)) == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_a_line_of_a_killed_process_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b'{"a": 1}\n{"a": ')
    append(file, [{"a": 2}])
    assert list(read_lines(file)) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("line", [b"\xff\xfe", b"[" * 100_000, b"5", b"null", b"9" * 5000, b"\0"])
def test_lines_that_are_no_objects_are_left_out(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "lines").write_bytes(line + b'\n{"a": 1}\n')
    assert list(read_lines(tmp_path / "lines")) == [{"a": 1}]


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "large"])
def test_a_file_without_an_end_is_refused(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "lines"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        with file.open("wb") as opened:
            opened.truncate(1 << 36)
    with pytest.raises(InputError, match="cannot be used"):
        list(read_lines(file))
    if kind != "large":
        with pytest.raises(InputError, match="it is not a regular file"):
            append(file, [{"a": 1}])
