"""`import tilewright`: what it offers, and how little it loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tilewright as tw


def test_every_public_name_is_there() -> None:
    assert sorted(tw.__all__) == list(tw.__all__)
    for name in tw.__all__:
        assert getattr(tw, name) is not None
        assert name in dir(tw)
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        _ = tw.optimise  # type: ignore[attr-defined]


def test_importing_loads_nothing_of_it() -> None:
    code = "import sys, tilewright; print([m for m in sys.modules if m.startswith('tilewright.')])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
