"""How much memory a comparison takes: at full size, each array of an output has gigabytes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import pytest

from tilewright.core.records import Artifact, Failed, Verdict
from tilewright.parts import cases as cases_module
from tilewright.parts import float_error, hostile
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.problem import Expected
from tilewright.targets.trainium import create_target
from tilewright.targets.trainium.evaluator import Evaluation
from tilewright.targets.trainium.interpreter_process import Interpretation
from tilewright.targets.trainium.task import TrainiumTask

OUTPUT_BYTES = 8 * 512 * 16 * 32 * 4
MOST_COMPARING, MOST_OF_REFERENCE = 4.15, 5.8
"""Arrays as large as the output in float32: it itself (1), its exact values in float64 (2), and
room for what is small at full size: inputs, blocks that are compared, filters in float64."""


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> TrainiumTask:
    """A task that counts as large, whose kernels are of NKI 1 and have iterations in any order."""
    trace = SimpleNamespace(language=1, loops=[SimpleNamespace(kind="affine", trips=2)])
    monkeypatch.setattr(Evaluation, "traced", lambda *_: (None, trace))
    monkeypatch.setattr(cases_module, "LARGE", 1)
    monkeypatch.setattr(float_error, "_BLOCK", 1 << 14)  # small beside the output, as at full size
    monkeypatch.setattr(cases_module, "MOST_KEPT", 1)
    return create_target().open("conv2d-8x128x16x32x512-k3", {"input_seed": 7})


def checked(
    task: TrainiumTask, outputs: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> tuple[Verdict | Failed, float, float, int]:
    """Verdict, most memory while outputs are compared and while they are computed, and runs.

    Memory is a multiple of the output's. The kernel has these outputs on the first and on the
    second set of inputs.
    """
    cases, reference = task._cases, task._problem.reference
    comparing, computing = [], []

    def peak() -> float:
        found = tracemalloc.get_traced_memory()[1] / OUTPUT_BYTES
        tracemalloc.reset_peak()
        return found

    def run(
        _: object, __: str, arrays: Mapping[str, np.ndarray], **___: object
    ) -> dict[str, bytes]:
        comparing.append(peak())
        return {"out": outputs[arrays is cases[1].initial].tobytes()}

    def measured(inputs: Mapping[str, np.ndarray]) -> Mapping[str, Expected]:
        found = reference(inputs)
        computing.append(peak())
        return found

    monkeypatch.setattr(Interpretation, "run", run)
    monkeypatch.setattr(task._problem, "reference", measured)
    tracemalloc.start()
    try:
        verdict = task.evaluator[1].check(Artifact("", b"", ""))
        return verdict, max(*comparing, peak()), max(computing), len(comparing)
    finally:
        tracemalloc.stop()
        monkeypatch.setattr(task._problem, "reference", reference)


def rounded(task: TrainiumTask) -> list[np.ndarray]:
    """Right outputs; the expected ones are freed again."""
    found = []
    for number in task._cases.compared(2):
        case = task._cases[number]
        expected = case.expected["out"]
        assert isinstance(expected, TrackedArray)
        assert case.honest  # of a sample, whose size does not depend on the workload's
        found.append(expected.exact.astype(np.float32))
        case.forget_expected()
    return found


def test_checks_keep_no_second_array_of_float64(
    task: TrainiumTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = rounded(task)
    verdict, comparing, computing, runs = checked(task, outputs, monkeypatch)
    assert isinstance(verdict, Verdict)
    assert len(verdict.checks) == 2
    assert runs == 4
    assert comparing < MOST_COMPARING
    assert computing < MOST_OF_REFERENCE

    outputs[0][...] = 0
    verdict, comparing, computing, runs = checked(task, outputs, monkeypatch)
    assert isinstance(verdict, Failed)
    assert verdict.kind == "wrong_result"
    assert runs == 2
    assert comparing < MOST_COMPARING
    assert computing < MOST_OF_REFERENCE


def test_no_output_is_poisoned_that_no_kernel_is_given(task: TrainiumTask) -> None:
    assert list(task._cases[0].initial) == ["img", "filt"]


def test_inputs_of_other_comparisons_are_freed_and_drawn_again(task: TrainiumTask) -> None:
    cases = task._cases
    first = cases.alone(0).initial["img"].copy()
    assert cases.alone(0).initial["img"] is cases[0].initial["img"]
    cases.alone(1)
    tracemalloc.start()
    try:
        np.testing.assert_array_equal(cases.alone(0).initial["img"], first)
        assert tracemalloc.get_traced_memory()[0] > first.nbytes  # it was drawn again
    finally:
        tracemalloc.stop()


def test_no_two_results_of_the_reference_exist_at_the_same_time(
    task: TrainiumTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostile, "MOST_KEPT", 1)
    first, second = task.check_cases()
    for case in (first, second):
        _ = case.expected
    kept = [task._cases[number] for number in range(2)]
    assert ["expected" in vars(case) for case in kept] == [False, True]
    second.reference({name: second.given[name] for name in ("img", "filt")})
    assert ["expected" in vars(case) for case in kept] == [False, False]
    _ = second.expected
    first.reference({name: first.given[name] for name in ("img", "filt")})
    assert ["expected" in vars(case) for case in kept] == [False, False]
