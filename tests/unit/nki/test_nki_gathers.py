"""Copies whose row numbers are in a tile: translated, read, rewritten and printed rightly."""

from __future__ import annotations

from dataclasses import replace

import nki_kernels as world
import numpy as np
import pytest

from tilewright.core.records import Argument
from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.estimate.cost import op_cost
from tilewright.proposers.nki.ir import Kernel, Op, ops
from tilewright.proposers.nki.printing import print_kernel
from tilewright.proposers.nki.reading.kernel import read, read_kernel
from tilewright.proposers.nki.reading.values import UnsupportedError
from tilewright.proposers.nki.rewrites.memory import place
from tilewright.proposers.nki.rewrites.unroll_and_jam import jam
from tilewright.targets.trainium.program import Call, parse, run_program
from tilewright.targets.trainium.translation.clipping import UntranslatableError
from tilewright.targets.trainium.translation.translator import translated

HEAD = """import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

@nki.jit
def kernel(table, rows):
    out = nl.ndarray((200, 32), nl.float32, buffer=nl.shared_hbm)
    p, f = nl.mgrid[0:128, 0:32]
    for i in nl.affine_range(2):
        m = i * 128 + p < 200
        r = nl.load(rows[i * 128 + p, 0], mask=m)
"""
ARGUMENTS = (
    Argument("table", (2, 200, 32), "float32", "input"),
    Argument("rows", (200, 1), "int32", "input"),
    Argument("out", (200, 32), "float32", "output"),
)
CALL = Call(ARGUMENTS[:2], ARGUMENTS[2:], {})
RNG = np.random.default_rng(3)
TABLE = RNG.normal(size=(2, 200, 32)).astype(np.float32)
ORDER = RNG.permutation(200).astype(np.int32)


def computed(source: str) -> np.ndarray:
    values = {"table": TABLE, "rows": ORDER[:, None]}
    return run_program(parse(source), CALL, world.MACHINE, values)[0]


def old(*lines: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in lines) + "    return out\n"


STORE = "nl.store(out[i * 128 + p, f], t, mask=m)"
GATHERED = old("t = nl.load(table[1, r[p, 0], f], mask=m)", STORE)


def kernel_of(source: str) -> Kernel:
    workload = replace(world.opened("gemm-256x1024x256").workload, arguments=ARGUMENTS)
    return read(source, workload, world.TARGET.brief().language)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("t = nl.load(table[1, r[p, 0], f], mask=m)", TABLE[1, ORDER]),
        (
            "t = nl.load(table.reshape((400, 32))[199 + r[p, 0] - 199, f], mask=m)",
            TABLE[0, ORDER],
        ),
        ("t = nl.load(table.reshape((12800,))[6400 + r[p, 0] * 32 + f], mask=m)", TABLE[1, ORDER]),
        ("t = nl.load(table[0, 199 - r[p, 0], f], mask=m)", TABLE[0, 199 - ORDER]),
    ],
)
def test_gathers_are_read_and_printed(line: str, wanted: np.ndarray) -> None:
    source = old(line, STORE)
    np.testing.assert_array_equal(computed(source), wanted)
    kernel = kernel_of(source)
    text = print_kernel(kernel)
    np.testing.assert_array_equal(computed(text), wanted)
    assert print_kernel(read_kernel(text, ARGUMENTS)) == text


def test_scatters_are_read_and_stay_in_order() -> None:
    source = old(
        "t = nl.load(table[0, i * 128 + p, f], mask=m)", "nl.store(out[r[p, 0], f], t, mask=m)"
    )
    wanted = np.empty_like(TABLE[0])
    wanted[ORDER] = TABLE[0]
    np.testing.assert_array_equal(computed(source), wanted)
    kernel = kernel_of(source)
    np.testing.assert_array_equal(computed(print_kernel(kernel)), wanted)
    scatter = next(op for op in ops(kernel.body) if op.name == "scatter")
    assert scatter.region("dst") in scatter.reads  # it keeps the other rows


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ("(r[p, 0] + f) // 2", "computed from a tile"),
        ("f - (r[p, 0] + f)", "computed from a tile"),
        ("(r[p, 0] + f) * 8", "computed from a tile"),
        ("r[p, 0] + (r[p, 0] + f)", "computed from a tile"),
    ],
)
def test_indices_that_are_computed_are_named(index: str, reason: str) -> None:
    line = f"t = nl.load(table.reshape((12800,))[{index}], mask=m)"
    with pytest.raises(UntranslatableError, match=reason):
        translated(old(line, STORE), CALL, world.MACHINE)


EVEN = """import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(table, rows):
    out = nl.ndarray((200, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        r = nl.ndarray((100, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=r, src=rows[i * 100 : i * 100 + 100, 0:1])
        t = nl.ndarray((100, 32), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(
            dst=t, src=table.ap(pattern=[[32, 100], [1, 32]], offset=6400, vector_offset=r,
                                indirect_dim=1))
        nisa.dma_copy(dst=out[i * 100 : i * 100 + 100, 0:32], src=t)
    return out
"""


def test_a_loop_of_gathers_is_jammed_and_its_tile_stays_in_sbuf() -> None:
    kernel = read_kernel(EVEN, ARGUMENTS)
    loop = next(n for n, s in enumerate(kernel.body) if not hasattr(s, "tensor"))
    together = print_kernel(jam(kernel, (loop,), 2))
    np.testing.assert_array_equal(computed(together), TABLE[1, ORDER])
    with pytest.raises(NotApplicableError, match="cannot access PSUM"):
        place(kernel, "t", "psum")


def test_a_gather_costs_a_run_for_each_row() -> None:
    kernel = read_kernel(EVEN, ARGUMENTS)
    gather = next(op for op in ops(kernel.body) if op.name == "gather")
    engine, time = op_cost(gather, kernel.tensors())
    plain = Op("dma_copy", tuple((k, gather.region("dst")) for k in ("dst", "src")))
    assert engine == "dma"
    assert time == pytest.approx(op_cost(plain, kernel.tensors())[1])


@pytest.mark.parametrize(
    "change",
    [
        ("src=table.ap", "src=table[0:2].ap"),
        ("vector_offset=r", "vector_offset=3"),
        ("dma_copy(\n            dst=t, src", "tensor_copy(\n            dst=t, src"),
    ],
)
def test_other_uses_of_a_vector_offset_are_not_read(change: tuple[str, str]) -> None:
    source = EVEN.replace(*change)
    if "[0:2]" in source:
        source = source.replace("table[0:2]", "table[1:2]")
    with pytest.raises(UnsupportedError, match=r"vector_offset|read from a tile"):
        read_kernel(source, ARGUMENTS)


ADDED = old(
    "t = nl.load(table[0, i * 128 + p, f], mask=m)",
    "nl.store(out[i * 128 + p, f], t, mask=m)",
    "nl.atomic_rmw(out[{}, f], value=t, op=nl.add, mask=m)",
)


def test_transfers_that_add_are_read_and_printed() -> None:
    source = ADDED.replace("{}", "i * 128 + p").replace("affine", "sequential")
    kernel = kernel_of(source)
    text = print_kernel(kernel)
    np.testing.assert_array_equal(computed(text), 2 * TABLE[0])
    assert print_kernel(read_kernel(text, ARGUMENTS)) == text
    adding = next(op for op in ops(kernel.body) if op.name == "dma_add")
    assert adding.region("dst") in adding.reads
    plain = Op("dma_copy", adding.arguments)
    tensors = kernel.tensors()
    assert op_cost(adding, tensors)[1] == 2 * op_cost(plain, tensors)[1]


def test_rows_are_added_where_a_tile_says() -> None:
    lines = ADDED.replace("{}", "r[p, 0]").replace("affine", "sequential").split("\n")
    # All rows are stored first, as the added ones may belong to another iteration.
    at = next(n for n, line in enumerate(lines) if "atomic" in line)
    again = [*lines[8:10], *[line for line in lines[10 : at + 1] if "store" not in line]]
    first = [line for line in lines if "atomic" not in line and "return" not in line]
    source = "\n".join([*first, *[line for line in again if line], "    return out", ""])
    wanted = TABLE[0].copy()
    wanted[ORDER] += TABLE[0]
    np.testing.assert_allclose(computed(source), wanted, rtol=1e-6)
    text = print_kernel(kernel_of(source))
    assert "dma_compute" in text
    np.testing.assert_allclose(computed(text), wanted, rtol=1e-6)
    assert print_kernel(read_kernel(text, ARGUMENTS)) == text


@pytest.mark.parametrize(
    "call",
    [
        "[t, u, u], nl.add",
        "[u, u], nl.add",
        "[t, u], nl.maximum",
        "[t, u], nl.add, [2.0, 1.0]",
    ],
)
def test_other_sums_of_tensors_are_not_read(call: str) -> None:
    source = EVEN.replace(
        "        nisa.dma_copy(dst=out", "        u = nl.ndarray((100, 32), dtype=nl.float32)\n"
        f"        nisa.dma_compute(t, {call})\n        nisa.dma_copy(dst=out"
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="a sum"):
        read_kernel(source, ARGUMENTS)
    sums = source.replace(call, "[t, u], nl.add")
    assert any(op.name == "dma_add" for op in ops(read_kernel(sums, ARGUMENTS).body))
