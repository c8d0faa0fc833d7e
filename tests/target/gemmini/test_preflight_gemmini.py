"""Every shipped workload rejects every attack; a user's weak task is refused before it is run."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app
from tilewright.core.errors import TilewrightError, ToolchainMissingError, WorkloadError
from tilewright.core.plugins import load_target, target_names
from tilewright.core.records import Workload
from tilewright.core.tasks import open_task
from tilewright.evaluation.preflight.examine import examine, refusal
from tilewright.targets.cuda.evaluation import CudaEvaluation
from tilewright.targets.cuda.nvcc import Compiled, Resources
from tilewright.targets.cuda.triton.process import find_triton
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]
PACKED = "-packed"
QUICK = ["gemmini:gemm-512x512x512", "gemmini:conv-4x14x14x128x128-k3s1"]
ODD = [
    "gemmini:gemm-1x1x1", "gemmini:gemm-1x17x3", "gemmini:gemm-33x5x70",
    "gemmini:conv-1x5x7x3x2-k3s2p0", "gemmini-fp32-4x4:gemm-5x7x9",
    "gemmini-fp32-4x4:conv-1x5x5x4x4-k3s1",
]  # fmt: skip


def _shipped() -> list[str]:
    """Every registered workload that its target opens (patterns have letters for sizes)."""
    found = []
    for target in target_names():
        if target.startswith("trainium"):
            continue  # minutes at full size; see tests/unit/trainium/test_preflight.py
        for name in load_target(target).workloads():
            spec = name.removeprefix(f"{target}:")
            try:
                load_target(target).open(spec, {})
            except TilewrightError:
                continue
            found.append(f"{target}:{spec}")
    return found


SHIPPED = _shipped()


def _telling(names: list[str]) -> list[str]:
    """Of each kind of workload the sizes with the longest sums, the shortest, and most outputs.

    What a check allows depends on a size by these two numbers alone; --thorough takes all sizes.
    Packed operands are compared as others are: the longest sums are theirs, the rest the others.
    """
    of_kind: dict[str, list[tuple[Workload, str]]] = {}
    for name in names:
        kind = re.sub(r"\d+x[\dx]*\d", "SIZE", name)
        of_kind.setdefault(kind, []).append((open_task(name, {}).task.workload, name))
    chosen = set()
    for kind, found in of_kind.items():
        by_sums = sorted(found, key=lambda each: each[0].operations / _outputs(each[0]))
        largest = max(found, key=lambda each: _outputs(each[0]))
        if not kind.endswith(PACKED):
            chosen |= {by_sums[0][1], largest[1]}
        if kind + PACKED not in of_kind:
            chosen.add(by_sums[-1][1])
    return [name for name in names if name in chosen]


def _outputs(workload: Workload) -> int:
    return sum(prod(a.shape) for a in workload.arguments if a.role != "input")


TELLING = _telling(SHIPPED)
COMPILED_FOR_A_GPU = next((name for name in TELLING if name.startswith("cuda:")), "")
"""The CUDA workload whose wrong kernels nvcc compiles, which takes a second. Those of the others
differ only in their parameters and numbers, and are compiled for the CPU as well.
"""


def require_sound(name: str) -> None:
    opened = open_task(name, {"input_seed": 11})
    results = examine(opened.task, lambda: opened.target.brief().failure_kinds)
    assert refusal(name, results) is None
    assert len(results) >= 18


@pytest.mark.parametrize("name", QUICK)
def test_a_shipped_workload_is_sound(name: str) -> None:
    require_sound(name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "shipped" in metafunc.fixturenames:
        names = SHIPPED if metafunc.config.getoption("--thorough") else TELLING
        metafunc.parametrize("shipped", [name for name in names if name not in QUICK])


@pytest.mark.slow
def test_every_shipped_workload_is_sound(
    shipped: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if shipped != COMPILED_FOR_A_GPU and not request.config.getoption("--thorough"):
        compiled = Compiled((), (Resources("kernel", 1, 0, 0),))
        monkeypatch.setattr(CudaEvaluation, "compiled", lambda *_: compiled)
    try:
        if shipped.startswith("triton:"):
            find_triton()  # before the references are computed
        require_sound(shipped)
    except ToolchainMissingError as error:
        pytest.skip(str(error))


def folder(tmp_path: Path, reference: str, tolerance: str = "", dtype: str = "int8") -> Path:
    tmp_path.mkdir(exist_ok=True)
    c_type = "float" if dtype == "float32" else f"{dtype}_t"
    (tmp_path / "workload.toml").write_text(
        'target = "gemmini"\noperations = 256\nreduction = 1\n'
        f'[[argument]]\nname = "A"\nshape = [16, 16]\ndtype = "{dtype}"\nrole = "input"\n'
        f'[[argument]]\nname = "C"\nshape = [16, 16]\ndtype = "{dtype}"\nrole = "output"\n'
        f"{tolerance}\n"
    )
    (tmp_path / "reference.py").write_text(f"import numpy as np\ndef reference(A):\n{reference}\n")
    (tmp_path / "kernel.c").write_text(
        f"void kernel(const {c_type} *A, {c_type} *C) {{\n"
        "  for (int i = 0; i < 256; i++) C[i] = A[i] / 2;\n}\n"
    )
    return tmp_path


HALF = "    return np.trunc(A / 2).astype(A.dtype)"
BAD = {
    "always zero": ("    return np.zeros_like(A)", "", "int8", "'zeros'"),
    "a wide tolerance": (HALF, "[tolerance]\nabsolute = 200.0", "int8", "'zeros'"),
    "a tolerance of some steps": (HALF, "[tolerance]\nabsolute = 6.0", "int8",
                                  "'one wrong element', .*lower the tolerance"),
    "a relative tolerance of 1": (HALF, "[tolerance]\nrelative = 1.0", "int8", "'zeros'"),
    "another function than the kernel's": (
        "    return np.trunc(A / 3).astype(A.dtype)", "", "int8",
        "kernel and the reference give different results"),
    "random": ("    return np.random.randint(-9, 9, A.shape).astype('int8')", "", "int8",
               "deterministic"),
    "not a number": ("    return np.log(-np.abs(A))", "", "float32", "returns NaN for"),
}  # fmt: skip
SEARCHED = ("always zero", "random")


@pytest.mark.parametrize("name", BAD)
def test_a_bad_task_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    reference, tolerance, dtype, message = BAD[name]
    task = folder(tmp_path / "task", reference, tolerance, dtype)
    # A search asks the same examination; that it does is seen on one accepted attack and on one
    # reference that is refused before any.
    for command in ("preflight", "optimize") if name in SEARCHED else ("preflight",):
        ended = CliRunner().invoke(app, [command, str(task), *project(command, tmp_path)])
        assert isinstance(ended.exception, WorkloadError), ended.output
        assert ended.exception.exit_code == 2
        assert ended.exception.args
        with pytest.raises(WorkloadError, match=message):
            raise ended.exception


def project(command: str, path: Path) -> list[str]:
    return ["--project", str(path)] if command == "optimize" else []


def test_a_good_folder_is_examined_once_per_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = folder(tmp_path, HALF)
    ended = CliRunner().invoke(app, ["preflight", str(task), "--json", str(tmp_path / "out.json")])
    assert ended.exit_code == 0, ended.output
    assert "the check rejects every wrong kernel" in ended.output
    assert '"sound": true' in (tmp_path / "out.json").read_text()
    from tilewright import verification

    calls = []
    examine_once = verification.attack
    monkeypatch.setattr(
        verification, "attack", lambda *given: calls.append(given) or examine_once(*given)
    )
    command = ["optimize", str(task), "--project", str(tmp_path / "p"), "--iterations", "0"]
    for seed in ("1", "1", "2"):
        assert CliRunner().invoke(app, [*command, "--seed", seed]).exit_code == 0
    assert len(calls) == 1


@pytest.mark.parametrize("name", ODD)
def test_tiny_and_ragged_sizes_are_sound(name: str) -> None:
    require_sound(name)


def test_every_kind_of_shipped_workload_is_among_them() -> None:
    assert len(SHIPPED) >= 18
    assert any("tinympc" in name for name in TELLING)
    assert {name.partition("-")[0] for name in SHIPPED} == {n.partition("-")[0] for n in TELLING}
