"""A published benchmark's task: products of uniform(0, 1) numbers over K = 524288, within 1e-2.

Every output is close to K / 4, whatever the inputs are. See docs/tolerance.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import pytest

from tilewright.core.roles import CheckCase
from tilewright.evaluation.preflight.examine import examine, refusal
from tilewright.parts.cases import Cases
from tilewright.parts.folder import read_folder
from tilewright.parts.hostile import OpenCase
from tilewright.parts.languages import C

K = 524288
REFERENCE = """\
import numpy as np
def reference(A, B):
    return (A.astype(np.float64) @ B.astype(np.float64)).astype(np.float32)
"""


class Task:
    """The task of a folder, for preflight; no kernel is run."""

    def __init__(self, folder: Path, inputs: str, tolerance: str) -> None:
        shapes = {"A": (4, K, "input"), "B": (K, 4, "input"), "C": (4, 4, "output")}
        text = f'target = "host-c"\noperations = {16 * K}\nreduction = {K}\n{tolerance}\n'
        for name, (rows, columns, role) in shapes.items():
            text += f'[[argument]]\nname = "{name}"\nshape = [{rows}, {columns}]\n'
            text += f'dtype = "float32"\nrole = "{role}"\n{inputs if role == "input" else ""}\n'
        (folder / "workload.toml").write_text(text)
        (folder / "reference.py").write_text(REFERENCE)
        (folder / "kernel.c").write_text("")
        self.workload, _, self._problem = read_folder(folder, "host-c", C, 1 << 30, "the machine")

    @cached_property
    def _cases(self) -> Cases:
        return Cases(self.workload, self._problem, 5)

    def check_cases(self) -> Sequence[CheckCase]:
        """Inputs as described only, as the benchmark has them; other distributions would tell."""
        return [OpenCase(self._cases[0]), OpenCase(self._cases.timed())]

    def omissions(self) -> Mapping[str, str]:
        return {}

    def hostile_kernels(self) -> Mapping[str, str]:
        return {}


LOOSE = ["constant", "rank-1 estimate", "half the sum, doubled"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("loose")


def test_a_loose_tolerance_over_numbers_of_one_sign_accepts_estimates(folder: Path) -> None:
    task = Task(folder, "inputs = { range = [0, 1] }", "[tolerance]\nrelative = 1e-2")
    results = examine(task)  # type: ignore[arg-type]
    accepted = {result.name for result in results if result.verdict == "accepted"}
    assert set(LOOSE) <= accepted
    text = refusal("the task", results)
    assert text is not None
    assert all(name in text for name in LOOSE)
    assert "remove the tolerance from workload.toml" in text
    assert "use inputs of both signs" in text
    shown = {r.name: r.verdict for r in results}
    assert shown["bf16 inputs"] == "indistinguishable"


@pytest.mark.slow
def test_numbers_of_both_signs_without_a_tolerance_do_not(folder: Path) -> None:
    task = Task(folder, "inputs = { range = [-1, 1] }", "")
    results = examine(task)  # type: ignore[arg-type]
    assert {r.verdict for r in results if r.name in LOOSE} == {"rejected"}
    shown = {r.name: r.verdict for r in results}
    assert shown["bf16 inputs"] == shown["fp16 inputs"] == "rejected"
