"""Rules for timing kernels on real hardware, so that noise is not mistaken for a speedup.

All targets that measure latencies use these rules, in this order::

    with exclusive("cpu0"):                          # lock.py: one measurement per device
        session = measure_pairs(time_call, plan, seed)   # sessions.py: interleaved, random order
    comparison = compare(session, plan, seed)            # comparison.py: ratio, interval, decision
    confirmation = confirm(open_session, plan, seed)     # the winner again, in fresh runs

This package starts no process and calls no kernel. The target's function `time_call` does both.
"""

from __future__ import annotations

from tilewright.timing.comparison import Comparison, Confirmation, Decision, compare, confirm
from tilewright.timing.lock import exclusive
from tilewright.timing.plan import TimingPlan
from tilewright.timing.sessions import (
    CHECKED,
    Session,
    TimeCall,
    Variant,
    measure_pairs,
    share_checked,
)

__all__ = [
    "CHECKED",
    "Comparison",
    "Confirmation",
    "Decision",
    "Session",
    "TimeCall",
    "TimingPlan",
    "Variant",
    "compare",
    "confirm",
    "exclusive",
    "measure_pairs",
    "share_checked",
]
