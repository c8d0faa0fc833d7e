"""Building alone: nothing of a kernel runs, and a worker that is lost costs one kernel."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.errors import InputError, ToolchainMissingError, WorkloadError
from tilewright.core.records import Failed, Measured, Quantity, Verdict
from tilewright.evaluation.building import Builds
from tilewright.evaluation.code_notes import CodeNotes
from tilewright.testing import scripted


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Builds]:
    scripted.write_entry_point(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    made = Builds("scripted:any", {})
    yield made
    made.close()


def test_what_builds_has_no_problem_whatever_it_would_do(builds: Builds) -> None:
    assert builds.problem("latency 50") is None
    assert builds.problem("exit 3") is None  # would end the process that checks it
    assert builds.problem("fail check wrong_result") is None


def test_what_does_not_build_says_why(builds: Builds) -> None:
    assert builds.problem("fail build compile_error") == Failed(
        "build", "compile_error", "scripted compile_error", line=1
    )


def test_an_undeclared_kind_of_failure_is_reported_as_a_defect(builds: Builds) -> None:
    found = builds.problem("fail build gremlins")
    assert found is not None
    assert found.kind == "crash"
    assert "not declared" in found.log


@pytest.mark.slow  # starts programs where --quick cannot see it
def test_it_may_be_asked_from_threads_that_end(builds: Builds) -> None:
    found: list[Failed | None] = []
    for _ in range(2):
        thread = Thread(target=lambda: found.append(builds.problem("latency 50")))
        thread.start()
        thread.join()
    assert found == [None, None]


def test_a_lost_worker_costs_one_kernel(builds: Builds) -> None:
    assert builds.problem("latency 50") is None
    assert builds._worker is not None
    os.kill(builds._worker.pid, signal.SIGKILL)
    lost = builds.problem("latency 50")
    assert lost is not None
    assert (lost.stage, lost.kind) == ("build", "crash")
    assert builds.problem("latency 50") is None


def test_machine_code_comes_from_the_worker_as_a_record(builds: Builds) -> None:
    code = builds.code("loop 3\nloop 7")
    assert isinstance(code, CompiledCode)
    assert [(loop.line, loop.count) for loop in code.loops] == [(3, 1), (7, 1)]
    assert code.notes[1] == "compiled loop at line 7: scalar"
    failed = builds.code("fail build compile_error")
    assert isinstance(failed, Failed)
    assert failed.kind == "compile_error"


def test_notes_on_a_kernel_are_read_once(builds: Builds, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = CodeNotes(builds)
    assert notes.of("loop 3") == ("compiled loop at line 3: scalar",)
    assert notes.of("fail build compile_error") == ()
    monkeypatch.delattr(Builds, "code")
    assert notes.of("loop 3") == ("compiled loop at line 3: scalar",)


@pytest.mark.parametrize("error", [ToolchainMissingError("no objdump."), InputError("too large.")])
def test_notes_that_cannot_be_read_stop_nothing(
    builds: Builds, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def missing(self: Builds, source: str) -> None:
        raise error

    monkeypatch.setattr(Builds, "code", missing)
    assert CodeNotes(builds).of("loop 3") == ()


def test_a_task_that_does_not_open_is_the_users_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.write_entry_point(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    missing = Builds("scripted:missing", {})
    with pytest.raises(WorkloadError):
        missing.problem("latency 50")
    missing.close()


@pytest.mark.parametrize(
    ("quantity", "unit", "is_read"),
    [("modelled", "ns", True), ("modelled", "us", False), ("measured", "ns", False)],
)
def test_a_modelled_latency_has_the_kind_of_the_target(
    quantity: Quantity, unit: str, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Measured(5.0, unit, quantity, 0.5, Verdict(()))
    monkeypatch.setattr(Builds, "_asked", lambda self, message, name: sent)
    builds = Builds("trainium:rmsnorm-512x4096", {})
    try:
        found = builds.modelled("source")
    finally:
        builds.close()
    if is_read:
        assert found == sent
    else:
        assert isinstance(found, Failed)
        assert f"a latency in {quantity} {unit!r}" in found.log
