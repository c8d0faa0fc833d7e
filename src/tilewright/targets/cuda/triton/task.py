"""A task whose kernels are written in Triton."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core.records import Failed
from tilewright.parts.languages import PYTHON
from tilewright.targets.cuda.task import CudaTask
from tilewright.targets.cuda.triton.evaluator import TritonDeviceEvaluation, TritonEvaluation
from tilewright.targets.cuda.triton.hostile import hostile_kernels
from tilewright.targets.cuda.triton.rules import refused


class TritonTask(CudaTask):
    """A CUDA task whose candidates are files of Triton kernels and a launcher."""

    evaluation = TritonEvaluation
    device_evaluation = TritonDeviceEvaluation
    language = PYTHON

    @staticmethod
    def rules(source: str) -> Failed | None:
        """The rules for a kernel's text."""
        return refused(source)

    def hostile_kernels(self) -> Mapping[str, str]:
        """Kernels that are wrong for any task."""
        return hostile_kernels(self._evaluation.compared.arguments)
