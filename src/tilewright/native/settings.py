"""The settings of a run that determine how a native target evaluates a candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from tilewright.core.errors import ConfigurationError
from tilewright.core.records import LatencyKind

LATENCY = LatencyKind("measured", "ns")
"""The kind of the latencies of targets that measure."""


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """Inputs, checks and time-outs, which `from_mapping` reads from a run's settings.

    `simulation_timeout_s` limits the wall-clock time of a stage in which the kernel runs, or the
    CPU time of one run of an interpreted kernel. `sessions` is the number of sessions in which a
    kernel is timed, each in fresh processes and on fresh values.
    """

    input_seed: int = 0
    checks: int = 3
    compile_timeout_s: float = 20.0
    simulation_timeout_s: float = 60.0
    sessions: int = 1

    @classmethod
    def from_mapping(cls, settings: Mapping[str, object]) -> Self:
        """The settings for the known keys; other keys belong to other parts of the run."""
        known = {f.name: settings[f.name] for f in fields(cls) if f.name in settings}
        for name, value in known.items():
            whole = name in ("input_seed", "checks", "sessions")
            good = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
            if not good or (not whole and not float(value) > 0):  # type: ignore[arg-type]
                kind = "whole number" if whole else "positive number"
                raise ConfigurationError(f"setting {name} = {value!r} must be a {kind}.")
        chosen = cls(**known)  # type: ignore[arg-type]
        if chosen.checks < 3:
            raise ConfigurationError(
                f"setting checks = {chosen.checks} is too few. Use 3 or more, so that values, "
                "large magnitudes and sparse data are all compared."
            )
        return chosen
