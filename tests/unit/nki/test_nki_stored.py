"""Data are loaded in the type that they have in HBM only where results stay the same."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest

from tilewright.core.records import Argument
from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Kernel
from tilewright.proposers.nki.planning.steps import Step
from tilewright.proposers.nki.printing import print_kernel
from tilewright.proposers.nki.reading.kernel import read_kernel
from tilewright.targets.trainium.program import Call, parse, run_program

TILE = "nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)"
MASKED = f"""import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, seen):
    out = nl.ndarray((256, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    for r in nl.affine_range(2):
        a = {TILE}
        nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
        mask = {TILE}
        nisa.dma_copy(dst=mask, src=seen[r * 128 : r * 128 + 128])
        nisa.tensor_scalar(dst=mask, data=mask, op0=nl.multiply, operand0=99.5)
        nisa.tensor_tensor(dst=a, data1=a, data2=mask, op=nl.add)
        nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=a)
    return out
"""


def arguments(dtype: str) -> tuple[Argument, ...]:
    return (
        Argument("x", (256, 64), "float32", "input"),
        Argument("seen", (256, 64), dtype, "input"),
        Argument("out", (256, 64), "float32", "output"),
    )


def computed(kernel: Kernel, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(2)
    values = {
        "x": rng.normal(size=(256, 64)).astype(np.float32),
        "seen": rng.integers(0, 100, (256, 64)).astype(dtype),
    }
    given = arguments(dtype)
    call = Call(given[:2], given[2:], {})
    return np.array(run_program(parse(print_kernel(kernel)), call, world.MACHINE, values)[0])


@pytest.mark.parametrize("dtype", ["uint8", "int16", "bfloat16"])
def test_a_tile_has_the_type_of_what_is_loaded(dtype: str) -> None:
    kernel = read_kernel(MASKED, arguments(dtype))
    made = Step.parse("stored-type 2").apply(kernel)
    assert print_kernel(made).count(f"dtype=nl.{dtype}") == 1
    np.testing.assert_array_equal(computed(made, dtype), computed(kernel, dtype))


@pytest.mark.parametrize(
    ("old", "new", "dtype", "reason"),
    [
        ("99.5", "99.5", "float32", "no smaller type"),
        ("99.5", "99.5", "int32", "no smaller type"),
        ("operand0=99.5", "operand0=mask[:, 0:1]", "uint8", "in float32"),
        ("op0=nl.multiply, operand0=99.5", "op0=nl.logical_and, operand0=1.0", "uint8", "bits"),
        ("nisa.tensor_scalar(dst=mask", "nisa.memset(dst=mask[:, 0:9], value=0.5)\n        "
         "nisa.tensor_scalar(dst=mask", "uint8", "other data"),
        ("nisa.tensor_scalar(dst=mask, data=mask, op0=nl.multiply, operand0=99.5)",
         "nisa.tensor_tensor(dst=mask, data1=mask, data2=mask, op=nl.multiply)", "uint8",
         "with integers"),
    ],
)  # fmt: skip
def test_other_tiles_stay_in_float32(old: str, new: str, dtype: str, reason: str) -> None:
    assert old in MASKED
    kernel = read_kernel(MASKED.replace(old, new), arguments(dtype))
    with pytest.raises(NotApplicableError, match=reason):
        Step.parse("stored-type 2").apply(kernel)
