"""Converts a run and its history to the records that a report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.core.gains import is_gain, noise_of_speedup
from tilewright.core.records import (
    Baseline,
    CallRecord,
    Failed,
    History,
    LeftAlone,
    Measured,
    RunRecord,
    Trial,
)
from tilewright.report.costs import cost_rows, cost_sentence, total
from tilewright.report.diffs import cut, unified_diff
from tilewright.report.views import BaselineView, ReportView, TrialState, TrialView
from tilewright.search.summary import unconfirmed, unconfirmed_words
from tilewright.storage.sampling import Sample

_DIFF_BUDGET = 2_000_000
"""Maximum number of characters of all diffs in a report, so that a report of 1000 trials is smaller
than 5 MB.
"""
_LOG_BUDGET = 1_000_000
_FEEDBACK_BUDGET = 1_000_000
_STATES: Mapping[str, TrialState] = {
    "slower_than_limit": "stopped",
    "unconfirmed": "unconfirmed",
}
_LARGEST_DIFF = 60_000
_SMALLEST_SHARE = 800


def report_view(
    run: RunRecord,
    history: History,
    baselines: Sequence[Baseline] = (),
    left_alone: Sequence[LeftAlone] = (),
    calls: Sequence[CallRecord] = (),
    sample: Sample | None = None,
) -> ReportView:
    """The content of a report on these trials of a run. There may be no trials, or none that was
    measured.

    For a very long run, `history` contains only the trials of a `sample`.
    """
    baseline = history.baseline
    best = history.best
    winning = {t.index for t in history.lineage(best.candidate.id)} if best else set()
    trials = tuple(_trial_view(t, history, t.index in winning) for t in history)
    by_index = {trial.index: trial for trial in trials}
    measured = best.outcome if best and isinstance(best.outcome, Measured) else None
    speedup = _ratio(baseline, best)
    noise = noise_of_speedup(baseline, best)
    gain = speedup if is_gain(speedup, noise) else None
    return ReportView(
        task=run.task,
        target=run.target,
        run_id=run.id,
        created_at=run.created_at,
        status=run.status,
        stop_reason=run.stop_reason,
        wall_s=run.wall_s,
        unit=measured.unit if measured else "cycles",
        quantity=measured.quantity if measured else "simulated",
        trials=trials,
        baseline=trials[0] if baseline and baseline.latency is not None else None,
        best=by_index[best.index] if best else None,
        schedule=tuple(t for t in trials if t.winning),
        checks=_checks(measured),
        start_source=baseline.candidate.source if baseline else "",
        best_source=best.candidate.source if best else "",
        compared=tuple(_baseline_view(b, best) for b in baselines),
        left_alone=tuple(left_alone),
        unconfirmed=tuple(by_index[t.index] for t in unconfirmed(history)),
        unconfirmed_words=unconfirmed_words(unconfirmed(history)),
        costs=cost_rows(calls),
        cost_words=cost_sentence(total(calls), gain) if calls else "",
        settings=run.settings,
        evaluations=sample.total if sample else len(trials),
        measured=sample.measured if sample else sum(t.latency is not None for t in trials),
        noise=noise,
        versions={**run.versions, **(measured.versions if measured else {})},
    )


def _baseline_view(baseline: Baseline, best: Trial | None) -> BaselineView:
    latency, best_latency = baseline.latency, best.latency if best else None
    return BaselineView(
        name=baseline.name,
        latency=latency,
        utilization=baseline.utilization,
        speedup=latency / best_latency if latency and best_latency else None,
        failure=_failure(baseline.outcome) if isinstance(baseline.outcome, Failed) else "",
    )


def _trial_view(trial: Trial, history: History, winning: bool) -> TrialView:
    parent_id = trial.candidate.parent_id
    parent = history.get(parent_id) if parent_id else None
    outcome = trial.outcome
    measured = outcome if isinstance(outcome, Measured) else None
    plan = trial.candidate.plan
    diff_share = _LARGEST_DIFF if winning else _share(_DIFF_BUDGET, len(history))
    return TrialView(
        index=trial.index,
        iteration=trial.iteration,
        parent=parent.index if parent else None,
        state=_state(trial, parent),
        winning=winning,
        option=plan.option if plan else "",
        proposer=trial.candidate.proposer,
        plan=plan.text if plan else "",
        turn=plan.turn if plan else None,
        expected=plan.expected if plan else "",
        expected_gain=plan.expected_gain if plan else None,
        latency=trial.latency,
        noise=measured.noise if measured else 0.0,
        speedup=_ratio(history.baseline, trial),
        gain=_ratio(parent, trial),
        utilization=measured.utilization if measured else None,
        breakdown=measured.breakdown if measured else {},
        details=measured.details if measured else {},
        feedback=cut(measured.feedback, _share(_FEEDBACK_BUDGET, len(history))) if measured else "",
        warnings=measured.warnings if measured else (),
        failure=_failure(outcome) if isinstance(outcome, Failed) else "",
        log=cut(outcome.log, _share(_LOG_BUDGET, len(history)))
        if isinstance(outcome, Failed)
        else "",
        wall_s=trial.wall_s,
        cached=trial.cached,
        diff=unified_diff(parent.candidate.source, trial.candidate.source, diff_share)
        if parent
        else (),
    )


def _state(trial: Trial, parent: Trial | None) -> TrialState:
    if isinstance(trial.outcome, Failed):
        return _STATES.get(trial.outcome.kind, "failed")
    if parent is None:
        return "start"
    gain = _ratio(parent, trial)
    return "kept" if gain is not None and gain > 1 else "rejected"


def _ratio(before: Trial | None, after: Trial | None) -> float | None:
    """The speedup of `after` over `before`, if both were measured."""
    if before is None or after is None or before.latency is None or not after.latency:
        return None
    return before.latency / after.latency


def _failure(outcome: Failed) -> str:
    place = f", line {outcome.line}" if outcome.line is not None else ""
    return f"{outcome.kind_in_words} ({outcome.stage}{place})"


def _checks(measured: Measured | None) -> str:
    """A text on the comparisons that the best kernel passed."""
    if measured is None or not measured.verdict.checks:
        return ""
    checks = measured.verdict.checks
    names = ", ".join(dict.fromkeys(check.distribution for check in checks))
    precision = measured.verdict.precision
    told = f"; precision: {precision}" if precision else ""
    return f"{len(checks)} private inputs ({names}){told}"


def _share(budget: int, trials: int) -> int:
    """The number of characters per trial with which all trials together are within `budget`."""
    return min(_LARGEST_DIFF, max(_SMALLEST_SHARE, budget // max(1, trials)))
