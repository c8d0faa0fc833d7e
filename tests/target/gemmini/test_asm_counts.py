"""What `asm` counts in loops of compiled kernels is what the simulator runs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Failed
from tilewright.core.tasks import open_task
from tilewright.targets.gemmini.toolchain import find_toolchain

try:
    find_toolchain()
except ToolchainMissingError as error:
    pytest.skip(str(error), allow_module_level=True)

FILE = Path(__file__).resolve().parents[3] / "benchmarks" / "asm_counts.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("asm_counts", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["asm_counts"] = module  # where its dataclass looks for itself
    spec.loader.exec_module(module)
    return module


KERNELS = ("gemmini:gemm-64x64x64 naive", "gemmini:gemm-64x64x64 library", "loops of 37",
           "loops of 9 and 189")  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_counts_are_those_of_the_simulator(benchmark: ModuleType, name: str) -> None:
    task, source, known = benchmark.kernels()[name]
    found = benchmark.compared(*benchmark.run(task, source), known)
    assert found.differences == ()
    assert found.loops


def test_a_wrong_count_is_noticed(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    task, source, known = benchmark.kernels()["loops of 37"]
    elf, result = benchmark.run(task, source)
    whole = benchmark.compiled_code

    def wrong(elf: bytes) -> CompiledCode:
        from dataclasses import replace

        code = whole(elf)
        loop = replace(code.loops[0], instructions={"arithmetic": code.loops[0].count + 1})
        return replace(code, loops=(loop,))  # type: ignore[no-any-return]

    monkeypatch.setattr(benchmark, "compiled_code", wrong)
    assert benchmark.compared(elf, result, known).differences


def test_a_kernels_loops_are_told_by_source_line() -> None:
    task = open_task("gemmini:gemm-64x64x64", {}).task
    code = task.code(task.start)  # type: ignore[attr-defined]
    assert isinstance(code, CompiledCode)
    loops = [number for number, text in enumerate(task.start.splitlines(), 1) if "for (" in text]
    assert {loop.line for loop in code.loops} <= set(loops)
    innermost = [loop for loop in code.loops if loop.innermost]
    assert innermost[0].instructions["commands"] >= 3
    assert "for each pair of preload and compute" in code.notes[0]
    failed = task.code("void kernel(")  # type: ignore[attr-defined]
    assert isinstance(failed, Failed)
