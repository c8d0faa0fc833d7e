"""A user's kernel folder: what is out of bounds, or never ends, is one sentence."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tilewright.core.errors import WorkloadError
from tilewright.parts import user_code
from tilewright.parts.folder import read_folder
from tilewright.parts.folder_problem import FolderProblem
from tilewright.parts.inputs import Array
from tilewright.parts.languages import C

DESCRIPTION = """
target = "host-c"
operations = 16

[[argument]]
name = "X"
shape = [16]
dtype = "int8"
role = "input"

[[argument]]
name = "Y"
shape = [16]
dtype = "int8"
role = "output"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "workload.toml").write_text(DESCRIPTION)
    (tmp_path / "reference.py").write_text("def reference(X):\n    return X\n")
    (tmp_path / "kernel.c").write_text("void kernel(const int8_t X[16], int8_t Y[16]) {}\n")
    return tmp_path


def problem_of(folder: Path) -> FolderProblem:
    return read_folder(folder, "host-c", C, 1 << 20, "the memory")[2]


def result(folder: Path) -> Array:
    return problem_of(folder).reference({"X": np.arange(16, dtype=np.int8)})["Y"]


def test_an_ordinary_folder_is_read(folder: Path) -> None:
    assert result(folder).tolist() == list(range(16))


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2"])
def test_compiled_kernels_have_no_floats_of_8_bits(folder: Path, dtype: str) -> None:
    file = folder / "workload.toml"
    file.write_text(dtype.join(file.read_text().rsplit("int8", 1)))
    with pytest.raises(
        WorkloadError, match=f"'argument.1.dtype': arrays of host-c cannot be {dtype}"
    ):
        problem_of(folder)
    traced = read_folder(folder, "trainium", C, 1 << 20, "the memory", traced=True)[0]
    assert traced.arguments[1].dtype == dtype


def test_marks_with_which_editors_begin_a_file_are_left_out(folder: Path) -> None:
    for file in list(folder.iterdir()):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    _, start, problem = read_folder(folder, "host-c", C, 1 << 20, "the memory")
    assert start.startswith("void kernel")
    assert problem.reference({"X": np.arange(16, dtype=np.int8)})["Y"].tolist() == list(range(16))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"X"', '"unix"', "'unix' is a keyword of C, or a name that its compilers define"),
        ('"X"', '"restrict"', "'restrict' is a keyword of C"),
        ("operations = 16", "operations = 1" + "0" * 400, "operations"),
        ("operations = 16", "operations = 5" + "0" * 18, "operations"),
        ("shape = [16]", f"shape = {[1] * 81}", "shape"),
        ("shape = [16]", "shape = [1" + "0" * 30 + "]", "shape"),
        ("operations = 16", "operations = 16\nreduction = 1" + "0" * 30, "reduction"),
        ("operations = 16", "operations = 16\ntolerance = {absolute = inf}", "absolute"),
    ],
)
def test_a_description_out_of_bounds_is_refused(
    folder: Path, old: str, new: str, reason: str
) -> None:
    (folder / "workload.toml").write_text(DESCRIPTION.replace(old, new, 1))
    with pytest.raises(WorkloadError, match=reason) as raised:
        problem_of(folder)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    "raises",
    [
        "class Odd(BaseException):\n    pass\n\n\ndef reference(X):\n    raise Odd('a\\nb')\n",
        "class Odd(BaseException):\n    def __str__(self):\n        raise self\n\n\n"
        "def reference(X):\n    raise Odd\n",
        "def reference(X):\n    return reference(X)\n",
    ],
)
def test_whatever_a_reference_raises_is_one_sentence(folder: Path, raises: str) -> None:
    (folder / "reference.py").write_text(raises)
    with pytest.raises(
        WorkloadError, match=r"reference\(X\) raised (Odd|RecursionError)"
    ) as raised:
        result(folder)
    assert "\n" not in str(raised.value)


def test_a_module_that_a_reference_lacks_is_to_be_installed(folder: Path) -> None:
    (folder / "reference.py").write_text("import no_such_module\n")
    with pytest.raises(WorkloadError, match="install it in the Python environment that runs"):
        result(folder)


def test_a_reference_that_never_returns_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_code, "REFERENCE_TIMEOUT_S", 1)
    (folder / "reference.py").write_text(
        "import time\n\n\ndef reference(X):\n    time.sleep(30)\n    return X\n"
    )
    with pytest.raises(WorkloadError, match="took more than 1 s"):
        result(folder)


def test_a_template_in_a_folder_starts_with_its_first_values(folder: Path) -> None:
    kernel = folder / "kernel.c"
    kernel.write_text("TUNE(TM, 4, 8)\nTUNE_REQUIRE(TM > 4)\n" + kernel.read_text())
    start = read_folder(folder, "host-c", C, 1 << 20, "the memory")[1]
    assert start.startswith("#define TM 8\n// requires TM > 4\n")


def test_a_template_that_cannot_be_filled_in_is_one_sentence_with_its_file(folder: Path) -> None:
    (folder / "kernel.c").write_text("TUNE(TM, 4)\nTUNE_REQUIRE(TM > 4)\n")
    with pytest.raises(WorkloadError, match=r"kernel\.c: no combination of the template's values"):
        read_folder(folder, "host-c", C, 1 << 20, "the memory")


@pytest.mark.parametrize("name", ["kernel.c", "reference.py", "workload.toml"])
def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    """What it leads to would be shown to language models."""
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_bytes((folder / name).read_bytes())
    (folder / name).unlink()
    (folder / name).symlink_to(outside)
    with pytest.raises(WorkloadError, match="is a link to a file outside its folder"):
        problem_of(folder)


def test_a_link_within_the_folder_is_read(folder: Path) -> None:
    (folder / "kernel.c").rename(folder / "fast.c")
    (folder / "kernel.c").symlink_to("fast.c")
    assert problem_of(folder) is not None
    linked = folder.parent / f"{folder.name}-linked"
    linked.symlink_to(folder)
    assert problem_of(linked) is not None


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("os.close(1)", "closed or replaced standard output"),
        ("os.closerange(0, 3)", "closed or replaced standard input and standard output and"),
        ("os.dup2(os.open(os.devnull, os.O_RDWR), 2)", "closed or replaced standard error"),
        ("os._exit(0)", "called os._exit"),
        ("import posix; posix._exit(0)", "called os._exit"),
    ],
)
@pytest.mark.parametrize("is_inside", [False, True])
def test_a_reference_cannot_end_the_tool_silently(
    folder: Path, code: str, reason: str, *, is_inside: bool
) -> None:
    before = [os.fstat(number) for number in range(3)]
    body = f"    {code}\n    return X\n" if is_inside else f"    return X\n{code}\n"
    (folder / "reference.py").write_text(f"import os\ndef reference(X):\n{body}")
    with pytest.raises(WorkloadError, match=reason) as raised:
        result(folder)
    assert str(folder / "reference.py") in str(raised.value)
    assert "\n" not in str(raised.value)
    after = [os.fstat(number) for number in range(3)]
    assert all(map(os.path.samestat, before, after))


@pytest.mark.slow  # its reference forks, which --quick prevents
def test_processes_that_a_reference_forks_may_exit(folder: Path) -> None:
    (folder / "reference.py").write_text(
        "import os\n"
        "def reference(X):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os._exit(3)\n"
        "    return X + os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
    )
    assert result(folder).tolist() == list(range(3, 19))
