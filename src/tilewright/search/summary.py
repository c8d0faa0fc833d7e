"""The summary of a run, for the command line, JSON output and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.core.budget import time_ended_before, time_is_spent
from tilewright.core.gains import is_gain, noise_of_speedup
from tilewright.core.records import (
    Baseline,
    Failed,
    History,
    LeftAlone,
    Measured,
    RunRecord,
    Trial,
)
from tilewright.core.text import listed


@dataclass(frozen=True, slots=True)
class Summary:
    """Result of a run so far.

    `verdict` is "correct" if a kernel passed every check and was measured, and otherwise the kind
    of the starting kernel's failure, or "not evaluated". Latencies are in `unit`, and `quantity`
    says how they were obtained; utilisations are from 0 to 1. `cached_evaluations`
    is the number of `evaluations` with an outcome from the cache. `warnings` are those of the best
    kernel.
    `confirmed` is true if the best kernel was rebuilt in a clean process and was correct on fresh
    private inputs. `unconfirmed` are trials that were faster at first, but wrong or slower when
    they were evaluated again; their logs give the reason. `best_precision` is the best kernel's
    class of precision; empty if the inputs cannot distinguish the classes. `noise` is the noise of
    both measurements as a share; 0 if latencies repeat exactly. `left_alone` is code of the
    starting kernel that the built-in rewriter cannot analyse.
    `proposers` are the names of the proposers and models that shared the work. `unused_wall_s` is
    the time that was reserved for the confirmation and was not needed. `is_out_of_time` is true if
    the time of the budget ended before the result was confirmed; the run can then be resumed.

    >>> import tilewright as tw
    >>> summary = tw.open_run("latest").summary
    >>> summary.verdict, summary.status, summary.quantity
    ('correct', 'finished', 'simulated')
    """

    run_id: str
    workload: str
    target: str
    verdict: str
    unit: str
    quantity: str
    baseline_latency: float | None
    best_latency: float | None
    speedup: float | None
    baseline_utilization: float | None
    best_utilization: float | None
    best_candidate_id: str | None
    evaluations: int
    cached_evaluations: int
    wall_s: float
    seed: int
    versions: Mapping[str, str]
    status: str
    stop_reason: str
    baselines: tuple[Baseline, ...] = ()
    confirmed: bool = False
    warnings: tuple[str, ...] = ()
    left_alone: tuple[LeftAlone, ...] = ()
    unconfirmed: tuple[Trial, ...] = ()
    best_precision: str = ""
    noise: float = 0.0
    proposers: tuple[str, ...] = ()
    unused_wall_s: float = 0.0
    is_out_of_time: bool = False

    @property
    def is_faster(self) -> bool:
        """Whether the best kernel is faster than the starting kernel by more than the noise."""
        return is_gain(self.speedup, self.noise)

    @property
    def gain(self) -> float | None:
        """The speedup if the best kernel is faster by more than the noise, and None otherwise."""
        return self.speedup if self.is_faster else None


def summarize(
    run: RunRecord,
    history: History,
    baselines: Sequence[Baseline] = (),
    confirmed: str | None = None,
    left_alone: Sequence[LeftAlone] = (),
) -> Summary:
    """The summary of a run, from its trials and its baselines.

    `confirmed` is the id of the candidate that was evaluated again on fresh inputs.
    """
    start = history.baseline.outcome if history.baseline else None
    best_trial = history.best
    best = best_trial.outcome if best_trial else None
    baseline = start if isinstance(start, Measured) else None
    winner = best if isinstance(best, Measured) else None
    verdict = "correct" if winner else start.kind if isinstance(start, Failed) else "not evaluated"
    late = run.status == "interrupted" and _time_ended(run)
    if late and winner is not None and not winner.verdict.checks:
        verdict = "not evaluated"  # a starting kernel that was not compared with the reference
    seed, proposers = run.settings.get("seed", 0), run.settings.get("proposers", ())
    return Summary(
        run_id=run.id,
        workload=run.task,
        target=run.target,
        verdict=verdict,
        unit=winner.unit if winner else "",
        quantity=winner.quantity if winner else "",
        baseline_latency=baseline.latency if baseline else None,
        best_latency=winner.latency if winner else None,
        speedup=baseline.latency / winner.latency if baseline and winner else None,
        baseline_utilization=baseline.utilization if baseline else None,
        best_utilization=winner.utilization if winner else None,
        best_candidate_id=best_trial.candidate.id if best_trial else None,
        evaluations=len(history),
        cached_evaluations=sum(t.cached for t in history),
        wall_s=run.wall_s,
        seed=seed if isinstance(seed, int) else 0,
        versions={**run.versions, **(winner.versions if winner else {})},
        status=run.status,
        stop_reason=run.stop_reason,
        baselines=tuple(baselines),
        confirmed=bool(best_trial and best_trial.candidate.id == confirmed),
        warnings=winner.warnings if winner else (),
        left_alone=tuple(left_alone),
        unconfirmed=unconfirmed(history),
        best_precision=winner.verdict.precision if winner else "",
        noise=noise_of_speedup(history.baseline, best_trial),
        proposers=tuple(map(str, proposers)) if isinstance(proposers, (list, tuple)) else (),
        unused_wall_s=_unused_wall_s(run, history),
        is_out_of_time=late,
    )


def _time_ended(run: RunRecord) -> bool:
    """Whether the run's time limit ended before necessary work was complete."""
    limit = run.settings.get("max_wall_s")
    return isinstance(limit, (int, float)) and run.stop_reason.startswith(time_ended_before(limit))


def _unused_wall_s(run: RunRecord, history: History) -> float:
    """The rest of the time of a run that ended because its time was spent; 0 if a candidate was not
    evaluated again because the rest was too short.
    """
    limit = run.settings.get("max_wall_s")
    if any(getattr(t.outcome, "cause", "") == "out_of_time" for t in unconfirmed(history)):
        return 0.0
    if not isinstance(limit, (int, float)) or run.stop_reason != time_is_spent(limit):
        return 0.0
    return max(0.0, limit - run.wall_s)


def unconfirmed(history: History) -> tuple[Trial, ...]:
    """Trials that were faster at first, but wrong or slower when they were evaluated again."""
    return tuple(t for t in history if getattr(t.outcome, "kind", "") == "unconfirmed")


def unconfirmed_words(trials: Sequence[Trial]) -> str:
    """How many trials were not confirmed, and why: wrong results, other failures, or times."""
    causes = [getattr(trial.outcome, "cause", "") for trial in trials]
    wrong = causes.count("wrong_result")
    slower = causes.count("")
    late = causes.count("out_of_time")
    failed = len(causes) - wrong - slower - late
    counted = [
        (wrong, "wrong on new inputs"),
        (failed, "not built and run successfully a second time"),
        (slower, "not faster when measured again"),
        (late, "not evaluated again before the budget ended"),
    ]
    reasons = [(count, words) for count, words in counted if count]
    several = len(reasons) > 1
    parts = [
        f"{f'{count} ' if several else ''}{'was' if count == 1 else 'were'} {words}"
        for count, words in reasons
    ]
    count = f"{len(trials)} candidate{'s' * (len(trials) != 1)}"
    return f"{count} looked faster at first, but {listed(parts)}"
