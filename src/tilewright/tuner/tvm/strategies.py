"""Propose candidates to a tuning session, by a tile search or by MetaSchedule's evolution."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from tilewright.tuner.candidates import Candidates
from tilewright.tuner.cost_model import CostModel
from tilewright.tuner.search import TileSearch
from tilewright.tuner.tvm.runner import Measurement
from tilewright.tuner.tvm.template import Template
from tilewright.tuner.tvm.trials import Ledger, Proposal, point_key, trace_key, trace_text

FAILED_S = 1e10
"""The time that MetaSchedule's own records contain for a failure. It is never used as a time
here.
"""


class Strategy(Protocol):
    """Returns batches of candidates and receives their outcomes, until a batch is empty."""

    def ask(self) -> list[Proposal]:
        """The next candidates to measure."""
        ...

    def upcoming(self) -> list[Proposal]:
        """The candidates that `ask` will probably return next; they may be built ahead."""
        ...

    def tell(self, proposals: Sequence[Proposal], results: Sequence[Measurement]) -> None:
        """Report the outcomes of the latest batch in its order."""
        ...


class TileStrategy:
    """A tile search whose points are converted to schedules by a template."""

    def __init__(
        self, search: TileSearch, template: Template, model: CostModel | None, ledger: Ledger
    ) -> None:
        self.template = template
        self._search, self._model = search, model
        self._ledger = ledger
        self._ready: dict[str, Proposal] = {}

    def ask(self) -> list[Proposal]:
        """The search's next points, as schedules."""
        started = time.perf_counter()
        points = self._search.ask()
        scores = self._model.predict(points) if self._model is not None and len(points) else None
        self._ledger.search_s += time.perf_counter() - started
        proposals = [
            self._proposal(points[[n]], None if scores is None else float(scores[n]))
            for n in range(len(points))
        ]
        self._ready = {}
        return proposals

    def upcoming(self) -> list[Proposal]:
        """The schedules of the next window."""
        points = self._search.upcoming()
        ahead = [self._proposal(points[[n]], None) for n in range(len(points))]
        self._ready = {proposal.key: proposal for proposal in ahead}
        return ahead

    def tell(self, proposals: Sequence[Proposal], results: Sequence[Measurement]) -> None:
        """Report the times to the search."""
        started = time.perf_counter()
        self._search.tell([result.seconds for result in results])
        self._ledger.search_s += time.perf_counter() - started

    def _proposal(self, point: Candidates, predicted: float | None) -> Proposal:
        key = point_key(point)
        if (ready := self._ready.get(key)) is not None:
            return Proposal(key, ready.schedule, point, predicted)
        started = time.perf_counter()
        schedule = self.template.schedule(point)
        self._ledger.replay_s += time.perf_counter() - started
        return Proposal(key, schedule, point, predicted)


class EvolutionaryStrategy:
    """MetaSchedule's own evolutionary search, run one batch at a time.

    Before its cost model is trained, it uses numpy's global random generator. This generator is
    seeded for each batch, so that the same seed gives the same run and a run can be resumed.
    """

    def __init__(
        self,
        context: Any,
        model: Any,
        trials: int,
        ledger: Ledger,
        template: Template | None,
        seed: int,
    ) -> None:
        """`model` is a MetaSchedule cost model; `template` converts schedules to points if the
        space has points."""
        from tvm.s_tir import meta_schedule as ms

        self._context, self._model, self._ledger = context, model, ledger
        self._template, self._seed = template, seed
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(context.mod)
        self._candidates: list[Any] = []
        self._trained = False
        context.pre_tuning(
            max_trials=trials,
            num_trials_per_iter=min(64, trials),
            design_spaces=context.generate_design_space(),
            database=self._database,
            cost_model=model,
        )

    def ask(self) -> list[Proposal]:
        """The candidates of one generation."""
        started = time.perf_counter()
        with _global_seed(self._seed, len(self._database)):
            self._candidates = list(self._context.generate_measure_candidates() or [])
        scores: list[float | None] = [None] * len(self._candidates)
        if self._trained and self._candidates:
            scores = [float(s) for s in self._model.predict(self._context, self._candidates)]
        self._ledger.search_s += time.perf_counter() - started
        return [
            Proposal(trace_key(trace_text(candidate.sch)), candidate.sch, self._point(candidate), s)
            for candidate, s in zip(self._candidates, scores, strict=True)
        ]

    def upcoming(self) -> list[Proposal]:
        """Empty, because a generation depends on the whole previous one."""
        return []

    def tell(self, proposals: Sequence[Proposal], results: Sequence[Measurement]) -> None:
        """Store the records and update the search and the model, as MetaSchedule's callbacks do."""
        from tvm.s_tir import meta_schedule as ms

        started = time.perf_counter()
        told = []
        for candidate, result in zip(self._candidates, results, strict=True):
            ok = result.failure is None
            seconds = list(result.samples) if ok else [FAILED_S]
            told.append(ms.runner.RunnerResult(seconds if ok else None, result.log or None))
            self._database.commit_tuning_record(
                ms.database.TuningRecord(
                    candidate.sch.trace,
                    self._workload,
                    seconds,
                    self._context.target,
                    candidate.args_info,
                )
            )
        self._model.update(self._context, self._candidates, told)
        self._context.notify_runner_results(self._candidates, told)
        self._trained = True
        self._ledger.search_s += time.perf_counter() - started

    def _point(self, candidate: Any) -> Candidates | None:
        return self._template.points([candidate.sch.trace]) if self._template else None


@contextmanager
def _global_seed(*parts: int) -> Iterator[None]:
    """Seed numpy's global generator from `parts` only, and restore its state afterwards."""
    state = np.random.get_state()
    np.random.seed(np.random.SeedSequence(parts).generate_state(1))
    try:
        yield
    finally:
        np.random.set_state(state)
