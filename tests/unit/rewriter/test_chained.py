"""Products that read the results of the product before them in local memory.

tests/target/gemmini/test_raised_programs.py compares what such kernels compute.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.reading import read


def product(
    left: str, right: str, to: str, sizes: tuple[int, int, int], depth: int = 16, start: str = "0"
) -> str:
    """A product of three sizes; `left`, `right` and `to` are addresses for the indices i, j, k."""
    rows, columns, deep = sizes
    return f"""
  for (int i = 0; i < {rows}; i += 16)
    for (int j = 0; j < {columns}; j += 16) {{
      mvin3({start}, ACC(0), 16, 16);
      for (int k = 0; k < {deep}; k += {depth}) {{
        mvin({left}, SPAD(0), {depth}, 16);
        mvin2({right}, SPAD(64), 16, {depth});
        preload(SPAD(64), ACC(0) | ACCUMULATE, 16, {depth}, 16, 16);
        compute_preloaded(SPAD(0), NONE, {depth}, 16, 16, 16);
      }}
      mvout({to}, ACC(0), 16, 16);
    }}
"""


FIRST = product("&A[i][k]", "&B[k][j]", "&T[i][j]", (32, 48, 32))
SECOND = product("&T[i][k]", "&D[k][j]", "&C[i][j]", (32, 32, 48))
KERNEL = f"""
void kernel(const int8_t A[32][32], const int8_t B[32][48], const int8_t D[48][32],
            int8_t C[32][32], int8_t E[32][48], int32_t S[32][32]) {{
  static int8_t T[32][48];
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(32, 1.0f, 16, 0);
  config_ld(48, 1.0f, 16, 1);
  config_ld(128, 1.0f, 16, 2);
  config_st(48, 0.25f, RELU);
  {FIRST}
  fence();
  config_ld(48, 1.0f, 16, 0);
  config_ld(32, 1.0f, 16, 1);
  config_st(32, 0.5f, NO_ACTIVATION);
  {SECOND}
  fence();
}}
"""


def test_results_stay_in_the_memory_for_sums(machine: Machine) -> None:
    text = emit(raised(KERNEL, machine, chained=True))
    assert "T[" not in text
    assert text.count("fence();") == 1
    assert text.count("mvout(") == 1
    assert "config_ex(WEIGHT_STATIONARY, 1, 1, 0, 0, 0.25f)" in text
    assert "compute_preloaded(ACC(p), NONE" in text
    assert "config_st(32, 0.5f, 0)" in text
    assert "T[" in emit(raised(KERNEL, machine))


GOLDEN = Path(__file__).parents[2] / "golden" / "rewriter" / "expected"
GOLDEN_CASES = {"chained": "chain"}


@pytest.mark.parametrize(("name", "step"), GOLDEN_CASES.items())
def test_result_is_the_stored_one(
    machine: Machine, name: str, step: str, update_golden: bool
) -> None:
    text = emit(Step.parse(step).apply(read(KERNEL, machine), machine))
    if update_golden:
        (GOLDEN / f"{name}.c").write_text(text)
    assert text == (GOLDEN / f"{name}.c").read_text()


THIRD = product("&T[i][k]", "&C[k][j]", "&E[i][j]", (32, 32, 32))
OTHER = product("&A[i][k]", "&B[k][j]", "&S[i][j]", (32, 32, 32)).replace(
    "ACC(0), 16, 16);\n    }", "ACC(0) | FULL, 16, 16);\n    }"
)
TWICE = """
        mvin(&T[i][0], SPAD(0), 8, 16);
        mvin2(&D[0][j], SPAD(64), 16, 8);
        preload(SPAD(64), ACC(0) | ACCUMULATE, 16, 8, 16, 16);
        compute_preloaded(SPAD(0), NONE, 8, 16, 16, 16);
"""
LATE = """
        mvin(&T[i][8], SPAD(0), 16, 16);
        mvin2(&D[8][j], SPAD(64), 16, 16);
        preload(SPAD(64), ACC(0) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
"""
EARLIER = product("&X[i][k]", "&B[k][j]", "&U[i][j]", (32, 32, 32))
BESIDE = """
        config_ld(32, 1.0f, 16, 0);
        mvin(&U[i][0], SPAD(0), 16, 16);
        config_ld(48, 1.0f, 16, 0);
        mvin2(&D[0][j], SPAD(64), 16, 16);
        preload(SPAD(64), ACC(0) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
"""
STORED = "      mvout(&C[i][j], ACC(0), 16, 16);"
KEPT = {
    "the caller is given the results": KERNEL.replace("static int8_t T", "int8_t U").replace(
        "int8_t E[32]", "int8_t T[32]"
    ),
    "the results are stored unscaled": KERNEL.replace("static int8_t T", "static int32_t T")
    .replace("config_st(48,", "config_st(192,")
    .replace("mvout(&T[i][j], ACC(0),", "mvout(&T[i][j], ACC(0) | FULL,")
    .replace("config_ld(48, 1.0f, 16, 0)", "config_ld(192, 1.0f, 16, 0)")
    .replace("mvin(&T[i][k]", "mvin((int8_t *)&T[i][0] + k"),
    "a load scales the results": KERNEL.replace(
        "config_ld(48, 1.0f, 16, 0)", "config_ld(48, 0.5f, 16, 0)"
    ),
    "each row is used for several rows": KERNEL.replace("&T[i][k]", "&T[0][k]"),
    "only later columns are used": KERNEL.replace(
        SECOND, product("&T[i][k + 16]", "&D[k][j]", "&C[i][j]", (32, 32, 32))
    ),
    "another product uses the results": KERNEL.replace(
        "  fence();\n}", f"  fence();\n  config_st(48);{THIRD}  fence();\n}}"
    ),
    "the second product adds what another one stores first": KERNEL.replace(
        FIRST, f"config_st(128);{OTHER}config_st(48, 0.25f, RELU);{FIRST}"
    ).replace(SECOND, product("&T[i][k]", "&D[k][j]", "&C[i][j]", (32, 32, 48), start="&S[i][j]")),
    "a block begins inside a block of results": KERNEL.replace(
        STORED, f"{TWICE}{TWICE}{LATE}{STORED}"
    ).replace("k < 48; k += 16", "k < 0; k += 16"),
    "a product of other results is added": KERNEL.replace(
        "static int8_t T[32][48];", "static int8_t T[32][48], U[32][32];"
    )
    .replace(FIRST, f"config_st(32);{EARLIER}fence();config_st(48);{FIRST}".replace("&A", "&U"))
    .replace("&X", "&A")
    .replace(STORED, f"{BESIDE}{STORED}"),
    "the results do not fit": KERNEL.replace("[48]", "[1024]").replace("48", "1024"),
}


@pytest.mark.parametrize("case", KEPT)
def test_results_that_are_stored_and_loaded(machine: Machine, case: str) -> None:
    assert KEPT[case] != KERNEL
    with pytest.raises(NotRaised, match=r"no product can read|between two array elements"):
        raised(KEPT[case], machine, chained=True)
