"""Kernels that cheat the check or the clock of a GPU, on the emulated one; none is accepted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.core.records import Candidate, Failed, Measured, Outcome
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.task import CudaTask

FOLDER = Path(__file__).parents[2] / "exploits" / "cuda_timing"
ATTACKS = sorted(FOLDER.glob("*.cu"))
NO_LIMIT_NS = 1e15
"""So that kernels are timed as a search times them, and never given up."""
SPECS = {"only_at_the_small_size": "rowsum-2x6000"}


def outcome_of(task: CudaTask, source: str) -> Outcome:
    builder, checker, runner = task.evaluator
    artifact = builder.build(Candidate(source))
    if isinstance(artifact, Failed):
        return artifact
    verdict = checker.check_first(artifact)
    return (
        verdict if isinstance(verdict, Failed) else runner.measure(artifact, verdict, NO_LIMIT_NS)
    )


@pytest.fixture
def task(gpu: None, request: pytest.FixtureRequest) -> CudaTask:
    spec = SPECS.get(getattr(request, "param", ""), "rowsum-8x64")
    return create_target().open(spec, {"input_seed": 1, "simulation_timeout_s": 60.0})


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
