"""Commands on registers are jammed by their declared effects alone."""

from __future__ import annotations

import pytest

from tilewright.core.records import CommandEffect
from tilewright.proposers.loops.analysis import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Command, Kernel, statements
from tilewright.proposers.loops.parse import UnsupportedError, parse
from tilewright.proposers.loops.rewrites.jam import jam
from tilewright.proposers.loops.rewrites.registers import shared
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
        ("4, 4, 4, 4, 4, 4}", "4, 4, 4, 4, 4, 2}", "different shapes"),
        ("      clear(0);\n", "", "comes from outside"),
        ("&C[i][j], 64", "&C[i][j], 128", "does not write rows"),
        ("&C[i][j], 64", "&C[i][0], 64", "same elements"),
        ("j += 4", "j += 2", "same elements"),
        ("  setup(&s);\n", "  setup(&s);\n  clear(2);\n", "used elsewhere"),
        ("int32_t C", "int8_t C", "does not write rows"),
        ("      clear(0);\n", "      setup(&s);\n      clear(0);\n", "setup in the loop"),
    ],
)
def test_what_cannot_be_shown_is_not_jammed(old: str, new: str, why: str) -> None:
    source = HEAD + PRODUCT
    assert old in source
    with pytest.raises(NotApplicableError, match=why):
        jam(parse(source.replace(old, new), COMMANDS, (4, 16)), 1, 2)


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


def test_commands_are_not_vectorised_and_unknown_ones_refused() -> None:
    with pytest.raises(NotApplicableError):
        vectorise(read(PRODUCT.replace("j += 4", "j++")), 1, 4)
    with pytest.raises(UnsupportedError, match="explode"):
        read(PRODUCT.replace("clear(0)", "explode(0)"))
