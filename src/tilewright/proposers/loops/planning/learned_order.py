"""Orders complete sequences of steps by their estimated times and by what this run has measured.

The estimate does not know the compiler. If it expected 3.26x of a sequence that uses `lanes`, and
1.01x was measured, it is likely to be wrong for other sequences with `lanes` as well. Therefore,
the estimate of a sequence is corrected by the errors of those that were measured, each with the
share of techniques that both use as its weight. Sequences that were not tried come first. The
others follow from the fastest, because variants of them are still useful.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from tilewright.core.records import Candidate, History, Trial
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Kernel
from tilewright.proposers.loops.planning.steps import Step

_NO_ERROR = 1.0
"""Weight of an assumed measurement that agrees with the estimate."""
_Begun = TypeVar("_Begun", bound=tuple[object, Sequence[tuple[Step, Kernel]], Kernel])


def in_learned_order(
    sequences: Sequence[_Begun], parent: Trial, history: History, time: Callable[[Kernel], float]
) -> list[_Begun]:
    """The sequences for a parent in the order in which to try them.

    Each consists of an option, its steps, and the kernel after them. `time` estimates the time of a
    kernel, in any unit.
    """
    trials = [history.get(Candidate(emit(after)).id) for _, _, after in sequences]
    if not any(trials):
        return [*sequences]
    errors: list[tuple[frozenset[str], float]] = []
    measured: list[tuple[float, _Begun]] = []
    expected: list[tuple[float, _Begun]] = []
    for one, trial in zip(sequences, trials, strict=True):
        _, steps, after = one
        if trial is None:
            expected.append((math.log(time(after)), one))
        elif trial.latency and parent.latency:
            gain = math.log(trial.latency / parent.latency)
            errors.append((_techniques(steps), gain - math.log(time(after) / time(steps[0][1]))))
            measured.append((gain, one))
    expected = [(cost + _correction(_techniques(one[1]), errors), one) for cost, one in expected]
    return [one for _, one in (*_sorted(expected), *_sorted(measured))]


def _correction(
    techniques: frozenset[str], errors: Sequence[tuple[frozenset[str], float]]
) -> float:
    """The error of an estimate, as a logarithm, that the errors of similar sequences suggest."""
    total, weights = 0.0, _NO_ERROR
    for others, error in errors:
        alike = len(techniques & others) / len(techniques | others)
        total += alike * error
        weights += alike
    return total / weights


def _techniques(steps: Sequence[tuple[Step, Kernel]]) -> frozenset[str]:
    return frozenset(step.technique for step, _ in steps)


def _sorted(found: list[tuple[float, _Begun]]) -> list[tuple[float, _Begun]]:
    return sorted(found, key=lambda one: one[0])
