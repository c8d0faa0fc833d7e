"""The C file of a family: what is renamed, what is chosen, what is refused."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from tilewright.core.records import Argument
from tilewright.families.dispatch import Fallback, Member, called_with, dispatch_source, sizes_of
from tilewright.families.generic import generic_source

ARGUMENTS = (Argument("X", (4,), "int32", "input"), Argument("Y", (4,), "int32", "output"))
CLASHING = """#include <stdint.h>
#define STEP {step}
enum mode {{ PLAIN, OTHER = 3 }};
typedef struct {{ int at; }} place;
static const int table[2] = {{STEP, OTHER}}, more = 1;
static int helper(const int32_t *x, int n) {{ place p = {{n}}; return x[p.at] + table[0] * more; }}
void kernel(const int32_t X[{n}], int32_t Y[{n}]) {{
  for (int i = 0; i < {n}; i++) Y[i] = helper(X, i);
}}
"""
START = """void kernel(const int X[{n}], int Y[{n}]) {{
  for (int i = 0; i < {n}; i++) Y[i] = X[i] + 16 * {twice};
}}
"""


def start(n: int) -> str:
    return START.format(n=n, twice=2 * n)


def compiled(source: str, folder: Path) -> ctypes.CDLL:
    (folder / "kernel.c").write_text(source)
    command = ["gcc", "-shared", "-fPIC", "-Werror", "-o", "kernel.so", "kernel.c"]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return ctypes.CDLL(str(folder / "kernel.so"))


def dispatched(library: ctypes.CDLL, n: int) -> tuple[int, list[int]]:
    x, y = (ctypes.c_int * n)(*range(n)), (ctypes.c_int * n)(*[-7] * n)
    return library.kernel_dispatch(n, x, y), list(y)


def test_a_number_that_follows_the_sizes_becomes_an_expression() -> None:
    found = generic_source([start(67), start(71)], [{"N": 67}, {"N": 71}])
    assert found == START.format(n="size_N", twice="(2 * size_N)")


PADDED = """void kernel(const float X[{padded}], float Y[{n}]) {{
  for (int i = 0; i < {n}; i++) Y[i] = (X[i] + X[i + 2]) / {n}.0f + {n}.0 * 3.0f;
}}
"""


def test_sizes_with_borders_and_sizes_as_floats_become_expressions() -> None:
    texts = [PADDED.format(n=n, padded=n + 2) for n in (67, 71)]
    found = generic_source(texts, [{"N": 67}, {"N": 71}])
    assert found is not None
    assert "X[(size_N + 2)]" in found
    assert "/ (float)size_N + (double)size_N * 3.0f;" in found


def test_a_border_that_fits_two_sizes_is_not_guessed() -> None:
    texts = [PADDED.format(n=n, padded=n + 2) for n in (67, 71)]
    assert generic_source(texts, [{"N": 67, "M": 66}, {"N": 71, "M": 70}]) is None
    assert generic_source(texts, [{"N": 67, "M": 66}, {"N": 71, "M": 69}]) is not None


@pytest.mark.parametrize(
    "other", [start(72), start(71) + "// tail\n", start(71).replace("16 * 142", "16.0f * 142")]
)
def test_texts_that_are_not_one_kernel_have_no_general_form(other: str) -> None:
    assert generic_source([start(67), other], [{"N": 67}, {"N": 71}]) is None


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
def test_kernels_with_equal_names_share_a_file_and_each_size_has_its_own(tmp_path: Path) -> None:
    members = [Member((n,), CLASHING.format(n=n, step=n)) for n in (4, 6)]
    general = generic_source([start(67), start(71)], [{"N": 67}, {"N": 71}])
    assert general is not None
    open_to_all = dispatch_source("// f", ("N",), ARGUMENTS, members, Fallback(general, {}))
    library = compiled(called_with(open_to_all, start(4), (4,), ARGUMENTS), tmp_path)
    assert dispatched(library, 4) == (0, [4, 5, 6, 7])
    assert dispatched(library, 6) == (0, [6, 7, 8, 9, 10, 11])
    assert dispatched(library, 3) == (0, [96, 97, 98])
    x, y = (ctypes.c_int * 4)(*range(4)), (ctypes.c_int * 4)()
    library.kernel(x, y)
    assert list(y) == [4, 5, 6, 7]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
@pytest.mark.parametrize("fallback", [None, Fallback(start(5), {"N": 5})])
def test_other_sizes_are_refused_and_nothing_is_written(
    tmp_path: Path, fallback: Fallback | None
) -> None:
    members = [Member((4,), CLASHING.format(n=4, step=1))]
    library = compiled(dispatch_source("// f", ("N",), ARGUMENTS, members, fallback), tmp_path)
    assert dispatched(library, 6) == (1, [-7] * 6)


def test_sizes_are_read_by_the_pattern() -> None:
    assert sizes_of("gemm-64x16x32", "gemm-MxNxK") == {"M": 64, "N": 16, "K": 32}
    assert sizes_of("conv-1x8x8x4x4-k3s1", "conv-NxHxWxCxK-k3s1") is not None
    for spec in ("gemm-64x16", "conv-64x16x32", "gemm-64x16x32-k3"):
        assert sizes_of(spec, "gemm-MxNxK") is None
