"""Why GCC did not vectorise a loop, and what is said of the innermost loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tilewright.core.compiled_code import CodeLoop
from tilewright.native.instruction_rates import InstructionRates, instruction_rates
from tilewright.native.loop_notes import CALLS, HEAD, MOST_TOLD, loop_notes
from tilewright.native.toolchain import find_toolchain
from tilewright.native.vectorizer import missed_reasons

MESSAGES = Path(__file__).parents[2] / "fixtures" / "machine_code" / "loops.vectorizer.txt"
"""What GCC 12.2 wrote of `loops.c` beside it with the flags of `native.vectorizer`."""

LOOP = CodeLoop(1, 9, 3, 2, True, True, 31, {"arithmetic": 5, "loads": 1, "branches": 1})


def test_the_first_attempts_reason_counts() -> None:
    """Those of later attempts, with narrower vectors, say that there are no such vectors."""
    found = missed_reasons(MESSAGES.read_text(), "kernel.c")
    assert found[14] == "control flow in loop"
    assert found[13] == "function is not vectorizable"
    assert found[9] == "single-element interleaving not supported for not adjacent vector loads"
    assert 12 not in found  # it was vectorised
    assert 3 not in found


def test_reasons_of_other_files_are_left_out() -> None:
    assert missed_reasons(MESSAGES.read_text(), "other.c") == {}
    assert missed_reasons("not a message\nkernel.c:9: missed", "kernel.c") == {}


def test_messages_in_terms_of_the_compiler_are_told_in_words() -> None:
    said = """\
kernel.c:4:5: missed: not vectorized: relevant phi not supported: s_1 = PHI <s_2(3), 0.0(2)>
kernel.c:4:5: missed: bad operation or unsupported loop bound.
kernel.c:4:5: missed: couldn't vectorize loop
"""
    (reason,) = missed_reasons(said, "kernel.c").values()
    assert reason.startswith("each iteration needs a value that the previous one computed")


def told(*loops: CodeLoop, reasons: Mapping[int, str] | None = None) -> str:
    note = loop_notes(loops, reasons or {})[0]
    assert note.startswith(f"{HEAD}: ")
    return note.removeprefix(f"{HEAD}: ")


def test_a_scalar_loop_is_told_with_its_reason() -> None:
    assert told(LOOP, reasons={9: "control flow in loop"}) == (
        "line 9: scalar, 7 instructions (gcc did not vectorise the loop: control flow in loop)."
    )
    assert told(LOOP) == "line 9: scalar, 7 instructions."


def test_a_vectorised_loop_is_told_with_its_work_and_spills_and_without_a_reason() -> None:
    """Which unit of the core limits a loop follows from these numbers."""
    loop = replace(
        LOOP,
        vector_bytes=64,
        instructions={
            "vector arithmetic": 9, "vector moves": 3, "loads": 5, "stores": 1, "calls": 1,
        },
        vector_work={"multiply-adds": 4, "shifts and logic": 3, "conversions": 1},
        reads=2,
        spill_loads=2,
        spill_stores=1,
        straight=False,
    )  # fmt: skip
    assert told(loop, reasons={9: "control flow in loop"}) == (
        "line 9: 64-byte vectors, up to 19 instructions (multiply-adds 4, shifts and logic 3, "
        "conversions 1, other vector arithmetic 1, shuffles and moves 3, loads 5, operands in "
        "memory 2, stores 1, calls 1, spills 3)."
    )
    kept = replace(loop, spill_loads=0, spill_stores=0, vector_work={}, instructions={"loads": 5})
    assert told(kept).endswith("5 instructions (loads 5, operands in memory 2, spills 0).")


def test_what_replaces_calls_is_said_once_if_a_loop_calls_functions() -> None:
    calling = replace(LOOP, instructions={"calls": 1})
    assert loop_notes([calling, replace(calling, line=12)], {})[1:] == (CALLS,)
    assert "`vector-functions`" in CALLS
    assert len(loop_notes([LOOP], {})) == 1


RATES = InstructionRates(64, 4e9, 0.97, 1.48, 1.0, 1.43, 1.96, 1.04, 0.49)


def test_with_measured_rates_the_limiting_instructions_and_the_clock_are_told() -> None:
    """So that a model can tell whether instructions or memory limit a loop."""
    loop = replace(
        LOOP,
        vector_bytes=64,
        instructions={"vector arithmetic": 9, "loads": 5, "stores": 1},
        vector_work={"multiply-adds": 4},
        reads=2,
        vector_reads=7,
        vector_writes=1,
        one_path=True,
    )
    (line,) = loop_notes([loop], {}, RATES)
    assert line.endswith("spills 0), which take at least 7 cycles because of the loads.")
    assert f"{RATES.in_words()}." == (
        "A cycle of this core takes 0.25 ns. In each cycle, the core starts at most this many "
        "instructions on vectors of 64 bytes (measured): multiply-adds 1, shifts and logic 1.5, "
        "conversions 1, shuffles 1.5, vector arithmetic 2, loads 1, stores 0.5."
    )
    of_numbers = replace(loop, vector_reads=0)  # rates of loads of single numbers are not known
    assert (
        "at least 4 cycles because of the vector arithmetic"
        in loop_notes([of_numbers], {}, RATES)[0]
    )
    many = replace(loop, vector_work={"multiply-adds": 9})
    assert "at least 9 cycles because of the multiply-adds" in loop_notes([many], {}, RATES)[0]
    narrower = replace(loop, vector_bytes=32)
    assert "at least" not in loop_notes([narrower], {}, RATES)[0]
    several_paths = replace(loop, straight=False, one_path=False)
    assert "at least" not in loop_notes([several_paths], {}, RATES)[0]
    assert loop_notes([LOOP], {}, RATES) == loop_notes([LOOP], {})


@pytest.mark.toolchain
def test_the_rates_of_this_machine_are_plausible() -> None:
    found = instruction_rates(find_toolchain())
    if found is None:
        pytest.skip("the machine code of this processor is not read")
    assert 5e8 < found.cycles_per_s < 1e10
    kinds = [f.name for f in fields(found)][2:]
    assert all(0.2 < getattr(found, kind) < 8 for kind in kinds), found


def test_of_several_loops_from_one_line_the_widest_is_told() -> None:
    wide = replace(LOOP, number=2, vector_bytes=64)
    outer = replace(LOOP, number=3, line=8, innermost=False)
    assert told(LOOP, wide, outer).startswith("line 9: 64-byte vectors, 7 instructions (loads 1,")


def test_few_loops_are_told_the_deepest_ones_first() -> None:
    """So that the main loop stands first, which alone is told of other kernels."""
    loops = [replace(LOOP, number=n, line=n, depth=1 + (n == 29) + n % 2) for n in range(1, 30)]
    found = told(*loops).split("; ")
    assert len(found) == MOST_TOLD
    assert [text.split()[1] for text in found] == ["29:", "1:", "3:", "5:", "7:", "9:"]


def test_nothing_is_told_of_a_kernel_without_loops() -> None:
    assert loop_notes([], {}) == ()
    assert loop_notes([replace(LOOP, line=None)], {}) == ()
