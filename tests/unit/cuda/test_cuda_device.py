"""Level 3 end to end on a GPU that is emulated: real programs, real processes, the real protocol.

The emulation's times mean nothing, and nothing here compares them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Argument, Artifact, Candidate, Failed, Measured, Verdict
from tilewright.core.roles import NOTHING_CHECKED
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.device import runner
from tilewright.targets.cuda.device.build import LOADING, refused_object
from tilewright.targets.cuda.device.evaluator import DeviceChecker
from tilewright.targets.cuda.device.gpus import find_gpu
from tilewright.targets.cuda.device.process import DeviceFailedError, DeviceProcess
from tilewright.targets.cuda.device.runner import DeviceRunner
from tilewright.targets.cuda.device.values import drawn_floats, hash_of
from tilewright.targets.cuda.task import CudaTask

SPEC = "rowsum-8x100"


@pytest.fixture
def task(gpu: None) -> CudaTask:
    return create_target().open(SPEC, {"input_seed": 3, "simulation_timeout_s": 30.0})


def test_a_kernel_is_checked_and_timed_at_full_size(task: CudaTask) -> None:
    assert task.untimed is None
    builder, checker, runner = task.evaluator
    artifact = builder.build(Candidate(task.start))
    assert not isinstance(artifact, Failed), artifact.log
    verdict = checker.check(artifact)
    assert not isinstance(verdict, Failed), verdict.log
    measured = runner.measure(artifact, verdict, None)
    assert isinstance(measured, Measured), measured
    assert (measured.unit, measured.quantity) == ("ns", "measured")
    assert measured.latency > 0
    assert measured.verdict.precision == "float32"
    assert measured.versions["gpu"].startswith("Emulated GPU, sm_90")
    assert measured.details["registers"] == 32
    assert measured.details["kernelbench_1e-2"] == measured.details["kernelbench_1e-4"] == 1.0
    assert measured.bound is not None
    assert "GFLOP/s" in measured.feedback
    assert any(name.endswith("candidate") for name in measured.samples)
    assert measured.details["event_ns"] > 0


def test_a_starting_kernel_that_does_not_build_is_named_with_its_error(task: CudaTask) -> None:
    builder, checker, _ = task.evaluator
    artifact = builder.build(Candidate(task.start))
    assert not isinstance(artifact, Failed), artifact.log
    verdict = checker.check(artifact)
    assert not isinstance(verdict, Failed), verdict.log
    broken = replace(task.device, start="void launch(")
    failed = DeviceRunner(broken).measure(artifact, verdict, None)
    assert isinstance(failed, Failed)
    assert failed.stage == "measure"
    words = "the starting kernel, with which other kernels are compared, does not build ("
    assert failed.log.startswith(words), failed.log


def test_the_evaluator_draws_and_hashes_as_the_device_does(task: CudaTask) -> None:
    built = task.device.built(task.start)
    assert not isinstance(built, Failed), built.log
    key, scale = (1 << 63) - 2, 0.25
    with task.device.process(built[0], "check") as process:
        process.make_room(3)
        process.draw(0, 3, key, scale)
        process.draw(1, 3, 7, scale)  # an output, which can be read
        drawn = [drawn_floats((8, 100), key, copy, scale) for copy in range(3)]
        assert [process.hash(0, i) for i in range(3)] == [hash_of(d.tobytes()) for d in drawn]
        assert process.outputs(2)["Y"] == drawn_floats((8,), 7, 2, scale).tobytes()
    values = np.concatenate(drawn)
    assert abs(float(values.mean())) < 0.1 * float(values.std())
    assert not np.array_equal(drawn[0], drawn[1])


def test_a_wrong_kernel_is_found_on_the_device(task: CudaTask) -> None:
    builder, checker, _ = task.evaluator
    wrong = task.start.replace("Y[blockIdx.x] = parts[0]", "Y[blockIdx.x] = parts[0] + 1.0f")
    assert wrong != task.start
    artifact = builder.build(Candidate(wrong))
    assert not isinstance(artifact, Failed)
    failed = checker.check_first(artifact)
    assert isinstance(failed, Failed)
    assert failed.kind == "wrong_result"


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("  parts[t] = sum;\n  __syncthreads();\n", "  parts[t] = sum;\n", "race"),
        ("sum += x[c];", "sum += x[c + 1];", "illegal_address"),
    ],
)
def test_the_cpu_finds_the_cause_of_wrong_results_on_the_device(
    old: str, new: str, kind: str, task: CudaTask
) -> None:
    builder, checker, _ = task.evaluator
    assert task.start.count(old) == 1
    artifact = builder.build(Candidate(task.start.replace(old, new)))
    assert not isinstance(artifact, Failed)
    for failed in (checker.check_first(artifact), checker.check(artifact)):
        assert isinstance(failed, Failed)
        assert (failed.kind, failed.line is not None) == (kind, True)
        assert "On the GPU: " in failed.log


def test_what_the_cpu_cannot_check_explains_nothing(task: CudaTask) -> None:
    class Unable:
        def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
            return Failed("check", "not_checked", "kernel.py:3: not checked.", 3)

        def check_first(self, artifact: Artifact) -> Verdict | Failed:
            return self.check(artifact)

    wrong = task.start.replace("Y[blockIdx.x] = parts[0]", "Y[blockIdx.x] = parts[0] + 1.0f")
    builder, _, _ = task.evaluator
    artifact = builder.build(Candidate(wrong))
    assert not isinstance(artifact, Failed)
    failed = DeviceChecker(task.device, Unable()).check_first(artifact)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.line) == ("wrong_result", None)


@pytest.mark.parametrize(
    ("arch", "words"), [("sm_90", None), ("sm_80", "leave out `--set arch=sm_80`")]
)
def test_kernels_for_another_architecture_are_not_timed(
    arch: str, words: str | None, gpu: None
) -> None:
    task = create_target().open(SPEC, {"target_settings": {"arch": arch}})
    assert task.untimed is None if words is None else words in str(task.untimed)


def test_the_driver_and_the_gpu_are_named(gpu: None) -> None:
    found = find_gpu()
    assert found is not None
    assert found.id == "Emulated GPU, sm_90, driver 1.2.3"
    assert ("GPU", True, found.id) in create_target().doctor()


ANSWERS = {
    "ends": ("exit 0", "crash"),
    "says nothing": ("sleep 60", "timeout"),
    "answers nonsense": ('printf "hello\\n" >&$1; sleep 60', "no_result"),
    "answers without end": ("cat /dev/zero >&$1", "no_result"),
    "answers too few numbers": ('printf "device 1 2\\n" >&$1; sleep 60', "no_result"),
    "reports an illegal address": (
        'printf "failed call 700 an illegal memory access\\n" >&$1',
        "illegal_address",
    ),
    "reports too little memory": ('printf "failed allocate 2 out of memory\\n" >&$1', "crash"),
    "reports a launch": ('printf "failed call 9 invalid configuration\\n" >&$1', "launch_failure"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_whatever_a_process_does_is_a_failure_with_a_kind(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, kind = ANSWERS[name]
    monkeypatch.setattr("tilewright.targets.cuda.device.process._START_S", 2.0)
    program = f"#!/bin/bash\n{script}\n".encode()
    opened = DeviceProcess(program, [Argument("X", (4,), "float32", "input")], [], "measure", 2.0)
    with pytest.raises(DeviceFailedError) as failed, opened:
        pass
    assert failed.value.failed.kind == kind
    assert failed.value.failed.stage == "measure"


def test_a_driver_that_does_not_fit_is_no_failure_of_the_kernel() -> None:
    program = b"#!/bin/bash\nprintf 'failed start 35 driver is insufficient\\n' >&$1\n"
    opened = DeviceProcess(program, [Argument("X", (4,), "float32", "input")], [], "check", 5.0)
    with pytest.raises(ToolchainMissingError, match="driver is insufficient"), opened:
        pass


def object_file(tmp_path: Path, text: str) -> bytes:
    (tmp_path / "k.cpp").write_text(text)
    subprocess.run(["g++", "-c", "-O1", "k.cpp", "-o", "k.o"], cwd=tmp_path, check=True)
    return (tmp_path / "k.o").read_bytes()


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('extern "C" void write(int); void kernel() { write(1); }', "calls write"),
        ('extern "C" int cudaDeviceSynchronize() { return 0; }', "defines cudaDeviceSynchronize"),
        ("void *operator new(unsigned long) { return nullptr; }", "defines _Znwm"),
        ("void operator delete[](void *) noexcept {}", "defines _ZdaPv"),
        ("namespace std { void terminate() {} }", "defines _ZSt9terminatev"),
        ("namespace __gnu_cxx { void __verbose_terminate_handler() {} }", "defines _ZN9__gnu_cxx"),
        ("namespace __cxxabiv1 { void __terminate(void (*)()) {} }", "defines _ZN10__cxxabiv1"),
        ("namespace __gnu_debug { void f() {} }", "defines _ZN11__gnu_debug"),
        ("namespace __gnu_parallel { int f; }", "defines _ZN14__gnu_parallel"),
        ("namespace std { struct T { void f() &; }; void T::f() & {} }", "defines _ZNRSt1T"),
        ("#include <algorithm>\nint kernel(int a) { return *std::max_element(&a, &a + 1); }", None),
        ('extern "C" void cudaHostAlloc(); void kernel() { cudaHostAlloc(); }', "cudaHostAlloc"),
        ('extern "C" void clock_gettime(); void kernel() { clock_gettime(); }', "clock_gettime"),
        ('extern "C" void cudaMalloc(); void kernel() { cudaMalloc(); }', None),
    ],
)
def test_host_code_calls_and_defines_only_what_a_launcher_needs(
    text: str, named: str | None, tmp_path: Path
) -> None:
    refused = refused_object(object_file(tmp_path, text))
    if named is None:
        assert refused is None
    else:
        assert refused is not None
        assert refused.kind == "forbidden_call"
        assert named in refused.log


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")
def test_only_host_code_of_our_own_loads_machine_code(tmp_path: Path) -> None:
    text = 'extern "C" int cudaLibraryLoadData(); int kernel() { return cudaLibraryLoadData(); }'
    loading = object_file(tmp_path, text)
    assert refused_object(loading, LOADING) is None
    refused = refused_object(loading)
    assert refused is not None
    assert "calls cudaLibraryLoadData" in refused.log


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (1500.0, 1500.0, ""),
        (1500.0, 1456.0, ""),
        (1500.0, 1450.0, "the GPU's clock changed from 1500 to 1450 MHz"),
        (None, 1500.0, "the driver reports neither the GPU's clock rate nor whether"),
    ],
)
def test_a_clock_that_is_not_steady_is_told(
    before: float | None, after: float | None, says: str
) -> None:
    told = " ".join(runner._clock_warning(before, after))
    assert told.startswith(says)
    assert bool(told) == bool(says)


SANITIZER = """#!/bin/sh
echo "$@" >> {calls}
while [ "$1" != ./program ]; do shift; done
{does} "$@"
"""


@pytest.mark.parametrize(("does", "kind"), [("exec", None), ("exit 3; exec", "crash")])
def test_winners_run_under_the_sanitizer_and_other_kernels_do_not(
    gpu: None, does: str, kind: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, calls = tmp_path / "compute-sanitizer", tmp_path / "calls"
    program.write_text(SANITIZER.format(calls=calls, does=does))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for sessions in (1, 2):
        settings = {"input_seed": 3, "simulation_timeout_s": 30.0, "sessions": sessions}
        task = create_target().open(SPEC, settings)
        artifact = task.evaluator[0].build(Candidate(task.start))
        assert not isinstance(artifact, Failed), artifact.log
        found = task.evaluator[2].measure(artifact, NOTHING_CHECKED, None)
        assert calls.exists() == (sessions == 2)
    assert getattr(found, "kind", None) == kind
    assert "--tool memcheck" in calls.read_text()
