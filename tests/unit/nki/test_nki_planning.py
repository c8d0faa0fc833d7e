"""What is tried first: products in bfloat16 one by one, and pieces that shorten the first wait."""

from __future__ import annotations

import nki_kernels as world

from tilewright.core.records import Argument
from tilewright.proposers.nki.cost import estimate
from tilewright.proposers.nki.planning import complete_sequences, some_of
from tilewright.proposers.nki.reading import read_kernel
from tilewright.proposers.nki.rewrites.precision import operands_by_product
from tilewright.proposers.nki.steps import Step

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
    assert strips.fill < whole.fill / 2
    assert whole.total >= whole.engines["dma"] + whole.fill
