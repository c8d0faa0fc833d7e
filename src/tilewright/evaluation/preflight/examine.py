"""Tests the correctness check of a task with wrong kernels before a search."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.core.errors import InternalError, WorkloadError
from tilewright.core.records import (
    AttackResult,
    Candidate,
    EvaluationRequest,
    Failed,
    Outcome,
    Workload,
)
from tilewright.core.roles import Attackable, PublishedRules, SkipsDistributions, Task
from tilewright.core.text import plain_text
from tilewright.evaluation.pipeline import Kinds, evaluate, soon_rejected
from tilewright.evaluation.preflight.attacks import OTHER_INPUTS, TELLING, OutputAttack, attacks
from tilewright.evaluation.preflight.views import View, is_same
from tilewright.parts.element_types import is_float
from tilewright.parts.hostile import data_of

VERSION = "7"
"""Version of the attacks. Increment it with every change of them, so that tasks that passed are
tested again.
"""

MARGIN = 2.0
"""A shortcut is distinguishable if its error is at least this many times the allowed error."""

SHORTCUTS = {
    "float32 inputs": "rounds its inputs to float32",
    "bf16 inputs": "rounds its inputs to bfloat16",
    "fp16 inputs": "rounds its inputs to the 11 significant bits of half precision and TF32",
    "rough functions": "computes exponentials, roots and quotients to half of their digits",
    "one-pass variance": "computes a variance as the mean square minus the square of the mean",
    "skipped terms": "leaves out the last sixteenth of every sum",
    "half the sum, doubled": "sums the first half of the terms and doubles it",
}
"""Kernels that compute with fewer digits or terms, by the names that `Case.careless` uses."""
SHOWS_NOTHING = frozenset({"timeout", "slower_than_limit", "not_checked"})
"""Failures of a wrong kernel that do not show that the check rejects it, because a correct kernel
can fail in the same way.
"""
IS_A_COPY = "the task is a copy of this input"
LEFT_OUT = ("skipped terms", "half the sum, doubled")
"""The shortcuts that do not compute the required result, independently of the precision."""


def examine(task: Task, kinds: Kinds | None = None) -> list[AttackResult]:
    """The result of every attack; empty for a task that cannot be attacked.

    `kinds` returns the kinds of failure that the target declares.

    Raises `WorkloadError` for a reference that is not deterministic or returns NaN, and for a
    starting kernel that does not build.
    """
    if not isinstance(task, Attackable):
        return []
    views = [View(case, case.arguments) for case in task.check_cases()]
    drawn = [view.case.distribution for view in views]
    found = _try_outputs(task.workload, list(attacks(views[0].arguments, drawn)), views)
    omitted = task.omissions() if isinstance(task, SkipsDistributions) else {}
    found += [
        AttackResult(f"inputs: {name}", "are not used", "does not apply", f"left out: {reason}")
        for name, reason in omitted.items()
    ]
    found += _try_shortcuts(views)
    found += task.published_rules() if isinstance(task, PublishedRules) else []
    correct = {
        result.name.replace("copy of ", "copies ")
        for result in found
        if result.name.startswith("copy of ") and result.verdict == "does not apply"
    }
    return found + [
        AttackResult(f"kernel: {name}", f"is a kernel that {name}", "does not apply", IS_A_COPY)
        if name in correct
        else _try_kernel(task, name, source, kinds)
        for name, source in task.hostile_kernels().items()
    ]


def _require_start_that_builds(task: Task) -> None:
    """Raise `WorkloadError` if the starting kernel, which is part of some wrong kernels, does not
    build.
    """
    built = task.evaluator[0].build(Candidate(task.start))
    if isinstance(built, Failed):
        said = plain_text(" ".join(built.log.split())[:400]).rstrip(".")
        raise WorkloadError(
            f"the starting kernel of {task.workload.name} does not build ({built.kind_in_words}: "
            f"{said}). Correct it, because everything that a search finds is compared with it."
        )


def refusal(workload: str, results: list[AttackResult]) -> str | None:
    """The reason why the task is refused: the accepted attacks, and the remedy of the first one."""
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


def _require_sound_reference(workload: Workload, view: View) -> None:
    again = view.case.reference(view.inputs)
    for name, array in view.expected.items():
        where = f"the reference of {workload.name} gives"
        if not is_same(np.frombuffer(again[name], np.uint8), array.reshape(-1).view(np.uint8)):
            raise WorkloadError(
                f"{where} two different results for {name} from the same inputs. Make it "
                "deterministic (no unseeded random numbers, no state kept between calls)."
            )
        if is_float(array.dtype.name) and not np.isfinite(array).all():
            raise WorkloadError(
                f"{where} NaN or infinity in {name} for {view.case.distribution} inputs. Make "
                "it finite for every input of the declared types."
            )


def _try_outputs(
    workload: Workload, tried: list[OutputAttack], views: list[View]
) -> list[AttackResult]:
    """Every attack in one comparison after another, until one of them rejects it.

    All attacks in one comparison come before those in the next, because the expected outputs of a
    large task are not kept for all comparisons at the same time.
    """
    settled: dict[str, AttackResult] = {}
    for index, view in enumerate(views):
        _require_sound_reference(workload, view)
        for attack in tried:
            if attack.name not in settled:
                result = _try_in(attack, views, index)
                if result is not None:
                    settled[attack.name] = result
        _ = view.case.careless  # computed now and kept: its inputs exist only here
        if index:
            view.forget()
    views[0].forget()
    return [
        settled.get(a.name, AttackResult(a.name, a.text, "accepted", remedy=a.remedy))
        for a in tried
    ]


def _try_in(attack: OutputAttack, views: list[View], index: int) -> AttackResult | None:
    """The result of an attack if this comparison rejects it or if it does not apply."""
    outputs = attack.make(views, index)
    if outputs is None:
        return AttackResult(attack.name, attack.text, "does not apply")
    mismatch = views[index].case.mismatch({n: data_of(array) for n, array in outputs.items()})
    if mismatch is None:
        return None
    return AttackResult(attack.name, attack.text, "rejected", mismatch)


def _try_shortcuts(views: list[View]) -> list[AttackResult]:
    """Test kernels that are faster because they compute with fewer digits or fewer terms."""
    seen = [(view.case.distribution, view.case.careless) for view in views]
    if not any(careless for _, careless in seen):
        return []
    return [_try_shortcut(name, text, seen) for name, text in SHORTCUTS.items()]


def _try_shortcut(
    name: str, text: str, seen: list[tuple[str, Mapping[str, float]]]
) -> AttackResult:
    found = [(careless[name], where) for where, careless in seen if name in careless]
    if not found:
        return AttackResult(name, text, "does not apply")
    excess, where = max(found)
    log = f"its error is {excess:.3g} times what is allowed on {where} inputs"
    if excess >= MARGIN:
        return AttackResult(name, text, "rejected", log)
    if name in LEFT_OUT and excess <= 1:
        return AttackResult(name, text, "accepted", log, TELLING)
    remedy = f"results have no precision class, unless you {TELLING}"
    return AttackResult(name, text, "indistinguishable", log, remedy)


def _try_kernel(task: Task, name: str, source: str, kinds: Kinds | None) -> AttackResult:
    """Build, run and compare a wrong kernel like a candidate.

    One comparison rejects almost every wrong kernel. Those that it does not reject are evaluated.
    """
    candidate = Candidate(source, proposer="preflight")
    first = soon_rejected(task.evaluator, candidate, kinds)
    outcome: Outcome
    if first is None or first.kind in SHOWS_NOTHING:
        outcome = evaluate(task.evaluator, EvaluationRequest(candidate), kinds=kinds)
    else:
        outcome = first
    text = f"is a kernel that {name}"
    if isinstance(outcome, Failed) and outcome.stage == "build":
        _require_start_that_builds(task)
        raise InternalError(
            f"preflight's own wrong kernel {name!r} could not be built for {task.workload.name}, "
            f"so it does not test the check: {outcome.log}"
        )
    if isinstance(outcome, Failed):
        log = next(iter(outcome.log.splitlines()), "")
        if outcome.kind in SHOWS_NOTHING:
            said = f"does not test the check: it was not compared ({outcome.kind_in_words}: {log})"
            return AttackResult(f"kernel: {name}", text, "does not apply", said)
        return AttackResult(f"kernel: {name}", text, "rejected", f"{outcome.kind_in_words}: {log}")
    return AttackResult(f"kernel: {name}", text, "accepted", remedy=OTHER_INPUTS)
