"""Where a step that took too long is said to have been."""

from __future__ import annotations

import json

import pytest

from tilewright.search.step_limit import place_of


def read_settings() -> None:
    json.loads("{")


def test_the_place_is_the_innermost_function_outside_the_standard_library() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        read_settings()
    assert place_of(caught.value) == "test_step_limit.read_settings"
