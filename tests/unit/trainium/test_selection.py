"""Selection, chance, gathers by tiles of indices, constants of numpy, reductions over loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nki_world import TRN2, Kernel, numbers, refused

X, Y = numbers(4, 8), numbers(4, 8, seed=1)
PREDICATE = (X > 0).astype(np.uint8)
ROWS = np.array([[3], [0], [2], [0]], np.int32)


def test_dropout_zeroes_with_its_probability() -> None:
    body = "nl.store(out, nisa.dropout(nl.load(x), {}))"
    np.testing.assert_array_equal(Kernel(body.format(0.0), x=X).run(), X)
    np.testing.assert_array_equal(Kernel(body.format(1.0), x=X).run(), 0 * X)
    wide = numbers(128, 512)
    found = Kernel(body.format(0.25), x=wide, out=(128, 512)).run()
    assert 0.2 < (found == 0).mean() < 0.3
    np.testing.assert_array_equal(found[found != 0], wide[found != 0])
    by_row = "c = nl.load(p)\nnl.store(out, nisa.dropout(nl.load(x), prob=c))"
    rates = np.array([[0], [1], [0], [1]], np.float32)
    np.testing.assert_array_equal(Kernel(by_row, x=X, p=rates).run(), X * (1 - rates))


def test_random_numbers_are_uniform() -> None:
    found = Kernel("nl.store(out, nl.rand((128, 512)))", x=X, out=(128, 512)).run()
    assert 0 <= found.min() < 0.01 < 0.99 < found.max() < 1


SELECTED = """
    t, p = nl.load(x), nl.load(m)
    d = nl.ndarray((4, 8), nl.float32)
    r = nl.ndarray((4, 1), nl.float32)
    nisa.select_reduce(dst=d, predicate=p, on_true=t, on_false={}, reduce_res=r,
                       reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_op=nl.max{})
    nl.store(out, d)
    nl.store(top, r)
"""
OUTPUTS = {"out": ((4, 8), "float32"), "top": ((4, 1), "float32")}


@pytest.mark.parametrize("reverse", [False, True])
def test_select_reduce_chooses_and_takes_the_maximum(reverse: bool) -> None:
    more = ", reverse_pred=True" if reverse else ""
    found, top = Kernel(SELECTED.format("-2.5", more), x=X, m=PREDICATE, out=OUTPUTS).all()
    wanted = np.where((X > 0) ^ reverse, X, np.float32(-2.5))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(top, wanted.max(1, keepdims=True))


def test_select_reduce_needs_whole_numbers_as_predicate() -> None:
    refused(SELECTED.format("0.0", ""), "unsupported_operand", x=X, m=X, out=OUTPUTS)


RANGE = """
    t = nl.ndarray((4, 8), nl.float32)
    low = nl.ndarray((4, 1), nl.float32)
    nisa.dma_copy(t, x)
    nisa.dma_copy(low, lower)
    d = nl.ndarray((4, 8), nl.float32)
    nisa.range_select(d, on_true_tile=t, comp_op0=nl.greater_equal, comp_op1=nl.less,
                      bound0=low, bound1=12.0, range_start=6, on_false_value=-1.0)
    nisa.dma_copy(out, d)
"""


def test_range_select_keeps_the_columns_between_two_bounds() -> None:
    lower = np.array([[6], [7], [9], [13]], np.float32)
    found = Kernel(RANGE, x=X, lower=lower, language=2, machine=TRN2).run()
    place = np.arange(6, 14)
    wanted = np.where((place >= lower) & (place < 12), X, np.float32(-1))
    np.testing.assert_array_equal(found, wanted)
    refused(RANGE, "unsupported_operation", x=X, lower=lower, language=2)  # trn1


def test_rows_are_gathered_and_scattered_by_a_tile() -> None:
    gathered = """
        i_p, i_f = nl.arange(4)[:, None], nl.arange(8)[None, :]
        rows = nl.load(r)
        nl.store(out[i_p, i_f], nl.load(x[rows[i_p, 0], i_f]))
    """
    kernel = Kernel(gathered, x=X, r=ROWS)
    np.testing.assert_array_equal(kernel.run(), X[ROWS[:, 0]])
    load = kernel.trace.instructions[1]
    assert load.attributes["indirect"]
    assert len(load.reads) == 2  # it waits for the indices
    scattered = """
        i_p, i_f = nl.arange(4)[:, None], nl.arange(8)[None, :]
        rows = nl.load(r)
        for i in nl.affine_range(2):
            nl.store(out[3 - rows[i_p, 0], i_f], nl.load(x))
    """
    order = np.array([[3], [0], [2], [1]], np.int32)
    wanted = np.empty_like(X)
    wanted[3 - order[:, 0]] = X
    found = Kernel(scattered.replace("3 - rows", "rows"), x=X, r=3 - order).run()
    np.testing.assert_array_equal(found, wanted)


BY_ROWS = """
    rows = nl.ndarray((4, 1), nl.int32)
    nisa.dma_copy(rows, r)
    t = nl.ndarray((4, 6), nl.float32)
    nisa.dma_copy(dst=t, src=x.ap(pattern=[[8, 4], [1, 6]], offset={}, vector_offset=rows{}))
    nisa.dma_copy(dst=out, src=t)
"""


def test_access_patterns_begin_at_rows_from_a_tile() -> None:
    options: Any = {"x": X, "r": ROWS, "language": 2, "out": (4, 6)}
    kernel = Kernel(BY_ROWS.format(2, ", indirect_dim=0"), **options)
    np.testing.assert_array_equal(kernel.run(), X[ROWS[:, 0], 2:8])
    assert kernel.trace.instructions[1].attributes["indirect"]
    columns = np.array([[0], [2], [1], [0]], np.int32)
    found = Kernel(BY_ROWS.format(8, ", indirect_dim=1"), **options | {"r": columns}).run()
    np.testing.assert_array_equal(found, [X[1, c : c + 6] for c in (0, 2, 1, 0)])
    for rows, offset in ((ROWS + 1, 2), (ROWS - 1, 2), (ROWS, 3)):  # 3: the last row is too long
        error = refused(
            BY_ROWS.format(offset, ""), "tensor_access_out_of_bound", **options | {"r": rows}
        )
        assert "index" in str(error)
    refused(BY_ROWS.format(0, ", indirect_dim=2"), "unsupported_operand", **options)
    refused(BY_ROWS.format(0, "").replace("(4, 1)", "(2, 2)"), "shape_mismatch", **options)


def test_indices_out_of_range_are_an_error_or_skipped() -> None:
    body = """
        i_p, i_f = nl.arange(4)[:, None], nl.arange(8)[None, :]
        rows = nl.load(r)
        t = nl.zeros((4, 8), nl.float32)
        nisa.dma_copy(dst=t[i_p, i_f], src=x[rows[i_p, 0], i_f]{})
        nl.store(out, t)
    """
    beyond = np.array([[3], [4], [2], [-1]], np.int32)
    error = refused(body.format(""), "tensor_access_out_of_bound", x=X, r=beyond)
    assert "index -1..4 of axis 0" in error.message
    skipping = body.format(", oob_mode=nisa.oob_mode.skip")
    found = Kernel(skipping, x=X, r=beyond).run()
    np.testing.assert_array_equal(found, np.stack([X[3], 0 * X[0], X[2], 0 * X[0]]))


def test_copies_start_at_offsets_from_tiles() -> None:
    body = """
        i_p, i_f = nl.arange(4)[:, None], nl.arange(3)[None, :]
        start = nl.load(s)
        t = nl.load(x)
        d = nl.zeros((4, 8), nl.float32)
        nisa.tensor_copy_dynamic_dst(dst=d[i_p, start[0, 0] + i_f],
                                     src=nisa.tensor_copy_dynamic_src(t[i_p, i_f + start[0, 0]]))
        nl.store(out, d)
    """
    kernel = Kernel(body, x=X, s=np.array([[4]], np.int32))
    wanted = np.zeros_like(X)
    wanted[:, 4:7] = X[:, 4:7]
    np.testing.assert_array_equal(kernel.run(), wanted)
    assert kernel.opcodes().count("tensor_copy_dynamic") == 2


def test_arrays_of_numpy_are_shared_constants() -> None:
    body = """
        c = nl.shared_constant(np.triu(np.ones((4, 8)), k=1))
        e = nl.load(nl.shared_constant(np.eye(4, dtype=np.float32)))
        nl.store(out, nl.load(c) + nl.copy(nisa.nc_matmul(e, nl.load(x))))
    """
    np.testing.assert_allclose(Kernel(body, x=X).run(), X + np.triu(np.ones((4, 8)), 1), rtol=1e-6)
    refused("nl.shared_constant(3)", "unsupported_operand", x=X)


@pytest.mark.parametrize(
    "made",
    ["np.eye(1 << 20)", "np.arange(1 << 40)", "np.zeros((1 << 20, 1 << 20))", "np.tri(9999)"],
)
def test_arrays_of_numpy_are_bounded(made: str) -> None:
    refused(made, "too_large", x=X)


def test_a_reduction_over_loops_is_known_after_them() -> None:
    body = """
        for i in nl.affine_range(2):
            t = nl.ndarray((4, 1), nl.float32)
            for k in nl.affine_range(4):
                part = nl.load(x[:, nl.ds(4 * i + k, 1)])
                t[...] = nl.loop_reduce(part, op=np.maximum, loop_indices=[k])
            nl.store(out[:, nl.ds(i, 1)], t)
    """
    kernel = Kernel(body, x=X, out=(4, 2))
    wanted = X.reshape(4, 2, 4).max(2)
    for shuffle in (None, 1):
        np.testing.assert_array_equal(kernel.run(shuffle=shuffle), wanted)
    refused("nl.loop_reduce(nl.load(x), op=np.add, loop_indices=[0])", "unsupported_operand", x=X)


@pytest.mark.parametrize("call", ["np.add, loop_indices=[k]", "op=np.add, loop_indices=(k, m)"])
def test_a_reduction_may_leave_loops_inside_it(call: str) -> None:
    """The loops that are reduced are those with the variables that the kernel names."""
    both = "m" in call
    body = f"""
        t = nl.ndarray((4, 2), nl.float32)
        for k in nl.affine_range(2):
            for i in nl.affine_range(2):
                for m in nl.affine_range(2):
                    part = nl.load(x[:, nl.ds(4 * k + 2 * i + m, 1)])
                    t[:, {"i" if both else "m"}] = nl.loop_reduce(part, {call})
        nl.store(out, t)
    """
    body = body if both else body.replace("for i in nl.affine_range(2)", "for i in range(1)")
    kernel = Kernel(body, x=X, out=(4, 2))
    parts = X.reshape(4, 2, 2, 2)
    wanted = parts.sum((1, 3)) if both else parts[:, :, 0].sum(1)
    for shuffle in (None, 1, 2):
        np.testing.assert_allclose(kernel.run(shuffle=shuffle), wanted, rtol=1e-6)
    # One instruction for each value: a copy, then sums where the result is assigned.
    found = kernel.opcodes()
    assert found.count("tensor_copy") == 2
    assert found.count("tensor_tensor") == len(found) - 2 == (6 if both else 2)


def test_every_partial_reduction_may_be_assigned_elsewhere() -> None:
    body = """
        t = nl.ndarray((4, 4), nl.float32)
        for k in nl.sequential_range(4):
            part = nl.load(x[:, nl.ds(k, 1)])
            t[:, k] = nl.loop_reduce(part, op=np.add, loop_indices=[k])
        nl.store(out, t)
    """
    kernel = Kernel(body, x=X, out=(4, 4))
    np.testing.assert_allclose(kernel.run(), np.cumsum(X[:, :4], 1), rtol=1e-6)
    assert kernel.opcodes() == ["tensor_copy", *["tensor_tensor"] * 3]


def test_logical_not_and_invert_are_functions_too() -> None:
    body = "nl.store(out, nl.logical_not(nl.greater(nl.load(x), 0.0), dtype=nl.float32))"
    np.testing.assert_array_equal(Kernel(body, x=X).run(), (X <= 0).astype(np.float32))
    whole = "nl.store(out, nl.copy(nl.invert(nl.load(r)), dtype=nl.float32))"
    found = Kernel(whole, r=ROWS, out=(4, 1)).run()
    np.testing.assert_array_equal(found, (~ROWS).astype(np.float32))


def test_a_kernel_may_ask_for_the_chip() -> None:
    body = """
        if nisa.get_nc_version() >= nisa.nc_version.gen3:
            nl.store(out, nl.load(x))
        else:
            nl.store(out, nl.load(x) * 2.0)
    """
    np.testing.assert_array_equal(Kernel(body, x=X).run(), 2 * X)
    np.testing.assert_array_equal(Kernel(body, x=X, machine=TRN2).run(), X)


def test_operations_of_nki_2_take_dst_first_and_options_by_place() -> None:
    body = """
        t = nl.ndarray((4, 8), nl.float32)
        b = nl.ndarray((4, 1), nl.float32)
        p = nl.ndarray((4, 8), nl.uint8)
        nisa.dma_copy(t, x)
        nisa.dma_copy(b, y[:, 0:1])
        nisa.dma_copy(p, m)
        e = nl.ndarray((4, 8), nl.float32)
        nisa.activation(e, nl.copy, t, b, 2.0)
        nisa.tensor_copy_predicated(e, t, p)
        s = nl.ndarray((4, 8), nl.float32)
        nisa.select_reduce(s, p, e, 1.5)
        nisa.tensor_tensor(s, s, t, nl.add, nisa.vector_engine)
        r = nl.ndarray((1, 8), nl.float32)
        nisa.tensor_partition_reduce(r, nl.add, s)
        n = nl.ndarray((1, 1), nl.float32)
        nisa.tensor_reduce(n, nl.add, r, 1, True)
        nisa.dma_copy(out, n)
    """
    found = Kernel(body, x=X, y=Y, m=PREDICATE, out=(1, 1), language=2).run()
    scaled = np.where(X > 0, X, 2 * X + Y[:, :1])
    wanted = -(np.where(X > 0, scaled, 1.5) + X).sum()
    np.testing.assert_allclose(found, [[wanted]], rtol=1e-5)
    twice = (
        "t = nl.ndarray((4, 8), nl.float32)\nnisa.tensor_copy(t, t, nisa.engine.vector, engine=1)"
    )
    refused(twice, "unexpected_keyword", x=X, language=2)


def test_any_elements_of_a_partition_are_gathered() -> None:
    body = """
        t = nl.ndarray((4, 8), nl.float32)
        i = nl.ndarray((4, 2), nl.uint32)
        g = nl.ndarray((4, 2), nl.float32)
        nisa.dma_copy(t, x)
        nisa.dma_copy(i, at)
        nisa.nc_n_gather(g, t, i)
        nisa.dma_copy(out, g)
    """
    at = np.array([[7, 0], [1, 1], [2, 6], [0, 3]], np.uint32)
    found = Kernel(body, x=X, at=at, out=(4, 2), language=2).run()
    np.testing.assert_array_equal(found, np.take_along_axis(X, at.astype(np.int64), 1))


GATHER1 = "nl.store(out, nisa.local_gather(nl.load(x), nl.load(at), {}))"
GATHER2 = """
    t = nl.ndarray({0}, nl.float32)
    i = nl.ndarray({1}, nl.{3})
    g = nl.ndarray({2}, nl.{5})
    nisa.dma_copy(dst=t, src=x)
    nisa.dma_copy(dst=i, src=at)
    nisa.local_gather(dst=g, src_buffer=t, index=i, {4})
    nisa.dma_copy(dst=out, src=g)
"""


@pytest.mark.parametrize("language", [1, 2])
@pytest.mark.parametrize(("together", "valid"), [(1, 64), (4, 64), (2, 50)])
def test_sixteen_partitions_share_the_indices_of_a_gather(
    language: int, together: int, valid: int
) -> None:
    rng = np.random.default_rng(7)
    x = numbers(32, 128, together)
    index = rng.integers(0, 128, (32, 4), dtype=np.uint16)
    wanted = np.empty((32, valid, together), np.float32)
    for first in (0, 16):
        rows = slice(first, first + 16)
        wanted[rows] = np.take(x[rows], index[rows].flatten(order="F")[:valid], axis=1)
    options = f"num_elem_per_idx={together}, num_valid_indices={valid}"
    shape = (32, 4, 16, together) if valid == 64 else (32, valid, together)
    body = (
        GATHER1.format(options) if language == 1
        else GATHER2.format(x.shape, index.shape, shape, "uint16", options, "float32")
    )  # fmt: skip
    found = Kernel(body, x=x, at=index * np.uint16(together), out=shape, language=language).run()
    np.testing.assert_array_equal(found, wanted.reshape(shape))


@pytest.mark.parametrize(
    ("rows", "index", "kind", "options", "dtype", "code"),
    [
        (24, (24, 4), "uint16", "num_elem_per_idx=1", "float32", "num_partition_mismatch"),
        (32, (16, 4), "uint16", "num_elem_per_idx=1", "float32", "num_partition_mismatch"),
        (32, (32, 4), "uint32", "num_elem_per_idx=1", "float32", "unsupported_dtype"),
        (32, (32, 4), "uint16", "num_elem_per_idx=1", "bfloat16", "unsupported_dtype"),
        (32, (32, 4), "uint16", "num_elem_per_idx=3", "float32", "unsupported_operand"),
        (32, (32, 4), "uint16", "num_valid_indices=65", "float32", "unsupported_operand"),
    ],
)
def test_a_gather_that_the_engine_does_not_have_is_refused(
    rows: int, index: tuple[int, int], kind: str, options: str, dtype: str, code: str
) -> None:
    body = GATHER2.format((rows, 8), index, (rows, 64), kind, options, dtype)
    at = np.zeros(index, kind)
    refused(body, code, x=numbers(rows, 8), at=at, out=(rows, 64), language=2)
