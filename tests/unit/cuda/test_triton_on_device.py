"""Kernels in Triton at level 3: their machine code is launched by the emulated GPU's program."""

from __future__ import annotations

import pytest

from tilewright.core.records import Artifact, Candidate, Failed, Measured, Verdict
from tilewright.core.roles import NOTHING_CHECKED
from tilewright.parts.inputs import bytes_of
from tilewright.targets.cuda.nvcc import Resources
from tilewright.targets.cuda.triton import create_target, evaluator
from tilewright.targets.cuda.triton.evaluator import Assembled
from tilewright.targets.cuda.triton.recorded import read_record
from tilewright.targets.cuda.triton.task import TritonTask

CODE = ".entry rowsum(.param .u64 a, .param .u64 b, .param .u32 c, .param .f32 d, .param .u64 e)"


@pytest.fixture
def task(gpu: None, monkeypatch: pytest.MonkeyPatch) -> TritonTask:
    """Whose launcher begins `added`, `columns`: what the machine code of the emulated GPU takes."""
    task = create_target().open("rowsum-8x100", {"input_seed": 3, "simulation_timeout_s": 30.0})
    sizes = [bytes_of([a]) for a in task.workload.arguments]

    def assembled(source: str, *rest: object) -> Assembled:
        added = 1.0 if "# adds one" in source else 0.0
        launch = {
            "launch": "rowsum", "code": 0, "grid": [8, 1, 1], "threads": 32, "shared": 0, "line": 3,
            "given": [{"array": [0, 0]}, {"array": [1, 0]}, {"whole": 100, "type": "i32"},
                      {"real": added.hex(), "type": "fp32"}],
        }  # fmt: skip
        report = {"codes": [CODE], "events": [launch], "allocated": []}
        functions = (Resources("rowsum", 40, 0, 0),)
        return Assembled(read_record(report, sizes), (b"machine code",), functions)

    monkeypatch.setattr(evaluator, "assembled", assembled)

    class OnTheCpu:
        def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
            return Failed("check", "not_checked", "Triton is not needed here")

        check_first = check

    monkeypatch.setattr(TritonTask, "on_the_cpu", lambda self: OnTheCpu())
    return task


def test_a_kernel_is_checked_and_timed_at_full_size(task: TritonTask) -> None:
    builder, checker, runner = task.evaluator
    artifact = builder.build(Candidate(task.start))
    assert not isinstance(artifact, Failed), artifact.log
    verdict = checker.check(artifact)
    assert not isinstance(verdict, Failed), verdict.log
    measured = runner.measure(artifact, verdict, None)
    assert isinstance(measured, Measured), measured
    assert (measured.unit, measured.quantity) == ("ns", "measured")
    assert measured.details["registers"] == 40
    assert measured.verdict.precision == "float32"


def test_a_wrong_kernel_is_found_on_the_device(task: TritonTask) -> None:
    builder, checker, _ = task.evaluator
    artifact = builder.build(Candidate(task.start + "# adds one\n"))
    assert not isinstance(artifact, Failed), artifact.log
    failed = checker.check(artifact)
    assert isinstance(failed, Failed)
    assert failed.kind == "wrong_result"
