"""`LocalExecutor` beyond the contract: start-up errors, secrets, signals, orphans."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tilewright.core.errors import InternalError, NotTimedError, WorkloadError
from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured
from tilewright.evaluation.local import LocalExecutor
from tilewright.evaluation.replies import error_reply, raised
from tilewright.evaluation.timeouts import GRACE_S, IN_TURN, MOST_BUSY, Allowance, StageTimeouts
from tilewright.evaluation.worker_process import WorkerProcess
from tilewright.testing import scripted


@pytest.fixture(autouse=True)
def scripted_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted.write_entry_point(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.syspath_prepend(str(tmp_path))


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def forking_process(pid: int) -> int:
    """The process that forked another one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_until_dead(pid: int) -> None:
    for _ in range(2000):
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
    worker._child.finish()
    assert worker._child.wait() == 0
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


def test_a_candidate_is_evaluated_again_if_the_process_that_forks_workers_was_killed() -> None:
    with LocalExecutor("scripted:any", {}, 1) as executor:
        executor.evaluate([EvaluationRequest(Candidate("latency 1"))])
        (idle,) = executor._idle
        os.kill(forking_process(idle.pid), signal.SIGKILL)
        wait_until_dead(idle.pid)
        found = executor.evaluate([EvaluationRequest(Candidate("latency 2"))])
    assert isinstance(found[0], Measured)


def test_a_candidate_is_repeated_once_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that kills each process that forks workers must not make a search endless."""
    send, killed = WorkerProcess.send, []

    def kill_the_forking_process(worker: WorkerProcess, message: Mapping[str, Any]) -> None:
        if "evaluate" in message:
            killed.append(worker)
            os.kill(forking_process(worker.pid), signal.SIGKILL)
            wait_until_dead(worker.pid)
        send(worker, message)

    monkeypatch.setattr(WorkerProcess, "send", kill_the_forking_process)
    told = ""
    with LocalExecutor("scripted:any", {}, 1) as executor:
        try:
            [outcome] = executor.evaluate([EvaluationRequest(Candidate("latency 1"))])
            assert isinstance(outcome, Failed)
            told = outcome.log  # of a worker that was ready before it ended
        except InternalError as error:
            told = str(error)
    assert "ended together with the process that had forked it" in told
    assert len(killed) == 2


def test_an_undeclared_kind_of_failure_costs_one_candidate() -> None:
    with LocalExecutor("scripted:any", {}, 1) as executor:
        odd, kept = executor.evaluate(
            [
                EvaluationRequest(Candidate(source))
                for source in ("fail check out_of_tiles", "latency 1")
            ]
        )
    assert isinstance(odd, Failed)
    assert (odd.stage, odd.kind) == ("check", "crash")
    assert "failure kind 'out_of_tiles' is not declared" in odd.log
    assert isinstance(kept, Measured)


@pytest.mark.parametrize("reply", [7, [], "ready", {}, {"error": "told"}, {"error": {"type": "x"}}])
def test_a_reply_of_no_form_costs_one_candidate(
    reply: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker may have been taken over by what it interprets."""
    with LocalExecutor("scripted:any", {}, 1) as executor:
        executor.evaluate([EvaluationRequest(Candidate("latency 1"))])
        monkeypatch.setattr(WorkerProcess, "receive", lambda worker: reply)
        (outcome,) = executor.evaluate([EvaluationRequest(Candidate("latency 2"))])
    assert isinstance(outcome, Failed)
    assert outcome.kind == "crash"


def test_a_latency_of_another_unit_costs_one_candidate() -> None:
    """A worker that answers in microseconds would win against all others that count cycles."""
    with LocalExecutor("scripted:any", {}, 1) as executor:
        other, kept = executor.evaluate(
            [
                EvaluationRequest(Candidate(f"latency {n}\nunit {unit}"))
                for n, unit in ((1, "us"), (2, "cycles"))
            ]
        )
    assert isinstance(other, Failed)
    assert other.kind == "crash"
    assert "in 'simulated' 'us', but the target's latencies are simulated cycles" in other.log
    assert isinstance(kept, Measured)


def test_timeouts_follow_the_settings() -> None:
    settings = {"compile_timeout_s": 5, "simulation_timeout_s": 10.0, "checks": 40}
    timeouts = StageTimeouts.from_settings(settings)
    assert timeouts == StageTimeouts(5 + GRACE_S, 400 + GRACE_S, 10 * IN_TURN + GRACE_S)
    assert timeouts.of("check") == 400 + GRACE_S


@pytest.mark.parametrize(
    ("running", "seconds"), [(0.5, 1.0), (2.0, 1.0), (6.0, 3.0), (1e6, MOST_BUSY)]
)
def test_a_busy_machine_gives_more_time(
    running: float, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("tilewright.evaluation.timeouts.load", lambda: (running, 2))
    monkeypatch.setattr("tilewright.evaluation.timeouts.monotonic", lambda: clock[0])
    allowance = Allowance(1.0)
    clock[0] += 0.99 * seconds
    assert not allowance.is_used()
    clock[0] += 0.02 * seconds
    assert allowance.is_used()


def test_what_a_stage_takes_on_a_busy_machine_does_not_end_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tilewright.evaluation.timeouts.load", lambda: (40.0, 2))
    timeouts = StageTimeouts(build=60.0, check=1.0, measure=60.0)
    with LocalExecutor("scripted:any", {}, 1, timeouts=timeouts) as executor:
        (outcome,) = executor.evaluate([EvaluationRequest(Candidate("sleep 1.5"))])
    assert isinstance(outcome, Measured)


def test_a_request_equal_to_one_under_evaluation_waits_for_its_outcome() -> None:
    request = EvaluationRequest(Candidate("sleep 0.5"))
    later = iter([[request], None])
    repeated: list[bool] = []
    with LocalExecutor("scripted:any", {}, 2) as executor:
        executor.evaluate(
            [request],
            lambda position, outcome, wall_s, cached: repeated.append(cached),
            lambda: next(later),
        )
    assert repeated == [False, True]


def test_requests_with_different_limits_are_different() -> None:
    candidate = Candidate("latency 100")
    with LocalExecutor("scripted:any", {}, 2) as executor:
        free, limited = executor.evaluate(
            [EvaluationRequest(candidate), EvaluationRequest(candidate, 50.0)]
        )
    assert isinstance(free, Measured)
    assert isinstance(limited, Failed)
    assert limited.kind == "slower_than_limit"


def test_each_stage_has_its_own_time_limit() -> None:
    timeouts = StageTimeouts(build=60.0, check=0.3, measure=60.0)
    with LocalExecutor("scripted:any", {}, 1, timeouts=timeouts) as executor:
        (outcome,) = executor.evaluate([EvaluationRequest(Candidate("sleep 10"))])
    assert isinstance(outcome, Failed)
    assert (outcome.stage, outcome.kind) == ("check", "timeout")
    assert "it took more than 0.3 s (load of the machine: " in outcome.log


def test_a_batch_that_is_broken_off_leaves_no_worker_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class BrokenOff(Exception):
        pass

    def break_off(*told: object) -> None:
        raise BrokenOff

    def kill(worker: WorkerProcess) -> str:
        killed.append(worker.pid)
        return original(worker)

    killed: list[int] = []
    original = WorkerProcess.kill
    with LocalExecutor("scripted:any", {}, 2) as executor:
        executor.evaluate([EvaluationRequest(Candidate(f"sleep 0.1\nlatency {n}")) for n in (1, 2)])
        pids = {worker.pid for worker in executor._idle}
        # A forked worker would also end when nothing refers to it any more, so calls are recorded.
        monkeypatch.setattr(WorkerProcess, "kill", kill)
        with pytest.raises(BrokenOff):
            executor.evaluate(
                [EvaluationRequest(Candidate(text)) for text in ("sleep 600", "latency 3")],
                break_off,
            )
        assert set(killed) == pids - {worker.pid for worker in executor._idle}
        assert len(killed) == 1
        wait_until_dead(killed[0])
        (outcome,) = executor.evaluate([EvaluationRequest(Candidate("latency 4"))])
    assert isinstance(outcome, Measured)


def test_a_request_of_no_known_form_is_answered_in_one_sentence() -> None:
    """`tilewright worker` reads what anybody sends; the worker goes on."""
    worker = WorkerProcess()
    said = {
        '{"a": 1}': "contains 'a'. Give one of open, evaluate",
        '{"evaluate": {}}': "is not of the type EvaluationRequest, but '{}'",
        '{"build": {"type": "Candidate", "text": ""}}': "is not of the type Candidate: ",
        '{"open": {"task": "toy:x"}}': "must contain the task and its settings",
    }
    try:
        for request, words in said.items():
            worker.send(json.loads(request))
            error = worker.receive()["error"]
            assert (error["type"], words in error["message"]) == ("InputError", True), error
    finally:
        worker.kill()


def test_what_is_known_about_a_kernel_that_cannot_be_timed_is_in_the_reply() -> None:
    sent = error_reply(NotTimedError("no GPU", "is correct."))["error"]
    error = raised(sent)
    assert isinstance(error, NotTimedError)
    assert (str(error), error.known) == ("no GPU", "is correct.")
