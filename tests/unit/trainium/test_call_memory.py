"""The memory in which inputs and outputs pass between the evaluator and the interpreter."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import numpy as np
import pytest

from tilewright.core.records import Argument, Failed
from tilewright.targets.trainium.call_memory import CallMemory, mapped_inputs
from tilewright.targets.trainium.interpreter_process import Interpretation
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.program import Call
from tilewright.targets.trainium.tiles.dtypes import UNDEFINED_INTEGER

X = Argument("x", (4, 256), "float32", "input")
FIRST, SECOND = replace(X, name="first", role="output"), replace(X, name="second", role="output")
SMALL = Argument("small", (3, 5), "bfloat16", "output")
VALUES = np.arange(1024, dtype=np.float32).reshape(4, 256)
HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl

def like(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

def copied(dst, src, times):
    t = nl.ndarray(src.shape, dtype=src.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=src)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=times)
    nisa.dma_copy(dst=dst, src=t)

def in_parts(dst, src, times):
    copied(dst[0:2], src[0:2], times)
    copied(dst[2:4], src[2:4], times)

@nki.jit
def kernel(x):
"""


def interpretation(*outputs: Argument) -> Interpretation:
    call = Call((X,), outputs, {})
    return Interpretation(call, load_machine("trn1"), 30, CallMemory(call))


def outputs_of(body: str, *outputs: Argument) -> dict[str, np.ndarray]:
    found = interpretation(*outputs).run(HEAD + body, {"x": VALUES})
    assert isinstance(found, dict), found
    return {a.name: np.frombuffer(found[a.name], a.dtype).reshape(a.shape) for a in outputs}


@pytest.mark.parametrize("created", ["first, second", "second, first"])
def test_outputs_that_are_created_in_another_order_are_not_exchanged(created: str) -> None:
    found = outputs_of(
        f"    {created} = like(x), like(x)\n"
        "    in_parts(second, x, 2.0)\n    in_parts(first, x, 3.0)\n    return first, second\n",
        FIRST,
        SECOND,
    )
    assert np.array_equal(found["first"], 3 * VALUES)
    assert np.array_equal(found["second"], 2 * VALUES)


def test_an_intermediate_like_the_output_is_not_returned() -> None:
    found = outputs_of(
        "    between, out = like(x), like(x)\n"
        "    in_parts(between, x, 2.0)\n    in_parts(out, between, 2.0)\n    return out\n",
        FIRST,
    )
    assert np.array_equal(found["first"], 4 * VALUES)


def test_elements_that_are_never_written_are_undefined() -> None:
    found = outputs_of(
        "    out = like(x)\n    copied(out[0:2], x[0:2], 1.0)\n    return out\n", FIRST
    )
    assert np.array_equal(found["first"][:2], VALUES[:2])
    assert np.isnan(found["first"][2:]).all()


def test_integers_that_are_never_written_have_their_own_mark() -> None:
    """Bytes that are NaN in a float are -1 in an integer, which a kernel may want to store."""
    whole = replace(X, name="whole", dtype="int32", role="output")
    found = outputs_of(
        "    out = nl.ndarray(x.shape, dtype=nl.int32, buffer=nl.shared_hbm)\n"
        "    t = nl.ndarray((2, 256), dtype=nl.int32, buffer=nl.sbuf)\n"
        "    nisa.memset(dst=t, value=-1)\n    nisa.dma_copy(dst=out[0:2], src=t)\n"
        "    return out\n",
        whole,
    )
    assert (found["whole"][:2] == -1).all()
    assert (found["whole"][2:] == UNDEFINED_INTEGER).all()


def test_an_output_may_begin_with_zeros() -> None:
    found = outputs_of(
        "    out = nl.zeros(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    copied(out[0:2], x[0:2], 1.0)\n    return out\n",
        FIRST,
    )
    assert np.array_equal(found["first"][:2], VALUES[:2])
    assert (found["first"][2:] == 0).all()


def test_outputs_of_several_types_have_their_own_places() -> None:
    found = outputs_of(
        "    out = like(x)\n    copied(out, x, 1.0)\n"
        "    small = nl.ndarray((3, 5), dtype=nl.bfloat16, buffer=nl.shared_hbm)\n"
        "    t = nl.ndarray((3, 5), dtype=nl.bfloat16, buffer=nl.sbuf)\n"
        "    nisa.memset(dst=t, value=2.0)\n    nisa.dma_copy(dst=small, src=t)\n"
        "    return small, out\n",
        SMALL,
        FIRST,
    )
    assert (found["small"].astype(np.float32) == 2).all()
    assert np.array_equal(found["first"], VALUES)


def test_outputs_of_the_run_before_are_gone_when_the_next_one_begins() -> None:
    """A run that leaves its outputs alone must not return those of another kernel."""
    one = interpretation(FIRST)
    right = "    out = like(x)\n    copied(out, x, 1.0)\n    return out\n"
    assert not isinstance(one.run(HEAD + right, {"x": VALUES}), Failed)
    one.memory.give({"x": VALUES})
    left = np.frombuffer(one.memory.outputs()["first"], np.float32)
    assert np.isnan(left).all()


def test_the_interpreter_cannot_write_the_inputs() -> None:
    memory = CallMemory(Call((X,), (FIRST,), {}))
    memory.give({"x": VALUES})
    given = mapped_inputs((X,), memory.descriptors[0])["x"]
    assert np.array_equal(given, VALUES)
    with pytest.raises(ValueError, match="read-only"):
        given[0, 0] = 1


@pytest.mark.skipif(sys.platform != "linux", reason="files in memory are sealed only on Linux")
def test_the_interpreter_cannot_change_the_size_of_the_memory() -> None:
    memory = CallMemory(Call((X,), (FIRST,), {}))
    for descriptor in memory.descriptors:
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 0)
