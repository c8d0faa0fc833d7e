"""The times after which a worker that does not finish is killed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Self

from tilewright.core.records import Stage

GRACE_S = 15.0
"""Seconds that are added to the time-outs within a stage, which give a better message than killing
the worker.
"""
MOST_DISTRIBUTIONS = 16
"""Maximum number of distributions of inputs, each of which is used in at least one comparison."""
IN_TURN = 5
"""Number of measurements that a stage may have to wait for if only one runs at a time: those of
four workers and of a second evaluation.
"""


@dataclass(frozen=True, slots=True)
class StageTimeouts:
    """Seconds after which a worker is killed, for each stage. An `Allowance` counts them."""

    build: float
    check: float
    measure: float

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Self:
        """The time-outs for the settings `compile_timeout_s`, `simulation_timeout_s` and `checks`
        (defaults 20, 60, 3).
        """
        compile_s = float(str(settings.get("compile_timeout_s", 20.0)))
        simulation_s = float(str(settings.get("simulation_timeout_s", 60.0)))
        checks = max(MOST_DISTRIBUTIONS, int(str(settings.get("checks", 3))))
        return cls(
            compile_s + GRACE_S, simulation_s * checks + GRACE_S, simulation_s * IN_TURN + GRACE_S
        )

    def of(self, stage: Stage) -> float:
        """The seconds for this stage."""
        return {"build": self.build, "check": self.check, "measure": self.measure}[stage]


_CORES = os.cpu_count() or 1
MOST_BUSY = 20.0
"""Maximum factor by which a time-out is extended because of other work on the machine."""


def load() -> tuple[float, int]:
    """The number of processes that ran or waited for a core during the last minute, and the number
    of cores.
    """
    return os.getloadavg()[0], _CORES


def load_in_words() -> str:
    """The load and the number of cores as part of a sentence."""
    return "{:.1f} on {} cores".format(*load())


class Allowance:
    """Counts the seconds that work may take on an otherwise idle machine.

    While more processes want to run than the machine has cores, a second counts as less, so that
    other work does not end the evaluation of a kernel. For work on another machine, the load of
    this machine is used.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._used = 0.0
        self._looked = monotonic()

    def is_used(self) -> bool:
        """Whether the time is used up. Call it often, because each call uses the present load."""
        running, cores = load()
        now = monotonic()
        self._used += (now - self._looked) / min(MOST_BUSY, max(1.0, running / cores))
        self._looked = now
        return self._used >= self.seconds
