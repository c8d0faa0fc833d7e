"""`#pragma GCC unroll` is kept before the loop for which it was written."""

from __future__ import annotations

import pytest

from tilewright.core.records import MenuOption
from tilewright.proposers.c.unroll_hints import as_attributes, as_pragmas, times
from tilewright.proposers.rewriter.canonical import canonical_text
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.ir import Loop, Opaque, same_kernel, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.full_sequences import whole_drafts
from tilewright.proposers.rewriter.planning.steps import Step, steps_for
from tilewright.proposers.rewriter.raising.raised import raised

SOURCE = """
static int8_t narrow(int32_t s) {
  for (;;)
    #pragma GCC unroll 2
    for (;;) return s;
}
void kernel(const int8_t A[32][48], const int8_t B[48][64], int8_t C[32][64]) {
  static int32_t sums[16][16];
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(48, 1.0f, 16, 0);
  config_ld(64, 1.0f, 16, 1);
  config_st(64);
#pragma GCC unroll 1
  for (int i = 0; i < 32; i += 16)
#  pragma GCC unroll 2 // tiles
    for (int j = 0; j < 64; j += 16) {
      #pragma GCC unroll 3
      for (int k = 0; k < 48; k += 16) {
        mvin(&A[i][k], SPAD(0), 16, 16);
        mvin2(&B[k][j], SPAD(64), 16, 16);
        preload(SPAD(64), k ? ACC(0) | ACCUMULATE : ACC(0), 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }
      mvout(&sums[0][0], ACC(0) | FULL, 16, 16);
      fence();
#pragma GCC unroll 4
      for (int y = 0; y < 16; y++)
#pragma GCC unroll 8
        for (int x = 0; x < 16; x++) C[i + y][j + x] = sums[y][x] OPERATION;
    }
  fence();
}
"""
KEPT = SOURCE.replace("OPERATION", "^ 3")


def test_hints_of_loops_are_printed_again(machine: Machine) -> None:
    kernel = lift(KEPT, machine)
    hints = [s.hint for s in walk(kernel.body) if isinstance(s, Loop)]
    assert hints == [1, 2, 3, 4, 8]
    assert not any("pragma" in s.text for s in walk(kernel.body) if isinstance(s, Opaque))
    lines = [line.strip() for line in emit(kernel).splitlines()]
    inner = lines.index("for (int x = 0; x < 16; x++) {")
    assert lines[inner - 3 : inner] == [
        "#pragma GCC unroll 4", "for (int y = 0; y < 16; y++) {", "#pragma GCC unroll 8",
    ]  # fmt: skip
    assert emit(lift(emit(kernel), machine)) == emit(kernel)


def test_hints_inside_of_text_are_kept(machine: Machine) -> None:
    counted = "for (int x = 0; x < 16; x++) C"
    source = KEPT.replace(counted, "for (int x = sums[0][0]; x < 16; x++) C")
    text = emit(lift(source, machine))
    assert text.count("#pragma GCC unroll 8\n") == 1
    assert "[[" not in text


def test_kernels_that_differ_in_a_hint_differ(machine: Machine) -> None:
    other = KEPT.replace("unroll 3", "unroll 1")
    assert canonical_text(KEPT, machine, str) != canonical_text(other, machine, str)


def test_hints_do_not_prevent_raising(machine: Machine) -> None:
    naive = raised(
        SOURCE.replace("OPERATION", "> 127 ? 127 : sums[y][x] < -128 ? -128 : sums[y][x]"), machine
    )
    assert not any(isinstance(s, Loop) and s.hint for s in walk(naive.body))


@pytest.mark.parametrize("line", ["#pragma GCC ivdep", "#pragma omp parallel", "int unroll = 4;"])
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert as_attributes(line) == line


def test_a_hint_is_an_attribute_while_a_kernel_is_read() -> None:
    assert times(as_attributes("#pragma GCC unroll 16")) == 16
    assert times("[[fallthrough]]") == 0
    assert as_pragmas(as_attributes(KEPT.replace(" // tiles", ""))).count("#pragma GCC unroll") == 6


def test_the_compiler_unrolls_innermost_loops_of_the_core(machine: Machine) -> None:
    plain = KEPT.replace("#pragma", "//").replace("#  pragma", "//")
    kernel = lift(plain, machine)
    steps = [str(s) for s in steps_for(kernel, machine, "unroll")]
    assert "unroll x 8" in steps
    assert not any(s.startswith(("unroll y", "unroll i", "unroll j")) for s in steps)
    after = Step.parse("unroll x 8").apply(kernel, machine)
    assert not same_kernel(kernel, after)
    assert estimate(after, machine).core < estimate(kernel, machine).core
    lines = [line.strip() for line in emit(after).splitlines()]
    assert lines[lines.index("#pragma GCC unroll 8") + 1] == "for (int x = 0; x < 16; x++) {"
    assert emit(after).count("#pragma") == 1


def test_complete_plans_unroll_loops_of_the_core(machine: Machine) -> None:
    menu = (MenuOption("unroll", "", technique="unroll"),)
    plain = lift(KEPT.replace("#pragma", "//").replace("#  pragma", "//"), machine)
    drafts = list(whole_drafts(plain, machine, menu, menu))
    assert drafts
    assert all("unroll x 8" in map(str, draft.steps) for draft in drafts)
    for draft in whole_drafts(lift(KEPT, machine), machine, menu, menu):
        assert "unroll x 8" not in map(str, draft.steps), "the author chose a number"
