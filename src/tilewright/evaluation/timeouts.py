"""When a worker is killed that does not come to an end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tilewright.core.records import Stage

GRACE_S = 15.0
"""On top of a stage's own time-outs, which end a stage with a better message than a kill."""
MOST_DISTRIBUTIONS = 12
"""Of inputs: a task draws each in at least one comparison."""
IN_TURN = 5
"""Where measurements take turns, as many may have to end before a stage does: four workers' and a
second evaluation."""


@dataclass(frozen=True, slots=True)
class StageTimeouts:
    """Wall seconds after which a worker is killed, by stage."""

    build: float
    check: float
    measure: float

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Self:
        """From `compile_timeout_s`, `simulation_timeout_s` and `checks` (defaults 20, 60, 3)."""
        compile_s = float(str(settings.get("compile_timeout_s", 20.0)))
        simulation_s = float(str(settings.get("simulation_timeout_s", 60.0)))
        checks = max(MOST_DISTRIBUTIONS, int(str(settings.get("checks", 3))))
        return cls(
            compile_s + GRACE_S, simulation_s * checks + GRACE_S, simulation_s * IN_TURN + GRACE_S
        )

    def of(self, stage: Stage) -> float:
        """Seconds for this stage."""
        return {"build": self.build, "check": self.check, "measure": self.measure}[stage]
