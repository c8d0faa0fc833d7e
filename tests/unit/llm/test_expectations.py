"""Which speedup the EXPECTED line of a plan promises."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.core.records import Candidate, Failed, Measured, Trial, Verdict
from tilewright.proposers.llm.expectations import expected_gain

OUTCOME = Measured(75_326.0, "cycles", "simulated", 0.5, Verdict(()), {})
PARENT = Trial(0, 0, Candidate("x"), OUTCOME)


@pytest.mark.parametrize(
    ("text", "latency"),
    [
        ("from 75,326 to about 9,500 cycles", 9500),
        ("about 9500 cycles, because loads are shared", 9500),
        ("7,532.6 cycles", 7532.6),
        ("from 5,000 to 200 cycles of dma wait", None),
        ("500 cycles less", None),
        ("9,000-9,500 cycles", 9250),
        ("8,000 to 10,000 cycles in total", 9000),
        ("9,500 cycles (from 75,326)", 9500),
        ("9,500 cycles instead of 75,326", 9500),
        ("4,500 cycles before the first product, 3,000 of write steal", None),
        ("4,500 cycles of cpu, 2,000 of dma wait: 75,326 to about 9,500", 9500),
        ("4,500 cycles of cpu: 75,326 to about 9,000-10,000", 9500),
        ("from 75,326 down to 9,500", 9500),
        ("75,326 cycles -> 9,500 cycles", 9500),
        ("2,000 cycles saved of 75,326", None),
        ("from 75,326 to 62,500 - 17 % less", 62500),
        ("1275,326 to 9,500", None),
        ("0 cycles", None),
        ("much", None),
        ("", None),
    ],
)
def test_only_latencies_count(text: str, latency: float | None) -> None:
    wanted = None if latency is None else pytest.approx(75_326 / latency)
    assert expected_gain(text, PARENT) == wanted


@pytest.mark.parametrize(
    ("text", "latency"),
    [
        ("tile 64 to 128", None),
        ("64 to 128 rows in each tile", None),
        ("from 64 to 50 us", 50),
        ("64 us to 50 us", 50),
    ],
)
def test_short_numbers_are_latencies_only_with_a_unit_or_after_from(
    text: str, latency: float | None
) -> None:
    parent = replace(PARENT, outcome=replace(OUTCOME, latency=64.0, unit="us"))
    wanted = None if latency is None else pytest.approx(64 / latency)
    assert expected_gain(text, parent) == wanted


def test_a_kernel_that_was_not_measured_promises_nothing() -> None:
    failed = Trial(0, 0, Candidate("x"), Failed("measure", "timeout", ""))
    assert expected_gain("9,500 cycles", failed) is None
