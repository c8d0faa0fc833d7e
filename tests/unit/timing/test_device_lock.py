from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.core.errors import DeviceBusyError
from tilewright.timing import exclusive

DEVICE = f"test-device-{uuid.uuid4().hex}"
"""No other run of these tests holds it."""

HOLDER = """
import sys
from tilewright.timing import exclusive
with exclusive(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def locks() -> Iterator[None]:
    yield
    for lock in Path("/tmp").glob(f"tilewright-*{DEVICE}*.lock"):
        lock.unlink()


def holder(**environment: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, DEVICE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_another_process_is_named_and_its_death_frees_the_device() -> None:
    process = holder()
    try:
        expected = f"process {process.pid} still measures on device {DEVICE}"
        with pytest.raises(DeviceBusyError, match=expected), exclusive(DEVICE, wait_s=0):
            pass
        with exclusive(f"other {DEVICE}", wait_s=0):
            pass
    finally:
        process.kill()
        process.wait()
        process.communicate()
    with exclusive(DEVICE, wait_s=60):
        pass


def test_a_process_with_a_folder_of_its_own_holds_the_same_device(tmp_path: Path) -> None:
    process = holder(TMPDIR=str(tmp_path))  # as evaluating processes have
    try:
        with pytest.raises(DeviceBusyError), exclusive(DEVICE, wait_s=0):
            pass
    finally:
        process.communicate("")
    with exclusive(DEVICE):
        pass


def test_the_device_is_free_after_an_error_in_the_block() -> None:
    with pytest.raises(ZeroDivisionError), exclusive(DEVICE):
        raise ZeroDivisionError
    with exclusive(DEVICE, wait_s=0):
        pass


@pytest.mark.parametrize("wait_s", [None, 0.0])
def test_a_held_device_is_shared_with_nobody(wait_s: float | None) -> None:
    with exclusive(DEVICE, wait_s):
        (lock,) = Path("/tmp").glob(f"tilewright-*{DEVICE}*.lock")
        with lock.open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
