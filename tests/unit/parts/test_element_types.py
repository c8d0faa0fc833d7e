"""Arrays of every element type are drawn, poisoned and compared."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from tilewright.core.records import Argument, Tolerance, Workload
from tilewright.evaluation.preflight.examine import examine
from tilewright.parts import inputs
from tilewright.parts.cases import Cases
from tilewright.parts.element_types import Float, Integer, is_float
from tilewright.parts.hostile import OpenCase, hostile_c_kernels
from tilewright.parts.inputs import Array
from tilewright.targets.cuda.hostile import hostile_kernels as of_cuda
from tilewright.targets.cuda.triton.hostile import hostile_kernels as of_triton
from tilewright.targets.trainium.hostile import hostile_kernels as of_nki

TYPES = [*get_args(Integer), *get_args(Float)]


class Doubled:
    """Y = 2 X."""

    reduction = 1
    fingerprint = "doubled"

    def __init__(self, dtype: str) -> None:
        given = Argument("X", (4, 64), dtype, "input")
        tolerance = Tolerance(relative=2.0**-6) if is_float(dtype) else Tolerance()
        self.workload = Workload(
            "toy:doubled", "toy", (given, Argument("Y", (4, 64), dtype, "output")), 256, tolerance
        )

    def reference(self, inputs: dict[str, Array]) -> dict[str, Array]:
        return {"Y": (inputs["X"] + inputs["X"]).astype(inputs["X"].dtype)}


@pytest.mark.parametrize("dtype", TYPES)
def test_every_distribution_is_finite_and_differs(dtype: str) -> None:
    argument = Argument("X", (64, 32), dtype, "input")
    for name in inputs.distributions([argument]):
        array = inputs.draw(argument, name, 32, np.random.default_rng(1), leading=True)
        assert array.dtype == np.dtype(dtype)
        assert np.isfinite(array.astype(np.float64)).all(), name
        assert len(np.unique(array)) >= 3, name


@pytest.mark.parametrize("dtype", TYPES)
def test_outputs_are_compared_in_their_type(dtype: str) -> None:
    problem = Doubled(dtype)
    case = Cases(problem.workload, problem, 1)[0]
    right = np.asarray(case.expected["Y"])
    assert case.mismatch({"Y": right.tobytes()}) is None
    assert case.passed({"Y": right.tobytes()}).distribution == "small"
    wrong = right.copy()
    wrong.flat[3] = 64
    assert "differ, first at Y[0][3]: got 64" in (case.mismatch({"Y": wrong.tobytes()}) or "")


@pytest.mark.parametrize("dtype", get_args(Float))
def test_outputs_that_a_kernel_does_not_write_hold_no_numbers(dtype: str) -> None:
    """Random numbers near zero would be accepted where zero is right, as after a ReLU."""
    poisoned = inputs.poison(Argument("Y", (64, 64), dtype, "output"), np.random.default_rng(1))
    assert np.isnan(poisoned.astype(np.float64)).all()
    # Types of 8 bits have only few NaN.
    least = 4 if np.dtype(dtype).itemsize == 1 else 17
    assert len(np.unique(np.frombuffer(poisoned.tobytes(), np.uint8))) >= least


@pytest.mark.parametrize("dtype", TYPES)
def test_the_check_of_a_task_can_be_attacked(dtype: str) -> None:
    problem = Doubled(dtype)

    class Task:
        workload = problem.workload

        def check_cases(self) -> list[OpenCase]:
            cases = Cases(problem.workload, problem, 1)
            return [OpenCase(cases[i]) for i in range(4)]

        def hostile_kernels(self) -> dict[str, str]:
            return {}

    results = examine(Task())  # type: ignore[arg-type]
    assert {r.name for r in results if r.verdict == "accepted"} == set()


def test_kernels_in_c_name_the_type_of_their_arrays() -> None:
    source = hostile_c_kernels(Doubled("float64").workload.arguments)["writes zeros"]
    assert "const double *operand_0, double *operand_1" in source
    assert (
        "uint16_t *operand_1"
        in hostile_c_kernels(Doubled("bfloat16").workload.arguments)["writes zeros"]
    )


@pytest.mark.parametrize("kernels", [hostile_c_kernels, of_cuda, of_triton, of_nki])
def test_wrong_kernels_take_no_names_from_the_user(
    kernels: Callable[..., Mapping[str, str]],
) -> None:
    """An argument called `i`, `fill`, `nl` or `unix` ended preflight as an error of its own."""
    names = ("i", "nl", "tl", "fill", "unix", "rows")
    arguments = [Argument(n, (4, 8), "float32", "input") for n in names[:-1]]
    arguments.append(Argument(names[-1], (4, 8), "float32", "output"))
    own = [replace(a, name=f"operand_{i}") for i, a in enumerate(arguments)]
    assert list(kernels(arguments).values()) == list(kernels(own).values())


def test_another_version_of_the_values_has_another_number() -> None:
    digest, rng = hashlib.sha256(), np.random.default_rng(7)
    for dtype in ("float32", "int8", "int32"):
        argument = Argument("X", (4, 64), dtype, "input")
        for name in inputs.distributions([argument, argument]):
            for leading in (True, False):
                drawn = inputs.draw(argument, name, 32, rng, leading=leading)
                digest.update(drawn.tobytes())
    assert (digest.hexdigest()[:16], inputs.VERSION) == ("0b049285ed338b94", "17")
