"""Every operation of the language has a test of its semantics; those that have none elsewhere."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from nki_world import Kernel, numbers

HERE = Path(__file__).parent
SEMANTICS = "\n".join(
    (HERE / f"test_{name}.py").read_text(encoding="utf-8")
    for name in (
        "constraints",
        "every_operation",
        "newer_operations",
        "operations_nki1",
        "selection",
    )
)
"""The tests that run kernels and compare their results with numpy's."""


def words(text: str) -> list[str]:
    return text.split()


LANGUAGE = words("""
    ndarray zeros ones full zeros_like empty_like rand shared_constant shared_identity_matrix
    arange ds mgrid par_dim affine_range sequential_range static_range loop_reduce
    program_id num_programs program_ndim expand_dims broadcast_to
    load store load_transpose2d atomic_rmw gather_flattened matmul transpose copy where dropout
    add subtract multiply divide maximum minimum power equal not_equal less less_equal greater
    greater_equal logical_and logical_or logical_xor logical_not
    bitwise_and bitwise_or bitwise_xor invert left_shift right_shift
    sum max min prod all mean var softmax rms_norm
    exp log sqrt rsqrt square reciprocal negative abs sign sin cos arctan tanh sigmoid relu
    silu silu_dx gelu gelu_dx gelu_apprx_tanh gelu_apprx_sigmoid softplus mish erf erf_dx
""")
INSTRUCTIONS = words("""
    dma_copy dma_transpose dma_compute local_gather nc_n_gather
    nc_matmul nc_transpose tensor_copy tensor_copy_predicated tensor_copy_dynamic_src
    tensor_copy_dynamic_dst tensor_tensor tensor_scalar scalar_tensor_tensor tensor_tensor_scan
    tensor_reduce tensor_scalar_reduce tensor_partition_reduce activation activation_reduce
    reciprocal memset iota affine_select select_reduce range_select dropout
    bn_stats bn_aggr max8 nc_find_index8 nc_match_replace8 topk nc_stream_shuffle
""")
OF_NKI_2 = words("""
    dma_copy dma_transpose nc_matmul nc_transpose tensor_copy tensor_copy_predicated memset iota
    tensor_tensor tensor_scalar scalar_tensor_tensor tensor_tensor_scan tensor_reduce
    tensor_scalar_reduce activation activation_reduce reciprocal affine_select bn_stats bn_aggr
    nc_stream_shuffle
""")
"""Instructions that take `dst` as their first argument and have no other test of that."""

X, Y, COLUMN = numbers(4, 8), numbers(4, 8, seed=1), numbers(4, 1, seed=2)
ZERO_ONE = (numbers(4, 8, seed=5) > 0).astype(np.float32)
WHOLE, SHIFT = np.arange(32, dtype=np.int32).reshape(4, 8) * 1237, np.full((4, 8), 3, np.int32)
TALL = numbers(32, 8, seed=3)


@pytest.mark.parametrize(
    ("module", "name"),
    [("nl", name) for name in LANGUAGE] + [("nisa", name) for name in INSTRUCTIONS],
)
def test_the_operation_is_used_in_a_test_of_semantics(module: str, name: str) -> None:
    assert re.search(rf"\b{module}\.{name}\b", SEMANTICS)


def test_every_instruction_of_nki_2_has_an_example() -> None:
    used = {name for statement, _ in NKI_2 for name in re.findall(r"nisa\.(\w+)\(", statement)}
    assert set(OF_NKI_2) <= used


RULES = words("""
    1d_arange_not_supported activation_bias_invalid_type activation_scale_invalid_type
    ambiguous_tensor_truth_value cannot_update_immutable_parameter
    control_flow_condition_depending_on_arange dynamic_control_flow_not_supported
    failed_to_infer_tile_from_local_tensor insufficient_rank
    leading_dimension_of_tensor_must_be_partition local_variable_used_out_of_scope
    num_partition_exceed_arch_limit num_partition_mismatch size_of_dimension_exceed_arch_limit
    store_dst_shape_smaller_than_other_shape tensor_access_out_of_bound
    tensor_output_not_written_to unexpected_output_dependencies unsupported_expression_in_mask
    unsupported_memory
""")


@pytest.mark.parametrize("code", RULES)
def test_the_rule_has_a_test(code: str) -> None:
    assert f'"{code}"' in (HERE / "test_constraints.py").read_text(encoding="utf-8")


def derivative(function: object, x: np.ndarray) -> np.ndarray:
    """The slope of a function of one number, in float64."""
    step = 1e-5
    slope = np.vectorize(lambda v: (function(v + step) - function(v - step)) / (2 * step))  # type: ignore[operator]
    found: np.ndarray = slope(x.astype(np.float64))
    return found


def gelu(x: float) -> float:
    return x * 0.5 * math.erfc(-x / math.sqrt(2))


def silu(x: float) -> float:
    return x / (1 + math.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x.astype(np.float64)))


CUBIC = math.sqrt(2 / math.pi) * (X + 0.044715 * X.astype(np.float64) ** 3)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("nl.power(nl.abs(t), 1.5)", np.abs(X) ** 1.5),
        ("nl.equal(t, 0.0)", X == 0),
        ("nl.equal(z, 1.0)", ZERO_ONE == 1),
        ("nl.not_equal(z, 1.0)", ZERO_ONE != 1),
        ("nl.less(t, u)", X < Y),
        ("nl.greater_equal(z, z)", np.ones_like(X)),
        ("nl.logical_and(z, nl.greater(t, 0.0))", (ZERO_ONE != 0) & (X > 0)),
        ("nl.logical_or(z, nl.greater(t, 0.0))", (ZERO_ONE != 0) | (X > 0)),
        ("nl.logical_xor(z, nl.greater(t, 0.0))", (ZERO_ONE != 0) ^ (X > 0)),
        ("nl.logical_not(z)", ZERO_ONE == 0),
        ("nl.dropout(t, 0.0)", X),
        ("nl.arctan(nl.minimum(nl.maximum(t, -1.5), 1.5))", np.arctan(np.clip(X, -1.5, 1.5))),
        ("nl.softplus(t)", softplus(X)),
        ("nl.mish(t)", X * np.tanh(softplus(X))),
        ("nl.erf(t)", np.vectorize(math.erf)(X)),
        ("nl.erf_dx(t)", derivative(math.erf, X)),
        ("nl.gelu_dx(t)", derivative(gelu, X)),
        ("nl.silu_dx(t)", derivative(silu, X)),
        ("nl.gelu_apprx_tanh(t)", 0.5 * X * (1 + np.tanh(CUBIC))),
        ("nl.gelu_apprx_sigmoid(t)", X / (1 + np.exp(-1.702 * X))),
        ("nl.floor(t * 2.0)", np.floor(X * 2)),
        ("nl.ceil(t * 2.0)", np.ceil(X * 2)),
        ("nl.trunc(t * 2.0)", np.trunc(X * 2)),
        ("nl.mod(t, 0.75)", np.mod(X, np.float32(0.75))),
        ("nl.mod(t, u)", np.mod(X, Y)),
        ("nl.fmod(t, u)", np.fmod(X, Y)),
        ("nl.tan(nl.minimum(nl.maximum(t, -1.2), 1.2))", np.tan(np.clip(X, -1.2, 1.2))),
    ],
)
def test_a_function_of_elements(statement: str, expected: np.ndarray) -> None:
    body = f"""
        t = nl.load(x)
        u = nl.load(y)
        z = nl.load(zeros_and_ones)
        nl.store(out, {statement})
    """
    found = Kernel(body, x=X, y=Y, zeros_and_ones=ZERO_ONE).run()
    np.testing.assert_allclose(found, expected, rtol=4e-6, atol=2e-6)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("nl.bitwise_and(t, u)", WHOLE & SHIFT),
        ("nl.bitwise_or(t, u)", WHOLE | SHIFT),
        ("nl.bitwise_xor(t, u)", WHOLE ^ SHIFT),
        ("nl.left_shift(t, u)", WHOLE << SHIFT),
        ("nl.right_shift(t, u)", WHOLE >> SHIFT),
        ("nl.invert(t)", ~WHOLE),
    ],
)
def test_a_bitwise_function(statement: str, expected: np.ndarray) -> None:
    body = f"t = nl.load(x)\nu = nl.load(y)\nnl.store(out, {statement})"
    found = Kernel(body, dtype="int32", x=WHOLE, y=SHIFT).run()
    np.testing.assert_array_equal(found, expected)


def test_all_elements_of_a_row() -> None:
    rows = np.array([[1, 2, 3], [1, 0, 3], [0, 0, 0]], np.float32)
    body = "t = nl.load(x)\nnl.store(out, nl.all(t, axis=1))"
    np.testing.assert_array_equal(Kernel(body, x=rows, out=(3, 1)).run()[:, 0], [1, 0, 0])


def test_an_empty_tile_like_another_has_its_shape_and_type() -> None:
    body = """
        t = nl.load(x)
        like = nl.empty_like(t)
        assert like.shape == (4, 8) and like.dtype == nl.float32
        like[0:4, 0:4] = t[0:4, 4:8]
        nl.store(out, like)
    """
    found = Kernel(body, x=X).run()
    np.testing.assert_array_equal(found[:, :4], X[:, 4:])
    assert np.isnan(found[:, 4:]).all()


def test_an_identity_matrix_is_a_shared_constant() -> None:
    body = """
        one = nl.load(nl.shared_identity_matrix(8, dtype=nl.float32))
        nl.store(out, one * 3.0)
    """
    np.testing.assert_array_equal(Kernel(body, x=X, out=(8, 8)).run(), 3 * np.eye(8))


def test_an_axis_of_size_1_is_inserted() -> None:
    body = """
        t = nl.load(x)
        assert nl.expand_dims(t, 1).shape == (4, 1, 8)
        nl.store(out, nl.expand_dims(t, 1))
    """
    np.testing.assert_array_equal(Kernel(body, x=X, out=(4, 1, 8)).run()[:, 0], X)


def scanned(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """r[i] = x[i] * r[i - 1] + y[i], from 0.5."""
    found, last = [], np.full(len(x), 0.5)
    for i in range(x.shape[1]):
        last = x[:, i] * last + y[:, i]
        found.append(last)
    return np.stack(found, axis=1)


WIDE, PLACE = np.arange(8), np.arange(4)[:, None]
ROTATED = [*range(1, 32), 0]
SUMS = X.sum(1, keepdims=True)
NKI_2: list[tuple[str, np.ndarray]] = [
    ("nisa.dma_copy(r, t)", X),
    ("nisa.dma_transpose(r, t)", X.T),
    ("nisa.tensor_copy(r, t)", X),
    ("nisa.memset(r, 2.5)", np.full((4, 8), 2.5)),
    (
        "i = tile(4, 8, nl.int32)\n"
        "nisa.iota(i, pattern=[[2, 8]], offset=3, channel_multiplier=10)\n"
        "nisa.tensor_copy(r, i)",
        3 + 10 * PLACE + 2 * WIDE,
    ),
    ("nisa.tensor_tensor(r, t, u, nl.multiply)", X * Y),
    (
        "nisa.tensor_scalar(r, t, nl.subtract, c, reverse0=True, op1=nl.multiply, operand1=2.0)",
        (COLUMN - X) * 2,
    ),
    (
        "nisa.scalar_tensor_tensor(r, data=t, op0=nl.multiply, operand0=c, op1=nl.subtract, "
        "operand1=u, reverse1=True)",
        Y - X * COLUMN,
    ),
    ("nisa.tensor_tensor_scan(r, t, u, 0.5, nl.multiply, nl.add)", scanned(X, Y)),
    ("nisa.tensor_reduce(r, nl.add, t, 1)", SUMS),
    ("nisa.tensor_reduce(r, nl.maximum, t, 1, negate=True)", -X.max(1, keepdims=True)),
    (
        "nisa.tensor_scalar_reduce(u, data=t, op0=nl.multiply, operand0=2.0, reduce_op=nl.add, "
        "reduce_res=s)\nnisa.tensor_scalar(r, u, nl.add, s)",
        2 * X + 2 * SUMS,
    ),
    ("nisa.activation(r, nl.exp, t, bias=c, scale=0.5)", np.exp(X / 2 + COLUMN)),
    (
        "nisa.activation_reduce(u, nl.exp, t, reduce_op=nl.add, reduce_res=s)\n"
        "nisa.tensor_scalar(r, u, nl.divide, s)",
        np.exp(X) / np.exp(X).sum(1, keepdims=True),
    ),
    ("nisa.reciprocal(r, t)", 1 / X),
    (
        "nisa.affine_select(r, pattern=[[1, 8]], channel_multiplier=-1, on_true_tile=t, "
        "on_false_value=-5.0, cmp_op=nl.greater_equal, offset=-1)",
        np.where(WIDE - PLACE - 1 >= 0, X, -5),
    ),
    (
        "six = tile(4, 6)\nnisa.bn_stats(six, t)\ntwo = tile(4, 2)\nnisa.bn_aggr(two, six)\n"
        "nisa.tensor_copy(r, two)",
        np.stack([X.mean(1), X.var(1)], axis=1),
    ),
    (
        "p = tile(4, 8, nl.uint8)\nnisa.tensor_scalar(p, t, nl.greater, 0.0)\n"
        "nisa.tensor_copy(r, u)\nnisa.tensor_copy_predicated(r, t, p)",
        np.where(X > 0, X, Y),
    ),
    (
        "ps = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)\nnisa.nc_matmul(ps, t, u)\n"
        "nisa.tensor_copy(r, ps)",
        X.T @ Y,
    ),
    (
        "ps = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.psum)\nnisa.nc_transpose(ps, t)\n"
        "nisa.tensor_copy(r, ps)",
        X.T,
    ),
    (f"nisa.nc_stream_shuffle(r, h, {ROTATED})", TALL[ROTATED]),
]


@pytest.mark.parametrize(("statements", "expected"), NKI_2)
def test_an_instruction_of_nki_2_writes_its_first_argument(
    statements: str, expected: np.ndarray
) -> None:
    rows, columns = expected.shape
    before = """
        def tile(rows, columns, dtype=nl.float32):
            return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)

        def loaded(source):
            found = tile(*source.shape)
            nisa.dma_copy(dst=found, src=source)
            return found
    """
    body = (
        "t, u, c, h = loaded(x), loaded(y), loaded(column), loaded(tall)\n"
        f"s, r = tile(4, 1), tile({rows}, {columns})\n{statements}\nnisa.dma_copy(out, r)"
    )
    given = {"x": X, "y": Y, "column": COLUMN, "tall": TALL}
    found = Kernel(body, language=2, before=before, out=expected.shape, **given).run()  # type: ignore[arg-type]
    np.testing.assert_allclose(found, expected, rtol=4e-6, atol=2e-6)
