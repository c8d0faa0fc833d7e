"""The Builder, Checker and Runner of `host-c` keep their contracts."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

import pytest

from tilewright.core.roles import Task
from tilewright.targets.host_c import create_target
from tilewright.testing.evaluator import EvaluatorContract, OpenTask


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
class TestHostEvaluator(EvaluatorContract):
    @pytest.fixture
    def open_task(self) -> OpenTask:
        def open_task(settings: Mapping[str, object]) -> Task:
            return create_target().open("softmax-16x64", settings)

        return open_task

    @pytest.fixture
    def wrong(self) -> str:
        return create_target().open("softmax-16x64", {}).start.replace("/ sum", "/ (sum * 1.01f)")
