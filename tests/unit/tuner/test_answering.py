"""The processes in which the tuner uses TVM."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.tuner.tvm import answering


class StartedError(Exception):
    """Ends the start of a process."""


def test_a_process_gets_its_variables_and_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_API_KEY", "secret")
    started: list[dict[str, Any]] = []

    def child(module: str, **options: Any) -> None:
        started.append(options)
        raise StartedError

    monkeypatch.setattr(answering, "Child", child)
    with pytest.raises(StartedError):
        answering.AnsweringProcess("tilewright.tuner.tvm.x", {"OWN": "1"}, {}).start()
    (options,) = started
    assert options["environment"]["OWN"] == "1"
    assert "TEST_API_KEY" not in options["environment"]
