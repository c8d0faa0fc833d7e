"""Which speedup the EXPECTED line of a plan promises."""

from __future__ import annotations

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
        ("0 cycles", None),
        ("much", None),
        ("", None),
    ],
)
def test_only_latencies_count(text: str, latency: float | None) -> None:
    wanted = None if latency is None else pytest.approx(75_326 / latency)
    assert expected_gain(text, PARENT) == wanted


def test_a_kernel_that_was_not_measured_promises_nothing() -> None:
    failed = Trial(0, 0, Candidate("x"), Failed("measure", "timeout", ""))
    assert expected_gain("9,500 cycles", failed) is None
