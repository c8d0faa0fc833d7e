"""Learns which options were useful in this run, by discounted Thompson sampling over the menu.

For each option, it is counted how often its plans were faster than their parents, and by how much.
To choose an option, a success rate is drawn from its Beta posterior and a mean gain from its Gamma
posterior, and the option with the largest product is chosen. Therefore, each option is chosen as
often as it is likely to be the best one. Trials of earlier iterations have less weight, because an
option that was useful at the beginning may no longer be so. The result depends only on the history
and the random generator, so a resumed run makes the same choices.
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
    """Discounted counts of an option: its plans that were faster and those that were not, and the
    sum of the logarithms of the speedups.
    """

    paid: float = 0.0
    failed: float = 0.0
    gain: float = 0.0

    def sampled_value(self, rng: random.Random) -> float:
        """A random draw of the expected logarithm of the speedup of another plan."""
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
    """Logarithm of a trial's speedup over its parent; 0 if one of them was not measured."""
    parent = history.get(trial.candidate.parent_id or "")
    if parent is None or not parent.latency or not trial.latency:
        return 0.0
    return math.log(parent.latency / trial.latency)
