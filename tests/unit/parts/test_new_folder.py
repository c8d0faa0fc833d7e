"""New kernel folders: from a target's template, and from a numpy function."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

from tilewright.core.errors import WorkloadError
from tilewright.core.plugins import load_target, target_names
from tilewright.core.roles import ProvidesFolderTemplate
from tilewright.parts.folder import read_folder
from tilewright.parts.folder_from_function import from_function
from tilewright.parts.languages import C
from tilewright.parts.new_folder import from_template
from tilewright.parts.workload_file import read_workload_file

FUNCTION = """
import numpy as np

def scaled(x, weights):
    return x * weights

def example_inputs():
    return np.ones((4, 8), np.float32), np.ones((8,), np.float32)
"""


@pytest.mark.parametrize("name", target_names())
def test_every_target_offers_a_folder_whose_reference_fits(name: str, tmp_path: Path) -> None:
    target = load_target(name)
    assert isinstance(target, ProvidesFolderTemplate)
    template, language = target.template(), target.brief().language
    task = target.open(template.workload, {})
    files = from_template("mine", name, task.workload, task.start, language, template)
    _write(tmp_path, files)
    workload, start, problem = read_folder(tmp_path, name, language, 1 << 30, "the memory")
    assert workload.arguments == task.workload.arguments
    assert workload.operations == task.workload.operations
    assert start.endswith(task.start)
    rng = np.random.default_rng(0)
    given = {
        a.name: problem.draw(a, problem.distributions[0], rng)
        for a in workload.arguments
        if a.is_given
    }
    assert set(problem.reference(given)) == {a.name for a in workload.arguments if a.is_written}


@pytest.mark.parametrize("name", target_names())
def test_shapes_and_types_come_from_a_function(name: str, tmp_path: Path) -> None:
    target = load_target(name)
    assert isinstance(target, ProvidesFolderTemplate)
    language = target.brief().language
    folder = tmp_path / "mine"
    folder.mkdir()
    _write(folder, _from(tmp_path, FUNCTION, name))
    workload, start, problem = read_folder(folder, name, language, 1 << 30, "the memory")
    assert [(a.name, a.shape, a.dtype, a.role) for a in workload.arguments] == [
        ("x", (4, 8), "float32", "input"),
        ("weights", (8,), "float32", "input"),
        ("out", (4, 8), "float32", "output"),
    ]
    assert "kernel(" in start
    given = {"x": np.full((4, 8), 3, np.float32), "weights": np.full(8, 2, np.float32)}
    found = problem.reference(given)["out"]
    assert (np.asarray(getattr(found, "exact", found)) == 6).all()


def test_a_type_without_a_rule_of_its_own_gets_a_tolerance(tmp_path: Path) -> None:
    text = FUNCTION.replace("np.float32", "np.float64")
    _write(tmp_path, _from(tmp_path, text, "host-c"))
    found = read_workload_file(tmp_path / "workload.toml")
    assert found.tolerance is not None
    assert found.tolerance.relative > 0


@pytest.mark.parametrize(
    ("body", "reduction"),
    [
        ("x * weights", 1),
        ("x[:, :-2] + x[:, 1:-1] + x[:, 2:]", 4),  # 3, except at the edges
        ("x @ weights", 8),
        ("x * x.sum(1, keepdims=True)", 8),
        ("x * (weights if (x * weights == 1).all() else None)", 64),
        ("x * 0 + weights * 0", 64),
    ],
)
def test_the_number_of_products_of_a_sum_comes_from_the_function(
    body: str, reduction: int, tmp_path: Path
) -> None:
    _write(tmp_path, _from(tmp_path, FUNCTION.replace("x * weights", body), "host-c"))
    assert read_workload_file(tmp_path / "workload.toml").reduction == reduction


@pytest.mark.parametrize(
    ("head", "array"),
    [
        ("import numpy as np", "np.ones((SHAPE), np.float32, order='F')"),
        ("import numpy as np", "np.ones((SHAPE)[::-1], np.float32).T"),
        ("import torch", "torch.ones(*(SHAPE)[::-1]).T"),
    ],
)
def test_a_sum_over_arrays_in_another_order_in_memory_has_as_many_products(
    head: str, array: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_fake_torch(tmp_path, monkeypatch)
    given = ", ".join(array.replace("SHAPE", shape) for shape in ("6, 16", "16, 5"))
    text = (
        f"{head}\n\ndef scaled(x, weights):\n    return x @ weights\n\n"
        f"def example_inputs():\n    return {given}\n"
    )
    _write(tmp_path, _from(tmp_path, text, "host-c"))
    assert read_workload_file(tmp_path / "workload.toml").reduction == 16


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("def scaled", "def other", "defines no function scaled"),
        ("def example_inputs", "def inputs", "defines no function example_inputs"),
        ("np.ones((8,), np.float32)", "2.0", "weights is float, expected a numpy array"),
        ("np.ones((8,), np.float32)", "np.ones(8, bool)", "weights has the type bool"),
        (", np.ones((8,), np.float32)", ",", r"is 1, but scaled has the parameters \(x, weights\)"),
        (", np.ones((8,), np.float32)", "", r"is 1, but scaled has the parameters"),
        ("return x * weights", "return x @ weights.missing", "AttributeError"),
        ("return x * weights", "return (x * weights,)", "a tuple with one element"),
        ("x * weights", "x * np.sqrt(weights.size)", "float64 for inputs of type float32"),
        ("import numpy", "import nothing_of_this_name", "ModuleNotFoundError"),
        ("weights", "float", "the parameter 'float' is a keyword of C"),
        ("np.ones((8,), np.float32)", "np.ones((1,) * 9, np.float32)", "has 9 dimensions"),
        ("np.ones((8,), np.float32)", "np.ones(8, 'float8_e5m2')", "weights is float8_e5m2, which"),
    ],
)
def test_what_is_wrong_with_the_file_is_one_sentence(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    with pytest.raises(WorkloadError, match=reason) as told:
        _from(tmp_path, FUNCTION.replace(old, new), "host-c")
    assert "\n" not in str(told.value)


def test_a_kernel_for_trainium_may_have_floats_of_8_bits(tmp_path: Path) -> None:
    text = FUNCTION.replace("np.float32", "'float8_e4m3'")
    assert 'dtype = "float8_e4m3"' in _from(tmp_path, text, "trainium")["workload.toml"]


def test_a_function_of_one_array_may_have_that_array_as_its_example(tmp_path: Path) -> None:
    one = FUNCTION.replace("x, weights", "x").replace(" * weights", " * 2")
    one = one.replace(", np.ones((8,), np.float32)", "")
    assert "float x[4][8], float out[4][8]" in _from(tmp_path, one, "host-c")["kernel.c"]


def test_a_module_of_torch_has_the_parameters_of_its_forward(tmp_path: Path) -> None:
    module = """
class Module:
    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, x, weights):
        return x * weights

scaled = Module()
"""
    text = FUNCTION.replace("def scaled(x, weights):\n    return x * weights\n", module)
    assert "x[4][8], const float weights[8]" in _from(tmp_path, text, "host-c")["kernel.c"]


def _from(folder: Path, text: str, target: str) -> dict[str, str]:
    file = folder / "function.py"
    file.write_text(text)
    opened = load_target(target)
    assert isinstance(opened, ProvidesFolderTemplate)
    skeleton = opened.template().skeleton
    return dict(from_function("mine", target, file, "scaled", opened.brief().language, skeleton))


def _write(folder: Path, files: dict[str, str] | object) -> None:
    assert isinstance(files, dict)
    for name, text in files.items():
        (folder / name).write_text(text)


FAKE_TORCH = """
import numpy as np

bfloat16 = "torch.bfloat16"


class Tensor:
    def __init__(self, values, dtype=None):
        self.values, self.dtype = values, dtype or "torch." + values.dtype.name

    def detach(self):
        return self

    cpu = detach

    def float(self):
        return Tensor(self.values.astype(np.float32))

    def bfloat16(self):
        return Tensor(self.values.astype(np.float32), bfloat16)

    def numpy(self):
        assert self.dtype != bfloat16, "Got unsupported ScalarType BFloat16"
        return self.values

    def __mul__(self, other):
        return Tensor(self.values * other.values, self.dtype)

    def __matmul__(self, other):
        return Tensor(self.values @ other.values, self.dtype)

    def __getitem__(self, place):
        return self.values[place]

    def __setitem__(self, place, value):
        self.values[place] = value

    def reshape(self, *shape):
        return Tensor(self.values.reshape(*shape), self.dtype)

    @property
    def T(self):
        return Tensor(self.values.T, self.dtype)


def from_numpy(array):
    assert array.dtype.name != "bfloat16"
    return Tensor(array)


def ones(*shape):
    return Tensor(np.ones(shape, np.float32))


def arange(*ends):
    return Tensor(np.arange(*ends, dtype=np.float32))


def set_num_threads(count):
    pass
"""

TORCH_FUNCTION = """
import torch

def scaled(x, weights):
    return x * weights

def example_inputs():
    return torch.ones(4, 8)CAST, torch.ones(4, 8)CAST
"""


def install_fake_torch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next `import torch` finds the stand-in; after the test nothing is left of it."""
    (folder / "torch.py").write_text(FAKE_TORCH)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))  # noted, so that it is undone
    del sys.modules["torch"]


def test_inputs_of_a_function_with_a_tolerance_are_like_its_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of other sizes may be too much for the float32 arithmetic of a right kernel."""
    install_fake_torch(tmp_path, monkeypatch)
    file = tmp_path / "f.py"
    file.write_text(
        "import torch\n\ndef scaled(x, y):\n    return x * y\n\n"
        "def example_inputs():\n    return torch.arange(-3, 5), torch.ones(8)\n"
    )
    files = from_function("mine", "host-c", file, "scaled", C, "")
    _write(tmp_path, files)
    x, y, _ = read_workload_file(tmp_path / "workload.toml").argument
    assert x.inputs is not None
    assert x.inputs.range == (-3, 4)
    assert y.inputs is None, "values all alike say nothing"
    tolerance = read_workload_file(tmp_path / "workload.toml").tolerance
    assert tolerance is not None
    assert tolerance.absolute == 1e-3, "as large as outputs of root mean square 2.3 need"


@pytest.mark.parametrize(
    ("cast", "dtype", "tolerance"),
    [("", "float32", (5e-4, 1e-4)), (".bfloat16()", "bfloat16", (1e-3, 1e-2))],
)
def test_a_torch_function_is_called_with_tensors(
    cast: str,
    dtype: str,
    tolerance: tuple[float, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a stand-in for torch, which is no dependency."""
    install_fake_torch(tmp_path, monkeypatch)
    file = tmp_path / "f.py"
    file.write_text(TORCH_FUNCTION.replace("CAST", cast))
    target = load_target("host-c")
    assert isinstance(target, ProvidesFolderTemplate)
    language, skeleton = target.brief().language, target.template().skeleton
    files = from_function("mine", "host-c", file, "scaled", language, skeleton)
    written = tmp_path / "folder"
    written.mkdir()
    _write(written, files)
    found = read_workload_file(written / "workload.toml")
    assert [(a.name, a.shape, a.dtype) for a in found.argument] == [
        (name, (4, 8), dtype) for name in ("x", "weights", "out")
    ]
    assert found.tolerance is not None
    assert (found.tolerance.absolute, found.tolerance.relative) == tolerance
    module: dict[str, object] = {}
    exec(files["reference.py"], module)
    three = np.full((4, 8), 3).astype(dtype if not cast else ml_dtypes.bfloat16)
    result = module["reference"](three, three)  # type: ignore[operator]
    assert result.dtype == three.dtype
    assert (result.astype(np.float32) == 9).all()
