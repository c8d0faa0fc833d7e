"""A user's folder: what its inputs look like, and how far its kernels may be off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.core.errors import WorkloadError
from tilewright.parts.cases import Cases
from tilewright.parts.folder import read_folder
from tilewright.parts.languages import C

TOML = """\
target = "host-c"
operations = 4096
reduction = 64
{tolerance}
[[argument]]
name = "A"
shape = [8, 64]
dtype = "{dtype}"
role = "input"
{inputs}
[[argument]]
name = "B"
shape = [64, 8]
dtype = "{dtype}"
role = "input"
[[argument]]
name = "C"
shape = [8, 8]
dtype = "{output}"
role = "output"
"""
PRODUCT = """\
import numpy as np
def reference(A, B):
    return (A.astype(np.float64) @ B.astype(np.float64)).astype(np.float32)
def positive(rng, shape):
    return rng.exponential(size=shape)
def wrong(rng, shape):
    return np.zeros(3, np.float32)
def failing(rng, shape):
    raise ValueError("no values")
calls = []
def counting(rng, shape):
    calls.append(shape)
    return rng.standard_normal(shape) * len(calls)
"""
WHOLE = "def reference(A, B):\n    return A.astype('int32') @ B.astype('int32')\n"


def folder_cases(
    folder: Path,
    *,
    inputs: str = "",
    tolerance: str = "",
    reference: str = PRODUCT,
    dtype: str = "float32",
    output: str = "float32",
    seed: int = 5,
) -> Cases:
    text = TOML.format(inputs=inputs, tolerance=tolerance, dtype=dtype, output=output)
    (folder / "workload.toml").write_text(text)
    (folder / "reference.py").write_text(reference)
    (folder / "kernel.c").write_text("")
    workload, _, problem = read_folder(folder, "host-c", C, 1 << 30, "the machine")
    return Cases(workload, problem, seed)


def product(case: object, dtype: type = np.float32) -> np.ndarray:
    given = case.given  # type: ignore[attr-defined]
    return given["A"].astype(dtype) @ given["B"].astype(dtype)


def test_without_a_tolerance_errors_are_those_of_float32(tmp_path: Path) -> None:
    cases = folder_cases(tmp_path)
    numbers = cases.compared(3)
    assert {"shifted mean", "constant rows", "mixed scales"} <= {
        cases[n].check.distribution for n in numbers
    }
    for number in numbers:
        case = cases[number]
        right = {"C": product(case).tobytes()}
        assert case.mismatch(right) is None
        if case.check.distribution in ("small", "full-range", "sparse"):
            rough = case.given["A"].astype(np.float16).astype(np.float32) @ case.given["B"]
            assert case.mismatch({"C": rough.tobytes()}) is not None
            assert case.passed(right).precision == "float32"


def test_a_tolerance_decides_what_is_right_and_the_class_is_named_all_the_same(
    tmp_path: Path,
) -> None:
    case = folder_cases(tmp_path, tolerance="[tolerance]\nabsolute = 0.5")[0]
    rough = {"C": (case.given["A"].astype(np.float16) @ case.given["B"]).astype("f4").tobytes()}
    assert case.mismatch(rough) is None
    assert case.passed(rough).precision == "tf32-like"
    assert case.passed({"C": product(case).tobytes()}).precision == "float32"
    exact = folder_cases(tmp_path, tolerance="[tolerance]\nabsolute = 0")[0]
    assert exact.mismatch({"C": (product(exact) * np.float32(1 + 1e-6)).tobytes()}) is not None


LOOPS = """\
import numpy as np
def reference(A, B):
    C = np.zeros((8, 8), np.float32)
    for i in range(8):
        for j in range(8):
            C[i, j] = float(A[i] @ B[:, j])
    return C
"""


def test_a_reference_that_cannot_be_followed_needs_a_tolerance(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"or give a \[tolerance\] in workload"):
        folder_cases(tmp_path, reference=LOOPS).compared(3)
    case = folder_cases(tmp_path, reference=LOOPS, tolerance="[tolerance]\nrelative = 1e-3")[0]
    right = {"C": product(case, np.float64).astype(np.float32).tobytes()}
    assert case.mismatch(right) is None
    assert case.passed(right).precision == ""


@pytest.mark.parametrize(
    ("inputs", "low", "high"),
    [
        ("inputs = { range = [0, 1] }", 0, 1),
        ("inputs = { range = [-2.5, 7] }", -2.5, 7),
        ('inputs = { generator = "positive" }', 0, 100),
    ],
)
def test_inputs_are_what_the_folder_says(
    tmp_path: Path, inputs: str, low: float, high: float
) -> None:
    cases = folder_cases(tmp_path, inputs=inputs)
    drawn = [cases[n] for n in cases.compared(3)]
    assert [c.check.distribution for c in drawn] == [
        "as described", "constant rows", "ends of the range",
    ]  # fmt: skip
    for case in [*drawn, cases.timed(), drawn[0].redrawn(np.random.default_rng(1))]:
        values = case.initial["A"]
        assert values.dtype == np.float32
        assert low <= values.min() <= values.max() <= high
        assert np.abs(case.initial["B"]).max() > 1, "others are drawn as usual"
    if "range" in inputs:
        assert (drawn[1].initial["A"] == drawn[1].initial["A"][:, :1]).all()
        assert set(drawn[2].initial["A"].ravel().tolist()) == {low, high, max(low, 0)}
    assert len({case.initial["A"].tobytes() for case in drawn}) == 3
    again = folder_cases(tmp_path, inputs=inputs)
    assert (again[0].initial["A"] == drawn[0].initial["A"]).all()
    other = folder_cases(tmp_path, inputs=inputs, seed=6)
    assert (other[0].initial["A"] != drawn[0].initial["A"]).any()


POLE = "def reference(A, B):\n    return (1 / A) @ B\n"


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("tolerance", ["", "[tolerance]\nrelative = 1e-3"])
def test_ends_of_a_range_are_left_out_if_the_reference_is_infinite_there(
    tmp_path: Path, tolerance: str
) -> None:
    inputs = "inputs = { range = [-1, 1] }"
    cases = folder_cases(tmp_path, inputs=inputs, reference=POLE, tolerance=tolerance)
    assert list(cases.omissions) == ["ends of the range"]
    assert "the reference returns" in cases.omissions["ends of the range"]
    finite = folder_cases(tmp_path, inputs=inputs, tolerance=tolerance)
    assert not finite.omissions


SORTED = (
    PRODUCT
    + """\
def rising(rng, shape):
    return np.sort(rng.standard_normal(shape), axis=None).reshape(shape)
"""
)


def test_inputs_of_a_generator_are_never_changed_in_part(tmp_path: Path) -> None:
    """Their elements may depend on one another, as sorted offsets do."""
    inputs = 'inputs = { generator = "rising" }'
    cases = folder_cases(tmp_path, inputs=inputs, reference=SORTED)
    for number in range(3):
        case, changed = cases[number], cases.changed(number)
        assert (case.initial["A"] == changed.initial["A"]).all()
        assert 1 <= np.count_nonzero(case.initial["B"] != changed.initial["B"]) <= 8


def test_of_several_generated_inputs_the_last_is_drawn_again(tmp_path: Path) -> None:
    _ = folder_cases(tmp_path, inputs='inputs = { generator = "rising" }', reference=SORTED)
    file = tmp_path / "workload.toml"
    later = 'shape = [64, 8]\ndtype = "float32"\nrole = "input"\n'
    file.write_text(file.read_text().replace(later, later + 'inputs = { generator = "rising" }\n'))
    workload, _, problem = read_folder(tmp_path, "host-c", C, 1 << 30, "the machine")
    cases = Cases(workload, problem, 5)
    case, changed = cases[0], cases.changed(0)
    assert (case.initial["A"] == changed.initial["A"]).all()
    assert np.count_nonzero(case.initial["B"] != changed.initial["B"]) > 256
    assert (np.diff(changed.initial["B"].ravel()) >= 0).all()


def test_a_normal_distribution_and_whole_numbers(tmp_path: Path) -> None:
    values = folder_cases(tmp_path, inputs="inputs = { normal = [50, 2] }")[0].initial["A"]
    assert values.mean() == pytest.approx(50, abs=1)
    assert values.std() == pytest.approx(2, abs=0.5)
    whole = folder_cases(
        tmp_path,
        inputs="inputs = { normal = [100, 90] }",
        dtype="int8",
        output="int32",
        reference=WHOLE,
    )
    drawn = whole[0].initial["A"]
    assert drawn.max() == 127, "clipped to the type, not wrapped around"
    assert len(np.unique(drawn)) > 50


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("inputs = { range = [1, 0] }", "the first number of a range must be the smaller one"),
        ("inputs = { range = [0, inf] }", "argument.0.inputs.range"),
        ("inputs = { }", "give one of range, normal and generator"),
        ('inputs = { range = [0, 1], generator = "f" }', "give one of range, normal and generator"),
        ("inputs = { normal = [0, -1] }", "argument.0.inputs.normal"),
        ('inputs = { generator = "os.system" }', "argument.0.inputs.generator"),
        ('inputs = { generator = "missing" }', r"defines no function missing\(rng, shape\)"),
        ('inputs = { generator = "wrong" }', r"wrong returned float32\[3\] for A"),
        ('inputs = { generator = "failing" }', "raised ValueError: no values"),
        ('inputs = { generator = "counting" }', "different values for the same rng"),
        ("inputs = { range = [0, 1e39] }", "have values that float32 cannot hold"),
        ("inputs = { range = [-1e308, 1e308] }", "have values that float32 cannot hold"),
        ("inputs = { normal = [1e38, 1e38] }", "have values that float32 cannot hold"),
    ],
)
def test_a_description_that_fits_nothing_is_one_sentence(
    tmp_path: Path, inputs: str, message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        _ = folder_cases(tmp_path, inputs=inputs)[0]


SOLVER = """\
import numpy as np
def reference(A, B):
    x = B
    for _ in range(12):
        x = x * x * x
    return (A @ x).astype(np.float32)
"""


def test_nothing_is_near_an_infinite_result(tmp_path: Path) -> None:
    case = folder_cases(tmp_path, reference=INFINITE, tolerance="[tolerance]\nrelative = 0.1")[0]
    right = np.full((8, 8), np.inf, np.float32)
    assert case.mismatch({"C": right.tobytes()}) is None
    right[3, 4] = 0.0
    assert case.mismatch({"C": right.tobytes()}) is not None


INFINITE = "import numpy as np\ndef reference(A, B):\n    return np.full((8, 8), np.inf, 'f4')\n"


def test_a_recurrence_that_overflows_on_large_values_is_told_what_to_say(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"describe in workload.toml inputs"):
        folder_cases(tmp_path, reference=SOLVER, inputs="inputs = { normal = [1e30, 1] }").compared(
            3
        )


SIGMOID = """\
import numpy as np
def reference(A, B):
    return (1 / (1 + np.exp(-1000 * A))) @ B
"""


def test_an_exponential_that_overflows_below_a_fraction_bar_has_all_its_digits(
    tmp_path: Path,
) -> None:
    cases = folder_cases(tmp_path, reference=SIGMOID)
    assert set(cases.omissions) <= {"near overflow"}
    with np.errstate(over="ignore"):
        for number in cases.compared(3):
            case = cases[number]
            given = case.given
            left = np.float32(1) / (1 + np.exp(np.float32(-1000) * given["A"]))
            assert case.mismatch({"C": (left @ given["B"]).tobytes()}) is None


SOMETIMES = """\
import numpy as np
def reference(A, B):
    return (A * A) @ B
def sometimes(rng, shape):
    return rng.choice([1.0, 1e30]) * rng.standard_normal(shape)
"""


def test_further_values_on_which_float32_fails_are_left_out(tmp_path: Path) -> None:
    """Of a distribution whose first values are none such."""
    inputs = 'inputs = { generator = "sometimes" }'
    left_out = 0
    for seed in range(6):
        cases = folder_cases(tmp_path, reference=SOMETIMES, inputs=inputs, seed=seed)
        try:
            numbers = cases.compared(12)
        except WorkloadError:
            continue  # the first values of all three distributions are such
        left_out += len(numbers) < 12
        for number in numbers:
            assert cases[number].honest
    assert left_out


SUMMED = """\
import numpy as np
def reference(A, B):
    return (A.astype(np.float32) @ B.astype(np.float32)).astype("DTYPE")
"""


def outputs_of(case: object, kernel: str, dtype: str) -> dict[str, bytes]:
    """What a kernel of this kind computes on a case of half-precision matrices."""
    given = case.given  # type: ignore[attr-defined]
    left, right = (given[name].astype(np.float32) for name in "AB")
    with np.errstate(all="ignore"):
        if kernel == "zeros":
            found = np.zeros((8, 8), np.float32)
        elif kernel == "narrow sums":  # each partial sum is kept in the narrow type
            found = np.zeros((8, 8), np.float32)
            for k in range(64):
                found = (found + np.outer(left[:, k], right[k])).astype(dtype).astype(np.float32)
        elif kernel == "a skipped term":
            found = left[:, :-1] @ right[:-1]
        else:
            order = slice(None, None, -1) if kernel == "backwards" else slice(None)
            found = np.zeros((8, 8), np.float32)
            for k in range(64)[order]:
                found = found + np.outer(left[:, k], right[k])
        return {"C": found.astype(dtype).tobytes()}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_outputs_are_held_to_float32_sums(tmp_path: Path, dtype: str) -> None:
    cases = folder_cases(
        tmp_path, dtype=dtype, output=dtype, reference=SUMMED.replace("DTYPE", dtype)
    )
    numbers = cases.compared(3)
    assert len(numbers) >= 5
    for kernel in ("forwards", "backwards"):
        for number in numbers:
            assert cases[number].mismatch(outputs_of(cases[number], kernel, dtype)) is None
    for kernel in ("zeros", "narrow sums", "a skipped term"):
        told = [n for n in numbers if cases[n].mismatch(outputs_of(cases[n], kernel, dtype))]
        assert told, kernel
