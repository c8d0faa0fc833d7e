"""What a mask hides is left out, and nothing else."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.estimate.cost import estimate
from tilewright.proposers.nki.planning.masked_plans import masked_sequences
from tilewright.proposers.nki.planning.steps import TECHNIQUES, Step
from tilewright.proposers.nki.printing import print_kernel

SOFTMAX = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    s = TILE
    for j in nl.affine_range(4):
        nisa.affine_select(
            dst=s[:, j * 16 : j * 16 + 16], pattern=[[STEP, 16]], channel_multiplier=ROW,
            on_true_tile=a[:, j * 16 : j * 16 + 16], on_false_value=-9984.0, cmp_op=nl.COMPARE,
            offset=OFFSET)
    top = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=s, axis=1)
    nisa.tensor_scalar(dst=s, data=s, op0=nl.subtract, operand0=top)
    w = TILE
    nisa.activation(dst=w, op=nl.exp, data=s)
    total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=w, axis=1)
    nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=total, op1=nl.multiply, operand1=top)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=a)
"""
CAUSAL = ("greater_equal", -1, 0, "r * 16 + 5 - j * 16")


def softmax(compare: str, step: int, row: int, offset: str) -> str:
    text = SOFTMAX.replace("STEP", str(step)).replace("ROW", str(row))
    return text.replace("COMPARE", compare).replace("OFFSET", offset)


def columns(text: str) -> int:
    """Elements in each partition that instructions compute, as the estimate counts them."""
    kernel = world.read_kernel(text, ARGUMENTS)
    return sum(int(estimate(kernel).engines.get(name, 0)) for name in ("dve", "act", "pool"))


@pytest.mark.parametrize(
    "mask",
    [
        CAUSAL,
        ("greater", -1, 0, "r * 16 + 1 - j * 16"),
        ("greater_equal", -1, 1, "r * 16 - j * 16"),
        ("less_equal", -1, 0, "r * 16 - j * 16"),  # the first columns are hidden
        ("less", 1, 0, "j * 16 - r * 16 - 3"),
        ("equal", 1, 0, "j * 16 - r * 16 - 3"),  # all but one
    ],
)
@pytest.mark.parametrize("parts", [0, 2, 4])
def test_masked_columns_are_left_out(mask: tuple[str, int, int, str], parts: int) -> None:
    kernel = read(softmax(*mask))
    text = after(kernel, f"skip-masked 2 {parts}")
    np.testing.assert_allclose(
        results(world.read_kernel(text, ARGUMENTS)), results(kernel), rtol=1e-5, atol=1e-5
    )
    assert columns(text) < columns(print_kernel(kernel)) or mask[2] == 1


def test_what_is_masked_nowhere_is_copied_and_what_is_hidden_is_gone() -> None:
    apart = after(read(softmax(*CAUSAL)), "skip-masked 2 4")
    assert "affine_select" not in apart  # all rows of a part see the same columns
    for number, seen in enumerate((6, 22, 38, 54), 2):
        assert f"data=s_{number}[0:128, 0 : {seen}]" in apart
    pairs = after(read(softmax(*CAUSAL)), "skip-masked 2 2")
    assert pairs.count("affine_select") == 4  # in two blocks of each of two parts
    assert "pattern=[[-1, 10]]" in pairs  # of its 16 columns 6 are seen by all rows


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("-9984.0", "-90.0", "that the mask hides"),
        ("op=nl.add, data=w", "op=nl.minimum, data=w", "uses elements that the mask hides"),
        ("op=nl.maximum, data=s", "op=nl.add, data=s", "uses elements that the mask hides"),
        ("op=nl.exp", "op=nl.tanh", "uses elements that the mask hides"),
        ("src=a)\n", "src=w)\n", "uses elements that the mask hides"),
        ("op0=nl.subtract, operand0=top)\n    w", "op0=nl.multiply, operand0=top)\n    w",
         "uses elements that the mask hides"),
        ("op0=nl.subtract, operand0=top)\n    w", "op0=nl.multiply, operand0=-1.0)\n    w",
         "uses elements that the mask hides"),
        ("op0=nl.subtract, operand0=top)\n    w", "op0=nl.multiply, operand0=0.01)\n    w",
         "uses elements that the mask hides"),
        ("    top =", "    nisa.tensor_copy(dst=s[:, 48:64], src=a[:, 48:64])\n    top =",
         "between"),
        ("dst=s[:, j * 16 : j * 16 + 16]", "dst=s[0:64, j * 16 : j * 16 + 16]", "only some"),
        ("r * 16 + 5 - j * 16", "r * 16 - 5 - j * 16", "uses elements that the mask hides"),
        ("    s = TILE\n", "", "lives longer than the loop"),
        ("r * 16 + 5 - j * 16", "5", "mask that differs"),
    ],
)  # fmt: skip
def test_a_hidden_value_that_counts_is_not_left_out(old: str, new: str, reason: str) -> None:
    body = softmax(*CAUSAL).replace(old, new)
    if old == "    s = TILE\n":  # a tile that lives longer than the iteration
        body = "\ns = TILE" + body
    assert body != softmax(*CAUSAL)
    with pytest.raises(NotApplicableError, match=reason):
        after(read(body), "skip-masked 2 4")


def test_a_mask_that_writes_an_ordinary_number_does_not_hinder_others() -> None:
    ordinary = (
        "    nisa.affine_select(dst=a, pattern=[[-1, 64]], channel_multiplier=0, on_true_tile=a,\n"
        "                       on_false_value=1.0, cmp_op=nl.greater_equal, offset=31)\n"
    )
    store = "    nisa.dma_copy(dst=out["
    kernel = read(softmax(*CAUSAL).replace(store, ordinary + store))
    text = after(kernel, "skip-masked 2 4")
    assert text.count("affine_select") == 4  # in each part, only the ordinary one is left
    np.testing.assert_allclose(
        results(world.read_kernel(text, ARGUMENTS)), results(kernel), rtol=1e-5, atol=1e-5
    )


def test_columns_that_are_written_again_are_not_hidden() -> None:
    again = "    nisa.tensor_scalar(dst=s, data=a, op0=nl.add, operand0=0.5)\n    top ="
    kernel = read(softmax(*CAUSAL).replace("    top =", again, 1))
    made = world.read_kernel(after(kernel, "skip-masked 2 4"), ARGUMENTS)
    np.testing.assert_array_equal(results(made), results(kernel))


PRODUCTS = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    total = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
    for j in nl.affine_range(4):
        w = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.affine_select(
            dst=w, pattern=[[-1, 16]], channel_multiplier=0,
            on_true_tile=a[:, j * 16 : j * 16 + 16], on_false_value=0.0,
            cmp_op=nl.greater_equal, offset=OFFSET)
        turned = nl.ndarray((16, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=w)
        u = nl.ndarray((16, 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=u, src=turned)
        nisa.nc_matmul(dst=total, stationary=u, moving=a[0:16])
    b = TILE
    nisa.tensor_copy(dst=b, src=total)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=b)
"""


def test_products_with_zeros_are_dropped_and_loads_of_their_operands_with_them() -> None:
    kernel = read(PRODUCTS.replace("OFFSET", "r * 16 + 15 - j * 16"))
    made = world.read_kernel(after(kernel, "skip-masked 2 4"), ARGUMENTS)
    np.testing.assert_allclose(results(made), results(kernel), rtol=1e-5, atol=1e-5)
    assert estimate(made).engines["pe"] == pytest.approx(10 / 16 * estimate(kernel).engines["pe"])


@pytest.mark.parametrize(
    ("offset", "reason"),
    [("r * 16 - 1 - j * 16", "all products"), ("r * 16 + 5 - j * 16", "nc_transpose uses")],
)
def test_sums_keep_a_product_and_blocks_are_whole(offset: str, reason: str) -> None:
    with pytest.raises(NotApplicableError, match=reason):
        after(read(PRODUCTS.replace("OFFSET", offset)), "skip-masked 2 4")


def test_a_product_with_some_zeros_stays() -> None:
    body = PRODUCTS.replace("OFFSET", "r * 16 + 5 - j * 16")
    start, stop = body.index("        turned"), body.index("        nisa.nc_matmul")
    body = body[:start] + body[stop:]
    body = body.replace("(128, 64), dtype=nl.float32, buffer=nl.psum",
                        "(64, 16), dtype=nl.float32, buffer=nl.psum")  # fmt: skip
    body = body.replace("stationary=u, moving=a[0:16]", "stationary=a, moving=w")
    body = body.replace("b = TILE", "b = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)")
    body = body.replace("dst=out[r * 128 : r * 128 + 128]", "dst=out[r * 64 : r * 64 + 64, 0:16]")
    with pytest.raises(NotApplicableError, match="nc_matmul uses"):
        after(read(body), "skip-masked 2 4")


@pytest.mark.parametrize("parts", ["-1", "1", "3", "x"])
def test_parts_are_equal(parts: str) -> None:
    with pytest.raises(NotApplicableError):
        after(read(softmax(*CAUSAL)), f"skip-masked 2 {parts}")


def test_planned_sequences_compute_the_same_and_products_are_dropped() -> None:
    name = "causal_attention-512x128"
    kernel = world.naive(name)
    made = list(masked_sequences(kernel, TECHNIQUES))
    assert made
    for steps, after_them in made:
        assert "skip-masked" in {step.technique for step in steps}
        assert world.is_right(name, print_kernel(after_them))
    apart = Step.parse("skip-masked 7 4").apply(kernel)
    products = {f: estimate(k).engines["pe"] for f, k in (("all", kernel), ("some", apart))}
    assert products["some"] < 0.8 * products["all"]
