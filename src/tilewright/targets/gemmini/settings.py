"""The settings of a run that determine how this target evaluates a candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from tilewright.core.errors import ConfigurationError, UnknownNameError
from tilewright.core.records import LatencyKind

LATENCY = LatencyKind("simulated", "cycles")

ORDERINGS = ("fence", "timing")
"""The conditions under which two accesses to the same memory are in order: only by a fence, or also
by the modelled timing.
"""


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """Inputs, limits and time-outs, which `from_mapping` reads from a run's settings.

    `input_seed` is the run's private seed, `checks` the number of functional comparisons before the
    timed one. `instructions_per_operation` limits the run of a candidate: more than 10 million
    instructions plus this number for each useful multiply-accumulate are a time-out. The default is
    sufficient for a starting kernel that multiplies on the CPU. With `ordering` "fence", every pair
    of DRAM accesses that a fence would have to order is a failure. With "timing", it is a failure
    only if the second access overtakes the first one in the timed run, and otherwise a warning.
    """

    input_seed: int = 0
    checks: int = 3
    compile_timeout_s: float = 20.0
    simulation_timeout_s: float = 60.0
    instructions_per_operation: float = 16.0
    ordering: str = "fence"

    @classmethod
    def from_mapping(cls, settings: Mapping[str, object]) -> Self:
        """The settings for the known keys; other keys belong to other parts of the run.

        `ordering` is a setting of this target only, in `target_settings`.
        """
        own = settings.get("target_settings", {})
        assert isinstance(own, Mapping)
        given = {**{k: v for k, v in settings.items() if k != "ordering"}, **own}
        known = {f.name: given[f.name] for f in fields(cls) if f.name in given}
        for name, value in known.items():
            if name != "ordering":
                _require_number(name, value, whole=name in ("input_seed", "checks"))
        chosen = cls(**known)
        if chosen.checks < 3:
            raise ConfigurationError(
                f"setting checks = {chosen.checks} is too few. Use 3 or more, so that values, "
                "saturation and sparse data are all compared."
            )
        if chosen.ordering not in ORDERINGS:
            raise UnknownNameError("ordering", str(chosen.ordering), ORDERINGS)
        return chosen


def _require_number(name: str, value: object, *, whole: bool) -> None:
    kind = "whole number" if whole else "positive number"
    good = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not good or (not whole and not float(value) > 0):  # type: ignore[arg-type]
        raise ConfigurationError(f"setting {name} = {value!r} must be a {kind}.")
