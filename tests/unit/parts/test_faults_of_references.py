"""A fault of a user's reference is reported as one, and is never said of the kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.core.errors import WorkloadError
from tilewright.parts.cases import Cases
from tilewright.parts.folder import read_folder
from tilewright.parts.languages import C

DESCRIPTION = """
target = "host-c"
operations = 16

[[argument]]
name = "X"
shape = [4, 4]
dtype = "float32"
role = "input"

[[argument]]
name = "Y"
shape = [4, 4]
dtype = "float32"
role = "output"
"""


def cases_of(folder: Path, body: str) -> Cases:
    (folder / "workload.toml").write_text(DESCRIPTION)
    (folder / "reference.py").write_text(f"import numpy as np\n\n\n{body}")
    (folder / "kernel.c").write_text("void kernel(const float X[4][4], float Y[4][4]) {}\n")
    workload, _, problem = read_folder(folder, "host-c", C, 1 << 20, "the memory")
    return Cases(workload, problem, input_seed=1)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("no_such_name", r"reference\(X\) raised NameError.*; it must compute the outputs"),
        ("X[:3]", r"returned float32\[3, 4\] for Y, expected float32\[4, 4\]"),
        ("None", r"reference returned nothing. End it with `return` and the outputs \(Y\)"),
        ("float(X[0, 0]) * X", "raised TypeError: a conversion to a single number is not"),
        (
            "np.ones((4, 4), np.float32)",
            "values for Y that it does not compute from its inputs by numpy",
        ),
        ("np.cumprod(X, 0)", "raised TypeError: np.cumprod is not supported; use the numpy"),
        ("np.partition(X, 1)", "raised TypeError: np.partition is not supported; use"),
        ("np.add.accumulate(X)", r"raised TypeError: np.add.accumulate is not supported; use"),
        ("np.asarray(X)", "copies elements into an array that numpy has made; use the numpy"),
        (
            "X.astype(int).astype(np.float32)",
            "raised TypeError: a conversion to int64 is not supported; use",
        ),
    ],
)
def test_a_reference_that_fails_is_told_from_one_that_cannot_be_followed(
    tmp_path: Path, returned: str, said: str
) -> None:
    cases = cases_of(tmp_path, f"def reference(X):\n    return {returned}\n")
    with pytest.raises(WorkloadError, match=said):
        _ = cases[cases.first].expected


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def reference(A):\n    return A\n", r"parameters \(A\). Name them .*: X\."),
        ("def reference(X):\n    return X)\n", r"unmatched '\)' \(reference.py, line 5\); correct"),
    ],
)
def test_a_reference_that_cannot_be_called_is_told_with_what_to_do(
    tmp_path: Path, body: str, said: str
) -> None:
    def expected() -> None:
        cases = cases_of(tmp_path, body)
        _ = cases[cases.first].expected

    with pytest.raises(WorkloadError, match=said):
        expected()


def test_elements_that_are_assigned_are_named_in_a_sentence(tmp_path: Path) -> None:
    body = (
        "def reference(X):\n    Y = np.zeros((4, 4), np.float32)\n    Y[0] = X[0]\n    return Y\n"
    )
    cases = cases_of(tmp_path, body)
    with pytest.raises(WorkloadError, match=r"copy no elements into other arrays, or give a \["):
        _ = cases[cases.first].expected


@pytest.mark.parametrize(
    "body",
    [
        "def reference(X):\n    return X + np.random.rand()\n",
        "calls = []\n\n\ndef reference(X):\n    calls.append(1)\n    return X + len(calls)\n",
    ],
)
def test_random_numbers_of_a_reference_are_not_blamed_on_the_kernel(
    tmp_path: Path, body: str
) -> None:
    cases = cases_of(tmp_path, body)
    case = cases[cases.first]
    with pytest.raises(WorkloadError, match="different results for Y in two calls with the same"):
        case.mismatch({"Y": np.zeros((4, 4), np.float32).tobytes()})


def test_a_wrong_kernel_is_still_found_wrong(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, "def reference(X):\n    return X + 1\n")
    case = cases[cases.first]
    for _ in range(2):
        text = case.mismatch({"Y": np.zeros((4, 4), np.float32).tobytes()})
        assert text is not None
        assert "16 of 16 elements of Y differ" in text


@pytest.mark.parametrize(
    ("returned", "said"), [("X * np.nan", "returns NaN for Y"), ("X / 0.0", "returns infinity")]
)
def test_a_reference_without_finite_results_is_named(
    tmp_path: Path, returned: str, said: str
) -> None:
    cases = cases_of(tmp_path, f"def reference(X):\n    return {returned}\n")
    with pytest.raises(WorkloadError, match=f"the reference {said}.* Correct the reference"):
        cases.compared(3)
