from __future__ import annotations

import pytest

from tilewright.core.records import TargetBrief
from tilewright.proposers.rewriter.machine import Machine
from tilewright.targets.gemmini import create_target


@pytest.fixture(scope="session")
def target() -> TargetBrief:
    return create_target().brief()


@pytest.fixture(scope="session")
def machine(target: TargetBrief) -> Machine:
    return Machine.of(target)
