"""The views of a run's trials for a page, which are updated when trials are recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.report.importance import ParameterRow, parameter_rows
from tilewright.report.views import TrialState, TrialView
from tilewright.storage.overview_records import TrialOverview
from tilewright.storage.sampling import Sample

STATES: dict[str, TrialState] = {
    "slower_than_limit": "stopped",
    "unconfirmed": "unconfirmed",
}


class LiveTrials:
    """Views of a run's trials without their texts, in the order of their indices. For a very long
    run, these are the `sample` and the trials recorded after it. `causes[i]` is the cause to which
    `views[i]` lost most time. `generation` changes if earlier trials were amended or others were
    inserted between them.
    """

    def __init__(self, generation: int = 0, sample: Sample | None = None) -> None:
        self.generation = generation
        self.views: list[TrialView] = []
        self.causes: list[str] = []
        self.left_out = sample.total - len(sample.indices) if sample else 0
        """Number of trials of the run without a view."""
        self._places: dict[int, int] = {}
        self.best: TrialView | None = None
        self.winning: list[int] = []
        """The trials from the starting kernel to the best."""
        self.measured = 0
        """Number of trials with a latency, including those without a view."""
        self.stopped = 0
        """Number of views of trials that were stopped early, because they were slow."""
        self.failed = 0
        """Number of views of failed trials."""
        self._uncounted = sample
        self._first_of: dict[str, int] = {}
        self._instances: dict[str, list[tuple[Mapping[str, int], float]]] = {}

    def extend(self, trials: Sequence[TrialOverview]) -> None:
        """Add the next trials of the run."""
        for trial in trials:
            self._first_of.setdefault(trial.candidate_id, trial.index)
            parent = self._first_of.get(trial.parent_id) if trial.parent_id else None
            view = _view(trial, self.view(parent) if parent is not None else None, self._start)
            self._places[view.index] = len(self.views)
            self.views.append(view)
            self.causes.append(trial.cause)
            if trial.instance_of and trial.latency is not None:
                measured = self._instances.setdefault(trial.instance_of, [])
                measured.append((trial.values, trial.latency))
            self.measured += view.latency is not None
            self.stopped += view.state == "stopped"
            self.failed += view.state == "failed"
            faster = self.best is None or (view.latency or 0) < (self.best.latency or 0)
            if view.latency is not None and faster:
                self.best = view
        if self._uncounted is not None:
            self.measured, self._uncounted = self._uncounted.measured, None
        self._mark_winning()

    @property
    def total(self) -> int:
        """The number of trials of the run."""
        return len(self.views) + self.left_out

    def view(self, index: int) -> TrialView | None:
        """The view of one trial; None if there is none."""
        place = self._places.get(index)
        return self.views[place] if place is not None else None

    def unknown(self, candidate_ids: Iterable[str | None]) -> set[str]:
        """Those of the given candidates that have no view."""
        return {of for of in candidate_ids if of is not None and of not in self._first_of}

    @property
    def _start(self) -> float | None:
        return self.views[0].latency if self.views else None

    def templates(self) -> list[TemplateRow]:
        """The templates with measured instances, in the order of their first instances."""
        return [
            TemplateRow(self._first_of.get(first), len(measured), parameter_rows(measured))
            for first, measured in self._instances.items()
        ]

    def lineage(self, index: int) -> list[int]:
        """The trials from the starting kernel to this one."""
        chain: list[int] = []
        at: int | None = index
        while at is not None and at not in chain:
            chain.append(at)
            at = self.views[self._places[at]].parent
        return chain[::-1]

    def _mark_winning(self) -> None:
        best = self.best
        if best is None or (self.winning and self.winning[-1] == best.index):
            return
        winning = self.lineage(best.index)
        for index in set(self.winning) ^ set(winning):
            place = self._places[index]
            self.views[place] = replace(self.views[place], winning=index in winning)
        self.winning = winning
        self.best = self.view(best.index)


@dataclass(frozen=True, slots=True)
class TemplateRow:
    """A template: the trial that introduced it (None if unknown), and the effects of its
    parameters.
    """

    trial: int | None
    measured: int
    parameters: Sequence[ParameterRow]


@dataclass(frozen=True, slots=True)
class OptionRow:
    """The results of an option of the menu in a run; gains are speedups over the parent."""

    option: str
    tried: int
    measured: int
    kept: int
    best_gain: float | None
    in_best: int


def option_rows(views: Sequence[TrialView]) -> list[OptionRow]:
    """One row for each option that was tried, beginning with those of the winning schedule."""
    by_option: dict[str, list[TrialView]] = {}
    for view in views:
        if view.option:
            by_option.setdefault(view.option, []).append(view)
    rows = [
        OptionRow(
            option,
            tried=len(found),
            measured=sum(v.latency is not None for v in found),
            kept=sum(v.state == "kept" for v in found),
            best_gain=max((v.gain for v in found if v.gain is not None), default=None),
            in_best=sum(v.winning for v in found),
        )
        for option, found in by_option.items()
    ]
    return sorted(rows, key=lambda row: (-row.in_best, -row.kept, -row.tried, row.option))


def _view(trial: TrialOverview, parent: TrialView | None, start: float | None) -> TrialView:
    failure = ""
    if trial.failure is not None:
        kind, stage, line = trial.failure
        place = f", line {line}" if line is not None else ""
        failure = f"{kind.replace('_', ' ')} ({stage}{place})"
    latency = trial.latency
    gain = parent.latency / latency if parent and parent.latency and latency else None
    if trial.index == 0:
        start = latency
    return TrialView(
        index=trial.index,
        iteration=trial.iteration,
        parent=parent.index if parent else None,
        state=_state(trial, parent, gain),
        winning=False,
        option=trial.option,
        proposer=trial.proposer,
        plan="",
        turn=trial.turn,
        expected="",
        expected_gain=trial.expected_gain,
        latency=latency,
        noise=trial.noise,
        speedup=start / latency if start and latency else None,
        gain=gain,
        utilization=trial.utilization,
        breakdown={},
        details={},
        feedback="",
        warnings=(),
        failure=failure,
        log="",
        wall_s=trial.wall_s,
        cached=trial.cached,
        diff=(),
    )


def _state(trial: TrialOverview, parent: TrialView | None, gain: float | None) -> TrialState:
    if trial.failure is not None:
        return STATES.get(trial.failure[0], "failed")
    if parent is None:
        return "start"
    return "kept" if gain is not None and gain > 1 else "rejected"
