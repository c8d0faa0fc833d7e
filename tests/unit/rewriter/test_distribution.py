"""Commands and code of the core in one loop become separate loops, if that changes nothing."""

from __future__ import annotations

import pytest

from tilewright.proposers.rewriter.analysis.core_functions import issuing, used_by
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.distribution import distributed
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.raised import raised


def strips(
    *, core: str = "O[i + y][x] = T[y][x] ^ T[x][y] ^ i;", rows: int = 16, start: str = "",
    before: str = "", after: str = "", function: str = "", local: str = "SPAD(0)", end: str = "",
) -> str:  # fmt: skip
    """For each strip of rows, a product that commands store to T, and code of the core."""
    return f"""
static int8_t T[16][16];
{function}
void kernel(const int8_t A[64][16], const int8_t B[16][16], int8_t O[64][16], int8_t C[64][16]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(16, 1.0f, 16, 0);
  config_st(16);
  {start}
  for (int i = 0; i < 64; i += 16) {{
    {before}
    mvin(&A[i][0], {local}, 16, 16);
    mvin(&B[0][0], SPAD(64), 16, 16);
    preload(SPAD(64), ACC(0), 16, 16, 16, 16);
    compute_preloaded({local}, NONE, 16, 16, 16, 16);
    mvout(&T[0][0], ACC(0), 16, {rows});
    fence();
    for (int y = 0; y < 16; y++)
      for (int x = 0; x < 16; x++) {{ {core} }}
    {after}
  }}
  fence();
  {end}
}}
"""


SECOND = (
    "mvin(&T[0][0], SPAD(128), 16, 16); preload(SPAD(64), ACC(16), 16, 16, 16, 16);"
    " compute_preloaded(SPAD(128), NONE, 16, 16, 16, 16); mvout(&C[i][0], ACC(16), 16, 16);"
    " fence();"
)


def test_each_iteration_gets_a_part_of_the_array(machine: Machine) -> None:
    text = emit(distributed(lift(strips(), machine), machine))
    assert "int8_t T_all[4][16][16]" in text
    assert "mvout(&T_all[i / 16][0][0], ACC(0), 16, 16);" in text
    assert "int8_t (*const T)[16] = T_all[(i - 0) / 16];" in text
    assert text.count("i < 64") == 2
    raised_text = emit(raised(strips(), machine))
    assert raised_text.index("mvout(&T_all[") < raised_text.index("(*const T)")


def test_commands_after_the_core_become_a_third_loop(machine: Machine) -> None:
    source = strips(core="T[y][x] ^= 3;", after=f"mvin(&B[0][0], SPAD(64), 16, 16); {SECOND}")
    text = emit(distributed(lift(source, machine), machine))
    assert text.count("i < 64") == 3
    assert "mvin(&T_all[i / 16][0][0], SPAD(128)" in text


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"rows": 15}, "not every iteration of a loop fills the array T"),
        ({"core": "C[i][0] += T[y][x] + O[y][x];", "after": SECOND}, "may change the array C"),
        ({"core": "O[i][x] = T[y][x] ^ sizeof(T);"}, "bound to its place"),
        ({"core": "O[i + y][x] = f(x, y);", "function": "int f(int x, int y) { return T[y][x]; }",
          "before": "O[0][0] = T[0][0] ^ 1;"}, "uses an array that commands move"),
        ({"before": "O[0][0] = T[0][0] ^ 1;"}, "at several places"),
        ({"start": "int8_t *out = &O[0][0];", "core": "out[y] = T[y][x] ^ i;"}, "of other code"),
        ({"core": "T[y][x] ^= 3;", "after": SECOND.replace("SPAD(64)", "SPAD(0)")},
         "depend on the order"),
        ({"core": "if (x == y) { O[i + y][x] = T[y][x] ^ 1; }", "before": "if (i == 16) {",
          "after": "}"}, "depend on the same condition"),
        ({"end": "for (int x = 0; x < 16; x++) C[0][x] = T[3][x] ^ 1;"}, "other code uses"),
        ({"end": "for (int x = 0; x < 16; x++) C[0][x] = f(x);",
          "function": "static int f(int x) { return T[3][x] > 5; }"}, "other code uses"),
        ({"end": "for (int x = 0; x < 16; x++) C[0][x] ^= LAST(x);",
          "function": "#define LAST(x) T[2][x]"}, "other code uses"),
        ({"end": "mvin(&T[0][0], SPAD(0), 16, 16);"}, "other code uses"),
        ({"start": "int8_t *q = &T[0][0];", "end": "C[0][0] = q[3] ^ 1;"}, "other code uses"),
        ({"end": "C[0][0] = q[3] ^ 1;", "function": "static int8_t *const q = &T[0][0];"},
         "other code uses"),
        ({"core": "O[i + y][x] = q[16 * x + y] ^ T[y][x];",
          "function": "static int8_t *const q = &T[0][0];"}, "uses an array that commands move"),
    ],
)  # fmt: skip
def test_what_iterations_may_share_is_not_separated(
    machine: Machine, given: dict[str, object], reason: str
) -> None:
    with pytest.raises(NotRaised, match=reason):
        distributed(lift(strips(**given), machine), machine)  # type: ignore[arg-type]


def test_names_in_comments_are_no_functions(machine: Machine) -> None:
    around = "/* averages rows (2x2) */\n// of T (a tile)\nint f(int x) { return g + h(x); }"
    assert {"rows", "T"}.isdisjoint(issuing(around, machine))
    assert used_by({"f", "k"}, around) == {"g", "h", "x"}
    around = "static int T[9], *const q = &T[2];\nint f(void) { int k = g; return k; }"
    assert used_by({"q", "k"}, around) == {"T"}
