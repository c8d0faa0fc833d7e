"""Processes that have imported TVM fork those of all tests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tilewright.core.secrets import without_secrets
from tilewright.tuner.tvm import answering


@pytest.fixture(autouse=True)
def same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the tuner's processes is the same in all tests.

    pytest puts the name of the test into the environment. Processes are forked only from one that
    was started with the same environment, so each test would import TVM again.
    """

    def same(environment: Mapping[str, str]) -> dict[str, str]:
        found = without_secrets(environment)
        return {name: value for name, value in found.items() if name != "PYTEST_CURRENT_TEST"}

    monkeypatch.setattr(answering, "without_secrets", same)
