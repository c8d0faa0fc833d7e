from __future__ import annotations

import pytest

from tilewright.core.records import Candidate, History, Measured, Trial, Verdict
from tilewright.search.near_bound import near_bound


def history(latency: float, bound: float | None) -> History:
    outcome = Measured(latency, "cycles", "simulated", 0.9, Verdict(()), bound=bound)
    return History([Trial(0, 0, Candidate("kernel"), outcome)])


@pytest.mark.parametrize(
    ("latency", "bound", "share", "stops"),
    [
        (1010.0, 1000.0, 0.01, True),
        (1011.0, 1000.0, 0.01, False),
        (1000.0, 1000.0, 0.0, False),
        (1000.0, None, 0.01, False),
        (700.0, 1000.0, 0.01, False),  # the bound is wrong
    ],
)
def test_a_search_is_over_near_the_bound(
    latency: float, bound: float | None, share: float, stops: bool
) -> None:
    reason = near_bound(history(latency, bound), share)
    assert (reason is not None) == stops
    if reason:
        assert reason == (
            "the best kernel is 1.00 % above the bound of 1,000 cycles, and "
            "--stop-within ends the search at 1 %"
        )


def test_nothing_measured_is_never_near() -> None:
    assert near_bound(History(), 0.01) is None
