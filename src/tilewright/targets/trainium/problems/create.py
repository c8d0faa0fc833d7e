"""Chooses the oracle of a workload by its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.parts.cases import LARGE
from tilewright.parts.inputs import bytes_of
from tilewright.parts.problem import Problem
from tilewright.targets.trainium.problems.attention import AttentionProblem
from tilewright.targets.trainium.problems.elements import ElementProblem
from tilewright.targets.trainium.problems.exact import ExactProblem, LargeExactProblem
from tilewright.targets.trainium.problems.products import ProductProblem
from tilewright.targets.trainium.problems.rows import RowProblem
from tilewright.targets.trainium.problems.scan import ScanProblem
from tilewright.targets.trainium.shapes import Shape


def create_problem(shape: Shape) -> Problem:
    """The oracle of a shape."""
    kinds: Sequence[tuple[Sequence[str], Any]] = (
        (("rmsnorm", "layernorm", "cumsum"), RowProblem),
        (("mamba",), ScanProblem),
        (("transpose", "maxpool"), ExactProblem),
        (("rope", "conv1d"), ElementProblem),
        (("gemm", "conv2d"), ProductProblem),
    )
    for names, problem in kinds:
        if shape.kind in names:
            if problem is ExactProblem and bytes_of(shape.arguments) >= LARGE:
                return LargeExactProblem(shape)
            found: Problem = problem(shape)
            return found
    return AttentionProblem(shape)
