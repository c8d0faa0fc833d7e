"""Builder and Checker of tile targets keep their contracts; the Runner where there are tiles."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

import pytest

from tilewright.core.roles import Task
from tilewright.targets.amx import create_bf16_target, create_int8_target
from tilewright.targets.amx.elements import BF16, INT8
from tilewright.targets.amx.support import missing_feature
from tilewright.testing.evaluator import CheckerContract, EvaluatorContract, OpenTask

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="no C compiler for this machine"
)
TARGETS = {"int8": create_int8_target, "bf16": create_bf16_target}
SPEC = "gemm-16x16x64"


class Tiles:
    @pytest.fixture(params=sorted(TARGETS))
    def element(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def open_task(self, element: str) -> OpenTask:
        def open_task(settings: Mapping[str, object]) -> Task:
            return TARGETS[element]().open(SPEC, settings)

        return open_task

    @pytest.fixture
    def wrong(self, element: str) -> str:
        start = TARGETS[element]().open(SPEC, {}).start
        return start.replace("_tile_release();", "_tile_release();\n  C[0][0] = 2 * C[0][0] + 9;")


class TestCheckedTiles(Tiles, CheckerContract):
    """By emulation where the CPU has no tiles."""


@pytest.mark.skipif(
    bool(missing_feature(INT8) or missing_feature(BF16)), reason="this CPU has no tiles"
)
class TestTimedTiles(Tiles, EvaluatorContract):
    """Where kernels can be timed."""
