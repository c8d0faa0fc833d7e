"""An executor whose workers are on another machine keeps the contract; `ssh` is a script here."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilewright.core import plugins
from tilewright.core.codec import to_json
from tilewright.core.errors import HostError
from tilewright.core.records import (
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
    Verdict,
)
from tilewright.evaluation import remote_worker
from tilewright.evaluation.local import LocalExecutor
from tilewright.evaluation.replies import request_id
from tilewright.evaluation.timeouts import StageTimeouts
from tilewright.testing import scripted
from tilewright.testing.executor import ExecutorContract, OpenExecutor

THERE = 'while [ "$1" != -- ]; do shift; done; [ "$2 $3 $4" = "far tilewright worker" ] || exit 9'


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Gives the words of the shell that `ssh` is, and the scripted target to both machines."""
    scripted.write_entry_point(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a worker that is killed leaves its folder there
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins._installed.cache_clear()
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def write(words: str) -> None:
        (programs / "ssh").write_text(f"#!/bin/bash\n{THERE}\n{words}\n")
        (programs / "ssh").chmod(0o755)

    write(f"exec {sys.executable} -m tilewright.cli worker")
    return write


def opened(lookup: object = None, store: object = None) -> LocalExecutor:
    timeouts = StageTimeouts(build=1.0, check=1.0, measure=1.0)
    return LocalExecutor(
        "scripted:any", {"host": "far"}, 2, lookup=lookup, store=store, timeouts=timeouts
    )  # type: ignore[arg-type]


@pytest.mark.usefixtures("ssh")
class TestRemoteExecutor(ExecutorContract):
    @pytest.fixture
    def open_executor(self) -> Iterator[OpenExecutor]:
        executors: list[LocalExecutor] = []

        def open_executor(
            lookup: Callable[[str], Outcome | None] | None = None,
            store: Callable[[str, Outcome], None] | None = None,
        ) -> LocalExecutor:
            executors.append(opened(lookup, store))
            return executors[-1]

        yield open_executor
        for executor in executors:
            executor.close()


READY = '{"ready": "k", "versions": {}}'
AT_THE_START = {
    "exit 7": "ended before",
    "echo Permission denied >&2; exit 255": "Permission denied",
    "echo Welcome to far; cat": "answered '{",
    "yes | head -n 1000; cat": "answered 'y'",
    "echo Welcome to far; exit 1": "ended before",
    "echo []; cat": "answered",
    "head -c 100000 /dev/zero | tr '\\0' '['; echo; cat": "answered",
    'echo \'{"ready": "k"}\'; cat': "named no versions",
    'echo \'{"ready": "k", "versions": {"scripted": "another"}}\'; cat': "not comparable",
    'echo \'{"ready": "k", "versions": {"tilewright": "0.0"}}\'; cat': "has tilewright 0.0, and",
}


REQUEST = EvaluationRequest(Candidate("latency 1"))


def answering(outcome: object) -> str:
    """A worker that starts, and answers every request with this outcome, as if it were that of
    `REQUEST`."""
    answer = shlex.quote(json.dumps({"outcome": outcome, "request": request_id(REQUEST)}))
    return f"echo '{READY}'; read x; read x; echo {answer}; cat"


CHECKING, ELSEWHERE = '{"stage": "check"}', '{"stage": ["later"]}'
FORGED = to_json(Measured(-1.0, "cycles", "simulated", 0.5, Verdict(())))
LATER = {
    f"echo '{READY}'; read x; read x; echo nonsense; cat": "crash",
    f"echo '{READY}'; read x; read x; exit 3": "crash",
    f"echo '{READY}'; cat > /dev/null": "timeout",
    f"echo '{READY}'; read x; read x; while echo '{CHECKING}'; do sleep 0.05; done": "crash",
    f"echo '{READY}'; read x; read x; echo '{ELSEWHERE}'; cat": "crash",
    f"echo '{READY}'; read x; read x; printf '{{'; cat": "crash",
    answering({"type": "Plan"}): "crash",
    answering({"type": "Measured"}): "crash",
    answering({**FORGED, "latency": "fast"}): "crash",
    answering(FORGED): "crash",
}


@pytest.mark.parametrize("words", AT_THE_START)
def test_a_worker_that_does_not_start_is_told_in_one_sentence(
    words: str, ssh: Callable[[str], None]
) -> None:
    ssh(words)
    with opened() as executor, pytest.raises(HostError) as told:
        executor.evaluate([REQUEST])
    assert AT_THE_START[words] in str(told.value)
    assert "\n" not in str(told.value)


def test_lines_that_a_login_shell_prints_before_the_first_reply_are_ignored(
    ssh: Callable[[str], None],
) -> None:
    ssh(f"echo Welcome to far; echo; exec {sys.executable} -m tilewright.cli worker")
    with opened() as executor:
        (outcome,) = executor.evaluate([REQUEST])
    assert isinstance(outcome, Measured)


@pytest.mark.parametrize("words", LATER)
def test_a_worker_that_dies_hangs_or_talks_nonsense_costs_one_candidate(
    words: str, ssh: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_worker, "WHOLE_S", 0.1)
    ssh(words)
    with opened() as executor:
        (outcome,) = executor.evaluate([REQUEST])
    assert isinstance(outcome, Failed)
    assert outcome.kind == LATER[words]
