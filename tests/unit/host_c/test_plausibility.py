"""What becomes of results above the machine's measured peak."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from tilewright.core.records import Failed
from tilewright.native.calls import TimedKernel
from tilewright.native.plausibility import (
    BATCH_CALLS,
    IMPLAUSIBLE,
    WAY_S,
    implausible,
    refuted_by_wall_clock,
    times_the_peak,
    wall_s,
)
from tilewright.targets.host_c.shapes import REGISTERED, fewer_products, parse_shape

GEMM = parse_shape("gemm-128x128x128").workload("host-c")
FOLDER = replace(GEMM, source="/home/somebody/kernel")


def kind(failed: Failed | None) -> str:
    return "none" if failed is None else failed.kind


def test_the_peak_is_that_of_multiply_adds() -> None:
    assert times_the_peak(GEMM, 1.0, 128.0**3) == 1.0


@pytest.mark.parametrize(
    ("excess", "registered", "folder"),
    [(IMPLAUSIBLE, "none", "none"), (IMPLAUSIBLE + 0.1, "invalid", "unconfirmed")],
)
def test_what_is_beyond_belief_is_no_result(excess: float, registered: str, folder: str) -> None:
    assert kind(implausible(GEMM, excess, "")) == registered
    assert kind(implausible(FOLDER, excess, "")) == folder
    assert implausible(GEMM, excess, "Winograd") is None


def test_only_convolutions_have_a_known_shortcut() -> None:
    found = {n: fewer_products(parse_shape(n).workload("host-c")) for n in REGISTERED}
    assert {n for n, shortcut in found.items() if shortcut} == {"conv-1x28x28x64x64-k3s1"}


@pytest.mark.parametrize(
    ("seconds", "refuted"), [(1e-3, False), (1.3e-3, False), (2e-3, True), (60e-3, True)]
)
def test_the_clock_on_the_wall_must_agree(seconds: float, refuted: bool) -> None:
    assert (refuted_by_wall_clock(1e-3, seconds, 1.5) is not None) == refuted
    assert refuted_by_wall_clock(1e-9, WAY_S, 1.5) is None


def test_the_batch_is_longer_and_some_of_its_outputs_are_compared() -> None:
    class Called:
        def __init__(self) -> None:
            self.last_wall_s, self.checks = 0.0, list[float]()

        def call(self, *, checked: float) -> float:
            self.checks.append(checked)
            self.last_wall_s = float(len(self.checks))
            return 1.0

    called = Called()
    assert wall_s(cast(TimedKernel, called)) == 100.5
    assert len(called.checks) == BATCH_CALLS
    assert set(called.checks) == {0.25}
