"""Folders with NKI kernels in the styles of other authors: checked, modelled and read unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core.records import Artifact, Candidate, Measured, Verdict
from tilewright.proposers.nki.planning.steps import TECHNIQUES, steps_of
from tilewright.proposers.nki.reading.kernel import read
from tilewright.targets.trainium import create_target

FOLDERS = sorted((Path(__file__).parents[2] / "fixtures" / "foreign_nki").iterdir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_foreign_kernels_are_right_and_read(folder: Path) -> None:
    target = create_target()
    task = target.open_folder(folder, {})
    builder, checker, runner = task.evaluator
    source = task.start
    built = builder.build(Candidate(source))
    assert isinstance(built, Artifact), built
    verdict = checker.check(built)
    assert isinstance(verdict, Verdict), verdict
    assert isinstance(runner.measure(built, verdict, None), Measured)
    kernel = read(source, task.workload, target.brief().language)
    assert any(next(steps_of(kernel, t), None) for t in TECHNIQUES)
