"""The runs of a project for the live page, which are read once and then updated."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from tilewright.core.errors import UnknownNameError
from tilewright.core.records import History, RunRecord, Trial
from tilewright.core.run_notes import Baselines, Survey
from tilewright.models import model_calls
from tilewright.report.queries import report_view
from tilewright.report.views import ReportView, TrialView
from tilewright.run import standing
from tilewright.serve.axes import STEPS, LiveAxes
from tilewright.serve.log import LOGGED
from tilewright.serve.trials import LiveTrials
from tilewright.storage.overview import SqlOverview
from tilewright.storage.overview_records import Event, RunOverview, TrialOverview
from tilewright.storage.sampling import Sample

MOST_RUNS = 8
"""Number of runs whose trials are kept in memory, the most recently shown ones."""


class LiveRun:
    """The data of one run. An update reads only data that were written since the last one."""

    def __init__(self) -> None:
        self.trials = LiveTrials()
        self.axes = LiveAxes()
        self._read = 0
        """The number of the last log line that was read."""
        self._lock = Lock()

    def update(self, overview: SqlOverview, run_id: str) -> LiveRun:
        """Read the data that were written since the last update, and return `self`.

        The note about a second evaluation of a trial is stored after the change of the trial, so
        all trials are read again then. For a very long run, only a sample is read at first.
        """
        with self._lock:
            lines = overview.events(run_id, (*STEPS, "Rechecked"), self._read)
            amended = sum(line.kind == "Rechecked" for line in lines)
            if amended or not self.trials.views:
                self._begin(overview, run_id, self.trials.generation + amended)
            payments = overview.payments(run_id, self.axes.settled)
            self._read = lines[-1].number if lines else self._read
            self.axes.extend([line for line in lines if line.kind in STEPS], payments)
            self._extend(overview, run_id, overview.trials(run_id, self.trials.total - 1))
        return self

    def _begin(self, overview: SqlOverview, run_id: str, generation: int) -> None:
        self.trials = _sampled(overview, run_id, generation, overview.sample(run_id))

    def _extend(self, overview: SqlOverview, run_id: str, new: Sequence[TrialOverview]) -> None:
        """Add the next trials, whose parents may be missing in the sample."""
        own = {trial.candidate_id for trial in new}
        unknown = self.trials.unknown(trial.parent_id for trial in new) - own
        if self.trials.left_out and unknown:
            before = self.trials
            indices = {view.index for view in before.views}
            indices |= {trial.index for trial in overview.ancestors(run_id, unknown, indices)}
            sample = Sample(tuple(sorted(indices)), before.total, before.measured)
            self.trials = _sampled(overview, run_id, before.generation + 1, sample)
        self.trials.extend(new)


def _sampled(
    overview: SqlOverview, run_id: str, generation: int, sample: Sample | None
) -> LiveTrials:
    found = LiveTrials(generation, sample)
    if sample is not None:
        found.extend(overview.chosen(run_id, sample.indices))
    return found


class ServedProject:
    """The data from which pages are made. It can be used by several threads and writes nothing."""

    def __init__(self, folder: Path, overview: SqlOverview) -> None:
        self.folder = folder
        self.overview = overview
        self._known: OrderedDict[str, LiveRun] = OrderedDict()
        self._lock = Lock()

    def run(self, run_id: str) -> RunOverview:
        """A run by its whole id; `UnknownNameError` if there is none."""
        found = self.overview.run(run_id)
        if found is None:
            raise UnknownNameError("run", run_id)
        return found

    def record(self, run_id: str) -> RunRecord:
        """A run's record by its whole id; `UnknownNameError` if there is none."""
        found = self.overview.record(run_id)
        if found is None:
            raise UnknownNameError("run", run_id)
        return found

    def status(self, run: RunRecord) -> str:
        """The status as `tilewright runs list` shows it."""
        return standing(self.folder, run)

    def live(self, run_id: str) -> LiveRun:
        """The run's present trials and axes."""
        with self._lock:
            known = self._known.setdefault(run_id, LiveRun())
            self._known.move_to_end(run_id)
            while len(self._known) > MOST_RUNS:
                self._known.popitem(last=False)
        return known.update(self.overview, run_id)

    def trials(self, run_id: str) -> LiveTrials:
        """The run's present trials."""
        return self.live(run_id).trials

    def trial(self, run_id: str, index: int) -> Trial:
        """One trial with its source; `UnknownNameError` if there is none."""
        found = self.overview.whole_trials(run_id, [index])
        if not found:
            raise UnknownNameError("trial", str(index))
        return found[0]

    def lineage(
        self, run_id: str, trials: LiveTrials, trial: Trial
    ) -> tuple[TrialView, list[TrialView]]:
        """The views of a trial, and of the trials from the starting kernel to it."""
        if trials.view(trial.index) is None:  # not in the sample
            chain = self.overview.ancestors(run_id, [trial.candidate.id], ())
            wanted = {0, trial.index, *(one.index for one in chain)}
            trials = LiveTrials()
            trials.extend(self.overview.chosen(run_id, wanted))
        view = trials.view(trial.index)
        if view is None:
            raise UnknownNameError("trial", str(trial.index))
        return view, [v for i in trials.lineage(trial.index) if (v := trials.view(i)) is not None]

    def result(self, run: RunRecord, trials: LiveTrials) -> ReportView:
        """The report's view of the run's winning schedule and of its baselines."""
        best = trials.best
        chain = trials.lineage(best.index) if best else [0]
        history = History(self.overview.whole_trials(run.id, chain))
        notes = self.overview.kept(run.id, Baselines)
        kernels = [kernel for note in notes for kernel in note.kernels]
        parts = [part for note in self.overview.kept(run.id, Survey) for part in note.parts]
        calls = model_calls(run.id, project=self.folder)
        return report_view(run, history, kernels, parts, calls)

    def log(self, run_id: str, after: int = 0) -> list[Event]:
        """The lines of a run's log that the page shows."""
        return self.overview.events(run_id, LOGGED, after)
