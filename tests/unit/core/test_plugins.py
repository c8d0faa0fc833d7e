"""Entry points are read once, and again when something was installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core import plugins
from tilewright.core.plugins import is_target
from tilewright.testing import scripted


def test_a_target_installed_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_target("scripted")
    scripted.write_entry_point(tmp_path)
    assert is_target("scripted")
    monkeypatch.undo()
    assert not is_target("scripted")


def test_entry_points_are_not_read_again_without_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_target("gemmini")
    monkeypatch.setattr(plugins, "entry_points", lambda **_: pytest.fail("read again"))
    assert is_target("gemmini")
