"""A tile of which several transfers transpose parts is turned on PE as a whole."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.planning.steps import Step

PARTS = """
for r in nl.affine_range(4):
    a = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
    for g in nl.static_range(4):
        for h in nl.static_range(8):
            nisa.dma_copy(
                dst=a[g * 16 : g * 16 + 16, h * 16 : h * 16 + 16],
                src=x.ap(pattern=[[1, 16], [64, 16]], offset=r * 8192 + h * 1024 + g * 16),
            )
    b = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=3.0)
    nisa.dma_copy(dst=out.ap(pattern=[[1, 64], [64, 128]], offset=r * 8192), src=b)
"""


def test_parts_are_loaded_as_rows_and_turned_at_once() -> None:
    kernel = read(PARTS)
    text = after(kernel, "turn 1")
    assert text.count("nc_transpose") == 1
    assert "pattern=[[64, 16], [1, 16]]" in text or "x[" in text
    got = results(world.read_kernel(text, ARGUMENTS))
    np.testing.assert_array_equal(got, results(kernel))
    assert np.isfinite(got).all()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("for h in nl.static_range(8)", "for h in nl.static_range(7)", "leave parts of a undef"),
        ("    b = nl.nd", "    nisa.memset(dst=a[0:1, 0:1], value=0.0)\n    b = nl.nd",
         "not only transfers from HBM"),
        ("src=x.ap(pattern=[[1, 16], [64, 16]], offset=r * 8192 + h * 1024 + g * 16)",
         "src=x.ap(pattern=[[64, 16], [1, 16]], offset=r * 8192 + h * 16)", "does not transpose"),
        ("(64, 128), dtype=nl.float32, buffer=nl.sbuf)\n    for g",
         "(64, 256), dtype=nl.float32, buffer=nl.sbuf)\n    for g", "cannot transpose a at once"),
        ("        for h in nl.static_range(8):\n            nisa.dma_copy(",
         "        for h in nl.static_range(8):\n            nisa.dma_copy(dst=out[0:16, 0:16], "
         "src=a[g * 16 : g * 16 + 16, 0:16])\n            nisa.dma_copy(", "is read before"),
        ("    for g in nl.static_range(4):\n",
         "    nisa.dma_copy(dst=a[16:32, r * 16 : r * 16 + 16],\n"
         "                  src=x.ap(pattern=[[1, 16], [64, 16]], offset=r * 8192))\n"
         "    for g in nl.static_range(4):\n", "depends on a loop outside it"),
    ],
)  # fmt: skip
def test_what_is_not_turned_as_a_whole(old: str, new: str, reason: str) -> None:
    assert PARTS.count(old) == 1
    kernel = read(PARTS.replace(old, new))
    number = 2 if "out[0:16" in new else 1
    with pytest.raises(NotApplicableError, match=reason):
        Step.parse(f"turn {number}").apply(kernel)


@pytest.mark.parametrize(
    ("start", "count", "can"),
    [(0, 48, True), (32, 32, True), (96, 16, True), (64, 64, True), (16, 1, True),
     (16, 16, False), (32, 48, False), (96, 33, False), (8, 100, False)],
)  # fmt: skip
def test_no_step_lets_an_engine_begin_where_it_cannot(start: int, count: int, can: bool) -> None:
    rows = f"{start} : {start + count}"
    kernel = read(f"""
t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=t, src=x[0:128])
v = nl.ndarray(({count}, 64), dtype=nl.float32, buffer=nl.sbuf)
nisa.tensor_scalar(dst=v, data=t[{rows}], op0=nl.multiply, operand0=3.0)
nisa.dma_copy(dst=out[0:{count}], src=v)
nisa.dma_copy(dst=out[128 : 128 + {count}], src=t[{rows}])
""")
    if can:
        after(kernel, "engine 2 vector")
    else:
        with pytest.raises(NotApplicableError, match="cannot begin at this partition"):
            after(kernel, "engine 2 vector")
