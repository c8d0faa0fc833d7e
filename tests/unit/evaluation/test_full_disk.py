"""What fails while the disk is full is no outcome of a candidate."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright import run
from tilewright.core.config import Settings
from tilewright.core.errors import DiskFullError
from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured
from tilewright.evaluation import disk
from tilewright.evaluation.local import LocalExecutor
from tilewright.testing import scripted

FULL_WHERE_ASKED = """
import os
real = os.statvfs
def statvfs(path):
    found = real(path)
    if not os.path.exists({flag!r}):
        return found
    # bsize, frsize, blocks, bfree, bavail, files, ffree, favail, flag, namemax
    return os.statvfs_result((*found[:3], 0, 0, *found[5:]))
os.statvfs = statvfs
"""


def requests(*sources: str) -> list[EvaluationRequest]:
    return [EvaluationRequest(Candidate(source)) for source in sources]


@pytest.mark.parametrize(
    "source", ["raise [Errno 28] No space left on device", "fail build compile_error"]
)
def test_a_failure_on_a_full_disk_ends_the_batch_and_is_never_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    full = tmp_path / "full"
    scripted.write_entry_point(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(FULL_WHERE_ASKED.format(flag=str(full)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    stored: list[str] = []
    with LocalExecutor(
        "scripted:any", {}, 1, store=lambda key, outcome: stored.append(key)
    ) as executor:
        full.touch()
        with pytest.raises(DiskFullError, match=r"is full.*TMPDIR.*same command"):
            executor.evaluate(requests(source))
        assert not stored
        (right,) = executor.evaluate(requests("latency 7"))  # it needs no room
        assert isinstance(right, Measured)
        full.unlink()
        (failed,) = executor.evaluate(requests(source))
        assert isinstance(failed, Failed)


def test_no_more_files_is_full_too_unless_the_system_counts_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def room(files: int, free: int) -> None:
        found = (4096, 4096, 10**6, 10**6, 10**6, files, free, free, 0, 255)
        monkeypatch.setattr(disk.os, "statvfs", lambda path: os.statvfs_result(found))
        disk.require_room()

    room(0, 0)
    room(1000, 900)
    with pytest.raises(DiskFullError):
        room(1000, 0)


def test_a_disk_that_is_full_from_the_start_is_told_before_a_task_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = os.statvfs(tmp_path)
    full = os.statvfs_result((*found[:3], 0, 0, *found[5:10]))
    monkeypatch.setattr(disk.os, "statvfs", lambda _: full)
    with pytest.raises(DiskFullError, match="Free some space"):
        run.optimize("no-target:no-task", Settings(), project=tmp_path)
