"""Commands are raised where the core computes something else between them, and its code is kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_core_code import product as tiles

from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Array, Opaque, commands, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.raised import raised

FOLDERS = Path(__file__).parents[2] / "fixtures" / "foreign_folders"
ROUND = "for (int r = 0; r < 32; r++) for (int c = 0; c < 32; c++) S[r][c] = (T[r][c] + 8) >> 4;"
SETTINGS = """config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(32, 1.0f, 16, 0);
  config_st(32, 0.25f);"""


def product(a: str, c: str, load: str = "mvin(&B[k][j], SPAD(64), 16, 16);") -> str:
    return f"""
  for (int i = 0; i < 32; i += 16)
    for (int j = 0; j < 32; j += 16) {{
      for (int k = 0; k < 32; k += 16) {{
        mvin(&{a}[i][k], SPAD(0), 16, 16);
        {load}
        preload(SPAD(64), k ? ACC(0) | ACCUMULATE : ACC(0), 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }}
      mvout(&{c}[i][j], ACC(0), 16, 16);
    }}
  fence();"""


def kernel(between: str = ROUND, second: str = product("S", "C"), before: str = "") -> str:
    return f"""{before}
void kernel(const int8_t A[32][32], const int8_t B[32][32], int8_t C[32][32]) {{
  static int8_t T[32][32], S[32][32];
  {SETTINGS}{product("A", "T")}
  {between}{second}
}}
"""


def test_each_stretch_of_commands_becomes_a_nest_and_the_code_between_them_stays(
    machine: Machine,
) -> None:
    naive = raised(kernel(), machine)
    assert sum(isinstance(s, Opaque) for s in walk(naive.body)) == 1
    assert "S[r][c] = (T[r][c] + 8) >> 4;" in emit(naive)
    first, second = (emit(naive).index(f"mvout(&{name}[") for name in "TC")
    assert first < emit(naive).index("(T[r][c] + 8)") < second
    assert len(re.findall(r"mvout\(.*, 32, 16\);", emit(naive))) == 2, "as wide as moves allow"


def test_a_stretch_keeps_the_settings_that_commands_before_it_made(machine: Machine) -> None:
    assert emit(raised(kernel(), machine)).count("config_st(32, 0.25f);") == 2


@pytest.mark.parametrize(
    "source",
    [
        kernel(second=product("S", "C", load="")),
        kernel("again(S, T, 3);", before="""
static void again(int8_t S[32][32], int8_t T[32][32], int n) {
  if (n) { mvin(T, SPAD(64), 16, 16); again(S, T, n - 1); }
}"""),
        kernel("config_ld(T[0][0], 1.0f, 16, 0);"),
    ],
    ids=["rows_loaded_before", "text_that_issues_commands", "settings_by_data"],
)  # fmt: skip
def test_a_kernel_stays_whole_where_its_parts_depend_on_local_memory(
    source: str, machine: Machine
) -> None:
    with pytest.raises(NotRaised):
        raised(source, machine)


def test_an_array_may_have_products_as_its_sizes(machine: Machine) -> None:
    source = kernel().replace("static int8_t T[32][32], S[32][32];", "")
    source = "static int8_t T[4 * 8][2 * 16], S[32][32];\n" + source
    assert Array("T", (32, 32), "int8_t", True, True, True) in lift(source, machine).arrays


def test_a_flag_may_be_joined_to_a_number_in_a_variable(machine: Machine) -> None:
    source = kernel().replace("ACC(0) | ACCUMULATE", "sums | ACCUMULATE")
    source = source.replace("  static", "  const uint32_t sums = 0x80000000;\n  static", 1)
    texts = [s.text for s in walk(lift(source, machine).body) if isinstance(s, Opaque)]
    assert texts == [s.text for s in walk(lift(kernel(), machine).body) if isinstance(s, Opaque)]


def test_a_padded_image_has_nine_parts(machine: Machine) -> None:
    naive = raised((FOLDERS / "conv_padded_zeros" / "kernel.c").read_text(), machine)
    assert sum(c.name == "mvout" for c in commands(naive.body)) == 9


CLAMP = (
    "for (int i = 0; i < 64; i++) safe[i] = bias[i] < -LOW ? -LOW : bias[i] > 99 ? 99 : bias[i];"
)
HALF_UP = "C[i + y][j + x] = narrow(sums[y][x]);"
NARROW = """
static int32_t safe[64];
static int8_t narrow(int32_t s) {
  s = (s + 32) >> 6;
  return s < -128 ? -128 : s > 127 ? 127 : s;
}
"""
SPOIL = "static void spoil(int32_t v) { safe[3] = v; }"


def with_bias(
    clamp: str = CLAMP,
    low: int = 1 << 20,
    finish: str = HALF_UP,
    before: str = NARROW,
    end: str = "",
) -> str:
    """Products of tiles whose sums begin with a bias that the core limits before; the core rounds
    the sums."""
    source = tiles(finish, start=clamp.replace("LOW", str(low)))
    source = source.replace("mvin(0, ACC(0), 16, 16)", "mvin3(&safe[j], ACC(0), 16, 16)")
    source = source.replace("config_st", "config_ld(0, 1.0f, 16, 2);\n  config_st")
    return before + source.rstrip().removesuffix("}") + end + "}\n"


@pytest.mark.parametrize(
    "source",
    [
        with_bias(),
        with_bias("const int few = LOW; " + CLAMP.replace("LOW", "few")),
        with_bias("const int places = 6; " + CLAMP, finish="int32_t s = sums[y][x] + 32 >> places;"
                  "C[i + y][j + x] = s < -128 ? -128 : s > 127 ? 127 : s;"),
    ],
    ids=["plain", "named_limit", "named_shift"],
)  # fmt: skip
def test_limits_of_the_core_prove_that_sums_do_not_overflow(machine: Machine, source: str) -> None:
    text = emit(raised(source, machine))
    text = text[text.index("config_ex") :]
    assert "narrow" not in text
    assert ">>" not in text
    assert text.count("mvin3(&safe[0]") == 2, "the sums are doubled"


@pytest.mark.parametrize(
    "source",
    [
        with_bias(low=1 << 30),
        with_bias("for (int i = 0; i < 64; i++) safe[i] = bias[i];"),
        with_bias(CLAMP.replace("< 64", "< 63")),
        with_bias(CLAMP + " safe[3] = bias[3];"),
        with_bias(end="safe[3] = bias[3];"),
        with_bias(before=NARROW + SPOIL, end="spoil(bias[3]);"),
        with_bias(end="mvout(&safe[0], ACC(0) | FULL, 16, 1);"),
        with_bias("int few = 9; few = bias[0] ? few : 7; " + CLAMP,
                  finish="C[i + y][j + x] = narrow(sums[y][x] + few);"),
    ],
    ids=["too_large", "unlimited", "not_whole", "twice", "later", "by_a_function", "by_commands",
         "variable"],
)  # fmt: skip
def test_sums_with_a_bias_that_may_be_large_are_not_doubled(machine: Machine, source: str) -> None:
    try:
        text = emit(raised(source, machine))
    except NotRaised:
        return
    assert "mvin3(&safe[0], ACC(0) | ACCUMULATE" not in text
    assert "narrow" in text[text.index("config_ex") :]


def test_a_function_may_change_what_commands_load(machine: Machine) -> None:
    before = NARROW.replace("s < -128 ? -128", "s < 0 ? 0") + SPOIL
    kept = "for (int i = 0; i < 64; i++) safe[i] = bias[i] & 15;"
    assert (
        "narrow(" not in emit(raised(with_bias(kept, before=before), machine)).partition("_ex")[2]
    )
    source = with_bias(kept, finish=f"spoil(sums[y][x]); {HALF_UP}", before=before)
    with pytest.raises(NotRaised):
        raised(source, machine)


COUNTING = "static int calls;\n" + NARROW.replace("s = (s", "calls++; s = (s")
SHIFTING = "static int places = 6;\n" + NARROW.replace(">> 6", ">> places")


@pytest.mark.parametrize(
    "source",
    [
        with_bias("int total = 0; " + CLAMP, finish=HALF_UP + " total += 1;",
                  end="C[0][0] = total;"),
        with_bias("int last = 0; " + CLAMP, finish=HALF_UP + " last = sums[y][x];",
                  end="C[0][0] = last;"),
        with_bias(before="static int total;\n" + NARROW, finish=HALF_UP + " total += 1;",
                  end="C[0][0] = total;"),
        with_bias(before=COUNTING, end="C[0][0] = calls;"),
        with_bias("places = bias[0] > 0 ? 6 : 5; " + CLAMP, before=SHIFTING),
        with_bias(before=SHIFTING, end="places = bias[0] > 0 ? 6 : 5;"),
        with_bias("places++; " + CLAMP, before=SHIFTING),
    ],
    ids=["counter", "last_sum", "counter_of_the_file", "counter_in_a_function",
         "read_in_a_function", "changed_later", "kept_until_the_next_call"],
)  # fmt: skip
def test_core_code_that_shares_variables_with_other_code_is_kept(
    machine: Machine, source: str
) -> None:
    try:
        text = emit(raised(source, machine))
    except NotRaised:
        return
    assert "narrow(" in text[text.index("config_ex") :]
