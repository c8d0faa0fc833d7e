from __future__ import annotations

from pathlib import Path

import pytest

import tilewright.targets.gemmini
from tilewright.targets.gemmini.sim import SimConfig, load_config


@pytest.fixture(scope="session")
def config() -> SimConfig:
    return load_config(Path(tilewright.targets.gemmini.__file__).parent / "target.toml")
