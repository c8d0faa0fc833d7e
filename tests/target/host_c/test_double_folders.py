"""A folder with float64 outputs and no tolerance, with compiled kernels."""

from __future__ import annotations

import shutil

import pytest

from tilewright.core.records import Candidate, Failed
from tilewright.core.roles import Builder, Checker, Runner
from tilewright.core.tasks import open_task
from tilewright.parts.arithmetic import HAS_LONGER

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or not HAS_LONGER, reason="no C compiler, or no wider type"
)

TOML = """\
target = "host-c"
operations = 32768
reduction = 64
[[argument]]
name = "A"
shape = [64, 512]
dtype = "float64"
role = "input"
[[argument]]
name = "y"
shape = [64]
dtype = "float64"
role = "output"
"""
REFERENCE = "def reference(A):\n    return (A * A).sum(axis=1)\n"
HEAD = "void kernel(const double A[64][512], double y[64]) {\n  for (int i = 0; i < 64; i++) {\n"
KERNELS = {
    "forwards": "double s = 0; for (int j = 0; j < 512; j++) s += A[i][j] * A[i][j]; y[i] = s;",
    "backwards": "double s = 0; for (int j = 511; j >= 0; j--) s += A[i][j] * A[i][j]; y[i] = s;",
    "by vectors": (
        "typedef double v __attribute__((vector_size(32))); v s = {0};"
        "for (int j = 0; j < 512; j += 4) { v a; __builtin_memcpy(&a, &A[i][j], 32); s += a * a; }"
        "y[i] = s[0] + s[1] + s[2] + s[3];"
    ),
    "by halves": (
        "double t[512]; for (int j = 0; j < 512; j++) t[j] = A[i][j] * A[i][j];"
        "for (int n = 256; n; n /= 2) for (int j = 0; j < n; j++) t[j] += t[j + n]; y[i] = t[0];"
    ),
}
WRONG = {
    "float32 inputs": (
        "double s = 0; for (int j = 0; j < 512; j++) { double a = (float)A[i][j]; s += a * a; }"
        "y[i] = s;"
    ),
    "float32 sums": (
        "float s = 0; for (int j = 0; j < 512; j++) s += A[i][j] * A[i][j]; y[i] = s;"
    ),
    "a skipped term": (
        "double s = 0; for (int j = 0; j < 511; j++) s += A[i][j] * A[i][j]; y[i] = s;"
    ),
}


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> tuple[Builder, Checker, Runner]:
    """One for all kernels, because it computes the errors of honest kernels once."""
    folder = tmp_path_factory.mktemp("doubles")
    (folder / "workload.toml").write_text(TOML)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "kernel.c").write_text(f"{HEAD}{KERNELS['forwards']}\n  }}\n}}\n")
    return open_task(str(folder), {"input_seed": 3}).task.evaluator


@pytest.mark.parametrize("name", [*KERNELS, *WRONG])
def test_kernels_in_any_order_pass_and_fewer_digits_do_not(
    evaluator: tuple[Builder, Checker, Runner], name: str
) -> None:
    builder, checker, _ = evaluator
    body = {**KERNELS, **WRONG}[name]
    built = builder.build(Candidate(f"{HEAD}    {body}\n  }}\n}}\n"))
    assert not isinstance(built, Failed), built.log
    found = checker.check(built)
    if name in KERNELS:
        assert not isinstance(found, Failed), found.log
        assert found.precision in ("exact", "float64")
    else:
        assert isinstance(found, Failed)
        assert found.kind == "wrong_result"
