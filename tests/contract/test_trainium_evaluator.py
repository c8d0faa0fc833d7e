"""The Builder, Checker and Runner of `trainium` keep their contracts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tilewright.core.roles import Task
from tilewright.targets.trainium import create_target
from tilewright.testing.evaluator import EvaluatorContract, OpenTask


class TestTrainiumEvaluator(EvaluatorContract):
    @pytest.fixture
    def open_task(self) -> OpenTask:
        def open_task(settings: Mapping[str, object]) -> Task:
            return create_target().open("rmsnorm-128x256", settings)

        return open_task

    @pytest.fixture
    def wrong(self) -> str:
        start = create_target().open("rmsnorm-128x256", {}).start
        assert "1.0 / C" in start
        return start.replace("1.0 / C", "1.1 / C")
