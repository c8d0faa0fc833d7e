"""What paid in this run so far: discounted Thompson sampling over the options of the menu.

Each option keeps how often plans on it beat their parent and by how much. To choose one, a success
rate is drawn from its Beta posterior and a mean gain from its Gamma posterior; the option with the
largest product is taken. So an option is tried as often as it may still be the best one. Trials
of earlier iterations count less: an option that paid at the start may have nothing left to do.

A pure function of the history and a random generator: a resumed run draws the same.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.core.records import History, Trial

DISCOUNT = 0.8
"""Factor by which the weight of a trial decreases with each later iteration."""
PRIOR_GAIN = 0.05
"""Logarithm of an assumed speedup, which counts as one trial of every option."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Discounted counts of an option: plans that paid and did not, and the sum of log speedups."""

    paid: float = 0.0
    failed: float = 0.0
    gain: float = 0.0

    def sampled_value(self, rng: random.Random) -> float:
        """A draw of the expected log speedup of one more plan."""
        rate = rng.betavariate(1.0 + self.paid, 1.0 + self.failed)
        mean = (PRIOR_GAIN + self.gain) / rng.gammavariate(2.0 + self.paid, 1.0)
        return rate * mean


def evidence(history: History) -> Mapping[str, Evidence]:
    """The evidence for every option of the menu that was tried in this run."""
    now = max((t.iteration for t in history), default=0)
    found: dict[str, Evidence] = {}
    for trial in history:
        plan = trial.candidate.plan
        if plan is None or plan.begins_anew or plan.is_instance:
            continue  # the plan discarded a schedule, or only numbers changed
        weight = DISCOUNT ** (now - trial.iteration)
        old, gain = found.get(plan.option, Evidence()), log_speedup(trial, history)
        found[plan.option] = Evidence(
            old.paid + weight * (gain > 0),
            old.failed + weight * (gain <= 0),
            old.gain + weight * max(0.0, gain),
        )
    return found


def log_speedup(trial: Trial, history: History) -> float:
    """Logarithm of a trial's speedup over its parent; 0 where one of them was not measured."""
    parent = history.get(trial.candidate.parent_id or "")
    if parent is None or not parent.latency or not trial.latency:
        return 0.0
    return math.log(parent.latency / trial.latency)
