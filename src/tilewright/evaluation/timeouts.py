"""When a worker is killed that does not come to an end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
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
    """Seconds after which a worker is killed, by stage; an `Allowance` counts them."""

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


MOST_BUSY = 20.0
"""Times by which other work on the machine may lengthen a time-out at most."""


def load() -> tuple[float, int]:
    """Processes that ran or waited for a core during the last minute, and the number of cores."""
    return os.getloadavg()[0], os.cpu_count() or 1


def load_in_words() -> str:
    """The same as part of a sentence."""
    return "{:.1f} on {} cores".format(*load())


class Allowance:
    """Seconds that work may take on a machine of its own.

    A second counts for less while more processes want to run than the machine has cores, so that
    the work of others does not end a kernel's evaluation. Work for another machine is counted with
    the load of this one.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._used = 0.0
        self._looked = monotonic()

    def is_used(self) -> bool:
        """Whether the time is over; to be asked often, as it takes the load of that moment."""
        running, cores = load()
        now = monotonic()
        self._used += (now - self._looked) / min(MOST_BUSY, max(1.0, running / cores))
        self._looked = now
        return self._used >= self.seconds
