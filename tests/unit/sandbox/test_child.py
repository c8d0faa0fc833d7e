"""Child processes: messages arrive whole, ends are noticed, nothing that was started is left."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tilewright.sandbox.child import WHOLE_S, Channel, Child

PROGRAM = """
import subprocess, sys
from tilewright.sandbox.child import Channel
channel = Channel(int(sys.argv[1]))
started = [subprocess.Popen(["sleep", "600"]).pid for _ in sys.argv[2:]]
channel.send_json({"started": started})
try:
    while True:
        message = channel.receive_json()
        if message == "end":
            sys.exit(3)
        channel.send_json(message)
except EOFError:
    channel.send_json("the end was read")
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that sends every message back."""
    (tmp_path / "echo_child.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "echo_child"


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    "message", [{}, {"a": [1, 2.5, None, "\u00e9\n\0"]}, {"long": "x" * 1_000_000}]
)
def test_a_message_arrives_whole(message: object) -> None:
    left, right = socket.socketpair()
    with left, right:
        sender = threading.Thread(target=Channel(left.fileno()).send_json, args=(message,))
        sender.start()
        assert Channel(right.fileno()).receive_json() == message
        sender.join()


@pytest.mark.parametrize("sent", [b"no JSON", b"[" * 100_000, b"\xff"])
def test_a_message_that_is_no_json_is_the_end(sent: bytes) -> None:
    """What a worker that was taken over writes costs it its candidate, not the search."""
    left, right = socket.socketpair()
    with left, right:
        Channel(left.fileno()).send(sent)
        with pytest.raises(EOFError, match="not JSON"):
            Channel(right.fileno()).receive_json()


@pytest.mark.parametrize("sent", [b"\0", b"\0" * 7 + b"\x05", b"\0" * 7 + b"\x05ab"])
def test_half_a_message_is_not_waited_for(sent: bytes) -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(sent)
        with pytest.raises(EOFError, match="ended before its last byte"):
            Channel(right.fileno(), whole_s=0.05).receive()


def test_children_have_a_time_for_whole_messages(program: str) -> None:
    child = Child(program)
    assert child._whole_s == WHOLE_S
    child.kill()


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0" * 7 + b"\x05ab", b"\xff" * 8])
def test_a_closed_or_broken_channel_is_the_end(sent: bytes) -> None:
    read, write = os.pipe()
    os.write(write, sent)
    os.close(write)
    with pytest.raises(EOFError):
        Channel(read, max_bytes=1 << 20).receive()
    os.close(read)


def test_a_child_is_talked_to_and_ends_with_its_channel(program: str) -> None:
    child = Child(program)
    assert child.receive_json() == {"started": []}
    child.send_json(["one", 2])
    assert child.has_message(120.0)
    assert child.receive_json() == ["one", 2]
    assert not child.has_message(0.0)
    child.finish()
    assert child.receive_json() == "the end was read"
    assert child.wait() == 0
    child.kill()


def test_what_a_child_started_ends_with_it(program: str) -> None:
    child = Child(program, "one", "more")
    started = child.receive_json()["started"]
    assert len(started) == 2
    assert all(is_running(pid) for pid in started)
    child.kill()
    deadline = time.monotonic() + 120.0
    while any(is_running(pid) for pid in started):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert child.exit_text == "was killed by SIGKILL"


def test_a_child_that_ends_on_its_own_says_how(program: str) -> None:
    child = Child(program)
    child.receive_json()
    child.send_json("end")
    with pytest.raises(EOFError):
        child.receive_json()
    assert child.wait() == 3
    child.send_json("too late")
    child.kill()
    assert child.exit_text == "ended with status 3"


def test_where_it_prints_is_chosen(program: str, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+b") as log:
        child = Child("no_such_module", output=log)
        child.wait()
        child.kill()
    assert "no_such_module" in (tmp_path / "log").read_text()
    quiet = Child("no_such_module", output=subprocess.DEVNULL)
    assert quiet.wait() == 1
    quiet.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
def test_nothing_of_a_child_is_left_in_this_process(program: str) -> None:
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for _ in range(3):
        Child(program).kill()
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before
