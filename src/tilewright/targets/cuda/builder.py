"""Compiles kernels for the architecture of a GPU."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.core.records import Artifact, Candidate, Failed
from tilewright.targets.cuda.evaluation import CudaEvaluation
from tilewright.targets.cuda.source import NO_KERNEL, refused


class CudaBuilder:
    """Compiles for the GPU after the `rules` have rejected sources that access more than their
    arguments."""

    def __init__(
        self, evaluation: CudaEvaluation, rules: Callable[[str], Failed | None] = refused
    ) -> None:
        self._evaluation, self._rules = evaluation, rules

    @property
    def sandbox(self) -> str:
        """The sandbox in which the compilers run."""
        return self._evaluation.nvcc.sandbox.name

    def build(self, candidate: Candidate) -> Artifact | Failed:
        """Machine code, or the compiler's error with its line."""
        evaluation = self._evaluation
        problem = self._rules(candidate.source)
        if problem is not None:
            return problem
        compiled = evaluation.compiled(candidate.source)
        if isinstance(compiled, Failed):
            return compiled
        if not compiled.functions:
            return NO_KERNEL
        return Artifact(
            candidate.id, b"".join(compiled.cubins), evaluation.nvcc.id, candidate.source
        )
