"""Files that others wrote: only regular ones, and only up to a size, are read."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from time import process_time

import pytest

from tilewright.core.errors import OutputError
from tilewright.core.files import (
    MAX_TOML_BYTES,
    parse_toml,
    read_bytes,
    read_text,
    read_toml,
    refuse_special_files,
)


def why_not(path: Path, most: int = 8) -> str:
    with pytest.raises(OSError, match=r"\[Errno") as raised:
        read_bytes(path, most)
    return raised.value.strerror


def test_a_file_is_read_up_to_its_size(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345678")
    assert read_bytes(file, 8) == b"12345678"
    assert why_not(file, 7) == "it is larger than 0 KiB"


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_no_file(device: str) -> None:
    assert why_not(Path(device)) == "it is not a regular file"


def test_a_pipe_that_nobody_writes_into_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    said: list[str] = []
    reading = threading.Thread(target=lambda: said.append(why_not(tmp_path / "pipe")), daemon=True)
    reading.start()
    reading.join(timeout=120)
    assert said == ["it is not a regular file"]


def test_a_link_is_followed_only_if_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")
    assert read_bytes(tmp_path / "link", 8) == b"1"
    with pytest.raises(OSError, match="symbolic links"):
        read_bytes(tmp_path / "link", 8, follow_link=False)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_folder_with_a_file_to_which_writing_might_not_end_is_refused(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "to_nothing").symlink_to("nowhere")
    refuse_special_files(tmp_path)
    special = tmp_path / "special"
    if kind == "pipe":
        os.mkfifo(special)
    else:
        special.symlink_to("/dev/zero")
    with pytest.raises(OutputError, match=f"{special} is not a regular file"):
        refuse_special_files(tmp_path)


def test_what_is_no_text_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff")
    with pytest.raises(OSError, match="it is not UTF-8 text"):
        read_text(tmp_path / "file", 8)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = ", "it is not valid TOML"),
        ("a = " + "9" * 5000, "it is not valid TOML"),
        ("a = [1, {b = 0x" + "f" * 5000 + "}]", "more than 64 bits"),
        ("a = " + "[" * 5000, "nested too deeply"),
        ("a." * 32 + "a = 1", "a key has more than 32 parts"),
        ("[" + "a . " * 32 + "a]", "a key has more than 32 parts"),
        ('b = {"\\"" . \'"\' . ' + "a-b." * 30 + "a = 1}", "a key has more than 32 parts"),
        ("b = {c = '''\n\"''', " + "a." * 32 + "a = 1}", "a key has more than 32 parts"),
        ('b = {c = """\n\\"""\'""""", ' + "a." * 32 + "a = 1}", "a key has more than 32 parts"),
        ("# '''\n" + "a." * 32 + "a = 1", "a key has more than 32 parts"),
        ("#" * (MAX_TOML_BYTES + 1), "it is larger than 16 KiB"),
    ],
)
def test_toml_that_cannot_be_read_is_one_clause(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "file.toml").write_text(text)
    with pytest.raises(OSError, match=r"\[Errno") as raised:
        read_toml(tmp_path / "file.toml")
    assert reason in raised.value.strerror
    assert "\n" not in raised.value.strerror


def test_keys_of_32_parts_and_texts_with_many_dots_are_read() -> None:
    text = "a." * 31 + 'a = "' + "a." * 99 + '" # ' + "a." * 99 + "\n"
    more = 'b = """\n"' + "a." * 99 + '\\""""""\n'
    value: object = parse_toml(more + text)
    for _ in range(32):
        assert isinstance(value, dict)
        value = value["a"]
    assert value == "a." * 99


@pytest.mark.parametrize(
    "repeated",
    ["a", " ", "'", "\\", '"a', "a.", "a ", "a. ", '"\\', '"""', "'''\n"],
)
def test_refusing_a_large_text_takes_less_than_two_seconds(repeated: str) -> None:
    text = "a = " + repeated * (100_000 // len(repeated))
    before = process_time()
    with pytest.raises(ValueError, match=r"key has more|at line|at end"):
        parse_toml(text)
    assert process_time() - before < 2
