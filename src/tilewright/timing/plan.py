"""The plan of a timing comparison, which is stored with every measured result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilewright.core.errors import ConfigurationError

CacheState = Literal["warm", "cold"]


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """The numbers of calls, the state of the caches, and the conditions for a decision.

    `pairs`: number of timed calls of each variant; baseline and candidate are timed alternately.
    `warmups`: number of untimed calls of each variant before them (page faults, clock ramps, branch
    predictors).
    `cache`: "warm" leaves the operands in the caches between calls; "cold" evicts them before each
    call.
    `confidence`: confidence of the two-sided bootstrap interval of the ratio.
    `minimum_effect`: a smaller relative gain is never regarded as a speedup.
    `drift_limit`: a session decides nothing if the baseline changed by more than this fraction
    between its first and its last call.
    `sessions`: number of fresh sessions in which a winner is measured again.

    `benchmarks/timing_decisions.py` was run with the default values. Raises `ConfigurationError`
    for values out of range.
    """

    pairs: int = 40
    warmups: int = 3
    cache: CacheState = "warm"
    confidence: float = 0.98
    minimum_effect: float = 0.005
    drift_limit: float = 0.05
    sessions: int = 3

    def __post_init__(self) -> None:
        def refuse(name: str, value: object, expected: str) -> None:
            raise ConfigurationError(f"timing: {name} = {value} must be {expected}.")

        if self.pairs < 10:
            refuse("pairs", self.pairs, "at least 10, because fewer give no confidence interval")
        if self.warmups < 0:
            refuse("warmups", self.warmups, "0 or more")
        if self.cache not in ("warm", "cold"):
            refuse("cache", self.cache, "'warm' or 'cold'")
        if not 0.5 <= self.confidence < 1:
            refuse("confidence", self.confidence, "from 0.5 to below 1")
        if not 0 <= self.minimum_effect < 1:
            refuse("minimum_effect", self.minimum_effect, "from 0 to below 1")
        if not 0 < self.drift_limit < 1:
            refuse("drift_limit", self.drift_limit, "between 0 and 1")
        if self.sessions < 2:
            refuse("sessions", self.sessions, "at least 2")
