"""What goes wrong in a native kernel is a typed failure with a sentence, and harms nothing else."""

from __future__ import annotations

import os
import platform
import shutil
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from tilewright.core.errors import DeviceBusyError
from tilewright.core.records import (
    Artifact,
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
    Verdict,
)
from tilewright.core.roles import Builder, Checker, Runner
from tilewright.evaluation.pipeline import evaluate
from tilewright.native import machine
from tilewright.native.process import KernelProcess
from tilewright.native.runner import NativeRunner
from tilewright.targets.host_c import create_target

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="no C compiler for this machine"
)
Evaluator = tuple[Builder, Checker, Runner]
KERNEL = "void kernel(const float X[16][64], float Y[16][64]) {{ {} }}\n"


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    return opened(60.0)


def opened(limit_s: float) -> Evaluator:
    settings = {"input_seed": 3, "simulation_timeout_s": limit_s}
    return create_target().open("softmax-16x64", settings).evaluator


def outcome_of(evaluator: Evaluator, source: str) -> Outcome:
    return evaluate(evaluator, EvaluationRequest(Candidate(source)))


@pytest.mark.parametrize(
    ("kind", "body", "says"),
    [
        ("illegal_instruction", "__builtin_trap();", "instruction"),
        ("illegal_address", "Y[16][0] = 1;", "Y"),
        ("illegal_address", "((volatile float *)Y)[-1] = 1;", "before Y"),
        ("illegal_address", "for (int i = 0; i < 9999; i++) (&Y[0][0])[i] = 1;", "after the end"),
        ("illegal_address", "*(volatile float *)8 = 1;", "does not belong to it"),
        ("illegal_address", "*(volatile float *)(1ul << 63) = 1;", "impossible address"),
        (
            "illegal_address",
            "typedef int v __attribute__((vector_size(16))); v a = *(v *)X; "
            "Y[0][0] = a[0]; *(volatile v *)((char *)Y + 4) = a;",
            "misaligned",
        ),
        (
            "illegal_address",
            "volatile char s[64 << 20]; s[0] = 1; Y[0][0] = s[1];",
            "does not belong to it",
        ),
        ("input_modified", "((volatile float *)X)[3] = 1;", "X"),
        ("timeout", "volatile int on = 1; while (on) {}", "0.5 s"),
        ("wrong_result", "Y[0][0] = 1;", "expected"),
        ("link_error", "extern int fork(void); fork();", "fork"),
        ("link_error", "extern int pthread_create(); pthread_create();", "pthread_create"),
        ("compile_error", '__asm__("nop");', "vector extensions"),
        ("compile_error", "undeclared = 1;", "undeclared"),
    ],
)
def test_a_failure_is_typed(evaluator: Evaluator, kind: str, body: str, says: str) -> None:
    chosen = opened(0.5) if kind == "timeout" else evaluator
    outcome = outcome_of(chosen, KERNEL.format(body))
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == kind, outcome
    assert says in outcome.log


@pytest.mark.parametrize(
    ("place", "says"), [("X)[1024]", "after the end of X"), ("X)[-1]", "before X")]
)
def test_a_right_kernel_that_reads_beside_an_input_fails(
    evaluator: Evaluator, place: str, says: str
) -> None:
    start = create_target().open("softmax-16x64", {}).start
    read = f"right(X, Y); (void)((volatile float *){place};"
    source = f"#define kernel right\n{start}\n#undef kernel\n{KERNEL.format(read)}"
    outcome = outcome_of(evaluator, source)
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == "illegal_address", outcome
    assert says in outcome.log


def test_a_right_kernel_that_writes_into_the_padding_after_an_output_fails() -> None:
    target, shape = create_target(), "[3][5]"
    kernel = f"void kernel(const float X{shape}, float Y{shape})"
    start = target.open("softmax-3x5", {}).start
    write = f"{kernel} {{ right(X, Y); ((volatile float *)Y)[15] = 1; }}"
    evaluator = target.open("softmax-3x5", {"input_seed": 3}).evaluator
    outcome = outcome_of(evaluator, f"#define kernel right\n{start}\n#undef kernel\n{write}\n")
    assert isinstance(outcome, Failed), outcome
    assert (outcome.kind, outcome.log) == (
        "illegal_address",
        "the kernel wrote 0 bytes after Y.",
    )


def test_a_fault_names_its_line(evaluator: Evaluator) -> None:
    outcome = outcome_of(evaluator, KERNEL.format("\n\n  __builtin_trap();\n"))
    assert isinstance(outcome, Failed)
    assert outcome.line == 3
    assert outcome.log.startswith("kernel.c:3: ")


def test_nothing_may_run_before_the_kernel_is_called(evaluator: Evaluator) -> None:
    early = "static volatile int ran;\n__attribute__((constructor)) "
    early += "static void early(void) { ran = 1; }\n"
    outcome = outcome_of(evaluator, early + KERNEL.format(""))
    assert isinstance(outcome, Failed)
    assert (outcome.stage, outcome.kind) == ("build", "link_error")
    assert "before it is called" in outcome.log


def test_code_that_would_run_when_the_kernel_is_unloaded_is_refused(evaluator: Evaluator) -> None:
    late = "static volatile int ran;\n__attribute__((destructor)) "
    late += "static void late(void) { ran = 1; }\n"
    outcome = outcome_of(evaluator, late + KERNEL.format(""))
    assert isinstance(outcome, Failed)
    assert outcome.stage == "build"


def test_a_right_kernel_that_reads_just_before_an_array_is_refused(evaluator: Evaluator) -> None:
    start = create_target().open("softmax-16x64", {}).start
    body = start.index("{", start.index("void kernel(")) + 1
    read = "\n  volatile float before = ((volatile const float *)X)[-1]; (void)before;"
    outcome = outcome_of(evaluator, start[:body] + read + start[body:])
    assert isinstance(outcome, Failed)
    assert outcome.kind == "illegal_address"


def test_without_its_baseline_nothing_is_measured(evaluator: Evaluator) -> None:
    """Else a kernel would be timed against itself, and said to be as fast as the start."""
    builder, _, runner = evaluator
    assert isinstance(runner, NativeRunner)
    alone = NativeRunner(replace(runner._evaluation, start="void kernel"))
    built = builder.build(Candidate(KERNEL.format("")))
    assert isinstance(built, Artifact)
    failed = alone.measure(built, Verdict(()), None)
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.kind) == ("measure", "compile_error")
    assert "the starting kernel" in failed.log


def test_nothing_is_started_on_a_core_before_it_is_this_measurement_s_turn(
    evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder, _, runner = evaluator
    built = builder.build(Candidate(KERNEL.format("")))
    assert isinstance(built, Artifact)
    usable = os.sched_getaffinity(0)
    started: list[object] = []

    def taken(device: str, wait_s: float | None = None) -> AbstractContextManager[None]:
        assert os.sched_getaffinity(0) == usable
        raise DeviceBusyError(device)

    monkeypatch.setattr(machine, "exclusive", taken)
    monkeypatch.setattr(KernelProcess, "__enter__", started.append)
    with pytest.raises(DeviceBusyError, match="cpu"):
        runner.measure(built, Verdict(()), None)
    assert started == []


def test_a_row_of_one_element_builds() -> None:
    task = create_target().open("attention-8x1", {})
    assert isinstance(task.evaluator[0].build(Candidate(task.start)), Artifact)


def test_the_run_goes_on(evaluator: Evaluator) -> None:
    start = create_target().open("softmax-16x64", {}).start
    measured = outcome_of(evaluator, start)
    assert isinstance(measured, Measured), measured
    assert (measured.unit, measured.quantity) == ("ns", "measured")
    assert measured.versions["machine"]
    assert measured.noise > 0
    assert measured.sandbox


def test_more_workers_than_can_measure_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would wait for their turn longer than a stage may take."""
    from tilewright.core.config import Settings
    from tilewright.core.tasks import open_task
    from tilewright.evaluation import local
    from tilewright.executors import create_executor

    asked: list[int] = []
    make = local.LocalExecutor

    def noticed(task: str, settings: dict[str, object], workers: int, **others: object) -> object:
        asked.append(workers)
        return make(task, settings, workers, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(local, "LocalExecutor", noticed)
    for name in ("host-c:softmax-16x64", "gemmini:gemm-16x16x16"):
        create_executor(open_task(name, {}), Settings().evaluated_with(3), 64, None).close()
    assert asked == [4, 64]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the names are those of x86-64")
def test_the_mathematics_of_vectors_may_be_called_and_nothing_of_a_like_name(
    evaluator: Evaluator,
) -> None:
    builder, _, _ = evaluator
    head = "typedef float v4 __attribute__((vector_size(16)));\nv4 _ZGVbN4v_NAME(v4);\n"
    body = "*(v4 *)Y[0] = _ZGVbN4v_NAME(*(const v4 *)X[0]);"
    for name, kind in [("expf", None), ("system", "link_error")]:
        built = builder.build(Candidate((head + KERNEL.format(body)).replace("NAME", name)))
        assert getattr(built, "kind", None) == kind, built


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the header is that of x86-64")
def test_a_kernel_may_be_written_with_intrinsics_of_x86() -> None:
    row = (
        "for (int c = 0; c < 8; c += 4) _mm_storeu_ps(&C[r][c], _mm_add_ps(_mm_loadu_ps(&C[r][c]), "
        "_mm_mul_ps(_mm_set1_ps(A[r][k]), _mm_loadu_ps(&B[k][c]))));"
    )
    source = (
        "#include <immintrin.h>\n"
        "void kernel(const float A[8][8], const float B[8][8], float C[8][8]) {\n"
        "  for (int r = 0; r < 8; r++) for (int c = 0; c < 8; c++) C[r][c] = 0;\n"
        f"  for (int r = 0; r < 8; r++) for (int k = 0; k < 8; k++) {row}\n"
        "}\n"
    )
    opened = create_target().open("gemm-8x8x8", {"input_seed": 3})
    outcome = outcome_of(opened.evaluator, source)
    assert isinstance(outcome, Measured), outcome


def test_a_starting_kernel_that_does_not_build_is_named_with_its_error(
    evaluator: Evaluator,
) -> None:
    runner = evaluator[2]
    assert isinstance(runner, NativeRunner)
    broken = replace(runner._evaluation, start="void kernel(")
    failed = NativeRunner(broken)._baseline()
    assert isinstance(failed, Failed)
    assert "the starting kernel" in failed.log
    assert "does not build (compile error)" in failed.log
    assert "error: " in failed.log
