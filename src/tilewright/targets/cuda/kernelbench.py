"""KernelBench's own rule of correctness, reported under its name in addition to our verdict.

Its inputs are uniform on [0, 1). Outputs are accepted if |got - expected| <= t + t |expected|. In
versions 0 and 0.1, t = 1e-2; since then, 1e-4 for float32 and 1e-2 for half types. Source:
github.com/ScalingIntelligence/KernelBench at 423217d (src/kernelbench/eval.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tilewright.core.records import AttackResult
from tilewright.parts.case import Case
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.inputs import Array
from tilewright.targets.cuda.shapes import Shape

TOLERANCES = {"1e-2": 1e-2, "1e-4": 1e-4}
"""Tolerances by the text that messages print: that of KernelBench's first versions, and its
present one for float32."""
_SIDE = 16
"""Numbers of rows and columns of a product that are sufficient to test the rule."""


def accepts(got: Array, expected: Array, tolerance: float) -> bool:
    """Whether the rule accepts outputs with this absolute and relative tolerance."""
    exact = expected.astype(np.float64)
    off = np.abs(got.astype(np.float64) - exact)
    return bool(np.all(off <= tolerance + tolerance * np.abs(exact)))


def uniform(case: Case, seed: int) -> Case:
    """The case with the benchmark's inputs."""
    rng = np.random.default_rng(seed)
    drawn = {
        a.name: rng.random(a.shape, np.float32).astype(a.dtype)
        for a in case.workload.arguments
        if a.is_given
    }
    return replace(case, initial={**case.initial, **drawn}, alike=case.alike or case)


def accepted_at(case: Case, outputs: Mapping[str, bytes]) -> dict[str, bool]:
    """For each tolerance, whether the rule accepts the outputs of a case."""
    found = {}
    for words, tolerance in TOLERANCES.items():
        found[words] = all(
            accepts(
                np.frombuffer(outputs[a.name], a.dtype).reshape(a.shape), _values(case, a.name),
                tolerance,
            )
            for a in case.workload.arguments
            if a.is_written
        )  # fmt: skip
    return found


def wrong_products(shape: Shape, seed: int) -> list[AttackResult]:
    """Whether the rule accepts kernels that do not compute the product, at the full number of
    terms."""
    if shape.kind not in ("gemm", "matmul3d"):
        return []
    rng, terms = np.random.default_rng(seed), shape.reduction
    left = rng.random((_SIDE, terms), np.float32).astype(np.float64)
    right = rng.random((terms, _SIDE), np.float32).astype(np.float64)
    expected = left @ right
    half = terms // 2
    wrong = {
        "the constant K/4": np.full_like(expected, terms / 4),
        "an estimate from row and column sums": (
            left.sum(1, keepdims=True) * right.sum(0, keepdims=True) / terms
        ),
        "half the terms, twice": 2 * (left[:, :half] @ right[:half]),
    }
    results = []
    for name, got in wrong.items():
        taken = [words for words, t in TOLERANCES.items() if accepts(got, expected, t)]
        worst = float(np.max(np.abs(got - expected) / np.abs(expected)))
        verdict = f"accepted with {' and '.join(taken)}" if taken else "rejected"
        log = f"KernelBench's own rule, not tilewright's: {verdict} (off by {worst:.2%} at most)"
        results.append(
            AttackResult(f"KernelBench: {name}", "computes no product", "does not apply", log)
        )
    return results


def _values(case: Case, name: str) -> Array:
    expected = case.expected[name]
    return expected.exact if isinstance(expected, TrackedArray) else expected
