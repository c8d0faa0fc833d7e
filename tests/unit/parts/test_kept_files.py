"""Results that one process stores and the next one uses, whatever happens to the file."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.parts import kept_files
from tilewright.parts.kept_files import kept


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tilewright"


def made(what: bytes = b"result") -> tuple[bytes, int]:
    """What `kept` returns, and how often it was computed for that."""
    calls = 0

    def make() -> bytes:
        nonlocal calls
        calls += 1
        return what

    return kept("kind", "key", make), calls


def test_it_is_computed_once(folder: Path) -> None:
    assert made() == (b"result", 1)
    assert made(b"other") == (b"result", 0)
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def change(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1] + b"?")


def empty(file: Path) -> None:
    file.write_bytes(b"")


def open_to_others(file: Path) -> None:
    file.chmod(0o666)


def replace_by_a_link(file: Path) -> None:
    file.rename(file.with_suffix(".moved"))
    file.symlink_to(file.with_suffix(".moved"))


def replace_by_another(file: Path) -> None:
    kept("kind", "other", lambda: b"of another key").hex()
    (file.parent / "kind-other.bin").replace(file)


def replace_by_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def give_away(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(file, 12345, 12345)


@pytest.mark.parametrize(
    "harm",
    [
        cut, change, empty, open_to_others, replace_by_a_link, replace_by_another,
        replace_by_a_pipe, give_away,
    ],
)  # fmt: skip
def test_a_damaged_or_foreign_file_is_replaced(folder: Path, harm: Callable[[Path], None]) -> None:
    made()
    harm(folder / "kind-key.bin")
    assert made() == (b"result", 1)
    assert made() == (b"result", 0)


def test_a_full_disk_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert made() == (b"result", 1)
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_no_error(folder: Path) -> None:
    folder.write_text("a file")
    assert made() == (b"result", 1)


def test_empty_results_and_failures_are_not_stored(folder: Path) -> None:
    def fail() -> bytes:
        raise ValueError("refused")

    assert made(b"") == (b"", 1)
    with pytest.raises(ValueError, match="refused"):
        kept("kind", "key", fail)
    assert made() == (b"result", 1)


def test_the_oldest_files_of_a_kind_are_deleted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_files, "MOST_FILES", 2)
    kept("other", "key", lambda: b"x")
    for age, key in enumerate("abc"):
        kept("kind", key, lambda: b"x")
        os.utime(folder / f"kind-{key}.bin", (age, age))
    assert sorted(file.name for file in folder.iterdir()) == [
        "kind-b.bin", "kind-c.bin", "other-key.bin",
    ]  # fmt: skip
