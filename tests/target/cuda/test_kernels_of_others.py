"""CUDA kernels of many styles pass level 1 or are `not_checked` for a true reason; each planted
mistake is found, with its line where one line is to blame.
"""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest
from kernels_of_others import KERNELS, Mistake, OtherKernel

from tilewright.core.records import Artifact, Candidate, Failed, Verdict
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.task import CudaTask

pytestmark = pytest.mark.skipif(
    shutil.which("nvcc") is None or shutil.which("g++") is None,
    reason="needs nvcc and g++ on PATH",
)
MISTAKES = [
    pytest.param(kernel, mistake, id=f"{kernel.name}-{number}")
    for kernel in KERNELS
    for number, mistake in enumerate(kernel.mistakes)
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("others")


@cache
def task_of(kernel: OtherKernel, folders: Path) -> CudaTask:
    return create_target().open_folder(kernel.write(folders / kernel.name), {})


def checked(task: CudaTask, artifact: Artifact) -> Verdict | Failed:
    _, checker, _ = task.evaluator
    first = checker.check_first(artifact)
    return first if isinstance(first, Failed) else checker.check(artifact, first)


@pytest.mark.parametrize("kernel", [pytest.param(k, id=k.name) for k in KERNELS])
def test_a_right_kernel_passes_or_is_not_checked_for_a_true_reason(
    kernel: OtherKernel, folders: Path
) -> None:
    task = task_of(kernel, folders)
    builder, _, _ = task.evaluator
    artifact = builder.build(Candidate(kernel.source))
    assert isinstance(artifact, Artifact), artifact
    found = checked(task, artifact)
    if kernel.not_checked:
        assert isinstance(found, Failed)
        assert found.kind == "not_checked"
        assert kernel.not_checked in found.log
    else:
        assert isinstance(found, Verdict), found


@pytest.mark.parametrize(("kernel", "mistake"), MISTAKES)
def test_a_mistake_is_found(kernel: OtherKernel, mistake: Mistake, folders: Path) -> None:
    source = kernel.with_mistake(mistake)
    found = checked(task_of(kernel, folders), Artifact(Candidate(source).id, b"", "", source))
    assert isinstance(found, Failed), mistake
    assert found.kind in mistake.kinds, found.log
    if mistake.line:
        assert found.line is not None, found.log
        assert mistake.line in source.splitlines()[found.line - 1], found.log


def test_the_cause_is_searched_on_a_device_of_the_same_size(folders: Path) -> None:
    """On a device with many multiprocessors, each block moves one tile and needs no barrier."""
    kernel = next(k for k in KERNELS if k.name == "persistent_transpose")
    task = task_of(kernel, folders)
    head, barrier, tail = kernel.source.rpartition("    __syncthreads();\n")
    assert barrier
    artifact = task.evaluator[0].build(Candidate(head + tail))
    assert isinstance(artifact, Artifact), artifact
    found = checked(task, artifact)
    assert isinstance(found, Failed)
    assert found.kind == "race"
    assert "out[r * rows + c] =" in kernel.source.splitlines()[(found.line or 0) - 1]
