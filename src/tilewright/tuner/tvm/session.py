"""One tuning run: asks a search for candidates, builds ahead, measures, checks, and reports the
times. Can be stopped at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass

from tilewright.tuner.tvm.builder import Builder, Built
from tilewright.tuner.tvm.runner import Measurement, Runner
from tilewright.tuner.tvm.setup import Search
from tilewright.tuner.tvm.trials import Ledger, Proposal, Trial, trace_text

OnTrial = Callable[[Trial], None]


@dataclass(frozen=True)
class Budget:
    """A run ends after this number of trials or, if given, after this number of seconds."""

    trials: int
    seconds: float | None = None


class Tuning:
    """A search in progress, which makes one batch per `step`.

    The order of candidates depends only on the search's seed and on the measurements; building
    ahead does not change it. To resume a run, the outcomes in `known`, by candidate key, are
    reported to the search again without measuring. `spent` is the time that the run had taken
    before; the time for reporting known outcomes is not counted.
    """

    def __init__(
        self,
        search: Search,
        builder: Builder,
        runner: Runner,
        budget: Budget,
        known: Mapping[str, Measurement] | None = None,
        on_trial: OnTrial | None = None,
        build_ahead: bool = True,
        spent: Ledger | None = None,
    ) -> None:
        self.search = search
        self.trials: list[Trial] = []
        self._builder, self._runner, self._budget = builder, runner, budget
        self._known = dict(known or {})
        self._on_trial = on_trial
        self._build_ahead = build_ahead
        self._building: dict[str, Future[Built]] = {}
        self._spent = spent if self._known else None
        self._spent_s = search.ledger.search_s  # a model may already have been trained
        self._started = 0.0
        self.measured = 0

    @property
    def best(self) -> Trial | None:
        """The trial with the lowest median time; None if all failed."""
        timed = [trial for trial in self.trials if trial.seconds is not None]
        return min(timed, key=lambda trial: (trial.seconds or 0.0, trial.index), default=None)

    def run(self) -> None:
        """Make all steps."""
        while self.step():
            pass

    def step(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Make one batch. False if the search or the budget has ended, or `stop()` returns true.

        The trials of a batch that is stopped before its end are kept, but are not reported to the
        search.
        """
        self._started = time.perf_counter()
        if self._exhausted() or stop():
            self._drop(self._building.values())
            return False
        try:
            return self._batch(stop)
        finally:
            self._spent_s = self._elapsed_s()
            self.search.ledger.wall_s = self._spent_s

    def _elapsed_s(self) -> float:
        return self._spent_s + time.perf_counter() - self._started

    def _exhausted(self) -> bool:
        # A resumed run must not end before its known outcomes, including its best, have been
        # reported.
        seconds = self._budget.seconds if self._spent is None else None
        over = seconds is not None and self._elapsed_s() >= seconds
        return over or len(self.trials) >= self._budget.trials

    def _batch(self, stop: Callable[[], bool]) -> bool:
        proposals = self.search.strategy.ask()[: self._budget.trials - len(self.trials)]
        if not proposals:
            return False
        if any(proposal.key not in self._known for proposal in proposals):
            self._go_on()
        builds = [self._build(proposal) for proposal in proposals]
        if self._build_ahead:
            ahead = [p for p in self.search.strategy.upcoming() if p.key not in self._building]
            self._building = {p.key: b for p in ahead if (b := self._build(p)) is not None}
        else:  # the compiler would disturb measurements that run at the same time
            self._wait_for(builds)
        results: list[Measurement] = []
        for proposal, build in zip(proposals, builds, strict=True):
            if stop() or (self.trials and self._exhausted()):
                self._drop([*builds, *self._building.values()])
                return False
            result = self._measure(proposal, build)
            new = proposal.key not in self._known
            if new and result.failure == "build" and stop():
                self._drop([*builds, *self._building.values()])
                return False  # perhaps the compiler was ended too
            self.measured += new
            results.append(result)
            self._record(proposal, result)
        self.search.strategy.tell(proposals, results)
        return True

    def _drop(self, builds: Iterable[Future[Built] | None]) -> None:
        """Cancel builds whose results are no longer needed, because those of the finalists come
        next."""
        for build in builds:
            if build is not None:
                build.cancel()
        self._building = {}

    def _wait_for(self, builds: Sequence[Future[Built] | None]) -> None:
        started = time.perf_counter()
        wait([build for build in builds if build is not None])
        self.search.ledger.build_s += time.perf_counter() - started

    def _build(self, proposal: Proposal) -> Future[Built] | None:
        """The build of a candidate, which may still be in progress; None if it needs no build."""
        if proposal.schedule is None or proposal.key in self._known:
            return None
        under_way = self._building.pop(proposal.key, None)
        return under_way or self._builder.submit(proposal.schedule)

    def _measure(self, proposal: Proposal, build: Future[Built] | None) -> Measurement:
        if (known := self._known.get(proposal.key)) is not None:
            return known
        if build is None:
            return Measurement(failure="rejected", log="TVM rejects this schedule")
        ledger, started = self.search.ledger, time.perf_counter()
        built = build.result()
        ledger.build_s += time.perf_counter() - started
        if built.library is None:
            return Measurement(failure=built.failure or "build", log=built.log)
        started, best = time.perf_counter(), self.best
        result = self._runner.measure(built.library, best.seconds if best else None)
        ledger.measure_s += time.perf_counter() - started
        return result

    def _go_on(self) -> None:
        """Called before the first new measurement of a resumed run: the clock continues from the
        time at which the run stopped."""
        if self._spent is None:
            return
        for name, value in asdict(self._spent).items():
            setattr(self.search.ledger, name, value)
        self._spent_s, self._started = self._spent.wall_s, time.perf_counter()
        self._spent = None

    def _record(self, proposal: Proposal, result: Measurement) -> None:
        trial = Trial(
            index=len(self.trials),
            key=proposal.key,
            trace=trace_text(proposal.schedule) if proposal.schedule is not None else "",
            measurement=result,
            point=proposal.point,
            predicted=proposal.predicted,
            elapsed_s=self._elapsed_s(),
        )
        self.trials.append(trial)
        if self._on_trial is not None:
            self._on_trial(trial)
