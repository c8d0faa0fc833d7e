"""Commands on registers are jammed by their declared effects alone."""

from __future__ import annotations

import numpy as np
import pytest
from chip_interpreter import Chip
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.core.records import CommandEffect
from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Command, Kernel, loops, statements
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.parsing.syntax import UnsupportedError
from tilewright.proposers.loops.planning.steps import TECHNIQUES, steps_of
from tilewright.proposers.loops.rewrites.interleave import interleave
from tilewright.proposers.loops.rewrites.order import block, exchange
from tilewright.proposers.loops.rewrites.registers import shared
from tilewright.proposers.loops.rewrites.stage import stage
from tilewright.proposers.loops.rewrites.unroll_and_jam import jam
from tilewright.proposers.loops.rewrites.vectorise import vectorise

COMMANDS = (
    CommandEffect("setup", ("dram_read",), "config"),
    CommandEffect("clear", ("register_write",), "execute"),
    CommandEffect("fetch", ("register_write", "dram_read", "row_stride_bytes"), "load"),
    CommandEffect("put", ("register_read", "dram_write", "row_stride_bytes"), "store"),
    CommandEffect("mul", ("register_update", "register_read", "register_read"), "execute"),
)
HEAD = """\
#include "chip.h"
static const struct shapes s = {.rows = {4, 4, 4, 4, 4, 4}, .bytes = {16, 16, 16, 16, 16, 16}};
"""
PRODUCT = """\
void kernel(const int8_t A[16][32], const int8_t B[8][16][4], int32_t C[16][16]) {
  setup(&s);
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 16; j += 4) {
      clear(0);
      for (int k = 0; k < 32; k += 16) {
        fetch(1, &A[i][k], 32);
        fetch(2, &B[k / 4][j][0], 64);
        mul(0, 1, 2);
      }
      put(0, &C[i][j], 64);
    }
  }
}
"""
PACKING = """\
void kernel(const int8_t A[16][32], const int8_t B[32][16], int32_t C[16][16]) {
  setup(&s);
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 16; j += 4) {
      clear(0);
      for (int k = 0; k < 32; k += 16) {
        fetch(1, &A[i][k], 32);
        int8_t packed[4][4][4];
        for (int r = 0; r < 16; r++) {
          for (int c = 0; c < 4; c++) packed[r / 4][c][r % 4] = B[k + r][j + c];
        }
        fetch(2, packed, 16);
        mul(0, 1, 2);
      }
      put(0, &C[i][j], 64);
    }
  }
}
"""


def read(source: str, head: str = HEAD) -> Kernel:
    return parse(head + source, COMMANDS, (4, 16))


def commands(kernel: Kernel, name: str) -> list[Command]:
    return [s for s in statements(kernel.body) if isinstance(s, Command) and s.name == name]


def test_text_and_form_are_one() -> None:
    kernel = read(PRODUCT)
    assert kernel.registers == 6
    assert parse(emit(kernel), COMMANDS, (4, 16)) == kernel


def test_copies_have_registers_of_their_own_and_share_equal_loads() -> None:
    kernel = jam(read(PRODUCT), 1, 2)
    assert len(commands(kernel, "mul")) == 2
    assert len(commands(kernel, "clear")) == 2
    assert len(commands(kernel, "fetch")) == 3  # A's block is the same for both
    assert "&C[i][j + 4]" in emit(kernel)
    accumulators = {str(m.arguments[0]) for m in commands(kernel, "mul")}
    assert len(accumulators) == 2


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("4, 4, 4, 4, 4, 4}", "4, 4, 4, 4, 4}", "does not describe"),
        ("      clear(0);\n", "", "comes from outside"),
        ("&C[i][j], 64", "&C[i][j], 128", "contiguous rows"),
        ("&C[i][j], 64", "&C[i][0], 64", "same elements"),
        ("j += 4", "j += 2", "same elements"),
        ("  }\n}\n", "  }\n  put(2, &C[0][0], 64);\n}\n", "used elsewhere"),
        ("int32_t C", "int8_t C", "contiguous rows"),
        ("      clear(0);\n", "      setup(&s);\n      clear(0);\n", "setup in the loop"),
    ],
)
def test_what_cannot_be_shown_is_not_jammed(old: str, new: str, why: str) -> None:
    source = HEAD + PRODUCT
    assert old in source
    with pytest.raises(NotApplicableError, match=why):
        jam(parse(source.replace(old, new), COMMANDS, (4, 16)), 1, 2)


def test_what_is_said_of_a_register_goes_with_it() -> None:
    head = HEAD.replace("{4, 4, 4, 4, 4, 4}", "{2, 2, 4, 4, 4, 4}")
    kernel = jam(read(PRODUCT, head), 0, 2)
    assert ".rows = {2, 2, 2, 2, 4, 4}" in kernel.head[-1]
    assert "clear(1)" in emit(kernel)
    assert "fetch(4, &B" in emit(kernel)


def test_equal_loads_of_registers_that_differ_are_both_kept() -> None:
    body = """\
void kernel(const int32_t C[16][16], int32_t D[16][16], int32_t E[16][16]) {
  fetch(0, &C[0][0], 64);
  fetch(1, &C[0][0], 64);
  put(0, &D[0][0], 64);
  put(1, &E[0][0], 64);
}
"""
    assert len(commands(shared(read(body)), "fetch")) == 1
    other = HEAD.replace("{4, 4, 4, 4, 4, 4}", "{4, 2, 4, 4, 4, 4}")
    assert len(commands(shared(read(body, other)), "fetch")) == 2


def test_loads_are_put_off_until_they_are_used() -> None:
    kernel = jam(read(PRODUCT), 1, 2)
    text = emit(interleave(kernel, 2))
    assert text.index("mul(0, 2, 3)") < text.index("fetch(4,") < text.index("mul(1, 2, 4)")
    with pytest.raises(NotApplicableError, match="just before"):
        interleave(interleave(kernel, 2), 2)


def test_blocks_stand_outside_the_loops_they_come_from() -> None:
    kernel = block(exchange(jam(read(PRODUCT), 1, 2), 0), 0, 2)
    assert [(loop.variable, loop.step) for loop in loops(kernel)] == [
        *(("i_1", 8), ("j", 8), ("i", 4), ("k", 16))
    ]


def test_staged_blocks_lie_without_gaps_and_are_filled_once() -> None:
    kernel = stage(read(PRODUCT), 2, 1)
    assert [p.sizes for p in kernel.scratch] == [(4, 2, 4, 16)]
    text = emit(kernel)
    assert "static _Alignas(64) int8_t B_1[4][2][4][16];" in text
    assert text.index("put(2, &B_1[j / 4][k / 16][0][0], 16)") < text.index("clear(0)")
    assert text.count("&B[") == 1
    with pytest.raises(NotApplicableError, match="neither an input"):
        stage(kernel, 4, 1)
    once = PRODUCT.replace("B[k / 4][j]", "B[k / 4][i - j]")
    with pytest.raises(NotApplicableError, match="loaded once"):
        stage(read(once), 2, 1)


STEPS = st.lists(st.tuples(st.sampled_from(TECHNIQUES), st.integers(0, 10**6)), max_size=8)


@settings(max_examples=60)
@given(st.sampled_from([PRODUCT, PACKING]), STEPS, st.booleans())
def test_any_sequence_of_steps_keeps_the_result(
    source: str, steps: list[tuple[str, int]], differ: bool
) -> None:
    head = HEAD.replace("4, 4, 4, 4, 4, 4", "2, 2, 4, 4, 4, 4") if differ else HEAD
    sizes = source.replace("i += 4", "i += 2") if differ else source
    start = kernel = read(sizes, head)
    for technique, choice in steps:
        found = list(steps_of(kernel, technique, 4))
        if found and len(loops(kernel)) < 12:
            kernel = found[choice % len(found)][1]
    assert parse(emit(kernel), COMMANDS, (4, 16)) == kernel
    assert (outputs_of(kernel)["C"] == outputs_of(start)["C"]).all(), emit(kernel)


def outputs_of(kernel: Kernel) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    arrays = {
        p.name: rng.integers(-99, 99, p.sizes).astype(p.type.removesuffix("_t"))
        for p in (*kernel.parameters, *kernel.scratch)
    }
    return Chip(kernel, arrays).run()


def test_more_registers_than_there_are_is_refused() -> None:
    with pytest.raises(NotApplicableError, match="9 registers are needed"):
        jam(read(PRODUCT), 1, 4)


def test_a_load_after_a_store_is_not_shared() -> None:
    body = """\
void kernel(const int32_t C[16][16], int32_t D[16][16], int32_t E[16][16]) {
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 16; j += 4) {
      fetch(0, &C[0][0], 64);
      put(0, &D[i][j], 64);
      fetch(1, &C[0][0], 64);
      put(1, &E[i][j], 64);
    }
  }
}
"""
    kernel = jam(read(body), 0, 2)
    assert [c.name for c in statements(kernel.body) if isinstance(c, Command)] == [
        *("fetch", "put", "put"),
        *("fetch", "put", "put"),
    ]


@pytest.mark.parametrize("between", ["at = at + 4;", "setup(&s);"])
def test_a_load_is_not_shared_when_its_place_or_the_setup_may_have_changed(between: str) -> None:
    body = f"""\
void kernel(const int32_t C[16][16], int32_t D[16][16], int32_t E[16][16]) {{
  int at = 0;
  fetch(0, &C[at][0], 64);
  {between}
  fetch(1, &C[at][0], 64);
  put(0, &D[0][0], 64);
  put(1, &E[0][0], 64);
}}
"""
    assert len(commands(shared(read(body)), "fetch")) == 2
    without = body.replace(f"  {between}\n", "")
    assert len(commands(shared(read(without)), "fetch")) == 1


def test_a_load_is_not_shared_with_one_before_a_loop_that_may_store() -> None:
    body = """\
void kernel(int32_t C[16][16], int32_t D[16][16]) {
  fetch(0, &C[0][0], 64);
  for (int i = 0; i < 16; i += 4) {
    clear(1);
    put(1, &C[i][0], 64);
  }
  fetch(2, &C[0][0], 64);
  put(0, &D[0][0], 64);
  put(2, &D[4][0], 64);
}
"""
    kernel = read(body)
    kept = shared(kernel)
    assert len(commands(kept, "fetch")) == 2
    assert (outputs_of(kept)["D"] == outputs_of(kernel)["D"]).all()


LOOKED_UP = """\
void kernel(const int32_t C[16][16], int32_t D[16][16], int32_t t[4]) {
  for (int i = 0; i < 4; i++) t[i] = 0;
  for (int i = 0; i < 4; i++) {
    t[i] = 3;
    for (int c = 0; c < 4; c += 4) {
      fetch(0, &C[t[3 - i]][c], 64);
      put(0, &D[4 * i][c], 64);
    }
  }
}
"""


def test_what_an_address_is_looked_up_in_is_read() -> None:
    with pytest.raises(NotApplicableError, match="same elements of t"):
        jam(read(LOOKED_UP), 1, 4)
    own = read(LOOKED_UP.replace("t[3 - i]", "t[i]"))
    assert (outputs_of(jam(own, 1, 4))["D"] == outputs_of(own)["D"]).all()


def test_what_may_change_is_not_staged() -> None:
    """Packed blocks of B are filled once; of an array that the kernel may write, they are not."""
    assert "packed_1" in emit(stage(read(PACKING), 2, 1))
    with pytest.raises(NotApplicableError, match="packed is computed from data that may change"):
        stage(read(PACKING.replace("const int8_t B", "int8_t B")), 2, 1)


def test_commands_are_not_vectorised_and_unknown_ones_refused() -> None:
    with pytest.raises(NotApplicableError):
        vectorise(read(PRODUCT.replace("j += 4", "j++")), 1, 4)
    with pytest.raises(UnsupportedError, match="explode"):
        read(PRODUCT.replace("clear(0)", "explode(0)"))


SWEEP = """\
void kernel(const int8_t B[8][16][4], int32_t C[64][16], int32_t D[16][16]) {
  setup(&s);
  fetch(2, &C[0][0], 64);
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 16; j += 4) {
      fetch(1, &B[i][j][0], 64);
      fetch(0, &C[i][j], 64);
      put(0, &C[i][j], 64);
    }
  }
  put(2, &D[0][0], 64);
}
"""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("fetch(1, &B[i][j][0]", "mul(0, 1, 1);\n      fetch(1, &B[0][j][0]", "from outside"),
        ("      fetch(1, &B[i]", "      setup(&s);\n      fetch(1, &B[0]", "all registers"),
    ],
    ids=["a register that was filled before", "a configuration"],
)
def test_nothing_is_copied_over_what_registers_hold(old: str, new: str, why: str) -> None:
    assert "B_1" in emit(stage(read(SWEEP.replace("&B[i]", "&B[0]")), 1, 0))
    with pytest.raises(NotApplicableError, match=why):
        stage(read(SWEEP.replace(old, new)), 1, 0)


def test_reads_across_other_iterations_rows_keep_loops_in_order() -> None:
    exchange(read(SWEEP), 0)
    with pytest.raises(NotApplicableError, match="fetch does not access contiguous rows of C"):
        exchange(read(SWEEP.replace("fetch(0, &C[i][j], 64)", "fetch(0, &C[i][j], 256)")), 0)
