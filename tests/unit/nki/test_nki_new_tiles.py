"""Rewrites that rename, move and narrow tiles are refused where they would change a result."""

from __future__ import annotations

import nki_kernels as world
import pytest
from test_nki_legality import CHANGED, SHIFTED, after, read

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.planning.steps import Step
from tilewright.proposers.nki.printing import print_kernel

ATTENTION = "stay i; skip-copy 13"


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("mamba-1x256x2x64", "strip 7 16"),
        ("mamba-1x256x2x64", "early 8 s; strip 9 32"),
        ("rmsnorm-256x512", "strip 1 128"),
        ("layernorm-256x512", "strip 3 128; strip 12 256"),
        ("attention-512x128", f"{ATTENTION}; defer 12; take-over 6; narrow row"),
        ("conv1d-2x128x32-k3", "jam w 0; unfold 5; strip 5 16"),
    ],
)
def test_several_steps_keep_the_result(name: str, steps: str) -> None:
    kernel = world.naive(name)
    for text in steps.split("; "):
        kernel = Step.parse(text).apply(kernel)
    assert world.is_right(name, print_kernel(kernel), 0.1 if "narrow" in steps else 1e-4)


def test_a_loop_keeps_only_what_it_stored() -> None:
    assert "kept" not in after(read(SHIFTED.replace("SHIFT", "0")), "stay i")
    with pytest.raises(NotApplicableError, match="loads the data that it stores"):
        after(read(SHIFTED.replace("SHIFT", "1")), "stay i")


def test_a_copy_is_no_other_name_for_a_tile_that_is_used_again() -> None:
    with pytest.raises(NotApplicableError, match="a is used after the copy"):
        after(read(CHANGED), "take-over 2")
    alone = CHANGED.replace("data1=a, data2=b", "data1=b, data2=b")
    without = alone.replace("    nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)\n", "")
    assert "tensor_copy" not in after(read(without), "take-over 2")


SCALED = """
for r in nl.affine_range(4):
    square = "nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)"
    weights = SQUARE
    nisa.memset(dst=weights, value=1.0)
    column = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=column, value=2.0)
    values = TILE
    nisa.dma_copy(dst=values, src=x[r * 128 : r * 128 + 128])
    scaled = SQUARE
    nisa.tensor_scalar(dst=scaled, data=weights, op0=nl.multiply, operand0=column)
    AGAIN
    turned = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=scaled)
    left = SQUARE
    nisa.tensor_copy(dst=left, src=turned)
    total = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=left, moving=values)
    MORE
    result = TILE
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=result)
"""


def scaled(again: str = "pass", more: str = "pass", change: tuple[str, str] = ("", "")) -> str:
    body = SCALED.replace(
        '    square = "nl.ndarray((128, 128), ' + 'dtype=nl.float32, buffer=nl.sbuf)"\n', ""
    )
    body = body.replace("SQUARE", "nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)")
    return body.replace("AGAIN", again).replace("MORE", more).replace(*change)


def test_a_scale_is_deferred_only_past_what_is_proportional_to_its_rows() -> None:
    text = after(read(scaled()), "defer 4")
    assert text.index("nc_matmul") < text.index("tensor_scalar")
    column = "nisa.memset(dst=column, value=3.0)"
    with pytest.raises(NotApplicableError, match="column changes"):
        after(read(scaled(more=column)), "defer 4")
    other = "nisa.nc_matmul(dst=total, stationary=weights, moving=values)"
    with pytest.raises(NotApplicableError, match="also sums other products"):
        after(read(scaled(more=other)), "defer 4")
    with pytest.raises(NotApplicableError, match="not proportional"):
        after(read(scaled(again="nisa.activation(dst=weights, op=nl.exp, data=scaled)")), "defer 4")
    # Rows of the moving operand are summed over: their factors do not leave the sum.
    swapped = ("stationary=left, moving=values", "stationary=values, moving=left")
    body = scaled(change=swapped).replace(
        "total = nl.ndarray((128, 64)", "total = nl.ndarray((64, 128)"
    )
    kernel = read(body.replace("src=total)", "src=total[:, 0:64])"))
    with pytest.raises(NotApplicableError, match="not proportional"):
        after(kernel, "defer 4")


WINDOW = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    b = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=b, data=a, op0=nl.add, operand0=1.0)
    c = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=c, value=0.0)
    nisa.tensor_scalar(dst=c[:, 0:32], data=b[:, FIRST:LAST], op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=c)
"""


def test_strips_end_before_what_reads_other_columns() -> None:
    body = WINDOW.replace("FIRST", "0").replace("LAST", "32")
    text = after(read(body), "strip 2 16")
    loop = text[text.index("for strip") : text.index("dst=c[")]
    assert "dst=b" in loop.replace("dst=b[0:128, strip", "dst=b")
    assert "dst=c[0:128, 0 : 32]" in text  # half as many columns: not in strips


BACKWARDS = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    b = nl.ndarray((128, 80), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=b, value=0.0)
    nisa.tensor_scalar(dst=b[:, 0:64], data=a, op0=nl.add, operand0=1.0)
    c = TILE
    nisa.tensor_scalar(dst=c, data=b[:, 8:72], op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=c)
"""


def test_strips_do_not_read_what_a_later_strip_writes() -> None:
    text = after(read(BACKWARDS), "strip 3 16")
    assert "data=b[0:128, 8 : 72]" in text
    earlier = BACKWARDS.replace("dst=b[:, 0:64]", "dst=b[:, 16:80]")
    assert "data=b[0:128, strip" in after(read(earlier), "strip 3 16")


@pytest.mark.parametrize(
    ("tile", "reason"),
    [("a", "dma_copy cannot access PSUM"), ("k", "operands that are columns must be in SBUF")],
)  # fmt: skip
def test_psum_holds_only_what_every_user_reaches(tile: str, reason: str) -> None:
    body = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    k = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=k, value=1.0)
    b = TILE
    nisa.tensor_scalar(dst=b, data=a, op0=nl.add, operand0=k)
    c = TILE
    nisa.tensor_scalar(dst=c, data=a, op0=nl.add, operand0=2.0)
    d = TILE
    nisa.tensor_tensor(dst=d, data1=a, data2=a, op=nl.add)
    e = TILE
    nisa.tensor_tensor(dst=e, data1=b, data2=c, op=nl.add)
    nisa.tensor_tensor(dst=e, data1=e, data2=d, op=nl.add)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=e)
"""
    assert "buffer=nl.psum" in after(read(body), "psum b")
    with pytest.raises(NotApplicableError, match="from PSUM"):
        after(read(body), "psum b; psum c")
    with pytest.raises(NotApplicableError, match=reason):
        after(read(body), f"psum {tile}")


def test_what_differs_between_iterations_is_not_computed_early() -> None:
    with pytest.raises(NotApplicableError, match="differs between iterations"):
        after(read(CHANGED), "early 3 r")


def test_windows_become_a_chain_only_with_one_factor_for_a_row() -> None:
    text = print_kernel(Step.parse("jam w 0").apply(world.naive("conv1d-2x128x32-k3")))
    arguments = world.opened("conv1d-2x128x32-k3").workload.arguments
    from tilewright.proposers.nki.reading.kernel import read_kernel

    assert "[3, 128], [0, 32], [1, 3]" in text
    assert "scalar_tensor_tensor" in after(read_kernel(text, arguments), "unfold 5")
    # Factors that differ along the row: sums of whole tiles, after the products.
    different = text.replace("[3, 128], [0, 32], [1, 3]", "[34, 128], [1, 32], [1, 3]").replace(
        "weights.ap", "image.ap"
    )
    unfolded = after(read_kernel(different, arguments), "unfold 5")
    assert "scalar_tensor_tensor" not in unfolded
    assert unfolded.count("op=nl.add") == 2
