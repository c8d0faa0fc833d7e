"""Semantics of every operation of NKI 1 against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from nki_world import BF16, TRN2, Kernel, bf16, numbers, refused

from tilewright.targets.trainium.latency.compiling import compiled

X = numbers(4, 8)
Y = numbers(4, 8, seed=1)
COLUMN = numbers(4, 1, seed=2)


def elementwise(statement: str, **options: object) -> np.ndarray:
    """The result of an expression of tiles `t` and `u` of X and Y, and column `c`."""
    body = f"""
        t = nl.load(x)
        u = nl.load(y)
        c = nl.load(column)
        nl.store(out, {statement})
    """
    return Kernel(body, x=X, y=Y, column=COLUMN, **options).run()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("t + u", X + Y),
        ("t - u", X - Y),
        ("t * u", X * Y),
        ("t / u", X * (1 / Y)),
        ("2.0 - t", 2 - X),
        ("t * 2", X * 2),
        ("1 / t", 1 / X),
        ("-t", -X),
        ("t * c", X * COLUMN),
        ("nl.add(t, u)", X + Y),
        ("nl.subtract(c, t)", COLUMN - X),
        ("nl.multiply(t, 0.5)", X * 0.5),
        ("nl.divide(t, 4.0)", X / 4),
        ("nl.maximum(t, u)", np.maximum(X, Y)),
        ("nl.minimum(t, 0.0)", np.minimum(X, 0)),
        ("nl.greater(t, u)", X > Y),
        ("nl.less_equal(t, u)", X <= Y),
        ("nl.where(nl.less(t, u), t, u)", np.where(X < Y, X, Y)),
        ("nl.where(nl.greater(t, 0.0), t, 0.0)", np.maximum(X, 0)),
        ("nl.exp(t)", np.exp(X)),
        ("nl.square(t)", X * X),
        ("nl.sqrt(nl.square(t))", np.sqrt(X * X)),
        ("nl.rsqrt(nl.square(t))", 1 / np.sqrt(X * X)),
        ("nl.log(nl.square(t))", np.log(X * X)),
        ("nl.tanh(t)", np.tanh(X)),
        ("nl.sigmoid(t)", 1 / (1 + np.exp(-X))),
        ("nl.silu(t)", X / (1 + np.exp(-X))),
        ("nl.relu(t)", np.maximum(X, 0)),
        ("nl.gelu(t)", 0.5 * X * (1 + np.vectorize(math.erf)(X / math.sqrt(2)))),
        ("nl.sin(t)", np.sin(X)),
        ("nl.cos(t)", np.cos(X)),
        ("nl.abs(t)", np.abs(X)),
        ("nl.sign(t)", np.sign(X)),
        ("nl.negative(t)", -X),
        ("nl.reciprocal(t)", 1 / X),
        ("nl.copy(t)", X),
        ("nl.softmax(t, axis=1)", np.exp(X) / np.exp(X).sum(1, keepdims=True)),
        ("nisa.reciprocal(t)", 1 / X),
        ("nisa.tensor_copy(t)", X),
        ("nisa.tensor_tensor(t, u, np.multiply)", X * Y),
        ("nisa.tensor_tensor(t, u, op=nl.max)", np.maximum(X, Y)),
        ("nisa.tensor_scalar(t, nl.subtract, c)", X - COLUMN),
        ("nisa.tensor_scalar(t, nl.subtract, 1.0, reverse0=True)", 1 - X),
        (
            "nisa.tensor_scalar(t, np.subtract, c, op1=np.multiply, operand1=3.0)",
            (X - COLUMN) * 3,
        ),
        (
            "nisa.tensor_scalar(t, np.add, c, op1=np.subtract, operand1=3.0, reverse1=True)",
            3 - (X + COLUMN),
        ),
        (
            "nisa.scalar_tensor_tensor(data=t, op0=np.multiply, operand0=c, op1=np.add,"
            " operand1=u)",
            X * COLUMN + Y,
        ),
        (
            "nisa.scalar_tensor_tensor(data=t, op0=np.subtract, operand0=2.0, op1=np.subtract,"
            " operand1=u, reverse0=True, reverse1=True)",
            Y - (2 - X),
        ),
        ("nisa.activation(nl.exp, t, bias=c, scale=0.5)", np.exp(X * 0.5 + COLUMN)),
        ("nisa.activation(nl.copy, t, scale=c)", X * COLUMN),
        ("nisa.memset((4, 8), 2.5, nl.float32)", np.full((4, 8), 2.5)),
        ("t.astype(nl.bfloat16)", bf16(X)),
        ("nl.broadcast_to(c, shape=(4, 8))", np.broadcast_to(COLUMN, (4, 8))),
        ("c.broadcast_to((4, 8))", np.broadcast_to(COLUMN, (4, 8))),
        ("nl.rms_norm(t, u, axis=1, n=8)", X / np.sqrt((X * X).mean(1, keepdims=True) + 1e-6) * Y),
    ],
)
def test_an_operation_computes(statement: str, expected: np.ndarray) -> None:
    np.testing.assert_allclose(elementwise(statement), expected, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("nl.sum(t, axis=1)", X.sum(1)),
        ("nl.max(t, axis=[1])", X.max(1)),
        ("nl.min(t, 1, keepdims=True)", X.min(1)),
        ("nl.prod(t, axis=1)", X.prod(1)),
        ("nl.mean(t, axis=1)", X.mean(1)),
        ("nl.var(t, axis=1)", X.var(1)),
        ("nisa.tensor_reduce(np.add, t, axis=(1,))", X.sum(1)),
        ("nisa.tensor_reduce(np.max, t, axis=[1], negate=True)", -X.max(1)),
        ("nisa.tensor_reduce(nl.minimum, t, axis=1, keepdims=True)", X.min(1)),
    ],
)
def test_a_reduction_computes(statement: str, expected: np.ndarray) -> None:
    body = f"t = nl.load(x)\nnl.store(out, {statement})"
    found = Kernel(body, x=X, out=(4, 1)).run()
    np.testing.assert_allclose(found[:, 0], expected, rtol=3e-6, atol=1e-6)


def test_a_reduction_over_two_axes_that_are_not_the_last_is_a_permuted_access() -> None:
    values = numbers(4, 3, 5, 2)
    body = "t = nl.load(x)\nnl.store(out, nl.max(t, axis=[1, 3]))"
    found = Kernel(body, x=values, out=(4, 5)).run()
    np.testing.assert_array_equal(found, values.max((1, 3)))


def test_partitions_are_reduced_on_pool() -> None:
    body = "t = nl.load(x)\nnl.store(out, nisa.tensor_partition_reduce(np.add, t))"
    kernel = Kernel(body, x=X, out=(1, 8))
    np.testing.assert_allclose(kernel.run()[0], X.sum(0), rtol=1e-6)
    assert [i.engine for i in kernel.trace.instructions] == ["dma", "pool", "dma"]


def test_a_product_contracts_partitions() -> None:
    a, b = numbers(16, 4), numbers(16, 8, seed=1)
    body = "nl.store(out, nisa.nc_matmul(nl.load(a), nl.load(b)))"
    kernel = Kernel(body, a=a, b=b)
    np.testing.assert_allclose(kernel.run(), a.T @ b, rtol=1e-5, atol=1e-6)
    assert kernel.opcodes() == ["nc_matmul", "tensor_copy"]  # stored from SBUF
    product = next(i for i in kernel.trace.instructions if i.opcode == "nc_matmul")
    assert product.attributes == {"k": 16, "m": 4, "n": 8}


@pytest.mark.parametrize("swapped", [False, True])
def test_matmul_transposes_x_unless_it_is_told_that_it_is(swapped: bool) -> None:
    a, b = numbers(4, 16), numbers(16, 8, seed=1)
    x = a.T.copy() if swapped else a
    body = f"nl.store(out, nl.matmul(nl.load(a), nl.load(b), transpose_x={swapped}))"
    np.testing.assert_allclose(Kernel(body, a=x, b=b).run(), a @ b, rtol=1e-5, atol=1e-6)


def test_is_transpose_costs_digits_of_float32() -> None:
    a, b = numbers(128, 64), numbers(128, 256, seed=1)
    body = "nl.store(out, nisa.nc_matmul(nl.load(a), nl.load(b), is_transpose=True))"
    error = np.abs(Kernel(body, a=a, b=b, out=(64, 256)).run() - a.T @ b).max()
    assert 1e-4 < error < 1e-1


@pytest.mark.parametrize("call", ["nisa.nc_transpose(t)", "nl.transpose(t)"])
def test_a_transpose(call: str) -> None:
    body = f"t = nl.load(x)\nnl.store(out, {call})"
    np.testing.assert_array_equal(Kernel(body, x=X, out=(8, 4)).run(), X.T)


def test_a_transpose_on_the_vector_engine_stays_in_its_memory() -> None:
    body = """
        t = nl.load(x)
        nl.store(out, nisa.nc_transpose(t, engine=nisa.vector_engine))
    """
    kernel = Kernel(body, x=X, out=(8, 4))
    np.testing.assert_array_equal(kernel.run(), X.T)
    assert kernel.opcodes() == ["nc_transpose"]


@pytest.mark.parametrize(("machine", "spread"), [("trn1", True), ("trn2", False)])
def test_not_a_number_spreads_over_the_row_of_a_transpose_on_trn1(
    machine: str, spread: bool
) -> None:
    values = X.copy()
    values[1, 2] = np.nan
    options = {} if spread else {"machine": TRN2}
    body = "nl.store(out, nisa.nc_transpose(nl.load(x)))"
    found = Kernel(body, x=values, out=(8, 4), **options).run()  # type: ignore[arg-type]
    assert np.isnan(found).sum() == (4 if spread else 1)
    assert np.isnan(found[2]).sum() == (4 if spread else 1)


def test_a_scan_multiplies_and_adds() -> None:
    body = """
        t = nl.load(x)
        u = nl.load(y)
        nl.store(out, nisa.tensor_tensor_scan(t, u, initial=0.5, op0=np.multiply, op1=np.add))
    """
    expected, state = np.empty_like(X), np.full(4, 0.5, np.float32)
    for i in range(8):
        state = X[:, i] * state + Y[:, i]
        expected[:, i] = state
    np.testing.assert_allclose(Kernel(body, x=X, y=Y).run(), expected, rtol=1e-6)


def test_a_scan_with_reversed_operators_and_a_column_to_begin_with() -> None:
    body = """
        t = nl.load(x)
        u = nl.load(y)
        c = nl.load(column)
        nl.store(out, nisa.tensor_tensor_scan(t, u, initial=c, op0=np.subtract, op1=np.subtract,
                                              reverse0=True, reverse1=True))
    """
    expected, state = np.empty_like(X), COLUMN[:, 0]
    for i in range(8):
        state = Y[:, i] - (state - X[:, i])
        expected[:, i] = state
    np.testing.assert_allclose(Kernel(body, x=X, y=Y, column=COLUMN).run(), expected, rtol=1e-5)


def test_a_scalar_operation_with_its_reduction() -> None:
    body = """
        r = nl.ndarray((4, 1), nl.float32)
        t = nisa.tensor_scalar_reduce(data=nl.load(x), op0=np.multiply, operand0=2.0,
                                      reduce_op=np.add, reduce_res=r)
        nl.store(out, t + r)
    """
    expected = 2 * X + (2 * X).sum(1, keepdims=True)
    np.testing.assert_allclose(Kernel(body, x=X).run(), expected, rtol=1e-5)


def test_activation_sums_into_a_hidden_accumulator() -> None:
    body = """
        r = nl.ndarray((4, 1), nl.float32)
        t = nl.load(x)
        nisa.activation(nl.exp, t, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.activation(nl.exp, t, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reduce,
                        reduce_res=r)
        nl.store(out, r)
    """
    expected = 2 * np.exp(X).sum(1, keepdims=True)
    np.testing.assert_allclose(Kernel(body, x=X, out=(4, 1)).run(), expected, rtol=1e-5)


def test_an_accumulator_that_was_never_reset_is_undefined() -> None:
    body = """
        r = nl.ndarray((4, 1), nl.float32)
        nisa.activation(nl.exp, nl.load(x), reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reduce,
                        reduce_res=r)
        nl.store(out, r)
    """
    assert np.isnan(Kernel(body, x=X, out=(4, 1)).run()).all()


def test_activation_reduces_what_was_not_rounded_yet() -> None:
    body = """
        r = nl.ndarray((4, 1), nl.float32)
        e = nisa.activation_reduce(nl.exp, nl.load(x), reduce_op=nl.add, reduce_res=r,
                                   dtype=nl.bfloat16)
        nl.store(out, r)
        nl.store(rounded, nl.sum(e, axis=1, dtype=nl.float32))
    """
    outputs = {"out": ((4, 1), "float32"), "rounded": ((4, 1), "float32")}
    exact, rounded = Kernel(body, x=X, out=outputs).all()
    np.testing.assert_allclose(exact, np.exp(X).sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(rounded, bf16(np.exp(X)).sum(1, keepdims=True), rtol=1e-6)
    assert (exact != rounded).any()


def test_statistics_of_even_and_odd_elements() -> None:
    body = "nl.store(out, nisa.bn_stats(nl.load(x)))"
    found = Kernel(body, x=X, out=(4, 6)).run()
    even, odd = X[:, ::2], X[:, 1::2]
    np.testing.assert_allclose(found[:, 0], 4)
    np.testing.assert_allclose(found[:, 1], even.mean(1), rtol=1e-5)
    np.testing.assert_allclose(found[:, 5], 4 * odd.var(1), rtol=1e-5)


def test_a_mask_selects_the_rows_of_statistics() -> None:
    body = """
        p, f = nl.mgrid[0:4, 0:8]
        s = nl.zeros((4, 6), nl.float32)
        s[...] = nisa.bn_stats(nl.load(x)[p, f], mask=(p < 3) & (f < {columns}))
        nl.store(out[:, 0:6], s)
        t = nl.zeros((4, 2), nl.float32)
        t[...] = nisa.bn_aggr(s, mask=p < 2)
        nl.store(out[:, 6:8], t)
    """
    found = Kernel(body.format(columns=8), x=X, out=(4, 8)).run()
    np.testing.assert_allclose(found[:3, 1], X[:3, ::2].mean(1), rtol=1e-5)
    np.testing.assert_allclose(found[:2, 6], X[:2].mean(1), rtol=1e-5)
    assert not found[3:, :6].any()
    assert not found[2:, 6:].any()
    refused(body.format(columns=7), "unsupported_expression_in_mask", x=X, out=(4, 8))


def test_a_mask_excludes_elements_and_rows_from_the_largest_values() -> None:
    values = numbers(4, 20)
    body = """
        p, f = nl.mgrid[0:4, 0:24]
        t = nl.load(x)
        top, where = nl.zeros((4, 8), nl.float32), nl.zeros((4, 8), nl.float32)
        top[...] = nisa.max8(t[p, f], mask=(p < 3) & (f < 15))
        where[...] = nisa.nc_find_index8(t[p, f], top, mask=(p < 3) & (f < 15))
        low = nl.max(t[p, f], axis=1, mask=f < 15)
        nl.store(out[:, 0:8], top)
        nl.store(out[:, 8:16], where)
        nl.store(out[:, 16:17], low)
    """
    found = Kernel(body, x=values, out=(4, 17)).run()
    order = np.argsort(-values[:, :15], axis=1)[:, :8]
    np.testing.assert_array_equal(found[:3, 8:16], order[:3])
    np.testing.assert_array_equal(found[:3, :8], np.take_along_axis(values, order, 1)[:3])
    assert not found[3, :16].any()
    np.testing.assert_array_equal(found[:, 16], values[:, :15].max(1))


@pytest.mark.parametrize("width", [4, 15])
def test_masked_integers_are_not_among_the_largest_values(width: int) -> None:
    """Integers that were never written have the value 77."""
    values = np.arange(60, dtype=np.int32).reshape(3, 20) * 7 % 60 - 90
    values[:, 16] = 77
    values[:, 2] = 77
    body = f"""
        p, f = nl.mgrid[0:3, 0:20]
        t = nl.load(x)
        inside = (f > 2) & (f < {width + 3})
        top, where = nl.zeros((3, 8), nl.int32), nl.zeros((3, 8), nl.int32)
        new = nl.zeros((3, 20), nl.int32)
        wanted = nl.full((3, 8), 77, nl.int32)
        top[...] = nisa.max8(t[p, f], mask=inside)
        where[...] = nisa.nc_find_index8(t[p, f], wanted, mask=inside)
        new[...] = nisa.nc_match_replace8(data=t[p, f], vals=wanted, imm=5, mask=inside)
        nl.store(out[:, 0:8], top)
        nl.store(out[:, 8:16], where)
        nl.store(out[:, 16:36], new)
    """
    found = Kernel(body, x=values, out=(3, 36), dtype="int32").run()
    inner = values[:, 3 : width + 3]
    count = min(width, 8)
    np.testing.assert_array_equal(found[:, :count], -np.sort(-inner, axis=1)[:, :count])
    np.testing.assert_array_equal(found[:, 8], 16 if width == 15 else 0)
    wanted = np.where((np.arange(20) == 16) & (width == 15), 5, values)
    np.testing.assert_array_equal(found[:, 19 : 19 + width], wanted[:, 3 : width + 3])


def test_the_mask_of_a_product_keeps_the_indices_of_its_operands_within_bounds() -> None:
    body = """
        a = nl.load(x)
        total = nl.zeros((8, 12), nl.float32, buffer=nl.psum)
        p, k, f = nl.arange(4)[:, None], nl.arange(8)[:, None], nl.arange(12)[None, :]
        total[k, f] += nisa.nc_matmul(a, a[p, f], mask=f < 8)
        nl.store(out, total[0:8, 0:8])
    """
    found = Kernel(body, x=X, out=(8, 8)).run()
    np.testing.assert_allclose(found, X.T @ X, rtol=1e-4, atol=1e-5)


def test_an_activation_has_a_scale_and_a_bias() -> None:
    body = "t = nl.load(x)\nnl.store(out, nl.exp(t, bias=t[:, 0:1], scale=-1.0))"
    kernel = Kernel(body, x=X, out=(4, 8))
    assert kernel.opcodes() == ["activation"]
    np.testing.assert_allclose(kernel.run(), np.exp(X[:, :1] - X), rtol=1e-5)


def test_statistics_are_put_together() -> None:
    body = """
        t = nl.load(x)
        s = nl.ndarray((4, 2, 6), nl.float32)
        s[:, 0, :] = nisa.bn_stats(t[:, 0:3])
        s[:, 1, :] = nisa.bn_stats(t[:, 3:8])
        nl.store(out, nisa.bn_aggr(s))
    """
    found = Kernel(body, x=X, out=(4, 2)).run()
    np.testing.assert_allclose(found, np.stack([X.mean(1), X.var(1)], 1), rtol=1e-5)


def test_the_eight_largest_and_where_they_are() -> None:
    values = numbers(4, 20)
    body = """
        t = nl.load(x)
        top = nisa.max8(t)
        nl.store(out, top)
        nl.store(where, nisa.nc_find_index8(t, top))
        nl.store(rest, nisa.nc_match_replace8(data=t, vals=top, imm=-9.0))
    """
    outputs = {
        "out": ((4, 8), "float32"),
        "where": ((4, 8), "uint32"),
        "rest": ((4, 20), "float32"),
    }
    top, where, rest = Kernel(body, x=values, out=outputs).all()
    order = np.argsort(-values, 1)[:, :8]
    np.testing.assert_array_equal(where, order)
    np.testing.assert_array_equal(top, np.take_along_axis(values, order, 1))
    replaced = values.copy()
    np.put_along_axis(replaced, order, -9.0, 1)
    np.testing.assert_array_equal(rest, replaced)


def test_partitions_are_shuffled_in_groups_of_32() -> None:
    values = numbers(64, 4)
    order = [*range(31, 0, -1), 255]
    body = f"""
        t = nl.load(x)
        u = nl.full((64, 4), 7.0, nl.float32)
        nisa.nc_stream_shuffle(t, u, {order})
        nl.store(out, u)
    """
    found = Kernel(body, x=values, out=(64, 4)).run()
    np.testing.assert_array_equal(found[0], values[31])
    np.testing.assert_array_equal(found[32 + 30], values[32 + 1])
    np.testing.assert_array_equal(found[31], 7.0)


def test_a_predicated_copy_keeps_the_rest() -> None:
    body = """
        u = nl.load(y)
        p = nl.greater(nl.load(x), 0.0, dtype=nl.uint8)
        nisa.tensor_copy_predicated(src=nl.load(x), dst=u, predicate=p)
        nl.store(out, u)
    """
    np.testing.assert_array_equal(Kernel(body, x=X, y=Y).run(), np.where(X > 0, X, Y))


def test_affine_select_chooses_by_place() -> None:
    body = """
        p = nl.arange(4)[:, None]
        f = nl.arange(8)[None, :]
        t = nl.load(x)
        nl.store(out, nisa.affine_select(p * 2 >= f, t, -9984.0))
    """
    kernel = Kernel(body, x=X)
    places = 2 * np.arange(4)[:, None] >= np.arange(8)
    np.testing.assert_array_equal(kernel.run(), np.where(places, X, -9984))
    assert [i.engine for i in kernel.trace.instructions] == ["dma", "pool", "dma"]


def test_iota_gives_the_values_of_an_index() -> None:
    body = """
        p, f = nl.mgrid[0:4, 0:8]
        nl.store(out, nisa.iota(p * 10 + f, nl.int32))
    """
    found = Kernel(body, x=X, dtype="int32").run()
    np.testing.assert_array_equal(found, 10 * np.arange(4)[:, None] + np.arange(8))


def test_elements_are_gathered_within_partitions() -> None:
    chosen = np.array([[3, 1], [0, 0], [7, 2], [5, 6]], np.uint32)
    body = "nl.store(out, nl.gather_flattened(nl.load(x), nl.load(i)))"
    found = Kernel(body, x=X, i=chosen, out=(4, 2)).run()
    np.testing.assert_array_equal(found, np.take_along_axis(X, chosen.astype(int), 1))


def test_a_transposing_load() -> None:
    body = "nl.store(out, nl.load_transpose2d(x))"
    kernel = Kernel(body, x=X, out=(8, 4))
    np.testing.assert_array_equal(kernel.run(), X.T)
    assert kernel.trace.instructions[0].opcode == "dma_transpose"
    assert kernel.trace.instructions[0].reads[0].run_bytes == 4


def test_dma_transpose() -> None:
    body = "nl.store(out, nisa.dma_transpose(x, axes=(1, 0)))"
    np.testing.assert_array_equal(Kernel(body, x=X, out=(8, 4)).run(), X.T)


def test_dma_copies_with_a_cast_and_adds() -> None:
    body = """
        t = nl.ndarray((4, 8), nl.bfloat16)
        nisa.dma_copy(dst=t, src=x)
        u = nl.load(x)
        nl.store(out, u)
        nisa.dma_copy(dst=out, src=t, dst_rmw_op=np.add)
    """
    np.testing.assert_array_equal(Kernel(body, x=X).run(), X + bf16(X))


def test_dma_skips_what_is_out_of_bounds() -> None:
    body = """
        t = nl.zeros((4, 8), nl.float32)
        p, f = nl.mgrid[0:4, 0:8]
        nisa.dma_copy(dst=t, src=x[p + 2, f], oob_mode=nisa.oob_mode.skip)
        nl.store(out, t)
    """
    found = Kernel(body, x=X).run()
    np.testing.assert_array_equal(found, np.vstack([X[2:], np.zeros((2, 8))]))


def test_an_atomic_addition_in_hbm() -> None:
    body = """
        nl.store(out, nl.load(x))
        nl.atomic_rmw(out, value=nl.load(y), op=np.add)
    """
    np.testing.assert_array_equal(Kernel(body, x=X, y=Y).run(), X + Y)


def test_a_row_is_broadcast_over_partitions_through_pe() -> None:
    row = numbers(1, 8, seed=5)
    body = "nl.store(out, nl.multiply(nl.load(x), nl.load(row)))"
    kernel = Kernel(body, x=X, row=row)
    np.testing.assert_array_equal(kernel.run(), X * row)
    assert kernel.opcodes() == ["nc_matmul", "tensor_copy", "tensor_tensor"]
    assert all(i.implicit for i in kernel.trace.instructions if i.opcode == "nc_matmul")


def test_full_zeros_and_ones() -> None:
    body = """
        t = nl.full((4, 8), 1.5, nl.float32) + nl.ones((4, 8), nl.float32)
        nl.store(out, t + nl.zeros_like(t))
    """
    np.testing.assert_array_equal(Kernel(body, x=X).run(), np.full((4, 8), 2.5))


def test_bitwise_operations_on_integers() -> None:
    values = np.arange(32, dtype=np.int32).reshape(4, 8)
    body = """
        t = nl.load(x)
        u = nisa.tensor_scalar(t, nl.bitwise_and, 12, op1=nl.left_shift, operand1=1)
        nl.store(out, nisa.tensor_tensor(u, t, nl.bitwise_xor))
    """
    found = Kernel(body, x=values, dtype="int32").run()
    np.testing.assert_array_equal(found, ((values & 12) << 1) ^ values)


def test_32_bit_integers_add_up_exactly_on_pool() -> None:
    values = np.full((4, 8), (1 << 24) + 1, np.int32)
    body = "t = nl.load(x)\nnl.store(out, nl.add(t, nl.load(y)))"
    kernel = Kernel(body, x=values, y=np.ones((4, 8), np.int32), dtype="int32")
    np.testing.assert_array_equal(kernel.run(), values + 1)
    assert "pool" in [i.engine for i in kernel.trace.instructions]


def test_integers_from_floats_are_rounded_to_even_and_saturate() -> None:
    values = np.array([[0.5, 1.5, 2.5, -0.5, 300.0, -300.0, 126.6, 3.0]], np.float32)
    body = "nl.store(out, nl.copy(nl.load(x), dtype=nl.int8))"
    found = Kernel(body, x=values, out=(1, 8), dtype="int8").run()
    assert found.tolist() == [[0, 2, 2, 0, 127, -128, 127, 3]]


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3", "float8_e5m2"])
def test_narrow_floats_round_to_nearest_even(name: str) -> None:
    import ml_dtypes

    exact = getattr(ml_dtypes, name, None) or np.dtype(name)
    values = numbers(4, 8) * 3
    body = f"t = nl.load(x, dtype=nl.{name})\nnl.store(out, nl.copy(t, dtype=nl.float32))"
    found = Kernel(body, x=values).run()
    np.testing.assert_array_equal(found, values.astype(exact).astype(np.float32))


@pytest.mark.parametrize(
    ("one", "other", "result"),
    [
        ("bfloat16", "bfloat16", "bfloat16"),
        ("bfloat16", "float16", "float32"),
        ("bfloat16", "float32", "float32"),
        ("int32", "bfloat16", "bfloat16"),
        ("int8", "int8", "int8"),
    ],
)
def test_types_are_promoted(one: str, other: str, result: str) -> None:
    body = f"""
        t = nl.load(x, dtype=nl.{one})
        u = nl.load(x, dtype=nl.{other})
        v = nl.add(t, u)
        assert v.dtype == nl.{result}
        nl.store(out, v)
    """
    Kernel(body, x=X)


def test_a_python_float_makes_a_half_precision_tile_float32() -> None:
    body = """
        t = nl.load(x)
        assert nl.add(t, 1.2).dtype == nl.float32
        assert nl.add(t, 1).dtype == nl.float16
        nl.store(out, t)
    """
    Kernel(body, x=X.astype(np.float16))


def test_bfloat16_arguments_come_and_go_as_they_are() -> None:
    body = "nl.store(out, nl.load(x))"
    values = X.astype(BF16)
    found = Kernel(body, x=values, dtype="bfloat16").run()
    assert found.dtype == BF16
    np.testing.assert_array_equal(found, values)


def test_a_result_assigned_twice_is_copied_from_its_first_place() -> None:
    kernel = Kernel(
        "t = nl.exp(nl.load(x))\n"
        "one = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)\n"
        "two = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)\n"
        "one[...] = t\ntwo[...] = t\nnl.store(out, two)",
        x=X,
    )
    assert kernel.opcodes() == ["activation", "tensor_copy"]
    made, copy = (i for i in kernel.trace.instructions if i.engine != "dma")
    assert made.writes[0].tensor is copy.reads[0].tensor
    assert copy.writes[0].tensor is kernel.trace.instructions[-1].reads[0].tensor
    assert [s.instruction for s in compiled(kernel.trace)] == kernel.trace.instructions


@pytest.mark.parametrize("then", ["", "t[...] = one * 2.0\n"])
def test_a_result_used_after_it_landed_is_copied_back(then: str) -> None:
    kernel = Kernel(
        "t = nl.exp(nl.load(x))\n"
        "one = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)\n"
        "one[...] = t\n" + then + "nl.store(out, t)",
        x=X,
    )
    assert "tensor_copy" in kernel.opcodes()
    assert len(compiled(kernel.trace)) == len(kernel.trace.instructions)


def test_a_fresh_result_written_again_no_longer_lands() -> None:
    kernel = Kernel(
        "t = nl.copy(nl.load(x))\n"
        "t[...] = nl.exp(nl.load(x))\n"
        "kept = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)\n"
        "kept[...] = t\nnl.store(out, kept)",
        x=X,
    )
    assert "activation" in [step.instruction.opcode for step in compiled(kernel.trace)]


def test_a_product_that_was_added_in_psum_cannot_be_used_again() -> None:
    refused(
        "a = nl.load(x)\n"
        "one = nl.zeros((nl.par_dim(8), 8), dtype=nl.float32, buffer=nl.psum)\n"
        "two = nl.zeros((nl.par_dim(8), 8), dtype=nl.float32, buffer=nl.psum)\n"
        "p = nisa.nc_matmul(a, a)\none += p\ntwo += p\n"
        "nl.store(out, nl.copy(two))",
        "unsupported_operand",
        out=(8, 8),
        x=X,
    )
