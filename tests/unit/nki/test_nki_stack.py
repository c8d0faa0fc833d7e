"""Iterations and strips of tiles of few partitions stand side by side on all partitions."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.estimate.cost import estimate
from tilewright.proposers.nki.planning.steps import Step
from tilewright.proposers.nki.printing import print_kernel

HALVES = """
for r in nl.affine_range(TRIPS):
    a = nl.ndarray((ROWS, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=x[r * ROWS : r * ROWS + ROWS])
    b = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=b, op=nl.maximum, data=a, axis=1)
    nisa.tensor_scalar(dst=a, data=a, op0=nl.subtract, operand0=b)
    nisa.dma_copy(dst=out[r * ROWS : r * ROWS + ROWS], src=a)
"""


def halves(trips: int = 8, rows: int = 64) -> str:
    return HALVES.replace("TRIPS", str(trips)).replace("ROWS", str(rows))


@pytest.mark.parametrize(
    ("trips", "rows", "count"), [(8, 64, 2), (2, 64, 2), (16, 32, 4), (16, 32, 2)]
)
def test_iterations_have_partitions_of_their_own(trips: int, rows: int, count: int) -> None:
    kernel = read(halves(trips, rows))
    made = Step.parse(f"stack r {count}").apply(kernel)
    text = print_kernel(made)
    assert f"nl.ndarray(({rows * count}, 64)" in text
    assert text.count("dma_copy") == 2 * count
    assert text.count("tensor_scalar") == 1
    assert estimate(made).engines["dve"] * count == pytest.approx(estimate(kernel).engines["dve"])
    got, wanted = results(world.read_kernel(text, ARGUMENTS)), results(kernel)
    done = trips * rows
    np.testing.assert_array_equal(got[:done], wanted[:done])
    assert np.isfinite(got[:done]).all()


SCALED = "dst=a, data=a, op0=nl.subtract, operand0=b"
KEPT = """
kept = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=kept, src=x[0:64, 0:1])"""
IOTA = "nisa.iota(dst=a, pattern=[[1, 64]], offset=0, channel_multiplier=1)\n    nisa.tensor_scalar"


def scaled(text: str) -> str:
    return halves().replace(SCALED, text)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (halves(trips=3), "multiple of 2"),
        (halves(trips=8, rows=48), "side by side"),
        (halves(trips=4, rows=128), "side by side"),
        (halves().replace("out[r * 64 : r * 64 + 64]", "out[0:64]"), "depend on one another"),
        (scaled("dst=b, data=a[:, r : r + 1], op0=nl.add, operand0=1.0"), "elsewhere in each"),
        (halves().replace("    b =", "    c = nl.ndarray((32, 1), dtype=nl.float32, "
                          "buffer=nl.sbuf)\n    b ="), "different numbers"),
        (scaled("dst=a[0:32], data=a[0:32], op0=nl.add, operand0=1.0"), "only some partitions"),
        (
            KEPT + scaled("dst=a, data=a, op0=nl.subtract, operand0=kept"),
            "not a tile of one iteration",
        ),
        (halves().replace("nisa.tensor_scalar", IOTA), "partition by partition"),
    ],
)  # fmt: skip
def test_other_loops_stay_on_their_partitions(body: str, reason: str) -> None:
    with pytest.raises(NotApplicableError, match=reason):
        after(read(body), "stack r 2")


@pytest.mark.parametrize("steps", ["fold 1", "fold 1; strip 1 512", "strip 1 2048; stack strip 2"])
def test_strips_stand_side_by_side(steps: str) -> None:
    name = "rope-128x8192"
    kernel = world.naive(name)
    before = estimate(kernel).engines["dve"]
    for step in steps.split("; "):
        kernel = Step.parse(step).apply(kernel)
    assert estimate(kernel).engines["dve"] < 0.6 * before
    assert world.is_right(name, print_kernel(kernel))
    assert world.fits(name, print_kernel(kernel))


def test_tiles_on_all_partitions_are_not_folded() -> None:
    with pytest.raises(NotApplicableError, match="side by side"):
        after(read(halves(trips=4, rows=128)), "fold 1")


def test_an_engine_does_one_instruction_after_the_other() -> None:
    """Loads and stores hide behind sums, but sums that do not wait for one another take turns."""
    body = "".join(f"""
a{n} = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=a{n}, src=x[{n * 128} : {n * 128 + 128}])
b{n} = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
nisa.reciprocal(dst=b{n}, data=a{n})
nisa.dma_copy(dst=out[{n * 128} : {n * 128 + 128}], src=b{n})""" for n in range(4))  # fmt: skip
    found = estimate(read(body))
    assert found.chain > found.engines["dve"] + 1300 + 1300
    assert found.chain < sum(found.engines.values()) + 1300 + 1300
