"""Kernels against numpy: the naive generator on any shape, and what isa.md promises."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilewright.core.records import (
    Argument,
    Artifact,
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Verdict,
    Workload,
)
from tilewright.evaluation.pipeline import evaluate
from tilewright.parts.cases import Cases
from tilewright.parts.problem import Problem
from tilewright.targets.gemmini import create_fp32_target, create_target
from tilewright.targets.gemmini.baselines import convolution_baselines, gemm_baselines
from tilewright.targets.gemmini.convolution import Convolution
from tilewright.targets.gemmini.evaluator import GemminiBuilder, GemminiChecker
from tilewright.targets.gemmini.examination import Examination
from tilewright.targets.gemmini.gemm import Gemm
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.naive import naive_convolution, naive_gemm
from tilewright.targets.gemmini.problem import (
    ConvolutionProblem,
    FloatConvolutionProblem,
    FloatGemmProblem,
    GemmProblem,
    exact_product,
)
from tilewright.targets.gemmini.settings import EvaluationSettings
from tilewright.targets.gemmini.simulator import Simulator
from tilewright.targets.gemmini.toolchain import find_gcc, find_toolchain, find_zig

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]

INT8 = create_target().instance
FP32 = create_fp32_target().instance


def checked(
    source: str, workload: Workload, problem: Problem, instance: Instance = INT8
) -> Verdict | Failed:
    builder = GemminiBuilder(find_toolchain(), instance, 20.0, [source])
    built = builder.build(Candidate(source))
    assert isinstance(built, Artifact), built
    chosen = EvaluationSettings(input_seed=2, checks=4)
    cases = Cases(workload, problem, chosen.input_seed)
    simulator = Simulator(instance, workload, chosen)
    examination = Examination(simulator, cases, chosen.checks, lambda: built, builder.build_rolled)
    return GemminiChecker(simulator, cases, chosen.checks, examination).check(built)


# Sizes around the tile and move widths, where ragged edges appear and disappear.
sizes = st.one_of(st.integers(1, 40), st.sampled_from([16, 48, 63, 64, 65, 80, 92, 100, 128]))


@settings(max_examples=25)
@given(sizes, sizes, sizes)
def test_naive_kernels_equal_numpy(m: int, n: int, k: int) -> None:
    gemm = Gemm(m, n, k)
    verdict = checked(naive_gemm(gemm, INT8), gemm.workload(INT8), GemmProblem(gemm))
    assert isinstance(verdict, Verdict), verdict


@settings(max_examples=12)
@given(
    st.tuples(st.integers(1, 2), st.integers(3, 9), st.integers(3, 35)),
    st.sampled_from([(3, 5), (16, 64), (20, 70), (32, 16)]),
    st.sampled_from([(1, 1, 0), (3, 1, 1), (3, 2, 1), (2, 1, 0), (3, 3, 0)]),
)
def test_naive_convolutions_equal_numpy(
    image: tuple[int, int, int], channels: tuple[int, int], window: tuple[int, int, int]
) -> None:
    conv = Convolution(*image, *channels, *window)
    verdict = checked(naive_convolution(conv, INT8), conv.workload(INT8), ConvolutionProblem(conv))
    assert isinstance(verdict, Verdict), verdict


@settings(max_examples=15)
@given(sizes, sizes, sizes, st.sampled_from(["library", "tuned", "fsm"]))
def test_gemm_baselines_equal_numpy(m: int, n: int, k: int, name: str) -> None:
    gemm = Gemm(m, n, k)
    verdict = checked(gemm_baselines(gemm, INT8)[name], gemm.workload(INT8), GemmProblem(gemm))
    assert isinstance(verdict, Verdict), verdict


@settings(max_examples=15)
@example((2, 9, 9), (20, 70), (1, 3, 0), "tuned")  # more rows between outputs than are read
@example((1, 8, 35), (20, 16), (2, 3, 1), "library")
@example((2, 9, 33), (80, 70), (3, 2, 1), "fsm")  # the unroller takes rows that are not there
@given(
    st.tuples(st.integers(1, 2), st.integers(3, 9), st.integers(3, 35)),
    st.sampled_from([(3, 5), (16, 64), (20, 70), (80, 16)]),
    st.sampled_from([(1, 1, 0), (3, 1, 1), (3, 2, 1), (2, 1, 0), (3, 3, 0), (1, 2, 0)]),
    st.sampled_from(["library", "tuned", "fsm"]),
)
def test_convolution_baselines_equal_numpy(
    image: tuple[int, int, int],
    channels: tuple[int, int],
    window: tuple[int, int, int],
    name: str,
) -> None:
    conv = Convolution(*image, *channels, *window)
    source = convolution_baselines(conv, INT8)[name]
    verdict = checked(source, conv.workload(INT8), ConvolutionProblem(conv))
    assert isinstance(verdict, Verdict), verdict


@settings(max_examples=12)
@given(sizes, sizes, sizes, st.sampled_from(["naive", "library", "tuned", "fsm"]))
def test_float_gemm_baselines_are_within_float_error(m: int, n: int, k: int, name: str) -> None:
    gemm = Gemm(m, n, k)
    source, problem = gemm_baselines(gemm, FP32)[name], FloatGemmProblem(gemm)
    verdict = checked(source, gemm.workload(FP32), problem, FP32)
    assert isinstance(verdict, Verdict), verdict


@settings(max_examples=8)
@given(
    st.tuples(st.integers(1, 2), st.integers(3, 9), st.integers(3, 12)),
    st.sampled_from([(3, 5), (4, 16), (9, 18)]),
    st.sampled_from([(1, 1, 0), (3, 1, 1), (3, 2, 1), (2, 1, 0)]),
    st.sampled_from(["naive", "library", "tuned", "fsm"]),
)
def test_float_convolution_baselines_are_within_float_error(
    image: tuple[int, int, int],
    channels: tuple[int, int],
    window: tuple[int, int, int],
    name: str,
) -> None:
    conv = Convolution(*image, *channels, *window)
    source, problem = convolution_baselines(conv, FP32)[name], FloatConvolutionProblem(conv)
    verdict = checked(source, conv.workload(FP32), problem, FP32)
    assert isinstance(verdict, Verdict), verdict


def test_a_float_kernel_that_forgets_a_product_is_wrong() -> None:
    gemm = Gemm(8, 8, 64)
    source = naive_gemm(gemm, FP32).replace("k < 64", "k < 60")
    verdict = checked(source, gemm.workload(FP32), FloatGemmProblem(gemm), FP32)
    assert isinstance(verdict, Failed)
    assert verdict.kind == "wrong_result"


def test_large_depths_and_panels_are_split() -> None:
    """More columns than a panel, more blocks than a tile of the library."""
    for gemm in (Gemm(40, 600, 300), Gemm(20, 100, 2100), Gemm(300, 300, 300), Gemm(130, 400, 200)):
        for name, source in gemm_baselines(gemm, INT8).items():
            verdict = checked(source, gemm.workload(INT8), GemmProblem(gemm))
            assert isinstance(verdict, Verdict), (gemm, name, verdict)


def test_utilisation_of_baselines_is_that_of_published_code() -> None:
    """On 12544x64x256: 28 % for naive code, at least 43 % tuned by hand."""
    task = create_target().open("gemm-12544x64x256", {})
    reached = {}
    for name, source in task.baselines.items():
        outcome = evaluate(task.evaluator, EvaluationRequest(Candidate(source)))
        assert isinstance(outcome, Measured), outcome
        reached[name] = outcome.utilization
    assert 0.26 <= reached["naive"] <= 0.30
    assert reached["naive"] < reached["library"] < reached["tuned"]
    assert reached["tuned"] >= 0.43


def test_feedback_names_a_bank_conflict_and_its_line() -> None:
    task = create_target().open("gemm-128x64x128", {})
    source = task.start.replace("SPAD_BANK_ROWS", "16")
    outcome = evaluate(task.evaluator, EvaluationRequest(Candidate(source)))
    assert isinstance(outcome, Measured), outcome
    line = next(n for n, text in enumerate(source.splitlines(), 1) if "compute_" in text)
    told = re.search(
        r"Operands A and B share scratchpad bank 0: ([\d,]+) cycles lost; first at line "
        r"(\d+)",
        outcome.feedback,
    )
    assert told is not None, outcome.feedback
    assert float(told[1].replace(",", "")) == outcome.breakdown["bank_conflict"]
    assert int(told[2]) in (line - 1, line)


Function = Callable[[Mapping[str, np.ndarray]], np.ndarray]


class Computes:
    """A problem with one output C, given as a function of the inputs."""

    reduction = 16
    fingerprint = "test"

    def __init__(self, function: Function) -> None:
        self._function = function

    def reference(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"C": self._function(inputs)}


def workload(*arguments: Argument) -> Workload:
    return Workload("gemmini:test", "gemmini", arguments, 1)


A, B = Argument("A", (16, 16), "int8", "input"), Argument("B", (16, 16), "int8", "input")
C = Argument("C", (16, 16), "int8", "output")


def sat8(values: np.ndarray) -> np.ndarray:
    return np.clip(values, -128, 127).astype(np.int8)


def scaled(values: np.ndarray, scale: float) -> np.ndarray:
    """Rounded to the nearest even of the float32 product, as isa.md says."""
    return sat8(np.rint(values.astype(np.float32) * np.float32(scale)))


def product(i: Mapping[str, np.ndarray]) -> np.ndarray:
    return exact_product(i["A"], i["B"])


PROLOGUE = """
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(16);
  config_ld(16, 1.0f, 16, 0);
  mvin(A, SPAD(0), 16, 16);
  mvin(B, SPAD(SPAD_BANK_ROWS), 16, 16);
"""
MULTIPLY = """
  preload(SPAD(SPAD_BANK_ROWS), ACC(0), 16, 16, 16, 16);
  compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
"""
STORE = "  mvout(C, ACC(0), 16, 16);\n"

PROMISES: dict[str, tuple[str, Function]] = {
    "stores scale in float32": (
        PROLOGUE + "config_st(16, 0.3f);" + MULTIPLY + STORE,
        lambda i: scaled(product(i), 0.3)),
    "stores activate": (
        PROLOGUE + "config_st(16, 0.25f, RELU);" + MULTIPLY + STORE,
        lambda i: scaled(np.maximum(product(i), 0), 0.25)),
    "loads scale": (
        PROLOGUE + "config_ld(16, -1.0f, 16, 0); mvin(A, SPAD(0), 16, 16);" + MULTIPLY + STORE,
        lambda i: sat8(sat8(-i["A"].astype(int)).astype(int) @ i["B"].astype(int))),
    "accumulating adds": (
        PROLOGUE + MULTIPLY + MULTIPLY.replace("ACC(0)", "ACC(0) | ACCUMULATE") + STORE,
        lambda i: sat8(2 * product(i))),
    "an added block": (
        PROLOGUE + MULTIPLY.replace("NONE", "SPAD(0)") + STORE,
        lambda i: sat8(product(i) + i["A"])),
    "A transposed": (
        PROLOGUE + "config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 1, 0);" + MULTIPLY + STORE,
        lambda i: sat8(exact_product(i["A"].T, i["B"]))),
    "B transposed": (
        PROLOGUE + "config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 1);" + MULTIPLY + STORE,
        lambda i: sat8(exact_product(i["A"], i["B"].T))),
    "the preloaded block is reused": (
        PROLOGUE + """
  preload(SPAD(SPAD_BANK_ROWS), ACC(0), 16, 16, 16, 8);
  compute_preloaded(SPAD(0), NONE, 16, 8, 16, 16);
  preload(NONE, ACC(8), 16, 16, 16, 8);
  compute_accumulated(SPAD(8), NONE, 16, 8, 16, 16);
""" + STORE,
        lambda i: sat8(product(i))),
    "stride 0 repeats a row": (
        PROLOGUE + "config_ld(0, 1.0f, 16, 1); mvin2(A, SPAD(0), 16, 16);" + MULTIPLY + STORE,
        lambda i: sat8(exact_product(np.tile(i["A"][:1], (16, 1)), i["B"]))),
    "the scratchpad is stored unchanged": (
        PROLOGUE + "mvout(C, SPAD(0), 16, 16);\n", lambda i: i["A"]),
    "results in the scratchpad saturate and activate": (
        PROLOGUE + "config_ex(WEIGHT_STATIONARY, RELU, 1, 0, 0);"
        + MULTIPLY.replace("ACC(0)", "SPAD(64)") + "mvout(C, SPAD(64), 16, 16);\n",
        lambda i: sat8(np.maximum(product(i), 0))),
    "a stride of A": (
        PROLOGUE + """
  mvin(B, SPAD(100), 16, 16);
  mvin(A, SPAD(116), 16, 16);
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 2, 0, 0);
  preload(SPAD(SPAD_BANK_ROWS), ACC(0), 16, 16, 16, 16);
  compute_preloaded(SPAD(100), NONE, 16, 16, 16, 16);
""" + STORE,
        lambda i: sat8(exact_product(np.concatenate([i["B"], i["A"]])[::2], i["B"]))),
}  # fmt: skip


@pytest.mark.parametrize("name", PROMISES)
def test_the_isa_text_keeps_its_promises(name: str) -> None:
    body, function = PROMISES[name]
    source = (
        "void kernel(const int8_t A[16][16], const int8_t B[16][16], int8_t C[16][16]) {"
        f"{body}  fence();\n}}\n"
    )
    verdict = checked(source, workload(A, B, C), Computes(function))
    assert isinstance(verdict, Verdict), verdict


def test_full_width_and_wide_moves() -> None:
    """int32 biases move in, 64 columns move out as four blocks of 16, unscaled."""
    bias = Argument("bias", (4, 64), "int32", "input")
    total = Argument("C", (4, 64), "int32", "output")
    source = """
void kernel(const int32_t bias[4][64], int32_t C[4][64]) {
  config_st(256, 0.5f, RELU);
  config_ld(256, 1.0f, 16, 0);
  mvin(bias, ACC(ACC_BANK_ROWS), 64, 4);
  mvin(bias, ACC(ACC_BANK_ROWS) | ACCUMULATE, 64, 4);
  mvout(C, ACC(ACC_BANK_ROWS) | FULL, 64, 4);
  fence();
}
"""
    verdict = checked(source, workload(bias, total), Computes(lambda i: 2 * i["bias"]))
    assert isinstance(verdict, Verdict), verdict


def test_the_example_of_the_isa_text_is_right_and_fast() -> None:
    text = create_target().brief().isa
    (example,) = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
    task = create_target().open("gemm-64x64x64", {"input_seed": 4})
    naive, shown = (
        evaluate(task.evaluator, EvaluationRequest(Candidate(source)))
        for source in (task.start, example)
    )
    assert isinstance(naive, Measured)
    assert isinstance(shown, Measured), shown
    assert shown.latency < 0.6 * naive.latency
