"""Tiles that are loaded only to be stored again are left out: the data move from HBM to HBM."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.printing import print_kernel
from tilewright.targets.trainium.program import Call, parse, run_program

MOVED = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    nisa.dma_copy(dst=out[384 - r * 128 : 448 - r * 128], src=a[64:128])
    nisa.dma_copy(dst=out[448 - r * 128 : 512 - r * 128, 0:32], src=a[0:64, 32:64])
    nisa.dma_copy(dst=out[448 - r * 128 : 512 - r * 128, 32:64], src=a[0:64, 0:32])
"""


def computed(source: str) -> np.ndarray:
    values = np.arange(512 * 64, dtype=np.float32).reshape(512, 64)
    call = Call(ARGUMENTS[:1], ARGUMENTS[1:], {})
    return np.array(run_program(parse(source), call, world.MACHINE, {"x": values})[0])


def test_data_that_are_only_moved_need_no_tile() -> None:
    kernel = read(MOVED)
    found = after(kernel, "skip-copy 1")
    assert "nl.sbuf" not in found
    assert found.count("dma_copy") == 3
    assert np.array_equal(computed(found), computed(print_kernel(kernel)))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)", "not only stored"),
        ("nisa.tensor_copy(dst=b, src=a)", "not only stored"),
        ("nisa.dma_copy(dst=b, src=a)", "not only stored"),
    ],
)
def test_data_that_an_engine_or_a_tile_needs_are_loaded(line: str, reason: str) -> None:
    first = "    nisa.dma_copy(dst=out[384"
    with pytest.raises(NotApplicableError, match=reason):
        after(read(MOVED.replace(first, f"    b = TILE\n    {line}\n{first}", 1)), "skip-copy 1")


def test_data_that_the_load_converts_are_loaded() -> None:
    narrow = "nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.sbuf)"
    with pytest.raises(NotApplicableError, match="as they are in HBM"):
        after(read(MOVED.replace("TILE", narrow, 1)), "skip-copy 1")


def test_data_that_change_in_hbm_before_they_are_stored_are_loaded() -> None:
    body = """
kept = nl.ndarray((512, 64), dtype=nl.float32, buffer=nl.hbm)
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    nisa.dma_copy(dst=kept[r * 128 : r * 128 + 128], src=a)
    b = TILE
    nisa.dma_copy(dst=b, src=kept[r * 128 : r * 128 + 128])
    c = TILE
    nisa.memset(dst=c, value=0.0)
    nisa.dma_copy(dst=kept[r * 128 : r * 128 + 128], src=c)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=b)
"""
    with pytest.raises(NotApplicableError, match="changes"):
        after(read(body), "skip-copy 3")
    assert np.array_equal(
        computed(after(read(body), "skip-copy 1")), computed(print_kernel(read(body)))
    )
