"""Operations of NKI 2 that NKI 1 lacks (topk, dma_compute), grids, and tiles in lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nki_world import BF16, TRN1, TRN2, Kernel, bf16, numbers, refused

from tilewright.core.records import Argument
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.latency.costs import Costs
from tilewright.targets.trainium.program import Call, parse, run_program, trace_program

X, Y = numbers(4, 8), numbers(4, 8, seed=1)
SUM = """
t = nl.ndarray((4, 8), nl.float32)
nisa.dma_copy(t, y)
nisa.dma_compute(out, {}, reduce_op=nl.add)
"""


def test_dma_adds_tensors_of_hbm_and_sbuf_on_their_way() -> None:
    kernel = Kernel(SUM.format("[x, t, t]"), language=2, x=X, y=Y)
    np.testing.assert_array_equal(kernel.run(), X + Y + Y)
    made = kernel.trace.instructions[-1]
    assert (made.opcode, made.engine, len(made.reads)) == ("dma_compute", "dma", 3)
    costs = Costs(TRN1)
    assert costs.of(made).job_ns > 2.9 * costs.of(kernel.trace.instructions[0]).job_ns


def test_dma_adds_in_float32_and_rounds_once() -> None:
    small = np.full((4, 8), 2.0**-9, np.float32)
    body = """
        a, b = nl.ndarray((4, 8), nl.bfloat16), nl.ndarray((4, 8), nl.bfloat16)
        nisa.dma_copy(a, x)
        nisa.dma_copy(b, y)
        nisa.dma_compute(out, (a, b, b, b), [1.0, 1.0, 1.0, 1.0], nl.add)
    """
    found = Kernel(body, language=2, dtype="bfloat16", x=np.ones((4, 8), np.float32), y=small).run()
    np.testing.assert_array_equal(found.astype(np.float32), bf16(1 + 3 * small))


def test_dma_adds_to_a_tensor_that_is_one_of_the_sources() -> None:
    body = """
        nisa.dma_copy(out, x)
        nisa.dma_compute(out, [out, y], nl.add)
    """
    np.testing.assert_array_equal(Kernel(body, language=2, x=X, y=Y).run(), X + Y)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("out, [x], nl.add", "unsupported_operand"),
        ("out, x, nl.add", "unsupported_operand"),
        ("out, [x, y], nl.maximum", "unsupported_operator"),
        ("out, [x, y], nl.add, [1.0, 2.0]", "unsupported_operand"),
        ("out, [x, y], nl.add, [1.0]", "unsupported_operand"),
        ("out, [x, y[0:2]], nl.add", "shape_mismatch"),
        ("x, [x, y], nl.add", "cannot_update_immutable_parameter"),
        ("out, [x, nl.ndarray((4, 8), nl.float32, buffer=nl.psum)], nl.add", "unsupported_memory"),
    ],
)
def test_a_sum_by_dma_keeps_the_rules(call: str, code: str) -> None:
    refused(f"nisa.dma_compute({call})", code, language=2, x=X, y=Y)


LARGEST = """
t = nl.ndarray((32, 3), nl.bfloat16)
nisa.dma_copy(t, x)
v, i = nl.ndarray((32, 4), nl.bfloat16), nl.ndarray((32, 4), nl.uint32)
nisa.memset(v, 0.0)
nisa.memset(i, 0)
nisa.topk(v{0}, i{0}, t, {1})
nisa.dma_copy(out, v)
nisa.dma_copy(where, i)
"""
TOP = {"out": ((32, 4), "bfloat16"), "where": ((32, 4), "uint32")}
SNAKES = numbers(32, 3, seed=5).astype(BF16)


def _laid(found: np.ndarray) -> np.ndarray:
    """Element i of each group of 16 partitions is at partition i % 16, column i // 16."""
    return found.reshape(2, 16, -1).transpose(0, 2, 1).reshape(2, -1)


def test_the_largest_of_groups_of_16_partitions() -> None:
    kernel = Kernel(LARGEST.format("[:, 0:2]", 42), language=2, machine=TRN2, x=SNAKES, out=TOP)
    values, places = kernel.all()
    lines = _laid(SNAKES.astype(np.float32))[:, :42]
    order = np.argsort(lines, 1, kind="stable")[:, -2:]
    np.testing.assert_array_equal(_laid(places[:, 0:2])[:, :2], order)
    np.testing.assert_array_equal(
        _laid(values[:, 0:2].astype(np.float32))[:, :2], np.take_along_axis(lines, order, 1)
    )
    assert np.isnan(_laid(values[:, 0:2].astype(np.float32))[:, 2:]).all()
    made = next(i for i in kernel.trace.instructions if i.opcode == "topk")
    cycles = TRN2.issue.gpsimd_start_cycles + 4 * 42 + 2
    assert made.engine == "pool"
    assert Costs(TRN2).of(made).on[0][1] == pytest.approx(cycles / TRN2.clock.gpsimd)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (LARGEST.format("", 7), "unsupported_operand"),
        (LARGEST.format("", 49), "unsupported_operand"),
        (LARGEST.format("", "8.0"), "unsupported_operand"),
        (LARGEST.format("", 42).replace("v, i = nl.ndarray((32, 4), nl.bfloat16)",
                                        "v, i = nl.ndarray((32, 4), nl.float32)"),
         "unsupported_dtype"),
        (LARGEST.format("", 42).replace("nl.uint32", "nl.int32"), "unsupported_dtype"),
        (LARGEST.format("[0:16]", 42), "shape_mismatch"),
        (LARGEST.format("[0:8]", 42).replace("i[0:8], t", "i[0:8], t[0:8]"), "unsupported_shape"),
        (LARGEST.format("", 42).replace("t = nl.ndarray((32, 3), nl.bfloat16)",
                                        "t = nl.ndarray((32, 3), nl.bfloat16, buffer=nl.psum)")
         .replace("nisa.dma_copy(t, x)", ""), "unsupported_memory"),
    ],
)  # fmt: skip
def test_the_choice_of_the_largest_keeps_the_rules(body: str, code: str) -> None:
    refused(body, code, language=2, machine=TRN2, x=SNAKES, out=TOP)


def test_more_than_there_are_cannot_be_chosen() -> None:
    body = LARGEST.replace("4)", "12)").format("", 10)
    out = {"out": ((32, 12), "bfloat16"), "where": ((32, 12), "uint32")}
    refused(body, "unsupported_operand", language=2, machine=TRN2, x=SNAKES, out=out)


def test_trn1_cannot_choose_the_largest() -> None:
    body = LARGEST.format("", 42)
    refused(body, "unsupported_operation", language=2, x=SNAKES, out=TOP)


@pytest.mark.parametrize("name", ["topk", "dma_compute"])
def test_nki_1_has_neither(name: str) -> None:
    refused(f"nisa.{name}(x, x, x)", "not_supported", x=X)


GRID = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def add_(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    sizes = nl.ndarray((1, 4), dtype=nl.float32, buffer=nl.shared_hbm)
    i, j = nl.program_id(0), nl.program_id(axis=1)
    r = i * 64 + nl.arange(64)[:, None]
    c = j * 256 + nl.arange(256)[None, :]
    nl.store(out[r, c], nl.load(a[r, c]) + nl.load(b[r, c]))
    if i == 0 and j == 0:
        n = nl.ndarray((1, 4), dtype=nl.float32)
        n[0, 0] = nl.program_ndim()
        n[0, 1] = nl.num_programs()
        n[0, 2] = nl.num_programs(1)
        n[0, 3] = nl.num_programs(axes=(0, 1))[0]
        nl.store(sizes, n)
    return out, sizes

def launch(x, y):
    return add_[x.shape[0] // 64, {grid}](x, y)
"""


def _grid(grid: str, **options: Any) -> tuple[list[np.ndarray], Any]:
    a, b = numbers(128, 512), numbers(128, 512, seed=1)
    call = Call(
        (Argument("a", a.shape, "float32", "input"), Argument("b", b.shape, "float32", "input")),
        (
            Argument("out", (128, 512), "float32", "output"),
            Argument("sizes", (1, 4), "float32", "output"),
        ),
        {},
    )
    program = parse(GRID.format(grid=grid))
    trace = trace_program(program, call, TRN1)
    return run_program(program, call, TRN1, {"a": a, "b": b}, **options), (trace, a + b)


@pytest.mark.parametrize("shuffle", [None, 3])
def test_a_grid_runs_each_program_once_and_they_share_their_outputs(shuffle: int | None) -> None:
    (found, sizes), (trace, wanted) = _grid("2", shuffle=shuffle)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(sizes, [[2, 4, 2, 2]])
    assert [(loop.kind, loop.trips, loop.variable) for loop in trace.loops] == [
        ("affine", 4, "program")
    ]
    assert sum(i.name == "nl.store" for i in trace.instructions) == 5


@pytest.mark.parametrize("grid", ["0", "2, 2, 2", "'x'", "1.0", "200_000", "True"])
def test_a_grid_that_cannot_be_launched(grid: str) -> None:
    with pytest.raises(KernelError) as caught:
        _grid(grid)
    assert caught.value.code == "unsupported_grid"


def test_a_program_asks_for_an_axis_that_the_grid_has() -> None:
    with pytest.raises(KernelError) as caught:
        _grid("2](x, y) if False else add_[2")
    assert caught.value.code == "unsupported_grid"
    assert "the grid has no axis 1: its number of axes is 1" in caught.value.message


def test_without_a_grid_there_is_one_program() -> None:
    body = """
        assert nl.program_ndim() == 0 and nl.num_programs() == 1
        nl.store(out, nl.multiply(nl.load(x), nl.program_id(0) + 2.0))
    """
    np.testing.assert_array_equal(Kernel(body, x=X).run(), 2 * X)


@pytest.mark.parametrize("kept", ["[{0}]", "{{'sum': {0}}}"])
def test_products_add_up_in_tiles_of_a_list_or_dict(kept: str) -> None:
    key = "'sum'" if "sum" in kept else "0"
    body = f"""
        sums = {kept.format("nl.zeros((4, 8), nl.float32, buffer=nl.psum)")}
        for k in nl.affine_range(3):
            sums[{key}] += nisa.nc_matmul(nl.load(x), nl.load(y))
        nl.store(out, sums[{key}])
    """
    kernel = Kernel(body, x=numbers(4, 4), y=Y)
    assert kernel.opcodes() == ["nc_matmul"] * 3 + ["tensor_copy"]
    np.testing.assert_allclose(kernel.run(), 3 * numbers(4, 4).T @ Y, rtol=1e-5)


def test_a_message_stays_short_however_large_the_value_is() -> None:
    body = """
        a = (1,)
        for _ in range(60):
            a = (a, a)
        nl.ndarray((4, a), nl.float32)
    """
    assert len(str(refused(body, "unsupported_shape", language=2, x=X))) < 300
