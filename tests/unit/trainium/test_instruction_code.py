"""The tool `asm` on NKI kernels: instructions of one iteration of each loop, by engine."""

from __future__ import annotations

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.records import Failed
from tilewright.targets.trainium import create_target
from tilewright.tools.assembly import assembly
from tilewright.tools.text import answer_text

KERNEL = """\
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(a, g):
    R, C = a.shape
    out = nl.ndarray((R, C), dtype=a.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range(R // 128):
        rows = nl.ndarray((128, C), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=a[r * 128 : (r + 1) * 128, :])
        for c in nl.affine_range(2):
            part = rows[:, c * C // 2 : (c + 1) * C // 2]
            nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[r * 128 : (r + 1) * 128, :], src=rows)
    return out
"""


def code_of(source: str) -> CompiledCode | Failed:
    return create_target().open("rmsnorm-512x256", {}).code(source)


def test_loops_have_the_instructions_of_one_iteration_by_engine() -> None:
    found = code_of(KERNEL)
    assert isinstance(found, CompiledCode), found
    outer, inner = found.loops
    assert (outer.line, outer.depth, outer.innermost, outer.inside) == (10, 1, False, None)
    assert (inner.line, inner.depth, inner.innermost, inner.inside) == (13, 2, True, 1)
    assert outer.instructions == {"DMA transfers": 2}
    assert inner.instructions == {"any engine": 1}
    assert found.instructions == 4 * (2 + 2)
    assert [line.line for line in outer.listing] == [12, 15, 15, 16]
    assert inner.listing[0].text == (
        "any tensor_scalar op0=multiply rows.sbuf[128x128] <- rows.sbuf[128x128]"
    )
    assert found.notes == (
        "all: 8 DMA transfers, 8 any engine",
        "loop 2: the smallest instruction works on 128 columns",
    )


def test_the_tool_tells_no_bytes_and_marks_no_lines_of_a_cache() -> None:
    found = code_of(KERNEL)
    assert isinstance(found, CompiledCode)
    told = answer_text(assembly(KERNEL, found, "loop 1"))
    assert "bytes" not in told
    assert "*" not in told
    assert "loop 1, by place in the trace and source line:\n   0 12: dma dma_copy rows" in told


def test_a_kernel_that_cannot_be_traced_says_why() -> None:
    broken = code_of(KERNEL.replace("nisa.tensor_scalar", "nisa.no_such_operation"))
    assert isinstance(broken, Failed)
    assert broken.line == 15
