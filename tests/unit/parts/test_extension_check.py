"""C++ code that was changed after it was compiled is reported instead of used."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tilewright.core.errors import ToolchainMissingError
from tilewright.parts.extension_check import require_current, source_hash
from tilewright.targets.gemmini.sim import _cosim
from tilewright.targets.trainium.latency import _schedule

TARGETS = Path(__file__).resolve().parents[3] / "src" / "tilewright" / "targets"


@pytest.mark.parametrize(
    ("module", "sources"), [(_cosim, "gemmini/sim/cpp"), (_schedule, "trainium/latency/cpp")]
)
def test_the_hash_is_the_one_that_cmake_computes(module: ModuleType, sources: str) -> None:
    assert source_hash(TARGETS / sources) == module.SOURCE_HASH


def test_a_changed_source_is_reported_with_the_command_that_compiles_it(tmp_path: Path) -> None:
    (tmp_path / "bindings.cpp").write_text("int x;\n")
    module = ModuleType("compiled")
    module.SOURCE_HASH = source_hash(tmp_path)  # type: ignore[attr-defined]
    require_current(module, tmp_path)
    (tmp_path / "bindings.cpp").write_text("int y;\n")
    with pytest.raises(ToolchainMissingError, match=r"changed since it was compiled.*`\./tw`"):
        require_current(module, tmp_path)


def test_a_package_without_sources_is_accepted(tmp_path: Path) -> None:
    module = ModuleType("compiled")
    module.SOURCE_HASH = "of a wheel"  # type: ignore[attr-defined]
    require_current(module, tmp_path / "cpp")
