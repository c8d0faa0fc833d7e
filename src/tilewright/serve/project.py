"""The runs of a project as the live page knows them: read once, then kept up to date."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock

from tilewright.core.codec import from_json
from tilewright.core.errors import UnknownNameError
from tilewright.core.records import History, RunRecord, Trial
from tilewright.core.run_notes import Baselines, Survey
from tilewright.models import model_calls
from tilewright.report.queries import report_view
from tilewright.report.views import ReportView
from tilewright.run import standing
from tilewright.serve.trials import LiveTrials
from tilewright.storage.overview import Event, RunOverview, SqlOverview

MOST_RUNS = 8
"""Whose trials are kept in memory, those looked at last."""
LOGGED = ("RunStarted", "IterationFinished", "ProposalFailed", "Stopped", "Rechecked", "AgentWork")
"""Lines of a run's event log that people read."""


@dataclass
class _Known:
    trials: LiveTrials = field(default_factory=LiveTrials)
    lock: Lock = field(default_factory=Lock)


class ServedProject:
    """What pages are made from. May be used by several threads; writes nothing."""

    def __init__(self, folder: Path, overview: SqlOverview) -> None:
        self.folder = folder
        self.overview = overview
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lock = Lock()

    def run(self, run_id: str) -> RunOverview:
        """A run by its whole id; `UnknownNameError` if there is none."""
        found = self.overview.run(run_id)
        if found is None:
            raise UnknownNameError("run", run_id, [])
        return found

    def status(self, run: RunRecord) -> str:
        """As `tilewright runs list` says it."""
        return standing(self.folder, run)

    def trials(self, run_id: str) -> LiveTrials:
        """The run's trials up to now."""
        with self._lock:
            known = self._known.setdefault(run_id, _Known())
            self._known.move_to_end(run_id)
            while len(self._known) > MOST_RUNS:
                self._known.popitem(last=False)
        with known.lock:
            amendments = self.overview.amendments(run_id)
            if amendments != known.trials.generation:
                known.trials = LiveTrials(amendments)
            known.trials.extend(self.overview.trials(run_id, len(known.trials.views) - 1))
            return known.trials

    def trial(self, run_id: str, index: int) -> Trial:
        """One trial with its source; `UnknownNameError` if there is none."""
        found = self.overview.whole_trials(run_id, [index])
        if not found:
            raise UnknownNameError("trial", str(index), [])
        return found[0]

    def result(self, run: RunRecord, trials: LiveTrials) -> ReportView:
        """The report's view of the run's winning schedule, and of what it is compared with."""
        best = trials.best
        chain = trials.lineage(best.index) if best else [0]
        history = History(self.overview.whole_trials(run.id, chain))
        kernels: Sequence[object] = ()
        parts: Sequence[object] = ()
        for event in self.overview.events(run.id, (Baselines.__name__, Survey.__name__)):
            if event.kind == Survey.__name__:
                parts = from_json(event.data["parts"])
            else:
                kernels = from_json(event.data["kernels"])
        calls = model_calls(run.id, project=self.folder)
        return report_view(run, history, kernels, parts, calls)  # type: ignore[arg-type]

    def axes(self, run_id: str) -> dict[str, list[tuple[int, float]]]:
        """When each iteration of a run ended, in seconds of work, and what was spent until then.

        Time between the sessions of a run does not count. `usd` is empty where no model was asked.
        """
        spending = self.overview.spending(run_id)
        seconds: list[tuple[int, float]] = []
        usd: list[tuple[int, float]] = []
        worked_s, session_s, spent, paid = 0.0, 0.0, 0.0, 0
        began: datetime | None = None
        for event in self.overview.events(run_id, ("RunStarted", "IterationFinished", "Stopped")):
            at = datetime.fromisoformat(event.at)
            if event.kind == "RunStarted" or began is None:
                worked_s += session_s
                began = at
            session_s = (at - began).total_seconds()
            iteration = event.data.get("iteration")
            if isinstance(iteration, int):
                while paid < len(spending) and spending[paid][0] <= event.at:
                    spent += spending[paid][1]
                    paid += 1
                seconds.append((iteration, round(worked_s + session_s, 3)))
                if spending:
                    usd.append((iteration, round(spent, 6)))
        return {"seconds": seconds, "usd": usd}

    def log(self, run_id: str, after: int = 0) -> list[Event]:
        """The lines of a run's log that people read."""
        return self.overview.events(run_id, LOGGED, after)
