"""What a tuning session keeps, and when it ends; the runner's limits. Nothing compiles here."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.tuner.tvm import measure_process, session
from tilewright.tuner.tvm.builder import Built
from tilewright.tuner.tvm.runner import Measurement, MeasuringRules, Runner, Task
from tilewright.tuner.tvm.session import Budget, Tuning
from tilewright.tuner.tvm.trials import Ledger, Proposal

TASK = Task((), 0, Path("expected.npy"), 0.0)


class Two:
    """Asks for two candidates, again and again."""

    def __init__(self) -> None:
        self.asked = 0

    def ask(self) -> list[Proposal]:
        self.asked += 2
        return [Proposal(str(self.asked - n), object()) for n in (2, 1)]

    def upcoming(self) -> list[Proposal]:
        return []

    def tell(self, proposals: object, results: object) -> None:
        """Nothing is learned."""


class Killed:
    """A builder whose compiler is killed."""

    def submit(self, schedule: object) -> Future[Built]:
        built: Future[Built] = Future()
        built.set_result(Built(None, "killed by SIGINT"))
        return built


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "trace_text", lambda schedule: "")


class Busy:
    """A builder that has nothing built yet but what is asked first."""

    def __init__(self) -> None:
        self.asked: list[Future[Built]] = []

    def submit(self, schedule: object) -> Future[Built]:
        built: Future[Built] = Future()
        if not self.asked:
            built.set_result(Built(None, "does not build"))
        self.asked.append(built)
        return built


def _tuning(budget: Budget, known: int = 0, spent_s: float = 0.0, builder: Any = None) -> Tuning:
    search: Any = SimpleNamespace(strategy=Two(), ledger=Ledger())
    outcomes = {str(n): Measurement((1.0,), 1) for n in range(known)}
    builder = builder or Killed()
    return Tuning(
        search,
        builder,
        Runner(TASK, "cpu", 1, MeasuringRules()),
        budget,
        outcomes,
        spent=Ledger(wall_s=spent_s),
    )


@pytest.mark.parametrize(
    ("trials", "stops"),
    [(1, [False] * 9), (4, [False, False, True]), (4, [False, False, False, True])],
)
def test_at_the_end_no_build_stands_before_those_of_the_finalists(
    trials: int, stops: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    builder, looks = Busy(), iter(stops)
    tuning = _tuning(Budget(trials), builder=builder)
    ahead = [Proposal(f"ahead {n}", object()) for n in range(2)]
    monkeypatch.setattr(tuning.search.strategy, "upcoming", lambda: ahead)
    while tuning.step(lambda: next(looks)):
        pass
    first, *others = builder.asked
    assert not first.cancelled()
    assert [build.cancelled() for build in others] == [True] * min(trials + 1, 3)


def test_a_compiler_that_ctrl_c_killed_says_nothing_of_the_candidate() -> None:
    tuning = _tuning(Budget(4))
    pressed = iter([False, False, True])
    assert not tuning.step(lambda: next(pressed))
    assert (tuning.trials, tuning.measured) == ([], 0)
    assert tuning.step()
    assert [trial.measurement.failure for trial in tuning.trials] == ["build", "build"]
    assert tuning.measured == 2


def test_the_time_of_a_resumed_run_is_used_up_by_what_it_took_before() -> None:
    tuning = _tuning(Budget(9, seconds=5.0), known=4, spent_s=6.0)
    tuning.run()
    assert (len(tuning.trials), tuning.measured) == (4, 0)


def test_being_told_again_does_not_count_against_the_time() -> None:
    tuning = _tuning(Budget(4, seconds=1e-9), known=4)
    tuning.run()
    assert len(tuning.trials) == 4


@pytest.mark.parametrize(("device", "ended"), [("cuda", 1), ("cpu", 0)])
def test_a_failed_call_ends_the_process_whose_context_it_spoiled(
    monkeypatch: pytest.MonkeyPatch, device: str, ended: int
) -> None:
    runner = Runner(TASK, device, 1, MeasuringRules())
    closed: list[bool] = []
    monkeypatch.setattr(runner, "_ask", lambda *_: {"failure": "run", "log": "illegal access"})
    monkeypatch.setattr(runner, "close", lambda: closed.append(True))
    assert runner.measure(Path("k.so"), None).failure == "run"
    assert len(closed) == ended


def test_rounds_time_each_contender_after_a_call_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[str, str]] = []

    class Contender:
        def __init__(self, session: object, library: str) -> None:
            self._name = library

        def warm_up(self) -> None:
            told.append(("warm", self._name))

        def time(self, calls: int) -> float:
            told.append(("time", self._name))
            return 1.0

        def verdict(self) -> None:
            return None

    monkeypatch.setattr(measure_process, "Kernel", Contender)
    session = object.__new__(measure_process.Session)
    request = {"libraries": ["a", "b", "c"], "rounds": 5, "seed": 1, "sample_s": 0.03}
    samples = session.interleave(request)["samples"]
    assert [len(found) for found in samples] == [5, 5, 5]
    rounds = told[-30:]
    assert [kind for kind, _ in rounds] == ["warm", "time"] * 15
    assert [name for _, name in rounds[::2]] == [name for _, name in rounds[1::2]]


def test_slow_kernels_get_the_time_that_their_rounds_need(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(TASK, "cpu", 1, MeasuringRules(timeout_s=20.0))
    limits: list[float] = []

    def ask(request: object, timeout_s: float) -> dict[str, object]:
        limits.append(timeout_s)
        return {"samples": [[3.0]] * 3}

    monkeypatch.setattr(runner, "_ask", ask)
    libraries = [Path(f"{n}.so") for n in range(3)]
    measured = runner.interleave(libraries, rounds=20, seed=0, slowest_s=3.0)
    assert sorted(measured.samples) == [0, 1, 2]
    assert not measured.failures
    assert limits[0] > 20 * 3 * 3.0
