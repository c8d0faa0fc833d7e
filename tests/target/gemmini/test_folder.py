"""A user's own kernel folder: one that works, and every way it may not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tilewright.core.errors import WorkloadError
from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured, Outcome
from tilewright.core.roles import Task
from tilewright.evaluation.pipeline import evaluate
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

EXAMPLE = Path(__file__).parents[3] / "examples" / "gemmini"

needs_compiler = pytest.mark.skipif(
    find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example, to be spoilt."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "mine"))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def opened(folder: Path) -> Task:
    return create_target().open_folder(folder, {"input_seed": 5})


def evaluated(folder: Path) -> Outcome:
    task = opened(folder)
    return evaluate(task.evaluator, EvaluationRequest(Candidate(task.start)))


def test_the_example_opens_without_compiler_or_simulator() -> None:
    task = opened(EXAMPLE)
    assert task.workload.name == "gemmini:my-gemm"
    assert task.workload.source == str(EXAMPLE)
    assert [a.dtype for a in task.workload.arguments] == ["int8", "int8", "int32", "int8"]
    assert task.start == (EXAMPLE / "kernel.c").read_text()


@needs_compiler
@pytest.mark.toolchain
def test_the_example_works() -> None:
    outcome = evaluated(EXAMPLE)
    assert isinstance(outcome, Measured), outcome
    assert len(outcome.verdict.checks) == 6


TOML = "workload.toml"
MALFORMED = [
    (TOML, 'target = "gemmini"', "target = gemmini", "not valid TOML"),
    (TOML, 'target = "gemmini"\n', "", "'target': the field is missing"),
    (TOML, "operations = 1_048_576", "operations = 0", "'operations': give a number greater"),
    (TOML, "operations = 1_048_576", "operation = 3", "'operations': the field is missing"),
    (TOML, "reduction = 128", "reductions = 128", "'reductions': no such field exists"),
    (TOML, "shape = [64]", "shape = [0]", "argument.2.shape.0': give a number greater"),
    (TOML, "shape = [64]", "shape = []", "argument.2.shape"),
    (TOML, "shape = [64]", 'shape = "64"', "argument.2.shape"),
    (TOML, 'dtype = "int32"', 'dtype = "complex64"', "argument.2.dtype"),
    (TOML, 'role = "output"', 'role = "result"', "argument.3.role"),
    (TOML, 'role = "output"', 'role = "input"', "no argument has the role 'output'"),
    (TOML, 'name = "bias"', 'name = "B"', "two arguments have the same name"),
    (TOML, 'name = "bias"', 'name = "the bias"', "argument.2.name"),
    (TOML, "shape = [64]", "shape = [99999999]", "MiB"),
    (TOML, "absolute = 0", "absolute = -1", "tolerance.absolute"),
]


@pytest.mark.parametrize(("file", "old", "new", "message"), MALFORMED)
def test_a_malformed_description_is_one_sentence(
    folder: Path, file: str, old: str, new: str, message: str
) -> None:
    edit(folder / file, old, new)
    with pytest.raises(WorkloadError) as raised:
        opened(folder)
    text = str(raised.value)
    assert message in text
    assert str(folder) in text
    assert "\n" not in text


@pytest.mark.parametrize("file", ["workload.toml", "reference.py", "kernel.c"])
def test_a_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(WorkloadError, match=f"has no {file}"):
        opened(folder)


def test_a_binary_file_is_named(folder: Path) -> None:
    (folder / "kernel.c").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkloadError, match=r"kernel\.c cannot be read: it is not UTF-8 text"):
        opened(folder)


def test_more_arguments_than_registers(folder: Path) -> None:
    text = (folder / TOML).read_text()
    extra = '\n[[argument]]\nname = "x{}"\nshape = [1]\ndtype = "int8"\nrole = "input"\n'
    (folder / TOML).write_text(text + "".join(extra.format(i) for i in range(5)))
    with pytest.raises(
        WorkloadError, match=r"there are 9 arguments, but kernels .* have at most 8"
    ):
        opened(folder)


def test_opening_does_not_run_the_reference(folder: Path) -> None:
    (folder / "reference.py").write_text("raise SystemExit('ran')\n")
    opened(folder)


REFERENCES = [
    ("raise RuntimeError('broken')", "importing it raised RuntimeError: broken"),
    ("def reference(:", "importing it raised SyntaxError"),
    ("def other(): ...", "defines no function reference"),
    ("def reference(A, B): return A", r"has the parameters \(A, B\). Name them like"),
    ("import sys\ndef reference(A, B, bias): sys.exit('no')", "raised SystemExit: no"),
    ("def reference(A, B, bias): return (A @ B).astype('int32')", r"returned int32\[128, 64\]"),
    ("def reference(A, B, bias): return A", r"returned int8\[128, 128\] for C, expected"),
    ("def reference(A, B, bias): return A, B", "returned 2 arrays, expected 1: C"),
    ("def reference(A, B, bias): return None", "returned nothing"),
]


@needs_compiler
@pytest.mark.toolchain
@pytest.mark.parametrize(("text", "message"), REFERENCES)
def test_an_unusable_reference_is_the_users_error(folder: Path, text: str, message: str) -> None:
    (folder / "reference.py").write_text(text + "\n")
    with pytest.raises(WorkloadError, match=message) as raised:
        evaluated(folder)
    assert "\n" not in str(raised.value)


@needs_compiler
@pytest.mark.toolchain
def test_a_reference_that_disagrees_shows_the_first_mismatch(folder: Path) -> None:
    edit(folder / "reference.py", "+ bias", "- bias")
    outcome = evaluated(folder)
    assert isinstance(outcome, Failed)
    assert (outcome.stage, outcome.kind) == ("check", "wrong_result")
    assert "first at C[0]" in outcome.log


@needs_compiler
@pytest.mark.toolchain
def test_a_tolerance_is_used(folder: Path) -> None:
    edit(folder / "reference.py", ".astype(np.int8)", ".astype(np.int8) // 2 * 2")
    assert isinstance(evaluated(folder), Failed)
    edit(folder / TOML, "absolute = 0", "absolute = 1")
    assert isinstance(evaluated(folder), Measured)


def test_the_fingerprint_follows_the_reference(folder: Path) -> None:
    before = opened(folder).fingerprint
    edit(folder / "reference.py", "+ bias", "+ bias * 1")
    assert opened(folder).fingerprint != before
