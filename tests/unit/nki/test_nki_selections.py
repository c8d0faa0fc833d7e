"""Selections by ranges and predicates, the largest of groups, and random zeros are rewritten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.core.records import Argument
from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.estimate.cost import op_cost
from tilewright.proposers.nki.ir import Kernel, ops
from tilewright.proposers.nki.planning.steps import Step
from tilewright.proposers.nki.printing import print_kernel
from tilewright.proposers.nki.reading.kernel import read_kernel
from tilewright.proposers.nki.reading.values import UnsupportedError
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.program import Call, parse, run_program
from tilewright.targets.trainium.translation.clipping import UntranslatableError
from tilewright.targets.trainium.translation.translator import translated

TRN2 = load_machine("trn2")
INPUTS = Argument("x", (256, 64), "float32", "input"), Argument("b", (256, 2), "float32", "input")
CALL = Call(INPUTS, (Argument("out", (256, 65), "float32", "output"),), {})
OLD = """import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, b):
    out = nl.ndarray((256, 65), dtype=nl.float32, buffer=nl.shared_hbm)
    for r in nl.affine_range(2):
        rows = nl.ds(r * 128, 128)
        t, bounds = nl.load(x[rows, :]), nl.load(b[rows, :])
        s = nl.zeros((128, 64), nl.float32)
        top = nl.zeros((128, 1), nl.float32)
        BODY
        nl.store(out[rows, 0:64], s)
        nl.store(out[rows, 64:65], top)
    return out
"""
RANGE = (
    "s[...] = nisa.range_select(on_true_tile=t, comp_op0=np.greater_equal, comp_op1=np.less, "
    "bound0=bounds[:, 0:1], bound1=bounds[:, 1:2], range_start=3.0, on_false_value=-7.0, "
    "reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=top, reduce_op=np.max)"
)
CHOICE = (
    "nisa.select_reduce(dst=s, predicate=nl.greater(t, 0.0, dtype=nl.uint8), on_true=t, "
    "on_false=bounds[:, 0:1], reduce_res=top, reduce_cmd=nisa.reduce_cmd.reset_reduce, "
    "reduce_op=np.max)"
)
ZEROS = "s[...] = nisa.dropout(t, prob=0.25)"


def run(source: str) -> NDArray[Any]:
    rng = np.random.default_rng(3)
    given = {
        "x": rng.normal(size=(256, 64)).astype(np.float32),
        "b": np.sort(rng.integers(0, 70, size=(256, 2))).astype(np.float32),
    }
    return np.array(run_program(parse(source), CALL, TRN2, given, shuffle=1)[0])


def read(body: str) -> Kernel:
    source = translated(OLD.replace("BODY", body), CALL, TRN2)
    return read_kernel(source, INPUTS)


def after(kernel: Kernel, step: str) -> str:
    return print_kernel(Step.parse(step).apply(kernel))


@pytest.mark.parametrize("body", [RANGE, CHOICE], ids=["range", "choice"])
def test_selections_are_read_and_keep_their_results(body: str) -> None:
    wanted = run(OLD.replace("BODY", body))
    kernel = read(body)
    text = print_kernel(kernel)
    assert read_kernel(text, INPUTS) == kernel
    np.testing.assert_array_equal(run(text), wanted)
    assert text.count("select") == 1
    np.testing.assert_array_equal(run(after(kernel, "jam i0 0")), wanted)
    with pytest.raises(NotApplicableError, match=r"select\w* cannot access PSUM"):
        after(kernel, "psum s")


@pytest.mark.parametrize("body", [RANGE, CHOICE])
def test_what_depends_on_more_than_its_operands_is_left_alone(body: str) -> None:
    with pytest.raises(UntranslatableError, match="continues from its column"):
        read(body.replace("reset_reduce", "reduce"))
    text = print_kernel(read(body)).replace("cmd.reset_reduce", "cmd.reduce")
    with pytest.raises(UnsupportedError, match="continues from its column"):
        read_kernel(text, INPUTS)


def test_positions_under_a_mask_are_left_alone() -> None:
    masked = RANGE.replace("reduce_cmd=", "mask=nl.arange(64)[None, :] >= 8, reduce_cmd=")
    with pytest.raises(UntranslatableError):
        read(masked)


def test_random_numbers_are_drawn_as_often_as_before() -> None:
    """They do not depend on the loop, and yet differ in each iteration."""
    kernel = read(ZEROS)
    text = print_kernel(kernel).replace("nisa.dropout(dst=s, data=t", "nisa.dropout(dst=s, data=k")
    head = "    k = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)\n"
    head += "    nisa.dma_copy(dst=k, src=x[0:128])\n"
    place = text.index("    for i0 in")
    same = read_kernel(f"{text[:place]}{head}{text[place:]}", INPUTS)
    assert "data=k" in print_kernel(same)
    with pytest.raises(NotApplicableError, match="differs between iterations"):
        after(same, "hoist s i0")
    assert after(same, "jam i0 0").count("nisa.dropout(") == 1
    assert "for" in after(same, "jam i0 0").partition("nisa.dropout(")[0].rpartition("    ")[0]
    zeros = run(print_kernel(kernel)) == 0
    assert 0.2 < zeros[:, 0:64].mean() < 0.3


def test_two_instructions_share_no_random_numbers() -> None:
    twice = "s[...] = nl.add(nisa.dropout(t, prob=0.25), nisa.dropout(t, prob=0.25))"
    shared = []
    for body in (twice, twice.replace("nisa.dropout(t, prob=0.25)", "nl.exp(t)")):
        kernel = read(body)
        for number in range(1, sum(1 for _ in ops(kernel.body)) + 1):
            try:
                shared.append(after(kernel, f"reuse {number}").count("nl.exp"))
            except NotApplicableError:
                continue
    assert shared == [1]


TOP = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray((64, 2), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    for r in nl.affine_range(2):
        t = nl.ndarray((32, 3), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[r * 32 : r * 32 + 32])
        v = nl.ndarray((32, 2), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.memset(dst=v, value=0.0)
        i = nl.ndarray((32, 2), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.topk(v, i, t, n=42)
        nisa.dma_copy(dst=out[r * 32 : r * 32 + 32], src=v)
    return out
"""


def test_the_largest_of_groups_are_read() -> None:
    arguments = (Argument("x", (64, 3), "bfloat16", "input"),)
    kernel = read_kernel(TOP, arguments)
    text = print_kernel(kernel)
    assert "nisa.topk(val_dst=v, idx_dst=i, src=t, n=42)" in text
    assert read_kernel(text, arguments) == kernel
    made = next(op for op in ops(kernel.body) if op.name == "topk")
    engine, time = op_cost(made, kernel.tensors())
    assert (engine, time) == ("pool", pytest.approx((150 + 4 * 42 + 2) / 1.4))
    assert "nisa.topk(" in after(kernel, "jam r 0")
    with pytest.raises(UnsupportedError, match="depends on a loop"):
        read_kernel(TOP.replace("n=42", "n=42 - r"), arguments)
