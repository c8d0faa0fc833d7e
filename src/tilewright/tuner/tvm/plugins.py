"""MetaSchedule plug-ins: analytical features, tile searches, the builder and the runner.

Each plug-in also works in MetaSchedule's own task scheduler. `derived_object` classes keep their
Python state. The tuner calls `clone` for each of its threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from tilewright.tuner.candidates import Candidates, Floats
from tilewright.tuner.cost_model import Features
from tilewright.tuner.search import TileSearch
from tilewright.tuner.tvm.builder import compile_module
from tilewright.tuner.tvm.runner import Runner
from tilewright.tuner.tvm.template import Template


@derived_object
class AnalyticalFeatures(ms.feature_extractor.PyFeatureExtractor):  # type: ignore[misc]
    """Closed-form features, with one row for each candidate, computed from the decisions in its
    trace."""

    def __init__(self, template: Template, features: Features) -> None:
        super().__init__()
        self.template, self.features = template, features

    def extract_from(self, context: Any, candidates: Sequence[Any]) -> list[Any]:
        """One (1, features) tensor for each candidate."""
        points = self.template.points([candidate.sch.trace for candidate in candidates])
        rows = self.features(points).astype(np.float32)
        return [tvm.runtime.tensor(row[None, :]) for row in rows]


@derived_object
class TileSearchStrategy(ms.search_strategy.PySearchStrategy):  # type: ignore[misc]
    """Offers a tile search as a search strategy of MetaSchedule.

    The search's own model learns from the results that MetaSchedule reports; the cost model of the
    task scheduler is not used.
    """

    def __init__(self, search: TileSearch, template: Template) -> None:
        super().__init__()
        self.search, self.template = search, template
        self.missing: list[bool] = []

    def _initialize_with_tune_context(self, context: Any) -> None:
        self.context = context

    def pre_tuning(self, *arguments: Any) -> None:
        """Does nothing, because the search already has its space."""

    def post_tuning(self) -> None:
        """Does nothing."""

    def generate_measure_candidates(self) -> list[Any] | None:
        """The next batch with at least one schedule that TVM accepts; None at the end of the
        search."""
        while len(points := self.search.ask()):
            schedules = [self.template.schedule(points[[n]]) for n in range(len(points))]
            self.missing = [schedule is None for schedule in schedules]
            if not all(self.missing):
                return [measure_candidate(schedule) for schedule in schedules if schedule]
            self.search.tell([None] * len(points))
        return None

    def notify_runner_results(self, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Report the median times to the search. Schedules that TVM rejected or could not run are
        failures."""
        medians = iter(
            None
            if result.run_secs is None
            else float(np.median([float(s) for s in result.run_secs]))
            for result in results
        )
        self.search.tell([None if gone else next(medians) for gone in self.missing])

    def clone(self) -> TileSearchStrategy:
        """A strategy with the same search; MetaSchedule uses only one of the copies."""
        return TileSearchStrategy(self.search, self.template)


@derived_object
class ThreadedBuilder(ms.builder.PyBuilder):  # type: ignore[misc]
    """Compiles in threads of this process into `folder`, without worker processes and archives."""

    def __init__(self, folder: Path, workers: int = 1) -> None:
        super().__init__()
        self.folder, self.workers, self.count = folder, workers, 0

    def build(self, build_inputs: Sequence[Any]) -> list[Any]:
        """One library for each input, or the compiler's error message."""
        paths = [self.folder / f"plugin-{self.count + n}.so" for n in range(len(build_inputs))]
        self.count += len(paths)
        with ThreadPoolExecutor(self.workers) as threads:
            built = threads.map(
                lambda pair: compile_module(pair[0].mod, pair[0].target, pair[1]),
                zip(build_inputs, paths, strict=True),
            )
            return [
                ms.builder.BuilderResult(str(b.library) if b.library else None, b.log or None)
                for b in built
            ]


@derived_object
class _Finished(ms.runner.PyRunnerFuture):  # type: ignore[misc]
    """A result that is already available."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def done(self) -> bool:
        """True, because the result is available from the beginning."""
        return True

    def result(self) -> Any:
        """The result."""
        return self.answer


@derived_object
class IsolatedRunner(ms.runner.PyRunner):  # type: ignore[misc]
    """Measures with `runner.Runner`, which checks outputs and survives crashes of candidates."""

    def __init__(self, runner: Runner) -> None:
        super().__init__()
        self.runner = runner
        self.best: float | None = None

    def run(self, runner_inputs: Sequence[Any]) -> list[Any]:
        """One completed future for each library."""
        futures = []
        for given in runner_inputs:
            result = self.runner.measure(Path(str(given.artifact_path)), self.best)
            if result.seconds is not None:
                self.best = min(result.seconds, self.best or result.seconds)
            samples = list(result.samples) if result.failure is None else None
            futures.append(_Finished(ms.runner.RunnerResult(samples, result.log or None)))
        return futures


class TvmFeatureModel:
    """MetaSchedule's 164 features and its boosted trees, as the cost model of a tile search.

    Every prediction replays and lowers the candidates, which is slow. In the paper's comparison,
    this is dynamic gradient descent without analytical features.
    """

    def __init__(self, template: Template, seed: int) -> None:
        self._template = template
        self._model = boosted_trees("per-store-feature", seed)

    def update(self, candidates: Candidates, seconds: Sequence[float | None]) -> None:
        """Learn from measured points."""
        pairs = [
            (candidate, ms.runner.RunnerResult(None if s is None else [s], None))
            for n, s in enumerate(seconds)
            if (candidate := self._candidate(candidates[[n]])) is not None
        ]
        if pairs:
            self._model.update(
                self._template.context, [c for c, _ in pairs], [result for _, result in pairs]
            )

    def predict(self, candidates: Candidates) -> Floats:
        """Scores (n,); 0 for points that TVM rejects."""
        scores = np.zeros(len(candidates))
        made = [self._candidate(candidates[[n]]) for n in range(len(candidates))]
        there = [n for n, candidate in enumerate(made) if candidate is not None]
        if there:
            scores[there] = self._model.predict(self._template.context, [made[n] for n in there])
        return scores

    def _candidate(self, point: Candidates) -> Any | None:
        schedule = self._template.schedule(point)
        return None if schedule is None else measure_candidate(schedule)


def boosted_trees(extractor: Any, seed: int) -> Any:
    """MetaSchedule's XGBoost model as the paper uses it: without random warm-up, and trained after
    every batch."""
    model = ms.cost_model.XGBModel
    config = ms.cost_model.xgb_model.XGBConfig(seed=seed, nthread=1)
    return model(extractor=extractor, config=config, num_warmup_samples=0, adaptive_training=False)


def measure_candidate(schedule: Any) -> Any:
    """A schedule in the form in which MetaSchedule's search strategies return it."""
    arguments = ms.arg_info.ArgInfo.from_entry_func(schedule.mod, remove_preproc=True)
    return ms.MeasureCandidate(schedule, arguments)
