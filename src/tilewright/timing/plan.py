"""How a comparison is timed: a record that is stored beside every measured result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilewright.core.errors import ConfigurationError

CacheState = Literal["warm", "cold"]


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """How often, in which cache state, and what counts as a win.

    `pairs`: timed calls of each variant; baseline and candidate are timed side by side.
    `warmups`: untimed calls of each variant first (page faults, clock ramps, branch predictors).
    `cache`: "warm", operands as the previous call left them, or "cold", evicted before each call.
    `confidence`: of the two-sided bootstrap interval of the ratio.
    `minimum_effect`: a gain below this fraction is never a win, however certain it is.
    `drift_limit`: a session in which the baseline itself changed by more than this fraction from
    first to last call says nothing.
    `sessions`: fresh sessions in which a winner is measured again.

    The defaults are what `benchmarks/timing_decisions.py` was run with. Raises
    `ConfigurationError` for values out of range.
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
            refuse("pairs", self.pairs, "at least 10: fewer give no interval")
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
