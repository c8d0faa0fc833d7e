"""Which source lines a profile shows."""

from __future__ import annotations

from tilewright.tools.profile_text import profile_text
from tilewright.tools.records import Profiled, ProfiledLine


def test_lines_with_little_time_are_shown_only_if_they_have_counters_of_their_own() -> None:
    lines = (
        ProfiledLine(1, "slow", {"cpu": 900.0, "instructions": 9.0}),
        ProfiledLine(2, "loop", {"cpu": 0.1, "instructions": 9.0, "mispredictions": 3.0}),
        ProfiledLine(3, "fast", {"cpu": 0.1, "instructions": 9.0}),
    )
    profiled = Profiled("k", 1000.0, "cycles", "simulated", {"cpu": 1000.0}, {}, lines, "")
    text = "\n".join(profile_text(profiled))
    assert "1: cpu 900, instructions 9 | slow" in text
    assert "2: instructions 9, mispredictions 3 | loop" in text
    assert "fast" not in text
    assert "and 1 line with less" in text
