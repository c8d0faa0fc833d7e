"""Short searches that begin with kernels in the styles in which other people publish them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.core.config import Settings
from tilewright.run import optimize
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]
KERNELS = Path(__file__).parents[2] / "fixtures" / "foreign"
REFERENCE = """import numpy as np


def reference(A, B):
    exact = A.astype(np.float64) @ B.astype(np.float64)  # numpy has no fast product of integers
    return np.clip(exact, -128, 127).astype(np.int8)
"""


def folder_of(name: str, sizes: tuple[int, int, int], folder: Path) -> Path:
    """A kernel as a folder of a user's own, for C[M][N] = A[M][K] B[K][N]."""
    m, n, k = sizes
    lines = [f'target = "gemmini"\nname = "{name}"\noperations = {2 * m * n * k}\n']
    for array, shape, role in (
        ("A", (m, k), "input"),
        ("B", (k, n), "input"),
        ("C", (m, n), "output"),
    ):
        lines.append(
            f'[[argument]]\nname = "{array}"\nshape = {list(shape)}\ndtype = "int8"\n'
            f'role = "{role}"\n'
        )
    folder.mkdir()
    (folder / "workload.toml").write_text("\n".join(lines))
    (folder / "kernel.c").write_text(of_sizes((KERNELS / f"{name}.c").read_text(), sizes))
    (folder / "reference.py").write_text(REFERENCE)
    return folder


def of_sizes(kernel: str, sizes: tuple[int, int, int]) -> str:
    """The kernel for M, N and K, if it defines these sizes as I_LEN, J_LEN and K_LEN.

    A published size takes long to simulate, so a smaller one has the same remainders by 16.
    """
    for name, size in zip(("I", "J", "K"), sizes, strict=True):
        kernel = re.sub(rf"(?m)^#define {name}_LEN \d+$", f"#define {name}_LEN {size}", kernel)
    return kernel


@pytest.mark.parametrize(
    ("name", "sizes", "gain"),
    [
        ("rocc_padded_500", (244, 264, 142), 2.0),
        ("llm_ragged_250", (250, 330, 200), 1.0),
    ],
)
def test_a_short_search_makes_a_published_kernel_no_slower(
    tmp_path: Path, name: str, sizes: tuple[int, int, int], gain: float
) -> None:
    """Its first plans are those of the naive loop nest, whatever the kernel is written like."""
    task = str(folder_of(name, sizes, tmp_path / "kernel"))
    settings = Settings(max_evaluations=4, iterations=1)
    found = optimize(task, settings, project=tmp_path / "project", workers=1)
    assert found.baseline_latency is not None
    assert found.best_latency is not None
    assert found.baseline_latency / found.best_latency >= gain
