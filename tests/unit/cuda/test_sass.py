"""NVIDIA's machine code: read from a listing, its loops found; the disassembler where it is."""

from __future__ import annotations

import shutil

import pytest

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Failed
from tilewright.parts.machine_code.sass import read_nvdisasm
from tilewright.parts.machine_code.summary import summarized
from tilewright.targets.cuda import code as code_module
from tilewright.targets.cuda import create_target

LISTING = """\
\t.target\tsm_90
\t.section\t.text._Z1kPKfPfi,"ax",@progbits
        .size           _Z1kPKfPfi,(.L_x_5 - _Z1kPKfPfi)
_Z1kPKfPfi:
.text._Z1kPKfPfi:
\t//## File "/some/where/kernel.cu", line 5
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/               @P0 BRA `(.L_x_0) ;
.L_x_3:
\t//## File "/some/where/kernel.cu", line 6
        /*0020*/                   LDG.E.128 R6, desc[UR4][R6.64] ;
        /*0030*/                   STS [R5], R6 ;
        /*0040*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
.L_x_2:
\t//## File "/usr/include/mma.h", line 99 inlined at "/some/where/kernel.cu", line 8
\t//## File "/some/where/kernel.cu", line 8
        /*0050*/                   LDS R6, [R12] ;
        /*0060*/                   LDL.LU R7, [R1+0x4] ;
        /*0070*/                   FFMA R11, R6, R13, R11 ;
        /*0080*/                   HMMA.16816.F32 R4, R8, R2, R4 ;
        /*0090*/                   CALL.REL.NOINC `($_Z1kPKfPfi$_Z6helperf) ;
        /*00a0*/                   IADD3 R8, R8, 0x4, RZ ;
        /*00b0*/               @P0 BRA `(.L_x_2) ;
\t//## File "/some/where/kernel.cu", line 5
        /*00c0*/              @!P1 BRA `(.L_x_3) ;
.L_x_0:
\t//## File "/some/where/other.h", line 3
        /*00d0*/                   RED.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R11 ;
        /*00e0*/               @P2 EXIT ;
        /*00f0*/                   EXIT ;
$_Z1kPKfPfi$_Z6helperf:
\t//## File "/some/where/kernel.cu", line 1
        /*0100*/                   MUFU.EX2 R13, R11 ;
        /*0110*/                   RET.REL.NODEC R6 `(_Z1kPKfPfi) ;
.L_x_4:
        /*0120*/                   BRA `(.L_x_4);
        /*0130*/                   NOP;
.L_x_5:
\t.section\t.text._Z5otherv,"ax",@progbits
.text._Z5otherv:
        /*0000*/                   EXIT ;
"""


def test_sections_follow_one_another_and_what_never_runs_is_left_out() -> None:
    found = read_nvdisasm(LISTING, "kernel.cu", 0x1000)
    assert found.entries == (0x1000, 0x1140)
    assert [one.address for one in found.code] == [*range(0x1000, 0x1120, 16), 0x1140]
    assert found.code[-1].text == "EXIT"


def test_lines_are_those_of_the_kernel_also_where_code_was_inlined() -> None:
    found = read_nvdisasm(LISTING, "kernel.cu")
    assert found.lines[0x00] == 5
    assert found.lines[0x50] == 8
    assert 0xD0 not in found.lines


def test_loops_and_classes_of_instructions() -> None:
    read = read_nvdisasm(LISTING, "kernel.cu")
    found = summarized("SASS", read.code, read.entries, lambda at: [read.lines.get(a) for a in at])
    outer, inner = found.loops
    assert (outer.line, outer.depth, outer.innermost) == (5, 1, False)
    assert (inner.line, inner.depth, inner.innermost) == (8, 2, True)
    assert inner.instructions == {
        "loads": 2,
        "floating-point arithmetic": 1,
        "commands": 1,
        "calls": 1,
        "arithmetic": 1,
        "branches": 1,
    }
    assert (inner.spill_loads, inner.spill_stores) == (1, 0)
    assert inner.listing[-1].text == "@P0 BRA 0x50"


def test_an_exit_under_a_predicate_goes_on_and_an_atomic_reads_and_writes() -> None:
    at = {one.address: one for one in read_nvdisasm(LISTING, "kernel.cu").code}
    assert (at[0xE0].flow, at[0xF0].flow, at[0xC0].flow) == ("next", "end", "branch")
    assert (at[0xD0].kind, at[0xD0].reads, at[0xD0].writes) == ("stores", True, True)
    assert at[0x90].target == 0x100


def test_notes_tell_what_an_innermost_loop_computes_for_what_it_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(code_module, "_printed", lambda cubin: LISTING)
    found = code_module.compiled_code([b"", b""], "sm_90", "kernel.cu")
    assert [loop.number for loop in found.loops] == [1, 2, 3, 4]
    assert found.notes[0] == (
        "loop 2: 2 of 7 instructions compute on floats or on tensor cores; loads from shared "
        "memory: 1, from global memory: 0; accesses to spilled registers: 1"
    )
    assert found.listing[19].address == 0x150, "the second cubin follows the first"


def test_a_missing_disassembler_says_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    code_module._disassembler.cache_clear()
    monkeypatch.setattr(code_module, "_found", lambda: None)
    with pytest.raises(
        ToolchainMissingError, match=r"nvdisasm, which shows .* put nvdisasm on PATH"
    ):
        code_module.compiled_code([b""], "sm_90", "kernel.cu")


@pytest.mark.skipif(shutil.which("nvdisasm") is None, reason="nvdisasm is not on PATH")
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
def test_the_real_disassembler_shows_the_loop_of_a_starting_kernel() -> None:
    code_module._disassembler.cache_clear()
    task = create_target().open("gemm-64x64x64", {})
    found = task.code(task.start)
    assert isinstance(found, CompiledCode)
    lines = task.start.splitlines()
    assert any("for (" in lines[(loop.line or 1) - 1] for loop in found.loops)
    broken = task.code(task.start.replace("{", "{ nonsense ", 1))
    assert isinstance(broken, Failed)
