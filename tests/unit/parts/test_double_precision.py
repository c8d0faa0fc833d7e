"""Folders with float64 outputs are held to what honest float64 arithmetic is off by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.parts.arithmetic import DOUBLE, HAS_LONGER, SINGLE, careless_ways, rounded
from tilewright.parts.case import Case
from tilewright.parts.cases import Cases
from tilewright.parts.folder import read_folder
from tilewright.parts.folder_problem import FolderProblem
from tilewright.parts.languages import C

pytestmark = pytest.mark.skipif(not HAS_LONGER, reason="no type wider than float64 here")

TOML = """\
target = "host-c"
operations = 4096
reduction = 64
[[argument]]
name = "A"
shape = [8, 64]
dtype = "{inputs}"
role = "input"
[[argument]]
name = "B"
shape = [64, 8]
dtype = "{inputs}"
role = "input"
[[argument]]
name = "C"
shape = [8, 8]
dtype = "{output}"
role = "output"
"""
PRODUCT = "def reference(A, B):\n    return A.astype('float64') @ B\n"
SOFTMAX = """\
import numpy as np
def reference(A, B):
    S = A @ B / 64
    E = np.exp(S - S.max(axis=1, keepdims=True))
    return E / E.sum(axis=1, keepdims=True)
"""
Array = np.ndarray[Any, Any]


def cases_of(
    folder: Path, reference: str = PRODUCT, inputs: str = "float64", output: str = "float64"
) -> Cases:
    (folder / "workload.toml").write_text(TOML.format(inputs=inputs, output=output))
    (folder / "reference.py").write_text(reference)
    (folder / "kernel.c").write_text("")
    workload, _, problem = read_folder(folder, "host-c", C, 1 << 30, "the machine")
    return Cases(workload, problem, 5)


def by_terms(left: Array, right: Array, order: slice = slice(None)) -> Array:
    total = np.zeros((len(left), right.shape[1]), left.dtype)
    for k in range(left.shape[1])[order]:
        total += np.outer(left[:, k], right[k])
    return total


def by_lanes(left: Array, right: Array) -> Array:
    total = np.zeros_like(by_terms(left[:, :1], right[:1]))
    for part in [by_terms(left[:, i::16], right[i::16]) for i in range(16)]:
        total += part
    return total


HONEST: dict[str, Callable[[Array, Array], Array]] = {
    "forwards": by_terms,
    "backwards": lambda a, b: by_terms(a, b, slice(None, None, -1)),
    "16 lanes": by_lanes,
    "the library's": lambda a, b: a @ b,
}
WRONG: dict[str, Callable[[Array, Array], Array]] = {
    "float32 inputs": lambda a, b: a.astype("f4").astype("f8") @ b.astype("f4").astype("f8"),
    "one float32 operand": lambda a, b: a.astype("f4").astype("f8") @ b,
    "float32 sums": lambda a, b: by_terms(a.astype("f4"), b.astype("f4")),
    "a float32 result": lambda a, b: (a @ b).astype("f4"),
    "a skipped term": lambda a, b: a[:, :-1] @ b[:-1],
    "zeros": lambda a, b: 0 * (a @ b),
}


def mismatch(case: Case, kernel: Callable[[Array, Array], Array]) -> str | None:
    with np.errstate(all="ignore"):
        found = kernel(case.given["A"], case.given["B"]).astype("float64")
    return case.mismatch({"C": found.tobytes()})


def test_sums_in_any_order_are_right_and_fewer_digits_are_not(tmp_path: Path) -> None:
    cases = cases_of(tmp_path)
    compared = [cases[number] for number in cases.compared(3)]
    assert len(compared) >= 8
    for name, kernel in HONEST.items():
        assert [mismatch(case, kernel) for case in compared] == [None] * len(compared), name
    for name, kernel in WRONG.items():
        told = [case.check.distribution for case in compared if mismatch(case, kernel)]
        assert {"small", "full-range"} <= set(told), (name, told)
    assert compared[0].honest["C"].name == "float64"


def test_classes_and_shortcuts_are_those_below_float64(tmp_path: Path) -> None:
    case = cases_of(tmp_path)[0]
    a, b = case.given["A"], case.given["B"]
    assert case.passed({"C": (a @ b).tobytes()}).precision == "float64"
    single = by_terms(a.astype("f4"), b.astype("f4")).astype("f8")
    assert case.passed({"C": single.tobytes()}).precision == "float32"
    assert min(case.careless[name] for name in ("float32 inputs", "skipped terms")) > 2
    assert "bf16 inputs" not in case.careless


def test_functions_are_followed_in_the_wider_type(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, SOFTMAX)
    for number in cases.compared(3):
        case = cases[number]
        a, b = case.given["A"], case.given["B"]
        scores = by_terms(a, b) / 64
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        right = e / by_terms(e, np.ones((8, 1)))
        assert case.mismatch({"C": right.tobytes()}) is None, case.check.distribution
        rough = right.astype("f4").astype("f8")
        if case.check.distribution == "small":
            assert case.mismatch({"C": rough.tobytes()}) is not None
            assert case.careless["rough functions"] > 2


def test_float32_inputs_may_be_summed_in_float64_only(tmp_path: Path) -> None:
    case = cases_of(tmp_path, inputs="float32")[0]
    wide = {name: array.astype("f8") for name, array in case.given.items()}
    assert case.mismatch({"C": by_lanes(wide["A"], wide["B"]).tobytes()}) is None
    narrow = by_terms(case.given["A"], case.given["B"]).astype("f8")
    assert case.mismatch({"C": narrow.tobytes()}) is not None


def test_without_a_wider_type_results_are_compared_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.parts.folder.HAS_LONGER", False)
    cases = cases_of(tmp_path)
    assert type(cases._problem) is FolderProblem


def test_rounding_to_fewer_digits_is_that_of_the_narrower_type() -> None:
    values = np.random.default_rng(1).standard_normal(1000)
    assert (rounded(values, SINGLE.digits) == values.astype(np.float32)).all()
    assert rounded(values, DOUBLE.digits) is values
    assert careless_ways(DOUBLE)["float32 inputs"].given(values).dtype == np.float64
