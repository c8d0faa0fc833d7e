"""Rewrites that would change a result are refused."""

from __future__ import annotations

import pytest

from tilewright.core.records import Argument
from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Kernel
from tilewright.proposers.nki.planning.steps import Step
from tilewright.proposers.nki.printing import print_kernel
from tilewright.proposers.nki.reading.kernel import read_kernel
from tilewright.proposers.nki.reading.values import UnsupportedError

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray((512, 64), dtype=nl.float32, buffer=nl.shared_hbm)
"""
ARGUMENTS = (
    Argument("x", (512, 64), "float32", "input"),
    Argument("out", (512, 64), "float32", "output"),
)
TILE = "nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)"


def read(body: str) -> Kernel:
    lines = [f"    {line}\n" for line in body.replace("TILE", TILE).strip("\n").split("\n")]
    return read_kernel(f"{HEAD}{''.join(lines)}    return out\n", ARGUMENTS)


def after(kernel: Kernel, steps: str) -> str:
    for text in steps.split("; "):
        kernel = Step.parse(text).apply(kernel)
    return print_kernel(kernel)


RUNNING = """
total = TILE
nisa.memset(dst=total, value=0.0)
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    nisa.tensor_tensor(dst=total, data1=total, data2=a, op=nl.add)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=total)
"""
SUM = RUNNING.replace(
    "    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=total)",
    "nisa.dma_copy(dst=out[0:128], src=total)",
)
SHIFTED = """
kept = nl.ndarray((640, 64), dtype=nl.float32, buffer=nl.hbm)
for i in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[i * 128 : i * 128 + 128])
    nisa.dma_copy(dst=kept[i * 128 : i * 128 + 128], src=a)
for j in nl.affine_range(4):
    b = TILE
    nisa.dma_copy(dst=b, src=kept[j * 128 + SHIFT : j * 128 + SHIFT + 128])
    nisa.dma_copy(dst=out[j * 128 : j * 128 + 128], src=b)
"""
CHANGED = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    b = TILE
    nisa.tensor_copy(dst=b, src=a)
    nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
    c = TILE
    nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.multiply)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=c)
"""
SCALED = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    b = TILE
    nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=2.0)
    BETWEEN
    c = TILE
    nisa.tensor_tensor(dst=c, data1=b, data2=x_tile, op=nl.add)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=c)
"""


def test_iterations_that_hand_a_sum_on_and_store_it_stay_apart() -> None:
    with pytest.raises(NotApplicableError, match="depend on one another"):
        after(read(RUNNING), "jam r 2")


def test_a_sum_in_one_instruction_keeps_its_order() -> None:
    text = after(read(SUM), "jam r 0")
    assert "in nl.affine_range(4):" in text  # the additions, one after the other
    assert text.count("nisa.tensor_tensor(") == 1
    assert "a = nl.ndarray((128, 256)" in text


OVERLAPPING = """
total = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
for r in nl.affine_range(3):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    nisa.tensor_copy(dst=total[:, r * 32 : r * 32 + 64], src=a)
nisa.dma_copy(dst=out[0:128], src=total[:, 0:64])
"""


def test_instructions_that_write_the_same_elements_stay_in_order() -> None:
    text = after(read(OVERLAPPING), "jam r 0")
    assert text.count("in nl.affine_range(3):") == 2  # the loads, and the copies in their order


def test_what_differs_between_iterations_is_not_hoisted() -> None:
    with pytest.raises(NotApplicableError, match="differs between iterations"):
        after(read(CHANGED), "hoist a r")


def test_loops_fuse_only_where_the_second_needs_nothing_later() -> None:
    assert after(read(SHIFTED.replace("SHIFT", "0")), "fuse i").count("for ") == 1
    for shift in ("1", "128"):
        with pytest.raises(NotApplicableError, match="later results"):
            after(read(SHIFTED.replace("SHIFT", shift)), "fuse i")


def test_only_what_was_stored_is_taken_from_the_tile() -> None:
    fused = SHIFTED.replace("SHIFT", "0")
    assert "kept" not in after(read(fused), "fuse i; forward 3")
    changed = fused.replace("src=a)\nfor", "src=a)\n    nisa.memset(dst=a, value=0.0)\nfor")
    with pytest.raises(NotApplicableError, match="a changes before"):
        after(read(changed), "fuse i; forward 4")


def test_a_copy_stays_where_its_source_changes() -> None:
    with pytest.raises(NotApplicableError, match="a changes while the copy is used"):
        after(read(CHANGED), "skip-copy 2")


@pytest.mark.parametrize(
    ("between", "merges"),
    [("pass", True), ("nisa.memset(dst=a, value=0.0)", False)],
)
def test_instructions_merge_only_while_their_operands_last(between: str, merges: bool) -> None:
    body = SCALED.replace("BETWEEN", between).replace("x_tile", "a")
    number = 3 if merges else 4
    if merges:
        assert "nisa.scalar_tensor_tensor(" in after(read(body), f"merge {number}")
        return
    with pytest.raises(NotApplicableError):
        after(read(body), f"merge {number}")


def test_a_value_that_others_read_is_still_computed() -> None:
    body = SCALED.replace("BETWEEN", "pass").replace("x_tile", "a").replace("src=c)", "src=c)\n    "
        "nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=b)")  # fmt: skip
    assert "nisa.tensor_scalar(dst=b" in after(read(body), "merge 3")


CHOSEN = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    flags = nl.ndarray((128, 64), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=flags, data=a, op0=nl.greater, operand0=0.0)
    b = TILE
    nisa.memset(dst=b, value=-1.0)
    nisa.tensor_copy_predicated(dst=b, src=a, predicate=flags)
    c = TILE
    nisa.tensor_copy(dst=c, src=b)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=c)
"""


def test_what_keeps_a_part_of_its_tile_does_not_land_elsewhere() -> None:
    with pytest.raises(NotApplicableError, match="cannot write to the destination"):
        after(read(CHOSEN), "land 5")


@pytest.mark.parametrize("step", ["merge x", "jam r half", "strip 1 wide"])
def test_places_of_steps_are_whole_numbers(step: str) -> None:
    with pytest.raises(NotApplicableError, match="is not an integer"):
        after(read(RUNNING), step)


DIAGONAL = """
a = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
nisa.memset(dst=a, value=0.0)
for g in nl.affine_range(2):
    nisa.memset(dst=a[g * 32 : g * 32 + 32, g * 32 : g * 32 + 32], value=1.0)
nisa.dma_copy(dst=out[0:128], src=a)
"""


def test_iterations_on_other_partitions_become_no_wider_instruction() -> None:
    jammed = after(read(DIAGONAL), "jam g 0")
    assert "dst=a[g_2 * 32 : g_2 * 32 + 32, g_2 * 32 : g_2 * 32 + 32]" in jammed


REVERSED = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    b = TILE
    nisa.tensor_copy(dst=b, src=a.ap(pattern=[[64, 128], [-1, 64]], offset=63))
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=b)
"""


@pytest.mark.parametrize("steps", ["skip-copy 2", "land 2", "take-over 2"])
def test_a_copy_that_reverses_its_elements_is_no_ordinary_copy(steps: str) -> None:
    kernel = read(REVERSED)
    assert "src=a.ap(pattern=[[64, 128], [-1, 64]], offset=63)" in print_kernel(kernel)
    with pytest.raises(NotApplicableError):
        after(kernel, steps)


def test_only_copies_reverse_their_elements() -> None:
    other = REVERSED.replace("tensor_copy(dst=b, src=", "activation(dst=b, op=nl.exp, data=")
    with pytest.raises(UnsupportedError, match="an index that counts down, other than"):
        read(other)
