"""Kernels that cheat the check or the clock of a GPU, on the emulated one; none is accepted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tilewright.core.records import Candidate, Failed, Measured, Outcome
from tilewright.parts.case import Case
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.device import evaluator, kernel
from tilewright.targets.cuda.device import runner as device_runner
from tilewright.targets.cuda.device.kernel import DeviceKernel
from tilewright.targets.cuda.device.runner import REPEATED
from tilewright.targets.cuda.task import CudaTask

FOLDER = Path(__file__).parents[2] / "exploits" / "cuda_timing"
ATTACKS = sorted(FOLDER.glob("*.cu"))
SETTINGS = {"input_seed": 1, "simulation_timeout_s": 60.0}
NO_LIMIT_NS = 1e15
"""So that kernels are timed as a search times them, and never given up."""
SPECS = {"only_at_the_small_size": "rowsum-2x6000"}
DRAWN_BY_THE_TASK = ("keeps_its_first_result", "keeps_a_result_for_each_address")
"""Tried on sums of whole numbers within a range: the device cannot draw their inputs."""
WORKLOAD = """\
target = "cuda"
operations = 512
[[argument]]
name = "X"
shape = [8, 64]
dtype = "int32"
role = "input"
inputs = { range = [0, 1000] }
[[argument]]
name = "Y"
shape = [8]
dtype = "int32"
role = "output"
"""
START = """\
__global__ void sums(const int *X, int *Y) {
  int sum = 0;
  for (int c = 0; c < 64; c++) sum += X[blockIdx.x * 64 + c];
  Y[blockIdx.x] = sum;
}
void kernel(const int *X, int *Y) { sums<<<8, 1>>>(X, Y); }
"""


def outcome_of(task: CudaTask, source: str) -> Outcome:
    builder, checker, runner = task.evaluator
    artifact = builder.build(Candidate(source))
    if isinstance(artifact, Failed):
        return artifact
    verdict = checker.check_first(artifact)
    return (
        verdict if isinstance(verdict, Failed) else runner.measure(artifact, verdict, NO_LIMIT_NS)
    )


def sums_of_whole_numbers(folder: Path) -> CudaTask:
    """The task of a folder that says what its inputs look like."""
    (folder / "workload.toml").write_text(WORKLOAD)
    (folder / "kernel.cu").write_text(START)
    (folder / "reference.py").write_text("def reference(X):\n    return X.sum(1).astype('int32')\n")
    return create_target().open_folder(folder, SETTINGS)


@pytest.fixture
def task(gpu: None, request: pytest.FixtureRequest, tmp_path: Path) -> CudaTask:
    attack = getattr(request, "param", "")
    if attack in DRAWN_BY_THE_TASK:
        return sums_of_whole_numbers(tmp_path)
    return create_target().open(SPECS.get(attack, "rowsum-8x64"), SETTINGS)


def test_an_honest_kernel_is_accepted(task: CudaTask) -> None:
    assert isinstance(outcome_of(task, task.start), Measured)


@pytest.mark.parametrize(
    ("task", "file"), [(file.stem, file) for file in ATTACKS], indirect=["task"],
    ids=[file.stem for file in ATTACKS],
)  # fmt: skip
def test_an_attack_is_not_accepted(file: Path, task: CudaTask) -> None:
    source = file.read_text()
    kinds = re.search(r"Must be: ([\w, ]+)\.", source)
    assert kinds is not None, "a header line `Must be: KIND, ...`"
    outcome = outcome_of(task, source)
    assert isinstance(outcome, Failed), "accepted"
    assert outcome.kind in kinds[1].split(", "), outcome.log


@pytest.mark.parametrize("task", DRAWN_BY_THE_TASK[:1], indirect=True)
def test_whole_numbers_within_a_range_differ_in_every_call(
    task: CudaTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = outcome_of(task, task.start)
    assert isinstance(honest, Measured), honest.log
    assert REPEATED not in honest.warnings
    attack = (FOLDER / f"{DRAWN_BY_THE_TASK[0]}.cu").read_text()
    monkeypatch.setattr(Case, "redrawn", lambda self, rng, only=None: self)
    accepted = outcome_of(task, attack)
    assert isinstance(accepted, Measured), "without the rule, the attack passes"
    assert REPEATED in accepted.warnings


def test_several_copies_of_a_batch_are_compared(
    task: CudaTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[list[int]] = []
    compare = DeviceKernel._compare

    def heard(self: DeviceKernel, hashes: Mapping[int, Mapping[int, int]]) -> None:
        batches.append([])
        compare(self, hashes)

    def compared(*details: object) -> None:
        batches[-1].append(details[2])  # type: ignore[arg-type]

    monkeypatch.setattr(DeviceKernel, "_compare", heard)
    monkeypatch.setattr(kernel, "_compared", compared)
    for module in (evaluator, device_runner):
        monkeypatch.setattr(module, "checked_call", lambda *_: None)
    assert isinstance(outcome_of(task, task.start), Measured)
    assert max(len(set(copies)) for copies in batches) == kernel.MOST_COMPARED
    monkeypatch.setattr(kernel, "COMPARED_S", 0.0)
    batches.clear()
    assert isinstance(outcome_of(task, task.start), Measured)
    assert {len(copies) for copies in batches} == {1}
