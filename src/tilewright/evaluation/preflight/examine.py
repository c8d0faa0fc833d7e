"""Attacks a task before a budget is spent on it."""

from __future__ import annotations

import numpy as np

from tilewright.core.errors import WorkloadError
from tilewright.core.records import AttackResult, Candidate, EvaluationRequest, Failed, Workload
from tilewright.core.roles import Attackable, Task
from tilewright.evaluation.pipeline import evaluate
from tilewright.evaluation.preflight.attacks import OutputAttack, View, attacks

VERSION = "1"
"""To be raised with every change of the attacks: tasks that passed are then examined again."""


def examine(task: Task) -> list[AttackResult]:
    """The result of every attack; empty for a task that cannot be attacked.

    Raises `WorkloadError` for a reference that is non-deterministic or gives no number.
    """
    if not isinstance(task, Attackable):
        return []
    views = [View(case, task.workload.arguments) for case in task.check_cases()]
    _require_sound_reference(task.workload, views)
    found = [_try_outputs(attack, views) for attack in attacks(task.workload.arguments)]
    return found + [
        _try_kernel(task, name, source) for name, source in task.hostile_kernels().items()
    ]


def refusal(workload: str, results: list[AttackResult]) -> str | None:
    """Why no budget may be spent on this task: the accepted attacks and the first one's remedy."""
    accepted = [result for result in results if result.verdict == "accepted"]
    if not accepted:
        return None
    first = accepted[0]
    others = ", ".join(result.name for result in accepted[1:])
    also = f" (and {others})" if others else ""
    return (
        f"the check of {workload} accepts a wrong kernel, {first.name!r}, that {first.text}{also}: "
        f"{first.remedy}."
    )


def _require_sound_reference(workload: Workload, views: list[View]) -> None:
    for view in views:
        given = {a.name: view.case.given[a.name] for a in view.arguments if a.is_given}
        again = view.case.reference(given)
        for name, array in view.expected.items():
            where = f"the reference of {workload.name} gives"
            if again[name] != view.case.expected[name]:
                raise WorkloadError(
                    f"{where} two different results for {name} from the same inputs: make it "
                    "deterministic (no unseeded random numbers, no state kept between calls)."
                )
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise WorkloadError(
                    f"{where} NaN or infinity in {name} for {view.case.distribution} inputs: "
                    "make it finite for every input of the declared types."
                )


def _try_outputs(attack: OutputAttack, views: list[View]) -> AttackResult:
    for index, view in enumerate(views):
        outputs = attack.make(views, index)
        if outputs is None:
            return AttackResult(attack.name, attack.text, "does not apply")
        mismatch = view.case.mismatch({n: array.tobytes() for n, array in outputs.items()})
        if mismatch is not None:
            return AttackResult(attack.name, attack.text, "rejected", mismatch)
    return AttackResult(attack.name, attack.text, "accepted", remedy=attack.remedy)


def _try_kernel(task: Task, name: str, source: str) -> AttackResult:
    """The whole way of a candidate: built, run, compared."""
    outcome = evaluate(task.evaluator, EvaluationRequest(Candidate(source, proposer="preflight")))
    text = f"is a kernel that {name}"
    if isinstance(outcome, Failed):
        log = next(iter(outcome.log.splitlines()), "")
        return AttackResult(f"kernel: {name}", text, "rejected", f"{outcome.kind}: {log}")
    remedy = "draw the inputs from wider distributions, or correct the reference"
    return AttackResult(f"kernel: {name}", text, "accepted", remedy=remedy)
