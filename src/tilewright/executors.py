"""Constructs executors on this machine and on clusters, and evaluates the baselines of a task."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence

from tilewright.cluster.address import Place
from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Baseline, Candidate, EvaluationRequest
from tilewright.core.roles import (
    Attackable,
    Checkpoint,
    ComparesTuned,
    Executor,
    HasLatencyFloor,
    LimitsWorkers,
    Storage,
)
from tilewright.core.run_notes import MeasuredOn
from tilewright.core.tasks import OpenTask
from tilewright.core.tuning_records import TunedKernel
from tilewright.evaluation.screening import ScreenedExecutor
from tilewright.verification import recheck


def tuned_baselines(
    opened: OpenTask, stored: Callable[[str, str], Sequence[TunedKernel]]
) -> tuple[Mapping[str, str], str]:
    """The tuner's kernels for a task, as the texts of further baselines by name. If there are none,
    the second value is a sentence that says how to make one; it is empty if the tuner cannot tune
    the workload.

    `stored` returns the kernels for the tuner's name of a workload and the name of a GPU.
    """
    task = opened.task
    if not isinstance(task, ComparesTuned) or task.tunable is None:
        return {}, ""
    tunable = task.tunable
    kernels = stored(tunable.workload, tunable.device)
    if not kernels:
        command = shlex.join(tunable.command)
        return {}, (
            f"No kernel of the tuner for {opened.name} is stored in the project, so there is none "
            f"among the baselines. To make one, run `{command}` in the project's folder."
        )
    return {kernel.name: task.tuned_baseline(kernel) for kernel in kernels}, ""


def evaluate_baselines(
    opened: OpenTask,
    executor: Executor,
    checkpoint: Checkpoint | None = None,
    tuned: Mapping[str, str] | None = None,
) -> tuple[Baseline, ...]:
    """The target's baselines of a task, and those in `tuned`, each evaluated like a candidate."""
    sources = {**opened.task.baselines, **(tuned or {})}
    candidates = [Candidate(source, proposer=name) for name, source in sources.items()]
    # A baseline with the text of the starting kernel shares its outcome.
    requests = [
        EvaluationRequest(candidate, is_baseline=candidate.source != opened.task.start)
        for candidate in candidates
    ]
    outcomes = executor.evaluate(requests, checkpoint=checkpoint)
    return tuple(
        Baseline(candidate.proposer, candidate.id, outcome)
        for candidate, outcome in zip(candidates, outcomes, strict=True)
    )


def usable_cores() -> int:
    """The number of cores on which this process may evaluate kernels.

    Raises:
        ToolchainMissingError: this system is not Linux.
    """
    if sys.platform != "linux":
        raise ToolchainMissingError(
            "tilewright evaluates kernels only on Linux, because its sandbox needs the Linux "
            "kernel. Run tilewright in a Linux container (docs/install.md)."
        )
    return len(os.sched_getaffinity(0))


def worker_count(opened: OpenTask, wanted: int | None) -> int:
    """The number of processes that evaluate, which is one per core by default.

    If only one measurement can run at a time, there is one more process than cores, up to a limit.
    While one process measures and another waits to measure, the others build.
    """
    cores = usable_cores()
    task = opened.task
    if not isinstance(task, LimitsWorkers):
        return wanted or cores
    return min(wanted or cores + 1, task.most_workers)


def create_executor(
    opened: OpenTask,
    settings: Mapping[str, object],
    workers: int | None,
    storage: Storage | None,
) -> Executor:
    """The executor on this machine: one worker per core unless `workers` says otherwise.

    `settings` are those of `Settings.evaluated_with`. The keys of cached outcomes depend on the
    seed of the inputs, so an outcome is used again only with the same secret seed.
    """
    from tilewright.evaluation.local import LocalExecutor

    executor = LocalExecutor(
        opened.name,
        settings,
        worker_count(opened, workers),
        lookup=storage.cached_outcome if storage else None,
        store=storage.store_outcome if storage else None,
    )
    return _screened(executor, opened, settings)


def create_cluster_executor(
    opened: OpenTask,
    settings: Mapping[str, object],
    workers: int | None,
    storage: Storage,
    place: Place,
    run_id: str,
    on_note: Callable[[str], None],
) -> Executor:
    """The executor on a cluster; `workers` is the number of workers of a cluster that is started on
    this machine.

    The host on which a run's kernels are measured is stored with the run and does not change.
    `on_note` receives sentences for the user, from any thread.
    """
    from tilewright.cluster.opening import open_executor

    executor = open_executor(
        opened,
        settings,
        place,
        worker_count(opened, workers),
        lookup=storage.cached_outcome,
        store=storage.store_outcome,
        home=next((note.host for note in storage.kept(run_id, MeasuredOn)), None),
        on_home=lambda host: storage.keep(run_id, MeasuredOn(host)),
        on_note=on_note,
    )
    return _screened(executor, opened, settings)


def _screened(
    executor: Executor, opened: OpenTask, settings: Mapping[str, object]
) -> ScreenedExecutor:
    """The executor with screening. Winners are confirmed on this machine, even if another machine
    measured them first.
    """
    task = opened.task
    return ScreenedExecutor(
        executor,
        floor=task.floor if isinstance(task, HasLatencyFloor) else None,
        recheck=lambda candidate, limit, checkpoint: recheck(
            opened.name, settings, candidate, limit, checkpoint
        ),
        winner_is_confirmed=isinstance(task, Attackable),
    )
