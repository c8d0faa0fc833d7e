"""`LocalExecutor` beyond the contract: start-up errors, secrets, signals, orphans."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tilewright.core.errors import InternalError, WorkloadError
from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured
from tilewright.evaluation.local import LocalExecutor
from tilewright.evaluation.timeouts import GRACE_S, IN_TURN, StageTimeouts
from tilewright.evaluation.worker_process import WorkerProcess
from tilewright.testing import scripted


@pytest.fixture(autouse=True)
def scripted_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted.write_entry_point(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_dead(pid: int) -> None:
    for _ in range(100):
        if not alive(pid):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still alive")


def test_an_error_of_the_task_is_raised_as_itself() -> None:
    with (
        LocalExecutor("scripted:missing", {}, 2) as executor,
        pytest.raises(WorkloadError, match="'missing' does not exist"),
    ):
        executor.evaluate([EvaluationRequest(Candidate("latency 1"))])


def test_a_worker_that_cannot_start_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os\nprint('no start', flush=True)\nos._exit(9)\n"
    )
    with (
        LocalExecutor("scripted:any", {}, 2) as executor,
        pytest.raises(InternalError, match=r"ended with status 9 at its start: no start"),
    ):
        executor.evaluate([EvaluationRequest(Candidate("latency 1"))])


def test_workers_see_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary")
    worker = WorkerProcess()
    environment = Path(f"/proc/{worker.pid}/environ").read_bytes()
    worker.kill()
    assert b"canary" not in environment


def test_ctrl_c_does_not_reach_workers() -> None:
    worker = WorkerProcess()
    worker.send({"open": {"task": "scripted:any", "settings": {}}})
    assert "ready" in worker.receive()
    os.kill(worker.pid, signal.SIGINT)
    worker.send({"open": {"task": "scripted:any", "settings": {}}})
    assert "ready" in worker.receive()
    worker.kill()
    assert worker.exit_text == "was killed by SIGKILL"


def test_closing_the_pipe_ends_the_worker() -> None:
    worker = WorkerProcess()
    pid = worker.pid
    os.close(worker._requests)
    worker._process.wait(timeout=20)
    assert not alive(pid)


def test_workers_die_with_a_killed_executor(tmp_path: Path) -> None:
    program = """
import sys
from tilewright.evaluation.local import LocalExecutor
from tilewright.core.records import Candidate, EvaluationRequest
executor = LocalExecutor("scripted:any", {}, 2)
executor.evaluate([EvaluationRequest(Candidate("latency 1"))])
print(executor._idle[0].pid, flush=True)
executor.evaluate([EvaluationRequest(Candidate("sleep 60"))])
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        assert alive(worker)
        process.kill()
    wait_until_dead(worker)


def test_close_leaves_neither_process_nor_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    executor = LocalExecutor("scripted:any", {}, 2)
    executor.evaluate([EvaluationRequest(Candidate(f"latency {n}")) for n in range(1, 5)])
    pids = [worker.pid for worker in executor._idle]
    assert len(pids) == 2
    assert len(list(scratch.iterdir())) == 2
    executor.close()
    assert list(scratch.iterdir()) == []
    assert not any(alive(pid) for pid in pids)


def test_a_worker_killed_from_outside_costs_one_candidate() -> None:
    with LocalExecutor("scripted:any", {}, 1) as executor:
        executor.evaluate([EvaluationRequest(Candidate("latency 1"))])
        os.kill(executor._idle[0].pid, signal.SIGKILL)
        lost, kept = executor.evaluate(
            [EvaluationRequest(Candidate(f"latency {n}")) for n in (2, 3)]
        )
    assert isinstance(lost, Failed)
    assert lost.kind == "crash"
    assert "SIGKILL" in lost.log
    assert isinstance(kept, Measured)


def test_timeouts_follow_the_settings() -> None:
    settings = {"compile_timeout_s": 5, "simulation_timeout_s": 10.0, "checks": 4}
    timeouts = StageTimeouts.from_settings(settings)
    assert timeouts == StageTimeouts(5 + GRACE_S, 40 + GRACE_S, 10 * IN_TURN + GRACE_S)
    assert timeouts.of("check") == 40 + GRACE_S
