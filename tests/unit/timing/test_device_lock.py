from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.core.errors import DeviceBusyError
from tilewright.timing import exclusive

HOLDER = """
import sys
from tilewright.timing import exclusive
with exclusive("test device"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def holder() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_another_process_is_named_and_its_death_frees_the_device() -> None:
    process = holder()
    try:
        expected = f"device test device is being measured on by process {process.pid}"
        with pytest.raises(DeviceBusyError, match=expected), exclusive("test device", wait_s=0):
            pass
        with exclusive("other device", wait_s=0):
            pass
    finally:
        process.kill()
        process.wait()
        process.communicate()
    with exclusive("test device", wait_s=5):
        pass


def test_the_device_is_free_after_an_error_in_the_block() -> None:
    with pytest.raises(ZeroDivisionError), exclusive("test device"):
        raise ZeroDivisionError
    with exclusive("test device", wait_s=0):
        pass
