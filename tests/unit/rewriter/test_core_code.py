"""Code of the core between commands is raised: sums with a bias within bounds, and copies."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.data import (
    WITH_DATA,
    Data,
    Element,
    Undecided,
    chosen,
    narrowed,
    values,
)
from tilewright.proposers.rewriter.raising.execute import NotRaised, executed
from tilewright.proposers.rewriter.raising.flow import computation
from tilewright.proposers.rewriter.raising.raised import raised

LIMITED = """int32_t v = sums[y][x] + bias[j + x];
        if (v < 0) v = 0;
        if (v > 127) v = 127;
        C[i + y][j + x] = (int8_t)v;"""


def product(
    finish: str = LIMITED, *, before: str = "", after: str = "", left: str = "A", start: str = "",
    stored: str = "&sums[0][0]", columns: int = 16,
) -> str:  # fmt: skip
    """`C = A * B`, a tile at a time; the core finishes each tile from its sums."""
    core = f"""
      for (int y = 0; y < 16; y++)
        for (int x = 0; x < {columns}; x++) {{
        {finish}
      }}"""
    return f"""
void kernel(const int8_t A[32][48], const int8_t B[48][64], const int32_t bias[64],
            int8_t C[32][64]) {{
  static int32_t sums[16][16];
  static int8_t T[32][48];
  {start}
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(48, 1.0f, 16, 0);
  config_ld(64, 1.0f, 16, 1);
  config_st(64);
  for (int i = 0; i < 32; i += 16)
    for (int j = 0; j < 64; j += 16) {{
      mvin(0, ACC(0), 16, 16);
      for (int k = 0; k < 48; k += 16) {{
        mvin(&{left}[i][k], SPAD(0), 16, 16);
        mvin2(&B[k][j], SPAD(64), 16, 16);
        preload(SPAD(64), ACC(0) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }}
      {before}
      mvout({stored}, ACC(0) | FULL, 16, 16);
      fence();
      {after}
      {core if finish else ""}
    }}
  fence();
}}
"""


COMMANDS = """
void kernel(const int8_t A[32][48], const int8_t B[48][64], const int32_t bias[64],
            int8_t C[32][64]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(48, 1.0f, 16, 0);
  config_ld(64, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  config_st(64, 1.0f, RELU);
  for (int i = 0; i < 32; i += 16)
    for (int j = 0; j < 64; j += 16) {
      mvin3(&bias[j], ACC(0), 16, 16);
      for (int k = 0; k < 48; k += 16) {
        mvin(&A[i][k], SPAD(0), 16, 16);
        mvin2(&B[k][j], SPAD(64), 16, 16);
        preload(SPAD(64), ACC(0) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }
      mvout(&C[i][j], ACC(0), 16, 16);
    }
  fence();
}
"""


def body(source: str, machine: Machine) -> str:
    """The raised nest, without the arrays that the kernel declares."""
    text = emit(raised(source, machine))
    return text[text.index("config_ex") :]


@pytest.mark.parametrize(
    "finish",
    [
        LIMITED,
        "int32_t v = bias[j + x]; v += sums[y][x]; v = v <= 0 ? 0 : v; "
        "C[i + y][j + x] = v >= 128 ? 127 : v;",
        "int v = 0; v += sums[y][x] + bias[j + x]; if (v > 127) v = 127; else if (v < 0) v = 0; "
        "C[i + y][j + x] = v;",
        "int32_t v = sums[y][x] + bias[j + x]; C[i + y][j + x] = 127 < v ? 127 : (v < 1 ? 0 : v);",
    ],
)
def test_bias_and_limits_of_the_core_are_those_of_stores(machine: Machine, finish: str) -> None:
    assert body(product(finish), machine) == body(COMMANDS, machine)


def test_the_whole_range_of_a_store_has_no_activation(machine: Machine) -> None:
    text = body(product(LIMITED.replace("v < 0) v = 0", "v < -128) v = -128")), machine)
    assert text == body(COMMANDS.replace("RELU", "NO_ACTIVATION"), machine)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"finish": LIMITED.replace("sums[y][x]", "(sums[y][x] >> 1)")}, "different sums"),
        ({"finish": LIMITED.replace("127", "126")}, "no setting of a store"),
        ({"finish": LIMITED.replace("v < 0) v = 0", "v < 0) v = 5")}, "no setting of a store"),
        ({"finish": LIMITED.replace("bias[j + x]", "(int64_t)bias[j + x]")}, "more than 32 bits"),
        ({"finish": "C[i + y][j + x] = (int8_t)(sums[y][x] + bias[j + x]);"}, "no setting of"),
        ({"finish": LIMITED.replace("v < 0", "(int8_t)v < 0")}, "no setting of a store"),
        ({"finish": LIMITED.replace("= sums", "= (int8_t)sums")}, "different sums"),
        (
            {"finish": "int v = (int8_t)sums[y][x]; v = v < -128 ? -128 : v; "
             "C[i + y][j + x] = v > 127 ? 127 : v;"},
            "no setting of a store",
        ),
        ({"finish": LIMITED.replace("bias[j + x]", "A[i + y][x]")}, "type differs"),
        ({"finish": LIMITED.replace("bias[j + x]", "sums[x][y]")}, "a complete sum"),
        ({"finish": LIMITED, "columns": 15}, "only a part of a row"),
        (
            {
                "finish": LIMITED,
                "after": "int32_t w = sums[0][0]; mvout(&sums[0][0], ACC(0) | FULL, 16, 16); "
                "fence(); C[i][j] = w < 0 ? 0 : w > 127 ? 127 : w;",
            },
            "was overwritten before",
        ),
        (
            {"finish": LIMITED, "before": "mvout(&C[i][j], ACC(0), 16, 16);"},
            "both the core and commands store",
        ),
        (
            {"finish": LIMITED, "after": "mvin3(&sums[0][0], ACC(64), 16, 16);"},
            "both the core and commands use the array sums",
        ),
    ],
)  # fmt: skip
def test_what_stores_cannot_do_is_refused(
    machine: Machine, given: dict[str, object], reason: str
) -> None:
    with pytest.raises(NotRaised, match=reason):
        computation(executed(product(**given), machine, data=True), machine)  # type: ignore[arg-type]


def transposing(copy: str) -> str:
    """The core copies A to T, which the commands load as the left operand."""
    return (
        COMMANDS.replace("const int8_t A[32][48]", "const int8_t A[48][32]")
        .replace("&A[i][k]", "&T[i][k]")
        .replace(
            "  config_ex",
            "  static int8_t T[32][48];\n  for (int m = 0; m < 32; m++)\n"
            f"    for (int n = 0; n < 48; n++) {{ {copy} }}\n  config_ex",
            1,
        )
    )


def test_operands_that_the_core_transposes_are_transposed_by_the_array(machine: Machine) -> None:
    by_array = (
        COMMANDS.replace("const int8_t A[32][48]", "const int8_t A[48][32]")
        .replace("NO_ACTIVATION, 1, 0, 0", "NO_ACTIVATION, 1, 1, 0")
        .replace("config_ld(48", "config_ld(32")
        .replace("&A[i][k]", "&A[k][i]")
    )
    assert body(transposing("T[m][n] = A[n][m];"), machine) == body(by_array, machine)


def test_second_operands_that_the_core_transposes(machine: Machine) -> None:
    given = COMMANDS.replace("int8_t B[48][64]", "int8_t B[64][48]")
    by_core = given.replace("&B[k][j]", "&T[k][j]").replace(
        "  config_ex",
        "  static int8_t T[48][64];\n  for (int m = 0; m < 48; m++)\n"
        "    for (int n = 0; n < 64; n++) T[m][n] = B[n][m];\n  config_ex",
    )
    by_array = (
        given.replace("NO_ACTIVATION, 1, 0, 0", "NO_ACTIVATION, 1, 0, 1")
        .replace("config_ld(64", "config_ld(48")
        .replace("&B[k][j]", "&B[j][k]")
    )
    assert body(by_core, machine) == body(by_array, machine)


def test_only_one_operand_is_transposed(machine: Machine) -> None:
    both = (
        transposing("T[m][n] = A[n][m];")
        .replace("int8_t B[48][64]", "int8_t B[64][48]")
        .replace("&B[k][j]", "&U[k][j]")
        .replace(
            "  config_ex",
            "  static int8_t U[48][64];\n  for (int m = 0; m < 48; m++)\n"
            "    for (int n = 0; n < 64; n++) U[m][n] = B[n][m];\n  config_ex",
        )
    )
    found = emit(raised(both, machine))
    assert "= A[" in found, "the core still transposes both"
    assert "= B[" in found


@pytest.mark.parametrize(
    ("copy", "reason"),
    [
        ("T[m][n] = n < 8 ? A[n][m] : A[n - 8][m];", "uneven distances"),
        ("T[m][n] = A[n][m] < 0 ? 0 : A[n][m];", "uses no result of a product"),
        ("T[m][n] = C[m][n];", "to which no command stored a result"),
    ],
)
def test_other_copies_stay_as_they_are(machine: Machine, copy: str, reason: str) -> None:
    source = transposing(copy)
    with pytest.raises(NotRaised, match=reason):
        computation(executed(source, machine, data=True), machine)
    assert "T[m][n] =" in emit(raised(source, machine))


COMMANDS_END = "  fence();\n}"
CLEAR_RESULT, CLEAR_INPUT = "memset(C, 0, 32 * 64);", "memset((void *)B, 0, 24 * 64);"


@pytest.mark.parametrize(
    ("source", "call"),
    [
        (COMMANDS.replace(COMMANDS_END, f"  fence();\n  {CLEAR_RESULT}\n}}"), CLEAR_RESULT),
        (COMMANDS.replace("  config_ex", f"  {CLEAR_RESULT}\n  config_ex"), CLEAR_RESULT),
        (
            COMMANDS.replace("  config_ex", f"  {CLEAR_RESULT}\n  config_ex").replace(
                "j < 64", "j < 32"
            ),
            CLEAR_RESULT,
        ),
        (COMMANDS.replace(COMMANDS_END, "  fence();\n  memset(&C[3][5], 0, 7);\n}"), "&C[3][5]"),
        (COMMANDS.replace("  config_ex", f"  {CLEAR_INPUT}\n  config_ex"), CLEAR_INPUT),
    ],
)
def test_arguments_that_the_core_clears_are_still_cleared(
    machine: Machine, source: str, call: str
) -> None:
    assert call in source
    with pytest.raises(NotRaised, match="the core writes an array element"):
        executed(source, machine, data=True)
    assert call in emit(raised(source, machine))


def test_structures_that_the_core_stores_to_arguments_are_not_omitted(machine: Machine) -> None:
    stored = "typedef struct { int8_t x, y; } Pair;" + COMMANDS.replace(
        COMMANDS_END, "  fence();\n  Pair p = {1, 2};\n  *(Pair *)&C[0][0] = p;\n}"
    )
    for data in (False, True):
        with pytest.raises(NotRaised, match="the core writes an array element"):
            executed(stored, machine, data=data)


def gathering(copy: str, *, static: str = "static", start: str = "") -> str:
    """The core writes the left operand T from elements of a wider A."""
    return (
        COMMANDS.replace("A[32][48]", "A[32][64]")
        .replace("&A[i][k]", "&T[i][k]")
        .replace(
            "  config_ex",
            f"  {static} int8_t T[32][48];\n  {start}\n  for (int m = 0; m < 32; m++)\n"
            f"    for (int n = 0; n < 48; n++) {{ {copy} }}\n  config_ex",
            1,
        )
    )


def test_rows_that_the_core_gathers_from_several_places(machine: Machine) -> None:
    in_parts = (
        COMMANDS.replace("A[32][48]", "A[32][64]")
        .replace("config_ld(48", "config_ld(64")
        .replace("k += 16", "k += 8")
        .replace("mvin(&A[i][k], SPAD(0), 16, 16)", "mvin(&A[i][k + k / 24 * 8], SPAD(0), 8, 16)")
        .replace("SPAD(64), 16, 16)", "SPAD(64), 16, 8)")
        .replace(
            "preload(SPAD(64), ACC(0) | ACCUMULATE, 16, 16,",
            "preload(SPAD(64), ACC(0) | ACCUMULATE, 16, 8,",
        )
        .replace("compute_preloaded(SPAD(0), NONE, 16,", "compute_preloaded(SPAD(0), NONE, 8,")
    )
    gathered = gathering("T[m][n] = A[m][n + n / 24 * 8];")
    assert body(gathered, machine) == body(in_parts, machine)


def test_elements_that_the_core_leaves_at_zero_need_no_product(machine: Machine) -> None:
    inside = "n >= 5 && n < 45 && m != 3"
    chosen_zero = gathering(f"T[m][n] = {inside} ? A[m][n] : 0;")
    found = body(chosen_zero, machine)
    assert "mvin(&A[" in found
    assert "T[" not in found
    assert body(gathering(f"if ({inside}) T[m][n] = A[m][n];"), machine) == found
    cleared = gathering(f"if ({inside}) T[m][n] = A[m][n];", start="memset(T, 0, sizeof(T));")
    assert body(cleared, machine) == found


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"copy": "if (n >= 16) T[m][n] = A[m][n];", "static": ""}, "neither a command nor"),
        ({"copy": "T[m][n] = A[m][n];", "start": "memset(T, 1, sizeof(T));"}, "other than zero"),
        ({"copy": "T[m][n] = n % 16 == 3 ? 7 : A[m][n];"}, "also the core uses the array T"),
        ({"copy": "T[m][n] = A[m][n * 5 % 48];"}, "uneven distances"),
    ],
)
def test_rows_that_are_not_gathered(machine: Machine, given: dict[str, str], reason: str) -> None:
    source = gathering(**given)
    with pytest.raises(NotRaised, match=reason):
        computation(executed(source, machine, data=True), machine)


def test_limits_of_integer_types_are_known(machine: Machine) -> None:
    named = LIMITED.replace("127", "INT8_MAX")
    assert body(product(named), machine) == body(product(), machine)


def with_copied_bias(change: str) -> str:
    """The core copies the bias, changes the copy, and commands load the copy."""
    return COMMANDS.replace("&bias[j]", "&S[j]").replace(
        "  config_ex",
        "  static int32_t S[64];\n  for (int n = 0; n < 64; n++) S[n] = bias[n];\n"
        f"  {change}\n  config_ex",
        1,
    )


@pytest.mark.parametrize(
    "change",
    [
        "memset(S, 0, 2);",
        "memset((int8_t *)S + 9, 0, 3);",
        "memset((int8_t *)S + 10, 0, 4);",
        "((int8_t *)S)[21] = 0;",
        "((int16_t *)S)[4] = 0;",
    ],
)
def test_elements_that_the_core_clears_in_part_are_not_taken_for_unchanged(
    machine: Machine, change: str
) -> None:
    with pytest.raises(NotRaised, match="stores only a part of an array element"):
        executed(with_copied_bias(change), machine, data=True)
    assert change in emit(raised(with_copied_bias(change), machine))


def test_elements_that_the_core_clears_as_a_whole_are_zero(machine: Machine) -> None:
    unchanged = body(with_copied_bias(""), machine)
    whole = body(with_copied_bias("memset(&S[32], 0, 128);"), machine)
    assert whole == body(with_copied_bias("for (int n = 32; n < 64; n++) S[n] = 0;"), machine)
    assert whole != unchanged
    pairs = "for (int n = 16; n < 32; n++) ((int64_t *)S)[n] = 0;"
    assert whole == body(with_copied_bias(pairs), machine)


@pytest.mark.parametrize(
    "load", ["mvin(&S[k], SPAD(0), 16, 16);", "mvin((int8_t *)S + 3, SPAD(0), 16, 16);"]
)
def test_commands_that_load_parts_of_copied_elements_are_not_followed(
    machine: Machine, load: str
) -> None:
    source = with_copied_bias("").replace("mvin(&A[i][k], SPAD(0), 16, 16);", load)
    with pytest.raises(NotRaised, match="a command changes their type"):
        computation(executed(source, machine, data=True), machine)


def test_a_part_of_a_structure_that_is_not_known_is_not_the_value_before(machine: Machine) -> None:
    source = "typedef struct { int32_t first, second; } Pair;" + COMMANDS.replace(
        "  config_ex(",
        "  Pair p = {1, 2};\n  p = *(const Pair *)&bias[0];\n  config_ex(",
    ).replace("i < 32", "i < 16 * p.second")
    for data in (False, True):
        with pytest.raises(NotRaised):
            executed(source, machine, data=data)


@pytest.mark.parametrize("start", ["", " = {0}", " = {{0, 0}, {0}}"])
def test_zeros_that_the_core_overwrites_later_are_none_in_the_next_call(
    machine: Machine, start: str
) -> None:
    source = gathering("if (n >= 16) T[m][n] = A[m][n];").replace(
        "T[32][48];", f"T[32][48]{start};"
    )
    assert "T[" not in body(source, machine)
    late = source.replace("  fence();\n}", "  T[0][0] = A[0][0];\n  fence();\n}")
    assert late != source
    with pytest.raises(NotRaised, match="after commands loaded it"):
        computation(executed(late, machine, data=True), machine)


def diagonal(*, static: str = "static", late: str = "") -> str:
    """The core writes 16 x 16 blocks with a vector on the diagonal as the right operand."""
    return (
        COMMANDS.replace("B[48][64]", "B[48]")
        .replace("&B[k][j]", "&D[k][0]")
        .replace("config_ld(64", "config_ld(16")
        .replace(
            "  config_ex",
            f"  {static} int8_t D[48][16];\n  for (int m = 0; m < 48; m++)\n"
            "    for (int n = 0; n < 16; n++) D[m][n] = m % 16 == n ? B[m] : 0;\n  config_ex",
            1,
        )
        .replace("  fence();\n}", f"  {late}\n  fence();\n}}")
    )


def test_only_elements_that_are_not_zero_are_written_by_the_core(machine: Machine) -> None:
    text = emit(raised(diagonal(), machine))
    assert "static int8_t matrices[48][16]" in text
    assert text.count("= B[") == 1
    assert "matrices[16 * i + j][j] = B[16 * i + j];" in text
    assert "mvin2(&matrices[" in text
    assert "D[" not in text


def test_a_copy_is_kept_only_if_the_core_never_changes_it(machine: Machine) -> None:
    with pytest.raises(NotRaised, match="after commands loaded it"):
        computation(executed(diagonal(late="D[0][0] = B[1];"), machine, data=True), machine)
    with pytest.raises(NotRaised, match="copied unevenly"):
        computation(executed(diagonal(static=""), machine, data=True), machine)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("int32_t v = s; for (int k = 0; k < 8; k++) v = (v + (v >> 1)) & 0xffff;", "200 steps"),
        ("uint32_t n = s, v = 0; for (int k = 15; k >= 0; k--) { uint32_t t = v | (1u << k);"
         " if (t * t <= n) v = t; }", "200 steps"),
        ("uint64_t n = (uint64_t)s * 3; int32_t v = n >> 9;", "63 bits"),
    ],
)  # fmt: skip
def test_long_computations_of_the_core_are_refused(
    machine: Machine, code: str, reason: str
) -> None:
    source = product(f"int32_t s = sums[y][x]; {code} C[i + y][j + x] = (int8_t)v;")
    with pytest.raises(NotRaised, match=reason):
        executed(source, machine, data=True)


def test_functions_of_a_sum_are_followed_through_choices() -> None:
    data = Data((Element(0, 4, 0),))
    upper = chosen(data > 3, partial(int, 3), lambda: data)
    both = narrowed(chosen(upper < -2, partial(int, -2), lambda: upper) + 1, 8)
    assert list(values(both.value, np.arange(-4, 6))) == [-1, -1, -1, 0, 1, 2, 3, 4, 4, 4]
    quotient = WITH_DATA["divided"](data, 4)  # type: ignore[operator]
    assert list(values(quotient.value, np.array([-9, -3, 3, 9]))) == [-2, 0, 0, 2]
    other = Data((Element(4, 4, 0),))
    with pytest.raises(Undecided, match="different sums"):
        chosen(data > 3, partial(int, 3), lambda: other)
