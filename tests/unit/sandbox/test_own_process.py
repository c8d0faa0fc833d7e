"""A worker that contained itself: what a defect in the simulator could still reach."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from plain_user import in_child

from tilewright.sandbox import (
    Limits,
    call_contained,
    contain_this_process,
    find_sandbox,
    landlock,
    open_folder,
)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not landlock.abi(), reason="this kernel has no Landlock"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """For every user: not below pytest's private folder."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o777)
        (path / "scratch").mkdir()
        (path / "scratch").chmod(0o777)
        (path / "kept").write_text("kept")
        (path / "kept").chmod(0o666)
        yield path


def _through_a_link(folder: Path) -> None:
    (folder / "scratch" / "link").symlink_to(folder / "kept")
    (folder / "scratch" / "link").write_text("changed")


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None), name)(*arguments) != 0:
        raise OSError(name)


def _make_a_disk(folder: Path) -> None:
    os.mknod(folder / "scratch" / "disk", 0o60600, os.makedev(254, 0))


ATTACKS: dict[str, Callable[[Path], object]] = {
    "a file that is there": lambda folder: (folder / "kept").write_text("changed"),
    "a new file": lambda folder: (folder / "new").write_text(""),
    "removing a file": lambda folder: (folder / "kept").unlink(),
    "moving a file": lambda folder: (folder / "kept").rename(folder / "scratch" / "kept"),
    "a file behind a link": _through_a_link,
    "a disk": _make_a_disk,
    "a connection": lambda folder: socket.socket(),
    "a datagram": lambda folder: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "the environment of its parent": lambda folder: Path(
        f"/proc/{os.getppid()}/environ"
    ).read_bytes(),
    "the memory of its parent": lambda folder: os.open(f"/proc/{os.getppid()}/mem", 0),
    "tracing its parent": lambda folder: _call("ptrace", 16, os.getppid(), 0, 0),
    "a mount": lambda folder: _call("mount", b"none", b"/mnt", b"tmpfs", 0, 0),
    "hidden memory": lambda folder: os.memfd_create("x"),
    "the clock": lambda folder: time.clock_settime(time.CLOCK_REALTIME, 0),
    "a signal to its parent": lambda folder: os.kill(os.getppid(), 0),
}
HARMLESS = ("a file that is there", "a new file", "a connection", "a datagram", "hidden memory")


def reached(attack: str, folder: Path) -> bool:
    try:
        ATTACKS[attack](folder)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("plain", [False, True], ids=["this user", "plain user"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_it_does_not_reach(folder: Path, attack: str, plain: bool) -> None:
    if attack == "a signal to its parent" and landlock.abi() < 6:
        pytest.skip("this kernel's Landlock knows no signals")

    def child() -> bool:
        assert contain_this_process(folder / "scratch") == "landlock+seccomp"
        return reached(attack, folder)

    assert not in_child(child, plain=plain)
    assert (folder / "kept").read_text() == "kept"
    assert sorted(path.name for path in folder.iterdir()) == ["kept", "scratch"]


@pytest.mark.parametrize("attack", HARMLESS)
def test_without_containment_it_would(folder: Path, attack: str) -> None:
    assert in_child(lambda: reached(attack, folder), plain=True)


@pytest.mark.parametrize("plain", [False, True], ids=["this user", "plain user"])
def test_it_still_contains_others(folder: Path, plain: bool) -> None:
    def child() -> tuple[str, int | None, int]:
        scratch = folder / "scratch"
        tempfile.tempdir = str(scratch)
        contain_this_process(scratch)
        assert (folder / "kept").read_text() == "kept"
        sandbox = find_sandbox()
        with open_folder("tilewright-test-") as name:
            script = ["/bin/sh", "-c", "id -u > user; sleep 100 & :"]
            ended = sandbox.run(script, Path(name), Limits(20.0), {"PATH": "/usr/bin:/bin"})
            return sandbox.name, ended.status, int((Path(name) / "user").read_text())

    name, status, user = in_child(child, plain=plain)
    assert status == 0
    assert name.startswith("landlock+seccomp")
    assert user != 0 or "+uid" not in name
    assert list((folder / "scratch").iterdir()) == []


def test_a_contained_call_returns_bytes_and_nothing_else(folder: Path) -> None:
    kept = []

    def function() -> bytes:
        kept.append("lost with the child")
        assert (folder / "kept").read_text() == "kept"
        return bytes([reached("a file that is there", folder), reached("a connection", folder)])

    assert call_contained(function) == bytes([False, False])
    assert kept == []
    assert (folder / "kept").read_text() == "kept"
    assert len(call_contained(lambda: bytes(1 << 20))) == 1 << 20
    assert call_contained(lambda: map(memoryview, (b"one ", b"after the other"))) == (
        b"one after the other"
    )


@pytest.mark.parametrize(
    "function",
    [lambda: os._exit(3), lambda: 1 / 0, lambda: os.kill(os.getpid(), 9), lambda: "text"],
)
def test_a_contained_call_that_does_not_return(function: Callable[[], bytes]) -> None:
    with pytest.raises(OSError, match=r"a contained process ended with status -?\d"):
        call_contained(function)


def test_a_process_with_threads_is_not_said_to_be_contained(folder: Path) -> None:
    """Landlock would bind the calling thread alone."""

    def child() -> str | None:
        import threading

        over = threading.Event()
        threading.Thread(target=over.wait, daemon=True).start()
        return contain_this_process(folder / "scratch")

    assert in_child(child, plain=False) is None
