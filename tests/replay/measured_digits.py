"""The toy kernel as an installed target whose latencies are measured on a device.

`write_entry_points(folder, model)` installs it for machines with this model of the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cluster_digits import DigitsEvaluator, package, write_package

from tilewright.core.records import (
    Artifact,
    Failed,
    LatencyKind,
    Measured,
    TargetBrief,
    Verdict,
)
from tilewright.core.roles import NOTHING_CHECKED, Builder, Checker, Runner
from tilewright.testing.toy import ToyTarget, ToyTask, digits_of

LATENCY = LatencyKind("measured", "ns")


class MeasuredDigits(DigitsEvaluator):
    """Measures eleven samples, whose spread is 1 %. Kernels with the digit 4 are wrong."""

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        if 4 in digits_of(artifact.binary.decode()):
            return Failed("check", "wrong_result", "a digit is 4")
        return super().check(artifact, passed)

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        found = super().measure(artifact, verdict, limit_latency)
        if isinstance(found, Failed):
            return found
        samples = tuple(found.latency * (1 + 0.001 * n) for n in range(-5, 6))
        return replace(
            found,
            unit=LATENCY.unit,
            quantity=LATENCY.quantity,
            samples={"session 1 candidate": samples},
        )


class MeasuredTask(ToyTask):
    @property
    def evaluator(self) -> tuple[Builder, Checker, Runner]:
        evaluator = MeasuredDigits()
        return evaluator, evaluator, evaluator


class MeasuredTarget(ToyTarget):
    def __init__(self, model: str) -> None:
        self.model = model

    @property
    def resource(self) -> str:
        return f"toy-device:{self.model}"

    @property
    def model_versions(self) -> frozenset[str]:
        return frozenset({"model"})

    def versions(self) -> Mapping[str, str]:
        return {**super().versions(), "model": self.model}

    def brief(self) -> TargetBrief:
        return replace(super().brief(), latency=LATENCY)

    def open(self, spec: str, settings: Mapping[str, object]) -> MeasuredTask:
        return MeasuredTask()


def create_target() -> MeasuredTarget:
    """The target of the machine on which this process seems to be."""
    return MeasuredTarget((package() / "model").read_text())


def write_entry_points(folder: Path, model: str) -> None:
    write_package(folder, __name__)
    (package([str(folder)]) / "model").write_text(model)
