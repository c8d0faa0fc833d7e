"""Transfers that transpose element by element become transfers of rows and transposes on PE."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError

TURNED = """
for r in nl.affine_range(4):
    a = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
    LOAD
    b = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=3.0)
    nisa.dma_copy(dst=out.ap(pattern=[[1, 64], [64, 128]], offset=r * 8192), src=b)
"""
LOADS = (
    "nisa.dma_copy(dst=a, src=x.ap(pattern=[[1, 64], [64, 128]], offset=r * 8192))",
    "nisa.dma_transpose(dst=a, src=x[r * 128 : r * 128 + 128])",
)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("steps", ["turn 1", "turn 3", "turn 1; turn 5"])
def test_loads_and_stores_are_turned(load: str, steps: str) -> None:
    kernel = read(TURNED.replace("LOAD", load))
    text = after(kernel, steps)
    assert text.count("nc_transpose") == len(steps.split(";"))
    got = results(world.read_kernel(text, ARGUMENTS))
    np.testing.assert_array_equal(got, results(kernel))
    assert np.isfinite(got).all()


def test_transfers_of_rows_are_not_turned() -> None:
    body = TURNED.replace("(64, 128)", "(128, 64)")
    body = body.replace("LOAD", "nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])")
    body = body.replace("[[1, 64], [64, 128]]", "[[64, 128], [1, 64]]")
    for number in (1, 3):
        with pytest.raises(NotApplicableError, match="does not transpose"):
            after(read(body), f"turn {number}")


@pytest.mark.parametrize(("rows", "transposes"), [(512, 1), (384, 1), (300, 2), (200, 2)])
@pytest.mark.parametrize("steps", ["turn 1", "turn 3"])
@pytest.mark.parametrize("is_copy", [True, False])
def test_what_is_wider_than_pe_is_turned_in_blocks(
    rows: int, transposes: int, steps: str, is_copy: bool
) -> None:
    pattern = f"[[1, 64], [64, {rows}]]"
    load = f"nisa.dma_copy(dst=a[:, 2:{rows + 2}], src=x.ap(pattern={pattern}))"
    if not is_copy:
        load = f"nisa.dma_transpose(dst=a[:, 2:{rows + 2}], src=x[0:{rows}])"
    kernel = read(f"""
a = nl.ndarray((64, {rows + 2}), dtype=nl.float32, buffer=nl.sbuf)
{load}
b = nl.ndarray((64, {rows}), dtype=nl.float32, buffer=nl.sbuf)
nisa.tensor_scalar(dst=b, data=a[:, 2:{rows + 2}], op0=nl.multiply, operand0=3.0)
nisa.dma_copy(dst=out.ap(pattern={pattern}), src=b)
c = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
for r in nl.affine_range({(512 - rows) // 4}):
    nisa.dma_copy(dst=c[0:4], src=x[{rows} + 4 * r : {rows} + 4 * r + 4])
    nisa.dma_copy(dst=out[{rows} + 4 * r : {rows} + 4 * r + 4], src=c[0:4])
""")
    text = after(kernel, steps)
    assert text.count("nc_transpose") == transposes
    got = results(world.read_kernel(text, ARGUMENTS))
    np.testing.assert_array_equal(got, results(kernel))
    assert np.isfinite(got).all()
