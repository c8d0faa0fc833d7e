"""Machine code of compiled kernels, by the real compiler and disassembler."""

from __future__ import annotations

import shutil

import pytest

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Failed
from tilewright.native import disassembly
from tilewright.native.machine import processor
from tilewright.native.toolchain import Toolchain, compile_explained, find_toolchain

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or shutil.which("objdump") is None or not processor().vector_bytes,
    reason="no C compiler or no disassembler for x86-64",
)

SOURCE = """\
#include <math.h>
void kernel(const float *a, const float *b, float *restrict c) {
  for (int i = 0; i < 4096; i++)
    c[i] = a[i] * b[i];
  for (int i = 0; i < 4096; i++)
    c[i] = expf(c[i]);
  for (int i = 0; i < 64; i++)
    for (int j = 0; j < 64; j++) {
      volatile float *p = &c[i];
      *p += a[j];
    }
}
"""


@pytest.fixture
def gcc(monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    monkeypatch.setenv("CC", "gcc")
    find_toolchain.cache_clear()
    found = find_toolchain()
    find_toolchain.cache_clear()
    return found


def code_of(source: str, toolchain: Toolchain) -> CompiledCode:
    built = compile_explained(toolchain, source, 60.0, {})
    assert not isinstance(built, Failed)
    return disassembly.compiled_code(built[0], 1, "kernel.c", built[1])


def test_loops_reasons_and_calls_are_told_by_source_line(gcc: Toolchain) -> None:
    code = code_of(SOURCE, gcc)
    product = max((at for at in code.loops if at.line == 3), key=lambda loop: loop.vector_bytes)
    assert product.vector_bytes >= 16
    assert product.instructions["vector arithmetic"] >= 1
    (called,) = (loop for loop in code.loops if loop.line == 5)
    assert called.instructions["calls"] == 1
    assert any("expf" in one.text and one.line == 6 for one in called.listing)
    inner = [loop for loop in code.loops if loop.depth == 2]
    assert [loop.line for loop in inner] == [8]
    assert not inner[0].vector_bytes
    notes, advice = code.notes
    assert "`vector-functions`" in advice
    assert f"line 3: {product.vector_bytes}-byte vectors" in notes
    assert "line 5: scalar" in notes
    assert "gcc did not vectorise the loop: function is not vectorizable" in notes


def test_a_missing_disassembler_is_told(gcc: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembly, "OBJDUMP", "no-such-program")
    disassembly._objdump.cache_clear()
    with pytest.raises(ToolchainMissingError, match="no-such-program, which shows machine code"):
        code_of(SOURCE, gcc)
    disassembly._objdump.cache_clear()
