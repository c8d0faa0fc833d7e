"""Executors on this machine, and the baselines of a task evaluated by one."""

from __future__ import annotations

import os

from tilewright.core.config import Settings
from tilewright.core.records import Baseline, Candidate, EvaluationRequest
from tilewright.core.roles import Executor, Floored, Storage, TakesTurns
from tilewright.core.tasks import OpenTask
from tilewright.evaluation.screening import ScreenedExecutor
from tilewright.verification import recheck


def evaluate_baselines(opened: OpenTask, executor: Executor) -> tuple[Baseline, ...]:
    """The target's baselines of a task, each evaluated like a candidate."""
    sources = opened.task.baselines
    candidates = [Candidate(source, proposer=name) for name, source in sources.items()]
    outcomes = executor.evaluate([EvaluationRequest(c) for c in candidates])
    return tuple(
        Baseline(candidate.proposer, candidate.id, outcome)
        for candidate, outcome in zip(candidates, outcomes, strict=True)
    )


def worker_count(opened: OpenTask, wanted: int | None) -> int:
    """Processes to evaluate in: one per core by default.

    Where measurements take turns there are fewer, but one more than cores: while one measures and
    one waits to, others build.
    """
    cores = len(os.sched_getaffinity(0))
    task = opened.task
    if not isinstance(task, TakesTurns):
        return wanted or cores
    return min(wanted or cores + 1, task.most_workers)


def create_executor(
    opened: OpenTask, settings: Settings, workers: int | None, storage: Storage | None
) -> Executor:
    """The executor on this machine: one worker per core unless `workers` says otherwise."""
    from tilewright.evaluation.local import LocalExecutor

    recorded = settings.recorded()
    task = opened.task
    executor = LocalExecutor(
        opened.name,
        recorded,
        worker_count(opened, workers),
        lookup=storage.cached_outcome if storage else None,
        store=storage.store_outcome if storage else None,
    )
    return ScreenedExecutor(
        executor,
        floor=task.floor if isinstance(task, Floored) else None,
        recheck=lambda candidate, limit: recheck(opened.name, recorded, candidate, limit),
    )
