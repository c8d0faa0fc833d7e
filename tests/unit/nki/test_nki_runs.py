"""Loads of elements at equal distances become loads of whole runs, which are then shared."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError

PART = "nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)"
STRIDED = f"""
for r in nl.affine_range(4):
    a = {PART}
    nisa.dma_copy(dst=a, src=x.ap(pattern=[[64, 128], [EVERY, 8]], offset=r * 8192 + FIRST))
    b = {PART}
    nisa.dma_copy(dst=b, src=x.ap(pattern=[[64, 128], [EVERY, 8]], offset=r * 8192 + FIRST - 2))
    nisa.tensor_scalar(dst=b[:, 2:6], data=b[:, 2:6], op0=nl.multiply, operand0=3.0)
    nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.add)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, 0:8], src=a)
"""


def strided(every: int, first: int) -> str:
    return STRIDED.replace("EVERY", str(every)).replace("FIRST", str(first))


@pytest.mark.parametrize(("every", "first"), [(4, 3), (8, 7), (2, 2)])
def test_readers_take_their_elements_from_the_run(every: int, first: int) -> None:
    kernel = read(strided(every, first))
    text = after(kernel, "runs 1")
    got, wanted = results(world.read_kernel(text, ARGUMENTS)), results(kernel)
    np.testing.assert_array_equal(got[:, :8], wanted[:, :8])
    assert np.isfinite(got[:, :8]).all()


def test_runs_of_neighbouring_elements_are_the_same_load() -> None:
    kernel = read(strided(4, 3).replace("b[:, 2:6]", "b", 2))
    text = after(kernel, "runs 1; runs 2; reuse 2")
    assert text.count("dma_copy") == 2
    got, wanted = results(world.read_kernel(text, ARGUMENTS)), results(kernel)
    np.testing.assert_array_equal(got[:, :8], wanted[:, :8])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (strided(1, 3), "equal distances"),
        (strided(7, 3), "equal distances"),
        (strided(32, 3), "equal distances"),
        (strided(6, 21).replace("r * 8192", "24576"), "beyond the tensor"),
    ],
)
def test_other_loads_stay(body: str, reason: str) -> None:
    """Seven does not divide 8192: the runs of the iterations would begin at other elements."""
    with pytest.raises(NotApplicableError, match=reason):
        after(read(body), "runs 1")


WOVEN = """
for r in nl.affine_range(4):
    for i in nl.affine_range(2):
        for j in nl.affine_range(4):
            a = nl.ndarray((128, 4, 2), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=a, src=x.ap(pattern=[[64, 128], [8, 4], [1, 2]],
                                          offset=r * 8192 + i * 32 + j * 2))
            nisa.dma_copy(dst=out.ap(pattern=[[64, 128], [16, 4], [4, 2]],
                                     offset=r * 8192 + i * 8 + j), src=a)
"""


def test_what_iterations_store_between_one_another_is_stored_once() -> None:
    kernel = read(WOVEN)
    text = after(kernel, "weave 2; weave 3")
    assert text.count("dma_copy") == 2
    found = world.read_kernel(text, ARGUMENTS)
    np.testing.assert_array_equal(results(found), results(kernel))
    assert np.isfinite(results(found)).all()


STORE = "nisa.dma_copy(dst=out"
READ = """nisa.dma_copy(dst=a, src=out.ap(pattern=[[64, 128], [16, 4], [4, 2]], offset=0))
            nisa.dma_copy(dst=out"""


@pytest.mark.parametrize(
    ("old", "new", "number", "reason"),
    [
        (STORE, STORE, "1", "store a tile as it is"),
        ("[4, 2]]", "[3, 2]]", "2", "interleaved"),
        ("+ i * 8 + j", "+ i * 8 + j * 2", "2", "interleaved"),
        ("[16, 4], [4, 2]]", "[4, 4], [4, 2]]", "2", "twice"),
        (STORE, READ, "3", "elsewhere"),
    ],
)
def test_other_stores_stay(old: str, new: str, number: str, reason: str) -> None:
    with pytest.raises(NotApplicableError, match=reason):
        after(read(WOVEN.replace(old, new, 1)), f"weave {number}")
