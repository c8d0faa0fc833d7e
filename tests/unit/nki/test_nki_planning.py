"""What is tried first: products in bfloat16 one by one, and pieces that shorten the first wait."""

from __future__ import annotations

import nki_kernels as world
import pytest

from tilewright.core.records import Argument
from tilewright.proposers.nki.estimate.chain import longest_chain
from tilewright.proposers.nki.estimate.cost import estimate
from tilewright.proposers.nki.ir import Kernel
from tilewright.proposers.nki.planning.planner import complete_sequences, some_of
from tilewright.proposers.nki.planning.steps import Step
from tilewright.proposers.nki.reading.kernel import read_kernel
from tilewright.proposers.nki.rewrites.precision import operands_by_product

A, B, C = (frozenset(name) for name in "abc")


def test_products_are_narrowed_alone_all_but_one_and_together() -> None:
    assert some_of([A, B]) == [A, B, A | B]
    assert some_of([A, B, C]) == [A, B, C, B | C, A | C, A | B, A | B | C]
    assert some_of([A]) == [A]
    assert some_of([]) == []


def test_operands_are_known_by_their_product_through_copies_and_transposes() -> None:
    groups = operands_by_product(world.naive("attention-512x128"))
    named = [{name for name in ("queries", "keys", "values") if name in group} for group in groups]
    assert named == [{"queries", "keys"}, {"values"}]


def test_each_product_of_attention_is_narrowed_in_a_sequence_of_its_own() -> None:
    techniques = ("narrow", "merge")
    drafts = list(complete_sequences(world.naive("attention-512x128"), techniques))
    narrowed = [
        {step.arguments[0] for step in steps if step.technique == "narrow"} for steps, _ in drafts
    ]
    alone = [names for names in narrowed if "values" in names and "queries" not in names]
    assert alone
    assert any("queries" in names and "values" not in names for names in narrowed)
    assert any({"queries", "values"} <= names for names in narrowed)


ROWS = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray((512, 4096), dtype=nl.float32, buffer=nl.shared_hbm)
    for r in nl.affine_range(4):
        a = nl.ndarray((128, 4096), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
        b = nl.ndarray((128, 4096), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=b, op=nl.exp, data=a)
        nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=b)
    return out
"""
ARGUMENTS = (
    Argument("x", (512, 4096), "float32", "input"),
    Argument("out", (512, 4096), "float32", "output"),
)


def test_strips_shorten_what_no_other_iteration_hides() -> None:
    kernel = read_kernel(ROWS, ARGUMENTS)
    whole, strips = estimate(kernel), estimate(Step.parse("strip 2 1024").apply(kernel))
    alone = whole.chain - whole.engines["dma"]
    assert strips.chain - strips.engines["dma"] < alone / 2
    assert whole.total > whole.engines["dma"] + alone / 2


FOLLOWING = """
a = nl.ndarray((128, 4096), dtype=nl.float32, buffer=nl.sbuf)
for i in nl.affine_range(8):
    nisa.dma_copy(dst=a[:, i * 512 : i * 512 + 512], src=x[0:128, i * 512 : i * 512 + 512])
b = nl.ndarray((128, 4096), dtype=nl.float32, buffer=nl.sbuf)
for j in nl.affine_range(8):
    part = a[:, j * 512 : j * 512 + 512]
    nisa.activation(dst=b[:, j * 512 : j * 512 + 512], op=nl.exp, data=part)
nisa.dma_copy(dst=out[0:128], src=b)
"""


def _of_rows(body: str) -> Kernel:
    head = ROWS.partition("    for r")[0]
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return read_kernel(f"{head}{lines}    return out\n", ARGUMENTS)


def test_a_loop_follows_another_one_and_a_statement_waits_for_a_whole_tile() -> None:
    pieces = _of_rows(FOLLOWING)
    whole = Step.parse("jam j 0").apply(pieces)
    assert estimate(pieces).chain < estimate(whole).chain
    assert estimate(whole).chain > sum(estimate(whole).engines.values())


BANKS = """
for r in nl.affine_range(1):
    w = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=w, src=x[0:128, 0:512])
    nisa.dma_copy(dst=out[0:128, 0:512], src=w)
m = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=m, src=x[0:128, 0:512])
"""
PRODUCT = """
pN = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.psum)
for kN in nl.affine_range(4):
    nisa.nc_matmul(dst=pN[:, kN * 512 : kN * 512 + 512], stationary=m[:, 0:128], moving=m)
rN = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
nisa.activation(dst=rN, op=nl.exp, data=pN)
nisa.dma_copy(dst=out[0:128, 0:2048], src=rN)
"""


def test_products_wait_for_banks_of_psum() -> None:
    """Two such tiles fit at once: the third one waits until the first has been read.

    With engines that are never busy, as they would hide that.
    """
    chains = []
    for count in (1, 2, 3):
        body = _of_rows(BANKS + "".join(PRODUCT.replace("N", str(n)) for n in range(count))).body
        chains.append(longest_chain(body, [(1000.0, 1000.0, {})] * len(body)))
    assert chains[0] == pytest.approx(chains[1])
    assert chains[2] > chains[1] * 1.2
