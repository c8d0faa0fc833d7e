"""What fails while the disk is full is no outcome of a candidate."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from tilewright import evaluating, run, verification
from tilewright.cli.main import main
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
    monkeypatch.syspath_prepend(str(tmp_path))
    stored: list[str] = []
    with LocalExecutor(
        "scripted:any", {}, 1, store=lambda key, outcome: stored.append(key)
    ) as executor:
        full.touch()
        with pytest.raises(DiskFullError, match=r"is full.*TMPDIR.*repeat the command"):
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


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.statvfs(tmp_path)
    full = os.statvfs_result((*found[:3], 0, 0, *found[5:10]))
    monkeypatch.setattr(disk.os, "statvfs", lambda _: full)


@pytest.mark.usefixtures("full_disk")
def test_a_disk_that_is_full_from_the_start_is_told_before_a_task_is_opened(tmp_path: Path) -> None:
    with pytest.raises(DiskFullError, match="Free some space"):
        run.optimize("no-target:no-task", Settings(), project=tmp_path)


@pytest.mark.usefixtures("full_disk")
def test_evaluate_and_preflight_say_so_before_a_task_is_opened() -> None:
    with pytest.raises(DiskFullError, match="Free some space"):
        evaluating.evaluate_kernel("", "no-target:no-task", Settings())
    with pytest.raises(DiskFullError, match="Free some space"):
        verification.preflight("no-target:no-task", Settings())


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/data/x"), "disk of /data/x is full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "the disk is full"),
        (
            FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"),
            "no folder for temporary files can be written to",
        ),
    ],
)
def test_the_command_line_explains_a_full_disk_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError, said: str
) -> None:
    def fail() -> str:
        raise error

    monkeypatch.setattr(tempfile, "gettempdir", fail)
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", fail)
    monkeypatch.setattr("tilewright.evaluating.evaluate_kernel", lambda *_, **__: fail())
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", __file__, "--workload", "toy:digits"])
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ")
    assert said in " ".join(printed.split())
    assert "Free some space" in printed
    assert "Traceback" not in printed


def test_a_missing_folder_for_temporary_files_is_a_full_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", fail)
    with pytest.raises(DiskFullError, match="TMPDIR"):
        disk.require_room()
