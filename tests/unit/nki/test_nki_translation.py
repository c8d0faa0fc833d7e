"""What the target writes again in NKI 2: loops, masks, copies, and tensors that are too large."""

from __future__ import annotations

import re

import nki_kernels as world
import numpy as np
import pytest

from tilewright.core.records import Argument
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Limits
from tilewright.targets.trainium.program import Call, parse, run_program
from tilewright.targets.trainium.translation.clipping import UntranslatableError
from tilewright.targets.trainium.translation.translator import translated

HEAD = """import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
"""
ROWS, COLUMNS = 300, 64
CALL = Call(
    (Argument("x", (ROWS, COLUMNS), "float32", "input"),),
    (Argument("y", (ROWS, COLUMNS), "float32", "output"),),
    {},
)


def written(body: str) -> str:
    """A kernel of NKI 1 in NKI 2."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return translated(f"{HEAD}{lines}    return y\n", CALL, world.MACHINE)


def same(body: str) -> str:
    """The kernel in NKI 2, which computes the same."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    text = written(body)
    x = np.random.default_rng(1).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    before, after = (
        run_program(parse(source), CALL, world.MACHINE, {"x": x})[0]
        for source in (f"{HEAD}{lines}    return y\n", text)
    )
    assert np.isfinite(before).all()
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
    return text


MASKED = """
p, f = nl.mgrid[0:128, 0:64]
for i in nl.affine_range(3):
    t = nl.load(x[i * 128 + p, f], mask=i * 128 + p < 300)
    nl.store(y[i * 128 + p, f], nl.multiply(t, 2.0), mask=i * 128 + p < 300)
"""


def test_iterations_that_a_mask_cuts_stand_by_themselves() -> None:
    text = same(MASKED)
    assert re.findall(r"for i0 in nl.affine_range\((\d+)\):", text) == ["2"]
    assert "x.ap(pattern=[[64, 44], [1, 64]], offset=16384)" in text


def test_a_mask_that_is_no_box_is_cut_into_boxes() -> None:
    """Row p of the tile starts at row p, p + 1 and p + 2: fewer of them exist at the end."""
    text = same("""
p, k, f = nl.mgrid[0:100, 0:3, 0:64]
for i in nl.affine_range(3):
    t = nl.load(x[i * 100 + p + k, f], mask=i * 100 + p + k < 300)
    r, c = nl.mgrid[0:100, 0:64]
    nl.store(y[i * 100 + r, c], t[r, 0, c])
""")
    assert text.count("dma_copy") == 2 + 3 + 1


WINDOWS = """
p, w, f = nl.mgrid[0:128, 0:3, 0:42]
r, c, i, j = nl.mgrid[0:128, 0:40, 0:3, 0:3]
q, g = nl.mgrid[0:128, 0:64]
for a in nl.affine_range(3):
    copied = nl.load(x[a * 128 + q, g], mask=a * 128 + q < 300)
    nl.store(y[a * 128 + q, g], copied, mask=a * 128 + q < 300)
q, g = nl.mgrid[0:128, 0:40]
for a in nl.affine_range(3):
    for b in nl.affine_range(2):
        inside = (a * 128 + p + w < 300) & (b * 40 + f < 64)
        rows = nl.load(x[a * 128 + p + w, b * 40 + f], mask=inside)
        best = nl.max(rows[r, i, c + j], axis=[2, 3])
        nl.store(y[a * 128 + q, b * 40 + g], best, mask=(a * 128 + q < 298) & (b * 40 + g < 62))
"""


def test_a_mask_over_the_sum_of_two_axes_is_cut_into_boxes() -> None:
    """Of which each is cut once: a cut along the edge of what is left would change nothing."""
    assert "mask" not in same(WINDOWS)


def test_a_mask_without_order_is_refused_with_its_line() -> None:
    with pytest.raises(UntranslatableError, match="no box") as caught:
        written("""
p, f = nl.mgrid[0:128, 0:64]
t = nl.load(x[p, f], mask=(p + f) % 2 == 0)
nl.store(y[p, f], t)
""")
    assert caught.value.line == 10


def test_tiles_that_are_too_large_are_moved_to_hbm() -> None:
    text = same("""
q = nl.ndarray((20, nl.par_dim(64), 512), dtype=nl.float32, buffer=nl.psum)
w = nl.load(x[0:64, :])
wide = nl.ndarray((64, 512), dtype=nl.float32)
for j in nl.affine_range(8):
    wide[:, j * 64:(j + 1) * 64] = nl.copy(w)
for i in nl.affine_range(20):
    q[i, :, :] = nisa.nc_matmul(w, wide)
for i in nl.affine_range(20):
    s = nl.copy(q[i])
    if i == 19:
        nl.store(y[0:64, :], s[:, 0:64])
for i in nl.affine_range(2):
    nl.store(y[64 + i * 118:64 + (i + 1) * 118, :], nl.load(x[64 + i * 118:64 + (i + 1) * 118, :]))
""")
    assert "dtype=nl.float32, buffer=nl.hbm)" in text
    assert "(64, 20, 512), dtype=nl.float32, buffer=nl.psum" not in text


PLAIN = "for i in nl.affine_range(3):\n    nl.store(y[i * 100:i * 100 + 100, :], {value})"


@pytest.mark.parametrize(
    "value",
    [
        "nl.subtract(1.0, t)",
        "nl.where(nl.greater(t, 0.25), t, -1.0)",
        "nl.where(nl.greater(t, 0.25), 3.0, nl.exp(t))",
        "nl.maximum(nl.max(t, axis=1), t)",
        "t + nl.load(x[0:1, :]).broadcast_to((100, 64))",
        "nl.load(x[0:100, :])[:, 0] * nl.exp(t)",
        "nisa.affine_select(nl.arange(100)[:, None] * 2 > nl.arange(64)[None, :] + 3, t, -5.0)",
        "nisa.tensor_tensor_scan(t, t, 0.5, op0=nl.multiply, op1=nl.add)",
        "nl.copy(nisa.nc_transpose(nl.copy(nisa.nc_transpose(t))))",
        "nisa.iota(nl.arange(100)[:, None] * 3 + nl.arange(64)[None, :], dtype=nl.float32)",
        "nisa.activation(nl.exp, t, bias=nl.max(t, axis=1, keepdims=True), scale=-1.0)",
        "nl.add(t, nisa.tensor_partition_reduce(nl.maximum, t))",
        "nl.minimum(nl.exp(t), float('inf'))",
        "nl.maximum(nl.full((100, 64), -np.inf, nl.float32), t)",
        "t + nisa.iota(nl.arange(1)[:, None] + nl.arange(64)[None, :], dtype=nl.int32)"
        ".broadcast_to((100, 64))",
        "nl.load_transpose2d(x[i * 64:i * 64 + 64, :]) if False else nl.softmax(t, axis=1)",
    ],
)
def test_operations_are_written_with_all_their_operands(value: str) -> None:
    body = PLAIN.format(value=value).replace(
        "    nl.store", "    t = nl.load(x[i * 100:i * 100 + 100, :])\n    nl.store"
    )
    assert "affine_range(3)" in same(body)


def test_a_product_that_overwrites_says_so() -> None:
    """In NKI 2 a second product into the same tile would add."""
    text = same("""
w = nl.load(x[0:64, :])
ps = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
for i in nl.affine_range(3):
    ps[...] = nisa.nc_matmul(w, w)
s = nl.copy(ps)
for i in nl.affine_range(3):
    nl.store(y[i * 100:i * 100 + 100, :], nl.load(x[i * 100:i * 100 + 100, :]))
nl.store(y[0:64, :], s)
""")
    assert "accumulate=False" in text


def test_sums_of_products_need_no_word() -> None:
    text = same("""
ps = nl.zeros((64, 64), dtype=nl.float32, buffer=nl.psum)
for i in nl.affine_range(3):
    t = nl.load(x[i * 100:i * 100 + 100, :])
    nl.store(y[i * 100:i * 100 + 100, :], t)
    ps += nisa.nc_matmul(t, t)
nl.store(y[0:64, :], ps)
""")
    assert "accumulate" not in text


def test_lists_classes_and_closures_leave_no_trace() -> None:
    text = same("""
tiles = [nl.load(x[i * 100:i * 100 + 100, :]) for i in range(3)]
def double(t, by=2.0):
    return nl.multiply(t, by)
for i, t in enumerate(tiles):
    nl.store(y[i * 100:i * 100 + 100, :], double(t))
""")
    assert "double" not in text


EVEN = """
p, f = nl.mgrid[0:100, 0:4]
for i in nl.affine_range(3):
    for j in nl.affine_range(16):
        t = nl.load(x[i * 100 + p, j * 4 + f])
        nl.store(y[i * 100 + p, j * 4 + f], nl.multiply(t, 2.0))
"""
FEW = Limits(instructions=60)
"""Of the 144 instructions of `EVEN`; twelve iterations have 36."""


def test_of_loops_whose_iterations_are_even_some_are_walked() -> None:
    text = same(EVEN)
    assert "i1 in nl.affine_range(16)" in text
    lines = "".join(f"    {line}\n" for line in EVEN.strip("\n").split("\n"))
    source = f"{HEAD}{lines}    return y\n"
    assert translated(source, CALL, world.MACHINE, FEW) == text
    with pytest.raises(KernelError, match="60"):
        translated(source.replace("t, 2.0", "t, 2.0 if j else 2.0"), CALL, world.MACHINE, FEW)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("t, 2.0", "t, 2.0 if j == 5 else 1.0"),
        ("t, 2.0", "t, float((j * 5) % 16)"),
        ("t, 2.0", "t, float(max(j - 7, 0))"),
        ("t, 2.0", "t, float(factors[j])"),
        ("t, 2.0", "t, turned(j)"),
        ("nl.load(x[i * 100 + p, j * 4 + f])", "nl.load(x[i * 100 + p, places[j] * 4 + f])"),
        ("nl.load(x[i * 100 + p, j * 4 + f])", "nl.load(x[i * 100 + p, (j * 3) // 16 * 4 + f])"),
        ("* 4 + f]), nl", "* 4 + f], nl"),
    ],
)
def test_iterations_that_differ_in_other_ways_are_all_walked(before: str, after: str) -> None:
    head = "factors = [0, 1, 2, 9, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]\n"
    head += "places = [0, 1, 2, 9, 4, 5, 6, 7, 8, 3, 10, 11, 12, 13, 14, 15]\n"
    helper = "def turned(j):\n    if j == 3:\n        return 7.0\n    return 1.0\n"
    same(f"{head}{helper}{EVEN.strip()}".replace(before, after))


def test_names_that_an_iteration_of_nki_2_hands_on_are_followed() -> None:
    source = """import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x):
    y = nl.ndarray((300, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    at = 0
    for j in nl.affine_range(16):
        t = nl.ndarray((100, 4), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[0:100, at : at + 4])
        nisa.dma_copy(dst=y[0:100, at : at + 4], src=t)
        at = at + 4
    nisa.dma_copy(dst=y[100:200, 0:at], src=x[100:200, 0:at])
    nisa.dma_copy(dst=y[200:300], src=x[200:300])
    return y
"""
    text = translated(source, CALL, world.MACHINE)
    x = np.random.default_rng(1).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    np.testing.assert_array_equal(run_program(parse(text), CALL, world.MACHINE, {"x": x})[0], x)


FILLED = "row = nl.full((128, 64), -5.0, nl.float32)\n"
COPIED = "row[i, j] = nl.copy(s, mask=i >= j)\n"


def triangle(body: str) -> str:
    """A kernel that stores `row`, which the body makes from the tile `s`."""
    return f"""
for r in nl.affine_range(2):
    nl.store(y[128 + 44 * r : 256 + 44 * r], nl.load(x[128 + 44 * r : 256 + 44 * r]))
i, j = nl.arange(128)[:, None], nl.arange(64)[None, :]
s = nl.load(x[0:128])
{body}nl.store(y[0:128], row)
"""


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (FILLED + COPIED, "on_false_value=-5.0, cmp_op=nl.greater_equal"),
        (FILLED + "row[i, j] = nl.exp(s, mask=(j <= i) & (i < 128))\n", "cmp_op=nl.less_equal"),
        ("row = nl.copy(s)\nrow[i, j] = nisa.memset((128, 64), -9.0, nl.float32, mask=i < j)\n",
         "on_false_value=-9.0, cmp_op=nl.greater_equal"),
    ],
)  # fmt: skip
def test_a_triangle_becomes_a_selection(body: str, wanted: str) -> None:
    assert wanted in same(triangle(body))


@pytest.mark.parametrize(
    "body",
    [
        FILLED + "row[0:1, 0:64] = nl.copy(s[0:1, 0:64])\n" + COPIED,
        "row = nl.load(x[128:256])\n" + COPIED,
        FILLED + "row[i, j] = nl.copy(s, mask=(i + j) % 2 == 0)\n",
    ],
)
def test_a_triangle_over_other_data_is_refused(body: str) -> None:
    with pytest.raises(UntranslatableError, match="a mask that leaves no box"):
        written(triangle(body))
