"""A search whose disk fills up, whose database is locked, whose clock jumps: nothing is lost."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from toy_project import SCRIPT, recorded, start

from tilewright.run import standing
from tilewright.storage.project import open_project

pytestmark = pytest.mark.slow

DATABASE = ".tilewright/tilewright.db"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("undisturbed")
    ended_well(start(project, 0, 0.0))
    return project


def ended_well(process: subprocess.Popen[str]) -> None:
    output, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    assert output.startswith("finished")


def start_changed(project: Path, changes: str, delay_s: float = 0.0) -> subprocess.Popen[str]:
    """Start the toy search in a world with these `changes` (Python statements)."""
    arguments = [str(project), "0", str(delay_s), str(project / "log")]
    code = f"{textwrap.dedent(changes)}\nimport toy_run\ntoy_run.main(*{arguments!r})"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=SCRIPT.parent,
        text=True,
    )


def message(process: subprocess.Popen[str]) -> str:
    """The sentence that the user is shown of a search that cannot go on."""
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 1, errors
    kind, _, sentence = errors.strip().splitlines()[-1].partition(": ")
    assert kind.endswith("StorageError"), errors
    return sentence


def wait_for(log: Path, lines: int, process: subprocess.Popen[str]) -> None:
    while not log.exists() or log.read_text().count("\n") < lines:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def status(project: Path) -> str:
    storage = open_project(project)
    run = storage.runs()[0]
    storage.close()
    return standing(project, run)


ON_A_SMALL_DISK = """
set -e
mount -t tmpfs -o size="$3"k small "$1"
mkdir "$1/project"
"$4" "$5" "$1/project" 0 0 "$2/log" 2> "$2/errors" && exit 9
ls "$1/project/.tilewright" > "$2/left"
mount -o remount,size=64m "$1"
"$4" "$5" "$1/project" 0 0 "$2/log"
cp -r "$1/project/.tilewright" "$2"
"""


def has_small_disks(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "small", str(folder)]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_a_full_disk(tmp_path: Path, undisturbed: Path, part: float) -> None:
    """On a file system that really is full: one sentence, and with more space it goes on."""
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    kept.mkdir()
    if not has_small_disks(disk):
        pytest.skip("no file system can be mounted in a namespace here")
    size_kib = int(part * (undisturbed / DATABASE).stat().st_size / 1024)
    values = (str(disk), str(kept), str(size_kib), sys.executable, str(SCRIPT))
    command = ["unshare", "-rm", "sh", "-c", ON_A_SMALL_DISK, "sh", *values]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    errors = (kept / "errors").read_text()
    assert done.returncode == 0, (done.stderr, errors)
    sentence = errors.splitlines()[-1]
    assert "StorageError: " in sentence
    assert "full" in sentence
    assert "Free some space" in sentence
    assert "run the same command again." in sentence
    assert recorded(kept) == recorded(undisturbed)


def test_a_limit_on_file_sizes(tmp_path: Path, undisturbed: Path) -> None:
    limited = """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    """
    assert "Free some space" in message(start_changed(tmp_path, limited))
    ended_well(start(tmp_path, 0, 0.0))
    assert recorded(tmp_path) == recorded(undisturbed)


def test_a_database_that_another_program_locks(tmp_path: Path, undisturbed: Path) -> None:
    impatient = "from tilewright.storage import sqlite; sqlite.BUSY_TIMEOUT_S = 0.3"
    process = start_changed(tmp_path, impatient, delay_s=0.05)
    wait_for(tmp_path / "log", 3, process)
    other = sqlite3.connect(tmp_path / DATABASE, isolation_level=None, timeout=60)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert "locked by another program for 0.3 s" in message(process)
    finally:
        other.close()
    assert status(tmp_path) in ("killed", "interrupted")
    ended_well(start(tmp_path, 0, 0.0))
    assert recorded(tmp_path) == recorded(undisturbed)


def test_a_lock_that_is_given_back_in_time_is_waited_for(tmp_path: Path, undisturbed: Path) -> None:
    process = start(tmp_path, 0, 0.02)
    wait_for(tmp_path / "log", 3, process)
    other = sqlite3.connect(tmp_path / DATABASE, isolation_level=None, timeout=60)
    for _ in range(5):
        other.execute("BEGIN IMMEDIATE")
        time.sleep(0.1)
        other.execute("COMMIT")
    other.close()
    ended_well(process)
    assert recorded(tmp_path) == recorded(undisturbed)


JUMPING_CLOCK = """
    import random, time
    from datetime import datetime, timedelta
    from tilewright.storage import sql
    real, rng = time.time, random.Random(1)

    class Jumping(datetime):
        @classmethod
        def now(cls, zone=None):
            return datetime.now(zone) + timedelta(days=rng.uniform(-1000, 1000))

    sql.datetime = Jumping
    time.time = lambda: real() + rng.uniform(-1e8, 1e8)
    import toy_run
    toy_run.SETTINGS["max_wall_s"] = 3600.0
"""


def test_a_clock_that_jumps(tmp_path: Path, undisturbed: Path) -> None:
    """Days back and forth: budgets count seconds that passed, order is not by the clock."""
    process = start_changed(tmp_path, JUMPING_CLOCK, delay_s=0.05)
    wait_for(tmp_path / "log", 10, process)
    process.kill()
    process.communicate()
    ended_well(start_changed(tmp_path, JUMPING_CLOCK))
    assert recorded(tmp_path) == recorded(undisturbed)
    storage = open_project(tmp_path)
    (run,) = storage.runs()
    assert 0 < run.wall_s < 3600
    kinds = [kind for _, kind, _ in storage.events(run.id)]
    storage.close()
    assert kinds[0] == "RunStarted"
    assert kinds[-2:] == ["Stopped", "Survey"]
    assert kinds.count("RunStarted") == 2


def test_several_controllers_at_once(tmp_path: Path, undisturbed: Path) -> None:
    """One works on the run, the others say which; when it is killed, one of them may go on."""
    first = start(tmp_path, 0, 3.0)
    wait_for(tmp_path / "log", 1, first)
    try:
        rivals = [start(tmp_path, 0, 0.0) for _ in range(2)]
        for rival in rivals:
            assert message(rival).startswith(f"process {first.pid} is already working on this run")
        assert status(tmp_path) == "running"
    finally:
        first.kill()
        first.communicate()
    assert status(tmp_path) == "killed"
    rivals = [start(tmp_path, 0, 0.0) for _ in range(3)]
    told = [rival.communicate(timeout=200)[1] for rival in rivals]
    assert any(rival.returncode == 0 for rival in rivals), told
    for rival, errors in zip(rivals, told, strict=True):
        assert rival.returncode == 0 or "is already working on this run" in errors
    assert recorded(tmp_path) == recorded(undisturbed)
