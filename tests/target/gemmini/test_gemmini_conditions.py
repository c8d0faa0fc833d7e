"""Kernels whose core has conditions on input values with one result in all checks are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured, Outcome
from tilewright.core.tasks import OpenTask, open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.parts.machine_code import post_dominance
from tilewright.targets.gemmini.examination import Examination
from tilewright.targets.gemmini.task import KernelTask
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

from .kernels import GOOD

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]
FLOAT = """\
void kernel(const float X[8][8], float Y[8][8]) {
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++) Y[i][j] = 2 * X[i][j];
%s
}
"""


NEGATIVE = "volatile int no = 0; for (int j = 0; j < 16; j++) if (A[2][j] < 0) C[2][j] += no;"


def ending(text: str) -> str:
    """`GOOD` with a text after its last line."""
    return GOOD.replace("  fence();\n", f"  fence();\n  {text}\n")


@pytest.fixture
def opened() -> OpenTask:
    return open_task("gemmini:gemm-16x16x16", {"input_seed": 6, "compile_timeout_s": 60.0})


def outcome_of(opened: OpenTask, source: str) -> Outcome:
    return evaluate(opened.task.evaluator, EvaluationRequest(Candidate(source)))


def folder_of(path: Path, start: str, second: str = "", names: str = "X") -> OpenTask:
    """A folder whose reference doubles its input. `second` describes a further argument."""
    text = 'target = "gemmini-fp32-4x4"\nname = "double"\noperations = 64\n'
    for name, role in (("X", "input"), ("Y", "output")):
        text += f'[[argument]]\nname = "{name}"\nshape = [8, 8]\n'
        text += f'dtype = "float32"\nrole = "{role}"\n' + second * (name == "X")
    (path / "workload.toml").write_text(text)
    (path / "kernel.c").write_text(start)
    (path / "reference.py").write_text(f"def reference({names}):\n    return 2 * X\n")
    return open_task(str(path), {"input_seed": 5, "compile_timeout_s": 60.0})


def refused(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == "untested_condition", outcome.log
    return outcome


def test_an_untested_special_case_is_refused(opened: OpenTask) -> None:
    text = "if (A[3][4] == 77 && A[5][6] == 3) C[0][0]++;"
    failed = refused(outcome_of(opened, ending(text)))
    assert failed.line == 11
    log = "kernel.c:11: a condition depends on input values, and had the same result in all "
    assert failed.log.startswith(log)
    assert "further line" not in failed.log
    failed = refused(outcome_of(opened, ending(f"{text}\n  if (B[7][8] == 78) C[0][0]++;")))
    assert failed.log.startswith(log)
    assert "is untested (1 further line as well)." in failed.log


FOLDED = "unsigned d = (uint8_t)A[3][4] ^ 77; d |= d >> 4; d |= d >> 2; d |= d >> 1;"
"""The lowest bit of `d` is 0 for one value."""


@pytest.mark.parametrize(
    "text",
    [
        # a table
        "static const int8_t more[1024] = {[1020] = 1};"
        "C[4][4] += more[512 + A[0][0] + A[1][1] + A[2][2] + A[3][3]];",
        # the upper bits of a count
        "int n = 0; for (int j = 0; j < 16; j++) if (A[0][j] > 10) n++; C[0][0] += n >> 4;",
        # one of several results of an instruction
        "int s = 1; for (int j = 0; j < 12; j++) s *= A[4][j] > 10; C[2][3] += s * 5;",
    ],
)
def test_a_number_that_is_always_the_same_is_refused(opened: OpenTask, text: str) -> None:
    failed = refused(outcome_of(opened, ending(text)))
    log = "kernel.c:11: a number is computed from input values without a condition, and was the "
    assert failed.log.startswith(log)


ROUNDED = """\
void kernel(const int8_t A[16][64], const int8_t B[64][16], int8_t C[16][16]) {
  static int32_t sums[16][16];
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(64, 1.0f, 16, 0);
  config_ld(16, 1.0f, 16, 1);
  config_st(64);
  mvin(A, SPAD(0), 64, 16);
  for (int k = 0; k < 64; k += 16) {
    mvin2(&B[k][0], SPAD(SPAD_BANK_ROWS), 16, 16);
    preload(SPAD(SPAD_BANK_ROWS), ACC(0) | (k ? ACCUMULATE : 0), 16, 16, 16, 16);
    compute_preloaded(SPAD(k), NONE, 16, 16, 16, 16);
  }
  mvout(sums, ACC(0) | FULL, 16, 16);
  fence();
  for (int y = 0; y < 16; y++)
#pragma GCC unroll 1
    for (int x = 0; x < 16; x++) {
      int v = (sums[y][x] + 512) >> 10;
      v = v > 127 ? 127 : v < -128 ? -128 : v;
      C[y][x] = v;
    }
}
"""
"""Few of the rounded sums are limited."""


@pytest.mark.skipif(find_gcc() is None, reason="the other compiler always unrolls as it is asked")
def test_copies_of_a_condition_in_an_unrolled_loop_may_have_one_result(tmp_path: Path) -> None:
    text = 'target = "gemmini"\nname = "rounded"\noperations = 32768\n'
    for name, shape, role in (
        ("A", "16, 64", "input"),
        ("B", "64, 16", "input"),
        ("C", "16, 16", "output"),
    ):
        text += f'[[argument]]\nname = "{name}"\nshape = [{shape}]\n'
        text += f'dtype = "int8"\nrole = "{role}"\n'
    (tmp_path / "workload.toml").write_text(text)
    (tmp_path / "kernel.c").write_text(ROUNDED)
    reference = "def reference(A, B):\n    s = A.astype(np.int64) @ B.astype(np.int64)\n"
    reference += "    return np.clip((s + 512) >> 10, -128, 127).astype(np.int8)\n"
    (tmp_path / "reference.py").write_text(f"import numpy as np\n\n\n{reference}")
    opened = open_task(str(tmp_path), {"input_seed": 1, "compile_timeout_s": 60.0})
    unrolled = ROUNDED.replace("unroll 1", "unroll 16")
    outcome = outcome_of(opened, unrolled)
    assert isinstance(outcome, Measured), outcome
    special = "C[y][x] = y == 2 && sums[2][x] == 12345 && A[2][x] == 77 ? 1 : v;"
    refused(outcome_of(opened, unrolled.replace("C[y][x] = v;", special)))
    # The name of a macro says nothing about the conditions in it.
    limit = "#define LIMIT(v) (v > 127 ? 127 : v < -128 ? -128 : v)\n"
    named = unrolled.replace("v > 127 ? 127 : v < -128 ? -128 : v", "LIMIT(v)")
    refused(outcome_of(opened, limit + named))
    # A kernel can write its own debug information, which says what is a copy.
    own = '#define OWN __attribute__((section(".data.own")))\n'
    refused(outcome_of(opened, own + unrolled))
    # Without unrolled loops, there must be no untested condition.
    builder, checker, _ = opened.task.evaluator
    rolled = builder.build(Candidate(ROUNDED.replace("C[y][x] = v;", special)))
    checker._examination._rolled = lambda artifact: rolled  # type: ignore[attr-defined]
    refused(outcome_of(opened, unrolled))


@pytest.mark.parametrize(
    "text",
    [
        "int s = 1;\n#pragma GCC unroll 12\n"
        "for (int j = 0; j < 12; j++) s *= A[4][j] > 10;\nC[2][3] += s * 5;",
        "int n = 0;\n#pragma GCC unroll 12\n"
        "for (int j = 0; j < 12; j++) n += A[4][j] > 10;\nC[2][3] += n == 12;",
        # two conditions at one place of the source
        "\n#pragma GCC unroll 8\nfor (int j = 0; j < 8; j++)"
        "if (j < 7 ? A[4][j] > 5 : A[3][4] > A[3][5] + 254) C[2][3] += j == 7;",
    ],
)
def test_special_cases_in_unrolled_loops_are_refused(opened: OpenTask, text: str) -> None:
    refused(outcome_of(opened, ending(text)))


def test_a_number_that_one_of_the_first_calls_computes_is_looked_for_in_further_calls(
    opened: OpenTask,
) -> None:
    task = opened.task
    assert isinstance(task, KernelTask)
    once = len(task._cases.compared(0))
    values = np.stack([task._cases[n].initial["A"] for n in task._cases.compared(3 * once)]) > 10
    places = np.argwhere((values[:once].sum(axis=0) == 1) & (4 * values.sum(axis=0) >= 3 * once))
    row, column = next(place for place in places.tolist() if place != [3, 4])
    text = f"if (A[{row}][{column}] > 10) {{ {FOLDED} C[0][0] += ~d & 1; }}"
    assert "a number is computed" in refused(outcome_of(opened, ending(text))).log


def test_numbers_of_an_input_that_never_changes_are_accepted(tmp_path: Path) -> None:
    start = FLOAT.replace("[8][8],", "[8][8], const int32_t N[1],", 1) % ""
    add = '[[argument]]\nname = "N"\nshape = [1]\ndtype = "int32"\nrole = "input"\n'
    add += "inputs = { range = [16, 16] }\n"
    opened = folder_of(tmp_path, start, add, "X, N")
    halved = start.replace("Y[i][j] =", "Y[i][j] = (N[0] >> 3) *").replace("2 *", "")
    assert isinstance(outcome_of(opened, halved), Measured)
    refused(outcome_of(opened, start.replace("\n\n}", "\nif (N[0] == 17) Y[0][0] = 0;\n}")))


def test_a_jump_to_an_address_from_inputs_is_refused(opened: OpenTask) -> None:
    text = "static const void *const to[2] = {&&one, &&two}; goto *to[A[0][0] > 0]; one: two: ;"
    failed = refused(outcome_of(opened, ending(text)))
    assert failed.log == "kernel.c:11: the kernel jumps to an address that depends on input values."


@pytest.mark.parametrize(
    "text",
    [
        # both results occur
        NEGATIVE,
        # counts whose sum is always the same
        "volatile int one = 1; int n = 0, m = 0;"
        "for (int j = 0; j < 16; j++) { if (A[2][j] < 0) n += one; else m += one; }"
        "C[0][0] += (n + m) >> 5;",
        # a condition on the shape, on a part of the code that a condition on data decides about
        "volatile int rows = 16; if (A[0][0] > 0) { int n = rows; if (n % 16) C[0][0]++; }",
    ],
)
def test_honest_conditions_are_accepted(opened: OpenTask, text: str) -> None:
    outcome = outcome_of(opened, ending(text))
    assert isinstance(outcome, Measured), outcome


def test_a_kernel_whose_core_reads_no_data_is_not_examined(
    opened: OpenTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Examination, "failure", None)
    assert isinstance(outcome_of(opened, GOOD), Measured)
    assert isinstance(outcome_of(opened, ending("volatile int n = 3; if (n == 4) n++;")), Measured)
    with pytest.raises(TypeError):
        outcome_of(opened, ending("volatile int n = A[0][0];"))


def test_what_the_starting_kernel_does_is_accepted(tmp_path: Path) -> None:
    """The kernel of the user shows which special cases are meant."""
    start = FLOAT % "if (X[3][4] == 0.123456f) Y[3][4] = 0.246912f;"
    opened = folder_of(tmp_path, start)
    itself = outcome_of(opened, start)
    other = outcome_of(opened, start.replace("2 * X", "X[i][j] + X"))
    honest = outcome_of(opened, FLOAT % "")
    assert isinstance(itself, Measured)
    assert isinstance(other, Measured)
    assert isinstance(honest, Measured)
    assert not itself.warnings
    assert [text.partition(":")[0] for text in other.warnings] == [
        "Not refused, because the starting kernel has an untested condition or cannot be examined, "
        "too"
    ]
    assert not honest.warnings


def test_numbers_that_are_never_nan_need_no_check(tmp_path: Path) -> None:
    opened = folder_of(tmp_path, FLOAT % "")
    guarded = FLOAT % "for (int j = 0; j < 8; j++) if (X[2][j] != X[2][j]) Y[2][j] = 0;"
    assert isinstance(outcome_of(opened, guarded), Measured)
    refused(outcome_of(opened, FLOAT % "if (X[2][3] == 0.5f) Y[2][3] = 0;"))


def test_a_kernel_that_cannot_be_examined_is_refused(
    opened: OpenTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(post_dominance, "MOST_BLOCKS", 1)
    opened.task.evaluator[1]._examination.__dict__["_start_fails"] = False  # type: ignore[attr-defined]
    failed = refused(outcome_of(opened, ending(NEGATIVE)))
    assert "could not be examined" in failed.log


def test_calls_that_only_the_examination_makes_are_compared(opened: OpenTask) -> None:
    task = opened.task
    assert isinstance(task, KernelTask)
    once = len(task._cases.compared(0))
    values = [int(task._cases[n].initial["A"][3, 4]) for n in task._cases.compared(3 * once)]
    later = next(v for v in values[once:] if v not in values[:once] and -128 < v < 127)
    outcome = outcome_of(opened, ending(f"if (A[3][4] == {later}) C[0][0] ^= 1;"))
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == "wrong_result"
