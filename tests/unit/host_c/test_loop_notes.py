"""Why GCC did not vectorise a loop, and what is said of the innermost loops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tilewright.core.compiled_code import CodeLoop
from tilewright.native.loop_notes import MOST_NOTES, loop_notes
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


def test_a_scalar_loop_is_told_with_its_reason() -> None:
    (note,) = loop_notes([LOOP], {9: "control flow in loop"})
    assert note == (
        "compiled loop at line 9: scalar, 7 instructions, not vectorised by gcc: "
        "control flow in loop"
    )


def test_a_vectorised_loop_is_told_with_its_spills_and_without_a_reason() -> None:
    loop = replace(
        LOOP, vector_bytes=64, instructions={"vector arithmetic": 4, "loads": 6}, spill_loads=3,
        straight=False,
    )  # fmt: skip
    (note,) = loop_notes([loop], {9: "control flow in loop"})
    assert note == (
        "compiled loop at line 9: 64-byte vectors, up to 10 instructions, 4 of them vector "
        "arithmetic, 3 spills to the stack"
    )


def test_of_several_loops_from_one_line_the_widest_is_told() -> None:
    wide = replace(LOOP, number=2, vector_bytes=64)
    outer = replace(LOOP, number=3, line=8, innermost=False)
    notes = loop_notes([LOOP, wide, outer], {})
    assert len(notes) == 1
    assert "64-byte" in notes[0]


def test_there_are_few_notes_of_the_deepest_loops_in_the_order_of_lines() -> None:
    loops = [replace(LOOP, number=n, line=n, depth=1 + n % 2) for n in range(1, 30)]
    notes = loop_notes(loops, {})
    assert len(notes) == MOST_NOTES
    assert [n.split(":")[0] for n in notes] == [
        f"compiled loop at line {n}" for n in (1, 3, 5, 7, 9, 11)
    ]
