"""What two instructions compute is computed once, where nothing changes in between."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Kernel
from tilewright.proposers.nki.printing import print_kernel
from tilewright.targets.trainium.program import Call, parse, run_program

COLUMN = "nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)"
PART = "nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)"
PASSES = f"""
for r in nl.affine_range(4):
    total = {COLUMN}
    nisa.memset(dst=total, value=0.0)
    for j in nl.affine_range(4):
        a = {PART}
        nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128, j * 16 : j * 16 + 16])
        part = {COLUMN}
        nisa.tensor_reduce(dst=part, op=nl.add, data=a, axis=1)
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
    for k in nl.affine_range(4):
        b = {PART}
        nisa.dma_copy(dst=b, src=x[r * 128 : r * 128 + 128, k * 16 : k * 16 + 16])
        nisa.tensor_scalar(dst=b, data=b, op0=nl.subtract, operand0=total)
        nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, k * 16 : k * 16 + 16], src=b)
"""
SQUARES = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    b = TILE
    nisa.tensor_tensor(dst=b, data1=a, data2=a, op=nl.multiply)
    CHANGE
    c = TILE
    nisa.tensor_tensor(dst=c, data1=a, data2=a, op=nl.multiply)
    nisa.tensor_tensor(dst=c, data1=c, data2=b, op=nl.add)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=c)
"""
ROTATED = f"""
ring = TILE
nisa.dma_copy(dst=ring, src=x[0:128])
for i in nl.sequential_range(3):
    b = {PART}
    nisa.tensor_scalar(dst=b, data=ring[:, READ : READ + 16], op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out[i * 128 : i * 128 + 128, 0:16], src=b)
    nisa.memset(dst=ring[:, i * 16 : i * 16 + 16], value=2.0)
for j in nl.sequential_range(3):
    c = {PART}
    nisa.tensor_scalar(dst=c, data=ring[:, READ_J : READ_J + 16], op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out[j * 128 : j * 128 + 128, 16:32], src=c)
"""


def results(kernel: Kernel) -> np.ndarray:
    """What a kernel returns for random inputs."""
    values = np.random.default_rng(3).normal(size=(512, 64)).astype(np.float32)
    call = Call(ARGUMENTS[:1], ARGUMENTS[1:], {})
    return np.array(
        run_program(parse(print_kernel(kernel)), call, world.MACHINE, {"x": values}, shuffle=1)[0]
    )


def test_a_second_pass_reads_the_tiles_of_the_first_and_keeps_its_changes_apart() -> None:
    kernel = read(PASSES)
    text = after(kernel, "reuse 5")
    assert text.count("dma_copy") == print_kernel(kernel).count("dma_copy") - 1
    made = world.read_kernel(text, ARGUMENTS)
    np.testing.assert_array_equal(results(made), results(kernel))


def test_passes_of_other_lengths_load_for_themselves() -> None:
    with pytest.raises(NotApplicableError, match="computes the same"):
        after(read(PASSES.replace("for k in nl.affine_range(4)", "for k in nl.affine_range(3)")),
              "reuse 5")  # fmt: skip


def test_what_is_computed_twice_in_an_iteration_is_computed_once() -> None:
    kernel = read(SQUARES.replace("    CHANGE\n", ""))
    text = after(kernel, "reuse 3")
    assert text.count("nl.multiply") == 1
    np.testing.assert_array_equal(results(world.read_kernel(text, ARGUMENTS)), results(kernel))


@pytest.mark.parametrize("changed", ["a", "b"])
def test_operands_and_results_that_change_in_between_are_computed_again(changed: str) -> None:
    change = f"nisa.tensor_scalar(dst={changed}[:, 0:8], data={changed}[:, 0:8], op0=nl.add, operand0=1.0)"  # noqa: E501
    with pytest.raises(NotApplicableError, match="computes the same"):
        after(read(SQUARES.replace("CHANGE", change)), "reuse 4")


@pytest.mark.parametrize("read_at", ["i * 16", "i * 16 + 16"])
def test_what_later_statements_of_the_loop_overwrite_is_computed_again(read_at: str) -> None:
    body = ROTATED.replace("READ_J", read_at.replace("i", "j")).replace("READ", read_at)
    with pytest.raises(NotApplicableError, match="computes the same"):
        after(read(body), "reuse 5")


def test_what_an_argument_that_is_written_holds_is_loaded_again() -> None:
    body = SQUARES.replace("    CHANGE\n", "")
    load = "nisa.dma_copy(dst=c, src=x[r * 128 : r * 128 + 128])"
    body = body.replace("nisa.tensor_tensor(dst=c, data1=a, data2=a, op=nl.multiply)", load)
    assert after(read(body), "reuse 3").count("dma_copy") == 2
    stored = body.replace("    c = TILE", "    nisa.dma_copy(dst=x[0:128], src=b)\n    c = TILE")
    with pytest.raises(NotApplicableError, match="computes the same"):
        after(read(stored), "reuse 4")
