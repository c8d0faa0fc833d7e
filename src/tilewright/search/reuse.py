"""What a run found, as another run on a similar workload can use it."""

from __future__ import annotations

from tilewright.core.errors import InputError
from tilewright.core.records import History, Measured, Plan, RunRecord, Schedule


def schedule_of(run: RunRecord, history: History) -> Schedule:
    """The plans from the starting kernel to the best one; `InputError` when there are none.

    A plan that went back to an ancestor follows on that ancestor's plans, not on its parent's.
    """
    plans: list[Plan] = []
    latencies: list[float] = []
    trial = history.best
    unit = trial.outcome.unit if trial and isinstance(trial.outcome, Measured) else ""
    while trial is not None and (plan := trial.candidate.plan) is not None:
        plans.append(plan)
        latencies.append(trial.latency or 0.0)
        trial = history.get(str(plan.parameters.get("base", plan.parent_id)))
    if trial is None or trial.latency is None or not plans:
        raise InputError(
            f"run {run.id} of {run.task} has found no faster kernel yet, so there is no schedule "
            "to reuse: name another run (`tilewright runs list`)."
        )
    return Schedule(run.task, tuple(plans[::-1]), (trial.latency, *latencies[::-1]), unit)
