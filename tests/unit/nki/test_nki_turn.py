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


def test_what_is_wider_than_pe_is_not_turned() -> None:
    wide = "nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)"
    body = f"""
a = {wide}
nisa.dma_copy(dst=a, src=x.ap(pattern=[[1, 64], [64, 512]]))
nisa.dma_copy(dst=out.ap(pattern=[[1, 64], [64, 512]]), src=a)
"""
    with pytest.raises(NotApplicableError, match="does not transfer a matrix that PE can"):
        after(read(body), "turn 1")
