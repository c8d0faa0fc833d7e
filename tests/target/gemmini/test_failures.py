"""Every kind of failure is typed, logged and leads to its source line, with both compilers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Never

import pytest

from tilewright.core.records import Artifact, Candidate, Failed, Measured, Outcome, Verdict
from tilewright.parts.cases import Cases
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.evaluator import GemminiBuilder, GemminiChecker, GemminiRunner
from tilewright.targets.gemmini.examination import Examination
from tilewright.targets.gemmini.gemm import Gemm
from tilewright.targets.gemmini.problem import GemmProblem
from tilewright.targets.gemmini.settings import EvaluationSettings
from tilewright.targets.gemmini.simulator import Simulator
from tilewright.targets.gemmini.toolchain import Toolchain, find_gcc, find_zig

from .kernels import GOOD, with_line

INT8 = create_target().instance
SETTINGS = EvaluationSettings(input_seed=3, simulation_timeout_s=5.0)
pytestmark = pytest.mark.toolchain


class WithoutReference(GemmProblem):
    def reference(self, inputs: object) -> Never:
        raise AssertionError("the reference was asked")


WITHOUT_REFERENCE = WithoutReference(Gemm(16, 16, 16))


@pytest.fixture(scope="module", params=["gcc", "zig"])
def toolchain(request: pytest.FixtureRequest) -> Toolchain:
    found = find_gcc() if request.param == "gcc" else find_zig()
    if found is None:
        pytest.skip(f"{request.param} is not installed")
    return found


def evaluate(
    toolchain: Toolchain,
    source: str,
    *,
    limit: float | None = None,
    settings: EvaluationSettings = SETTINGS,
) -> Outcome:
    gemm = Gemm(16, 16, 16)
    workload, problem = gemm.workload(INT8), GemmProblem(gemm)
    builder = GemminiBuilder(toolchain, INT8, settings.compile_timeout_s)
    built = builder.build(Candidate(source))
    if not isinstance(built, Artifact):
        return built
    simulator = Simulator(INT8, workload, settings)
    cases = Cases(workload, problem, settings.input_seed)
    examination = Examination(
        simulator, cases, settings.checks, lambda: built, builder.build_rolled
    )
    verdict = GemminiChecker(simulator, cases, settings.checks, examination).check(built)
    if isinstance(verdict, Failed):
        return verdict
    runner = GemminiRunner(simulator, cases, INT8, workload, toolchain.build)
    return runner.measure(built, verdict, limit)


def failure(toolchain: Toolchain, source: str) -> Failed:
    outcome = evaluate(toolchain, source)
    assert isinstance(outcome, Failed), outcome
    return outcome


def test_a_correct_kernel_is_measured(toolchain: Toolchain) -> None:
    outcome = evaluate(toolchain, GOOD)
    assert isinstance(outcome, Measured)
    assert outcome.quantity == "simulated"
    assert outcome.utilization == 4096 / (outcome.latency * 256)
    assert [c.distribution for c in outcome.verdict.checks] == [
        "small", "full-range", "sparse", "extremes", "structured", "mixed ranges",
    ]  # fmt: skip
    assert outcome.versions["compiler"] == toolchain.id


def test_the_same_kernel_takes_the_same_cycles(toolchain: Toolchain) -> None:
    assert evaluate(toolchain, GOOD) == evaluate(toolchain, GOOD)


BROKEN = {
    "a transposed product": (
        2, "  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 1);", "wrong_result", None),
    "nothing written": (9, "", "wrong_result", None),
    "half written": (9, "  mvout(C, ACC(0), 16, 8);", "wrong_result", None),
    "an activation too many": (3, "  config_st(16, 1.0f, RELU);", "wrong_result", None),
    "a scaled result": (3, "  config_st(16, 0.5f);", "wrong_result", None),
    "an input written": (9, "  mvout((int8_t *)A, ACC(0), 16, 16);", "input_modified", 9),
    "an input written by the CPU": (9, "  ((int8_t *)A)[3] = 1;", "input_modified", 9),
    "past the end of an argument": (5, "  mvin(&A[4096][0], SPAD(0), 16, 16);",
                                    "illegal_address", 5),
    "a null pointer read": (9, "  C[0][0] = *(volatile int8_t *)64;", "illegal_address", 9),
    "the kernel's own code written": (
        9, "  mvout((int8_t *)0x80002000, ACC(0), 16, 16);", "illegal_address", 9),
    "scratchpad rows": (5, "  mvin(A, SPAD(16384 - 8), 16, 16);", "local_out_of_bounds", 5),
    "accumulator rows": (9, "  mvout(C, ACC(1020), 16, 16);", "local_out_of_bounds", 9),
    "too many columns": (5, "  mvin(A, SPAD(0), 80, 16);", "limit_exceeded", 5),
    "too many rows": (6, "  mvin(B, SPAD(SPAD_BANK_ROWS), 16, 17);", "limit_exceeded", 6),
    "an operand never loaded": (
        8, "  compute_preloaded(SPAD(100), NONE, 16, 16, 16, 16);", "uninitialised_read", 8),
    "accumulating onto nothing": (
        7, "  preload(SPAD(SPAD_BANK_ROWS), ACC(0) | ACCUMULATE, 16, 16, 16, 16);",
        "uninitialised_read", None),
    "an undefined function": (5, "  load_everything(A);", "link_error", 5),
    "a syntax error": (5, "  mvin(A, SPAD(0), 16, 16)", "compile_error", None),
    "an unknown name": (5, "  mvin(D, SPAD(0), 16, 16);", "compile_error", 5),
    "assembler": (5, '  asm("ecall");', "compile_error", 5),
    "a trap": (9, "  __builtin_trap();", "illegal_instruction", 9),
    "an endless loop": (10, "  for (;;) fence();", "timeout", 10),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_fails_with_its_line(toolchain: Toolchain, name: str) -> None:
    number, text, kind, line = BROKEN[name]
    failed = failure(toolchain, with_line(number, text))
    assert failed.kind == kind, failed.log
    if line is not None:
        assert failed.line == line, failed.log
    assert failed.log.strip()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found_without_a_reference(toolchain: Toolchain, name: str) -> None:
    """And nothing is said of wrong results, or of a kernel that takes long."""
    number, text, kind, line = BROKEN[name]
    gemm = Gemm(16, 16, 16)
    workload = gemm.workload(INT8)
    built = GemminiBuilder(toolchain, INT8, 20.0).build(Candidate(with_line(number, text)))
    if isinstance(built, Failed):
        return
    settings = replace(SETTINGS, simulation_timeout_s=0.5 if kind == "timeout" else 60.0)
    case = Cases(workload, WITHOUT_REFERENCE, 3)[0]
    found = Simulator(INT8, workload, settings).broken_rule(built, case)
    if kind in ("wrong_result", "timeout"):
        assert found is None
    else:
        assert found is not None
        assert (found.stage, found.kind) == ("check", kind)
        assert line is None or found.line == line


# The store waits for products; the load of the same bytes, one line on, for nothing.
RACED = """  mvout(C, ACC(0), 16, 16);
  mvin(C, SPAD(32), 16, 16);
"""
# By the time the core has counted, the store is through.
UNORDERED = """  mvout(C, ACC(0), 16, 16); for (volatile int i = 0; i < 500; i++);
  mvin(C, SPAD(32), 16, 16);
"""
ORDERED = """  mvout(C, ACC(0), 16, 16); fence();
  mvin(C, SPAD(32), 16, 16);
"""
BY_TIMING = EvaluationSettings(input_seed=3, ordering="timing")


@pytest.mark.parametrize("settings", [SETTINGS, BY_TIMING])
def test_a_raced_read_fails_with_both_lines(
    toolchain: Toolchain, settings: EvaluationSettings
) -> None:
    failed = evaluate(toolchain, with_line(9, RACED), settings=settings)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.line) == ("raced_dram_access", 10)
    assert "overtakes it and gets the old data" in failed.log
    assert "(the other command is at kernel.c:9)" in failed.log


def test_an_unordered_read_fails_unless_timing_is_enough(toolchain: Toolchain) -> None:
    failed = failure(toolchain, with_line(9, UNORDERED))
    assert (failed.kind, failed.line) == ("unordered_dram_read", 10)
    assert "(the other command is at kernel.c:9)" in failed.log
    measured = evaluate(toolchain, with_line(9, UNORDERED), settings=BY_TIMING)
    assert isinstance(measured, Measured), measured
    (warning,) = measured.warnings
    assert warning.startswith("unordered: kernel.c:10: mvin reads")
    assert "kernel.c:9, 16 times" in warning


@pytest.mark.parametrize("settings", [SETTINGS, BY_TIMING])
def test_a_fence_orders_a_read(toolchain: Toolchain, settings: EvaluationSettings) -> None:
    measured = evaluate(toolchain, with_line(9, ORDERED), settings=settings)
    assert isinstance(measured, Measured), measured
    assert measured.warnings == ()


def test_a_mismatch_names_index_and_values(toolchain: Toolchain) -> None:
    failed = failure(toolchain, with_line(9, "  mvout(C, ACC(0), 16, 8);"))
    pattern = (
        r"\d+ of 256 elements of C differ, first at C\[8\]\[\d+\]: got -?\d+, expected -?\d+ "
        r"\(small inputs\)\."
    )
    assert re.fullmatch(pattern, failed.log), failed.log


def test_too_slow_stops_early_with_its_bound(toolchain: Toolchain) -> None:
    full = evaluate(toolchain, GOOD)
    assert isinstance(full, Measured)
    stopped = evaluate(toolchain, GOOD, limit=full.latency / 2)
    assert isinstance(stopped, Failed)
    assert (stopped.stage, stopped.kind) == ("measure", "slower_than_limit")
    assert stopped.bound is not None
    assert full.latency / 2 <= stopped.bound < full.latency


@pytest.mark.parametrize("size", ["17ul << 20", "1ul << 30", "1ul << 36"])
def test_huge_static_data_does_not_link(toolchain: Toolchain, size: str) -> None:
    source = f"static int8_t big[{size}];\nint8_t *at(long i) {{ return &big[2 * i]; }}\n{GOOD}"
    failed = failure(toolchain, source)
    assert failed.kind == "link_error"
    assert "16 MiB" in failed.log


ONCE = GOOD.replace("void kernel", "static int called;\nvoid kernel").replace(
    "fence();", "fence();\n  if (called++) C[1][2] += 1;"
)


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_kernel_that_is_right_in_a_few_calls_only_is_refused(
    toolchain: Toolchain, calls: int
) -> None:
    source = ONCE.replace("called++", f"called++ >= {calls}")
    failed = failure(toolchain, source)
    assert failed.kind == "wrong_result"
    assert failed.log.startswith("in a later call, where static variables hold what")


@pytest.mark.parametrize("left", [0, 1, 2, 4])
def test_static_variables_keep_what_a_call_writes_to_them(toolchain: Toolchain, left: int) -> None:
    """However many cases are left to compare, there is a second call."""
    gemm = Gemm(16, 16, 16)
    workload = gemm.workload(INT8)
    cases = Cases(workload, GemmProblem(gemm), SETTINGS.input_seed)
    simulator = Simulator(INT8, workload, SETTINGS)
    builder = GemminiBuilder(toolchain, INT8, SETTINGS.compile_timeout_s)
    unused = Examination(
        simulator,
        cases,
        SETTINGS.checks,
        lambda: Failed("build", "timeout", ""),
        builder.build_rolled,
    )
    checker = GemminiChecker(simulator, cases, SETTINGS.checks, unused)
    numbers = cases.compared(SETTINGS.checks)
    passed = Verdict(tuple(cases[n].check for n in numbers[: len(numbers) - left]))
    for source, is_right in ((GOOD, True), (ONCE, False)):
        built = builder.build(Candidate(source))
        assert isinstance(built, Artifact)
        outcome = checker.check(built, passed)
        assert isinstance(outcome, Verdict) == is_right
        if isinstance(outcome, Failed):
            assert outcome.log.startswith("in a later call, where static variables hold what")
        else:
            assert len({check.seed for check in outcome.checks}) == len(outcome.checks)
            assert len(outcome.checks) == len(numbers)
        assert isinstance(checker.check_first(built), Verdict)


def test_a_kernel_that_is_wrong_in_any_call_is_not_said_to_be_wrong_in_a_later_one(
    toolchain: Toolchain,
) -> None:
    failed = failure(
        toolchain, GOOD.replace("fence();", "fence();\n  if (C[0][0] == 127) C[0][0]--;")
    )
    assert failed.kind == "wrong_result"
    assert "later call" not in failed.log


def test_a_binary_that_cannot_be_loaded_is_the_candidates_failure() -> None:
    gemm = Gemm(16, 16, 16)
    workload = gemm.workload(INT8)
    case = Cases(workload, GemmProblem(gemm), 1)[0]
    result = Simulator(INT8, workload, SETTINGS).run(
        Artifact("x", b"no ELF", "none"), case, "check"
    )
    assert isinstance(result, Failed)
    assert result.kind == "link_error"


def test_endless_recursion_meets_the_end_of_the_stack(toolchain: Toolchain) -> None:
    source = (
        "int deeper(int n) { volatile int x[4096]; x[0] = n; return deeper(n + 1) + x[0]; }\n"
        + with_line(9, "  C[0][0] = deeper(1);")
    )
    failed = failure(toolchain, source)
    assert (failed.kind, failed.line) == ("illegal_address", 1)


def test_a_kernel_without_kernel(toolchain: Toolchain) -> None:
    failed = failure(toolchain, GOOD.replace("void kernel", "void matmul"))
    assert failed.kind == "link_error"
    assert "no (non-static) function named kernel" in failed.log


def test_a_slow_compilation_is_stopped(toolchain: Toolchain) -> None:
    failed = evaluate(toolchain, GOOD, settings=EvaluationSettings(compile_timeout_s=0.001))
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.kind) == ("build", "timeout")


def test_builds_are_reproducible(toolchain: Toolchain) -> None:
    builder = GemminiBuilder(toolchain, INT8, 20.0)
    digests = set()
    for _ in range(2):
        built = builder.build(Candidate(GOOD))
        assert isinstance(built, Artifact)
        digests.add(built.digest)
    assert len(digests) == 1


def test_copies_of_structures_need_no_library(toolchain: Toolchain) -> None:
    source = f"""
struct block {{ int8_t bytes[4096]; }};
struct block kept;
void copy(const struct block *from) {{ kept = *from; }}
void clear(void) {{ kept = (struct block){{{{0}}}}; }}
{GOOD}"""
    assert isinstance(evaluate(toolchain, source), Measured)
