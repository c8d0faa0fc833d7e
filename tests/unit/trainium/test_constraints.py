"""Every rule of the language and of the machine is kept: its name and line are in the error."""

from __future__ import annotations

import numpy as np
import pytest
from nki_world import Kernel, numbers, refused

X = numbers(4, 8)
ROWS = numbers(256, 8)
WIDE = numbers(128, 1024)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("t = nl.load(x)", "num_partition_exceed_arch_limit"),
        ("t = nl.ndarray((256, 4), nl.float32)", "num_partition_exceed_arch_limit"),
        ("t = nl.load_transpose2d(x)", "tensor_output_not_written_to"),
        ("t = nl.ndarray((8,), nl.float32)", "insufficient_rank"),
        ("t = nl.ndarray((4, 70000), nl.float32)", "size_of_dimension_exceed_arch_limit"),
        ("t = nl.ndarray((4, 5000), nl.float32, buffer=nl.psum)",
         "size_of_dimension_exceed_arch_limit"),
        ("nl.add(nl.load(x[0:4]), nl.load(x[0:5]))", "num_partition_mismatch"),
        ("nisa.nc_matmul(nl.load(x[0:4]), nl.load(x[0:5]))", "num_partition_mismatch"),
        ("nisa.nc_matmul(nl.load(x[0:4]), nl.load(x[0:4], dtype=nl.bfloat16))",
         "unsupported_operand"),
        ("t = x + 1.0", "unsupported_memory"),
        ("t = nl.exp(x)", "unsupported_memory"),
        ("nl.store(x, nl.load(x[0:4]))", "cannot_update_immutable_parameter"),
        ("x[0:4] = nl.load(x[0:4])", "cannot_update_immutable_parameter"),
        ("t = nl.load(x[250:260])", "tensor_access_out_of_bound"),
        ("t = nl.load(x[nl.arange(4) , 0:8])", "1d_arange_not_supported"),
        ("t = nl.load(x[0:4])\nif t: pass", "ambiguous_tensor_truth_value"),
        ("t = nl.load(x[0:4])\nb = t and t", "ambiguous_tensor_truth_value"),
        ("i = nl.arange(4)[:, None]\nif i < 2: pass", "control_flow_condition_depending_on_arange"),
        ("i = nl.arange(4)[:, None]\nfor j in nl.affine_range(i): pass",
         "dynamic_control_flow_not_supported"),
        ("t = nl.load(x[0:4])\nnisa.activation(nl.exp, t, bias=1.0)",
         "activation_bias_invalid_type"),
        ("t = nl.load(x[0:4])\nnisa.activation(nl.exp, t, bias=t)", "activation_bias_invalid_type"),
        ("t = nl.load(x[0:4])\nnisa.activation(nl.exp, t, scale=t)",
         "activation_scale_invalid_type"),
        ("t = nl.load(x[0:4])\nnisa.tensor_scalar(t, nl.add, t)", "unsupported_operand"),
        ("t = nl.load(x[0:4])\nnl.sum(t, axis=0)", "unsupported_axis"),
        ("t = nl.load(x[0:4])\nnisa.bn_aggr(t)", "unsupported_operand"),
        ("t = nl.load(x[0:4])\nnl.store(out, t[0:2])", "store_dst_shape_smaller_than_other_shape"),
        ("t = nl.load(x[0:4])\nt * nl.load(x[4:5])", "num_partition_mismatch"),
        ("m = nl.arange(4)[:, None] < 2\nm2 = m | m", "unsupported_expression_in_mask"),
        ("nl.load(x[0:4], mask=3)", "unsupported_expression_in_mask"),
        ("nl.load(x[0:4], masked=True)", "unexpected_keyword"),
        ("nl.load()", "missing_argument"),
        ("nl.load(x, 1, 2, 3)", "too_many_arguments"),
        ("t = nl.load(x[0:4])\nnisa.tensor_tensor(t, t, nl.add, engine=nisa.scalar_engine)",
         "unsupported_engine"),
        ("t = nl.load(x[0:4])\nnisa.tensor_tensor(t, t, nl.sum_of_all)", "not_supported"),
        ("t = nl.load(x[0:4])\nnisa.tensor_copy(t, dst=t)", "unexpected_keyword"),
        ("t = nl.load(x[0:64])\nu = t[8:48]\nnl.exp(u)", "unsupported_partition_start"),
        ("t = nl.load(x[0:64])\nnl.exp(t[0:64:2])", "unsupported_partition_step"),
        ("t = nl.load(x[0:4], dtype=nl.float32)\nnisa.tensor_scalar(t, nl.bitwise_and, 1)",
         "unsupported_operand"),
        ("nisa.nc_matmul_mx(nl.load(x[0:4]), 5)", "not_supported"),
        ("nisa.no_such_operation(x)", "not_supported"),
        ("assert x.shape[0] == 4, f'rows {x.shape[0]}'", "assertion_failed"),
        ("y", "undefined_name"),
    ],
)  # fmt: skip
def test_a_rule_is_kept(body: str, code: str) -> None:
    error = refused(body, code, x=ROWS)
    assert error.line is not None
    assert str(error).startswith(f"kernel.py:{error.line}: err_{code}: ")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("nisa.nc_matmul(nl.load(x[:, 0:129]), nl.load(x[:, 0:8]))",
         "size_of_dimension_exceed_arch_limit"),
        ("nisa.nc_matmul(nl.load(x[:, 0:8]), nl.load(x[:, 0:513]))",
         "size_of_dimension_exceed_arch_limit"),
        ("nisa.nc_transpose(nl.load(x[:, 0:129]))", "size_of_dimension_exceed_arch_limit"),
        ("nisa.nc_transpose(nl.load(x[:, 0:64]), engine=nisa.vector_engine)",
         "size_of_dimension_exceed_arch_limit"),
        ("nisa.bn_stats(nl.load(x[:, 0:513]))", "size_of_dimension_exceed_arch_limit"),
        ("p = nisa.nc_matmul(nl.load(x[:, 0:8]), nl.load(x[:, 0:8]))\n"
         "q = nisa.nc_matmul(nl.load(x[:, 0:8]), nl.load(x[:, 8:16]))\n"
         "nisa.tensor_tensor(p, q, nl.add)", "unsupported_memory"),
        ("p = nisa.nc_matmul(nl.load(x[:, 0:8]), nl.load(x[:, 0:8]))\n"
         "nisa.tensor_copy(p, engine=nisa.gpsimd_engine)", "unsupported_memory"),
        ("b = nl.ndarray((4, nl.par_dim(128), 8), nl.float32)\nnl.exp(b)",
         "failed_to_infer_tile_from_local_tensor"),
        ("t = nl.load(x)\nt.reshape((64, 2048))", "unsupported_reshape"),
    ],
)  # fmt: skip
def test_a_limit_of_the_machine_is_kept(body: str, code: str) -> None:
    refused(body, code, x=WIDE)


def test_a_tile_of_a_loop_body_ends_with_its_iteration() -> None:
    body = """
        for i in nl.affine_range(2):
            t = nl.load(x)
        nl.store(out, t)
    """
    error = refused(body, "local_variable_used_out_of_scope", x=X)
    assert error.line == 12


def test_a_static_loop_is_unrolled_and_its_tiles_stay() -> None:
    body = """
        for i in nl.static_range(2):
            t = nl.load(x)
        nl.store(out, t)
    """
    np.testing.assert_array_equal(Kernel(body, x=X).run(), X)


CARRIED = """
    m = nl.full((4, 1), -1e30, nl.float32)
    for k in nl.{}_range(4):
        m[...] = nl.maximum(m, nl.max(nl.load(x[:, nl.ds(2 * k, 2)]), axis=1))
    nl.store(out, m)
"""


def test_values_are_not_carried_between_the_iterations_of_an_affine_loop() -> None:
    refused(CARRIED.format("affine"), "unexpected_output_dependencies", x=X, out=(4, 1))


def test_values_are_carried_by_a_sequential_loop() -> None:
    found = Kernel(CARRIED.format("sequential"), x=X, out=(4, 1)).run()
    np.testing.assert_array_equal(found[:, 0], X.max(1))


def test_each_iteration_may_read_what_it_wrote_itself() -> None:
    body = """
        b = nl.ndarray((4, 8), nl.float32)
        for k in nl.affine_range(8):
            b[:, nl.ds(k, 1)] = nl.load(x[:, nl.ds(k, 1)])
            b[:, nl.ds(k, 1)] = nl.exp(b[:, nl.ds(k, 1)])
        nl.store(out, b)
    """
    np.testing.assert_allclose(Kernel(body, x=X).run(), np.exp(X), rtol=1e-6)


def test_sums_may_be_carried_by_affine_loops_through_augmented_assignment() -> None:
    body = """
        s = nl.zeros((4, 1), nl.float32)
        for k in nl.affine_range(8):
            s += nl.load(x[:, nl.ds(k, 1)])
        nl.store(out, s)
    """
    kernel = Kernel(body, x=X, out=(4, 1))
    for shuffle in (None, 1):
        np.testing.assert_allclose(kernel.run(shuffle=shuffle)[:, 0], X.sum(1), rtol=1e-5)


STORED = """
    for i in nl.affine_range(2):
        for k in nl.{}_range(4):
            nl.store(out[{}], nl.load(x[:, nl.ds(2 * k, 1)]){})
"""


def test_iterations_of_an_affine_loop_write_different_places_of_an_output() -> None:
    one = STORED.format("affine", ":, nl.ds(0, 1)", "")
    error = refused(one, "unexpected_output_dependencies", x=X)
    assert error.line == 12
    assert "index the output by the loop variable" in error.message
    grid = STORED.format("affine", "nl.arange(4)[:, None], 0", "")
    refused(grid, "unexpected_output_dependencies", x=X)
    both = STORED.format("affine", ":, nl.ds(k, 1)", "")
    refused(both, "unexpected_output_dependencies", x=X)  # the same for each i


@pytest.mark.parametrize(
    ("kind", "place", "mask"),
    [
        ("sequential", ":, nl.ds(i, 1)", ""),
        ("static", ":, nl.ds(i, 1)", ""),
        ("affine", ":, nl.ds(4 * i + k, 1)", ""),
        ("affine", ":, nl.ds(i, 1)", ", mask=k == 3"),
    ],
)
def test_an_output_may_be_written_again_in_order_or_under_masks(
    kind: str, place: str, mask: str
) -> None:
    assert Kernel(STORED.format(kind, place, mask), x=X).run().shape == (4, 8)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("nl.exp(nl.load(x)[4])", "index 4 of axis 0, which has the size 4"),
        ("t = nl.ndarray((4, 8), nl.float32)\nnisa.dma_copy(dst=t, src=x[0:5])",
         "index 4 of axis 0, which has the size 4"),
        ("nl.exp(nl.load(x)[0:4, 6:10])", "index 8..9 of axis 1, which has the size 8"),
        ("b = nl.ndarray((2, nl.par_dim(4), 8), nl.float32)\n"
         "for i in nl.affine_range(3): b[i] = nl.load(x)", "index 2 of axis 0"),
        ("p, f = nl.mgrid[0:4, 0:10]\nnl.exp(nl.load(x)[p, f], mask=f < 9)",
         "index 8 of axis 1, which has the size 8, of a tensor of shape (4, 8), where the mask"),
    ],
)  # fmt: skip
def test_an_index_out_of_range_is_named_as_such(body: str, words: str) -> None:
    assert words in refused(body, "tensor_access_out_of_bound", x=X).message


def test_a_tile_may_be_read_past_its_end_under_a_mask() -> None:
    body = """
        p, f = nl.mgrid[0:4, 0:8]
        t = nl.load(x)
        nl.store(out[p, f], nl.exp(t[p, f + 2], mask=f < 6), mask=f < 6)
    """
    found = Kernel(body, x=X).run()
    np.testing.assert_allclose(found[:, :6], np.exp(X[:, 2:]), rtol=1e-6)


def test_the_body_of_a_loop_is_read_once() -> None:
    body = """
        step = 0
        for i in nl.affine_range(4):
            step += 1
            nl.store(out[i:i + 1, :], nl.load(x[i:i + 1, :]) * step)
    """
    np.testing.assert_array_equal(Kernel(body, x=X).run(), X)
    nki2 = """
        step = 0
        for i in nl.affine_range(4):
            step += 1
            t = nl.ndarray((1, 8), nl.float32)
            nisa.dma_copy(t, x[i:i + 1, :])
            nisa.tensor_scalar(t, t, nl.multiply, step)
            nisa.dma_copy(out[i:i + 1, :], t)
    """
    found = Kernel(nki2, x=X, language=2).run()
    np.testing.assert_allclose(found, X * np.arange(1, 5)[:, None], rtol=1e-6)


def test_products_accumulate_in_psum_and_plain_assignment_overwrites() -> None:
    template = """
        p = nl.zeros((8, 8), nl.float32, buffer=nl.psum)
        for k in nl.affine_range(4):
            t = nl.load(x[nl.ds(32 * k, 32), 0:8])
            {} nisa.nc_matmul(t, t)
        nl.store(out, p)
    """
    values = numbers(128, 8)
    added = Kernel(template.format("p +="), x=values, out=(8, 8))
    np.testing.assert_allclose(added.run(), values.T @ values, rtol=1e-4, atol=1e-4)
    assert added.opcodes() == ["nc_matmul"] * 4 + ["tensor_copy"]
    last = Kernel(template.format("p[...] ="), x=values, out=(8, 8)).run()
    np.testing.assert_allclose(last, values[96:].T @ values[96:], rtol=1e-5, atol=1e-5)


def test_what_was_never_written_is_not_a_number() -> None:
    body = """
        t = nl.ndarray((4, 8), nl.float32)
        t[:, 0:4] = nl.load(x[:, 0:4])
        nl.store(out, nl.exp(t))
    """
    found = Kernel(body, x=X).run()
    assert np.isnan(found[:, 4:]).all()
    np.testing.assert_allclose(found[:, :4], np.exp(X[:, :4]), rtol=1e-6)


MASKED = """
    p, f = nl.mgrid[0:4, 0:8]
    t = nl.load(x[p, f], mask=p < 3)
    s = nl.exp(t)
    nl.store(out[p, f], s{})
"""


def test_a_mask_travels_with_the_value() -> None:
    found = Kernel(MASKED.format(""), x=X).run()
    assert np.isnan(found[3]).all()
    np.testing.assert_allclose(found[:3], np.exp(X[:3]), rtol=1e-6)
    masked = Kernel(MASKED.format(", mask=p < 3"), x=X)
    assert masked.trace.instructions[0].active == 0.75
    assert np.isnan(masked.run()[3]).all()


def test_what_a_masked_transpose_does_not_load_is_undefined() -> None:
    body = """
        i, j = nl.arange(4)[:, None], nl.arange(8)[None, :]
        nl.store(out, nl.load_transpose2d(x[i, j], mask=i < 2))
    """
    found = Kernel(body, x=X, out=(8, 4)).run()
    np.testing.assert_array_equal(found[:, :2], X[:2].T)
    assert np.isnan(found[:, 2:]).all()


def test_a_masked_assignment_keeps_the_rest() -> None:
    body = """
        p, f = nl.mgrid[0:4, 0:10]
        padded = nl.zeros((4, 10), nl.float32)
        padded[p, f] = nl.load(x[p, f - 1], mask=(f >= 1) & (f < 9))
        nl.store(out, padded)
    """
    found = Kernel(body, x=X, out=(4, 10)).run()
    np.testing.assert_array_equal(found, np.pad(X, ((0, 0), (1, 1))))


def test_a_mask_that_does_not_cover_the_bounds_is_an_error() -> None:
    body = "p, f = nl.mgrid[0:4, 0:10]\nnl.load(x[p, f], mask=f < 9)"
    error = refused(body, "tensor_access_out_of_bound", x=X)
    assert "index 8 of axis 1" in error.message
    assert "where the mask is true" in error.message


def test_a_false_mask_skips_the_instruction() -> None:
    body = """
        t = nl.load(x)
        for i in nl.affine_range(2):
            nl.store(out, t, mask=i + 1 < 2)
    """
    kernel = Kernel(body, x=X)
    assert len(kernel.trace.instructions) == 2
    np.testing.assert_array_equal(kernel.run(), X)


def test_reductions_skip_what_is_masked() -> None:
    body = """
        p, f = nl.mgrid[0:4, 0:8]
        t = nl.load(x)
        nl.store(out, nl.max(t[p, f], axis=1, mask=f < 3))
    """
    found = Kernel(body, x=X, out=(4, 1)).run()
    np.testing.assert_array_equal(found[:, 0], X[:, :3].max(1))


def test_block_axes_are_an_array_of_tiles() -> None:
    body = """
        b = nl.ndarray((2, nl.par_dim(4), 4), nl.float32)
        for i in nl.affine_range(2):
            b[i] = nl.load(x[:, nl.ds(4 * i, 4)])
        for i in nl.affine_range(2):
            nl.store(out[:, nl.ds(4 * i, 4)], b[1 - i])
    """
    kernel = Kernel(body, x=X)
    np.testing.assert_array_equal(kernel.run(), np.hstack([X[:, 4:], X[:, :4]]))
    block = next(t for t in kernel.trace.tensors if t.name == "b")
    assert (block.partitions, block.blocks, block.bytes_per_partition) == (4, 2, 32)


def test_a_fresh_result_lands_in_a_buffer_for_nothing_and_a_named_one_is_copied() -> None:
    body = """
        b = nl.ndarray((4, 8), nl.float32)
        b[...] = nl.exp(nl.load(x))
        t = nl.load(x)
        u = t + 1.0
        b[...] = t
        nl.store(out, u + b)
    """
    kernel = Kernel(body, x=X)
    assert kernel.opcodes() == ["activation", "tensor_scalar", "tensor_copy", "tensor_tensor"]
    np.testing.assert_allclose(kernel.run(), 2 * X + 1, rtol=1e-6)


def test_casts_may_vanish_where_a_value_moves_on_before_it_is_read() -> None:
    body = """
        t = nl.load(x)
        b = nl.ndarray((4, 8), nl.float32)
        b[...] = nisa.tensor_scalar(t, nl.multiply, 3.0, dtype=nl.bfloat16)
        nl.store(out, b)
    """
    kernel = Kernel(body, x=X)
    np.testing.assert_array_equal(kernel.run(elide_casts=True), X * np.float32(3))
    assert (kernel.run() != X * np.float32(3)).any()


def test_a_python_list_holds_tiles_in_nki_2() -> None:
    body = """
        tiles = [nl.ndarray((4, 4), nl.float32) for _ in range(2)]
        for i in range(2):
            nisa.dma_copy(dst=tiles[i], src=x[:, 4 * i:4 * i + 4])
        for i, t in enumerate(tiles):
            nisa.dma_copy(dst=out[:, 4 * i:4 * i + 4], src=t)
    """
    np.testing.assert_array_equal(Kernel(body, x=X, language=2).run(), X)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("t = nl.ndarray((4, 8), nl.float32)\nt[...] = 1.0", "unsupported_assignment"),
        ("t = nl.ndarray((4, 8), nl.float32)\nt += 1.0", "unsupported_assignment"),
        ("nisa.tensor_copy(nl.ndarray((4, 8), nl.float32))", "missing_argument"),
        ("t = nl.ndarray((4, 8), nl.float32)\nnisa.tensor_copy(t, t, mask=True)",
         "unexpected_keyword"),
        ("t = nl.ndarray((4, 8), nl.float32)\nu = nl.ndarray((4, 4), nl.float32)\n"
         "nisa.tensor_copy(u, t)", "shape_mismatch"),
        ("p = nl.ndarray((4, 8), nl.float32, buffer=nl.psum)\nnisa.dma_copy(out, p)",
         "unsupported_memory"),
        ("p = nl.ndarray((4, 8), nl.float32, buffer=nl.psum)\nnisa.dma_copy(p, x)",
         "unsupported_memory"),
        ("t = nl.ndarray((8, 8), nl.float32)\nnisa.nc_matmul(t, t, t)", "unsupported_memory"),
        ("t = nl.ndarray((4, 8), nl.bfloat16)\nnisa.dma_copy(t, x)\n"
         "p = nl.ndarray((8, 4), nl.float32, buffer=nl.psum)\nnisa.nc_transpose(p, t)\n"
         "q = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)\nnisa.nc_matmul(q, p, p)",
         "unsupported_memory"),
        ("t = nl.ndarray((2, nl.par_dim(4), 8), nl.float32)",
         "leading_dimension_of_tensor_must_be_partition"),
        ("t = nl.ndarray((4, 8), nl.int32)\nnisa.memset(t, 0.5)", "unsupported_operand"),
    ],
)  # fmt: skip
def test_nki_2_has_rules_of_its_own(body: str, code: str) -> None:
    refused(body, code, x=X, language=2)


def test_nki_2_products_overwrite_first_and_then_add_address_by_address() -> None:
    values = numbers(32, 8)
    body = """
        t = nl.ndarray((32, 8), nl.float32)
        nisa.dma_copy(t, x)
        p = nl.ndarray((8, 8), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(p[:, 0:4], t, t[:, 0:4])
        nisa.nc_matmul(p, t, t)
        nisa.nc_matmul(p, t, t{})
        r = nl.ndarray((8, 8), nl.float32)
        nisa.tensor_copy(r, p)
        nisa.dma_copy(out, r)
    """
    product = values.T @ values
    found = Kernel(body.format(""), x=values, out=(8, 8), language=2).run()
    np.testing.assert_allclose(found[:, :4], 3 * product[:, :4], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[:, 4:], 2 * product[:, 4:], rtol=1e-5, atol=1e-5)
    forced = Kernel(body.format(", accumulate=False"), x=values, out=(8, 8), language=2).run()
    np.testing.assert_allclose(forced, product, rtol=1e-5, atol=1e-5)


def test_access_patterns_and_the_pattern_operations_of_nki_2() -> None:
    body = """
        t = nl.ndarray((4, 8), nl.float32)
        nisa.dma_copy(t, x.ap(pattern=[[8, 4], [-1, 8]], offset=7))
        s = nl.ndarray((4, 8), nl.float32)
        nisa.affine_select(s, [[-1, 8]], 2, t, -1.0, cmp_op=nl.greater_equal)
        n = nl.ndarray((4, 8), nl.float32)
        nisa.iota(n, [[1, 8]], offset=5, channel_multiplier=100)
        nisa.tensor_tensor(s, s, n, nl.add)
        nisa.dma_copy(out, s)
    """
    p, f = np.arange(4)[:, None], np.arange(8)
    chosen = np.where(2 * p - f >= 0, X[:, ::-1], -1) + 5 + 100 * p + f
    np.testing.assert_allclose(Kernel(body, x=X, language=2).run(), chosen, rtol=1e-6)


def test_the_scalar_engine_of_trn1_has_no_copy_in_nki_2() -> None:
    body = """
        t = nl.ndarray((4, 8), nl.float32)
        nisa.tensor_copy(t, t, engine=nisa.engine.scalar)
    """
    refused(body, "unsupported_engine", x=X, language=2)


def test_the_kernel_returns_what_the_workload_says() -> None:
    refused("out = nl.load(x)\nnl.store(x, out)", "cannot_update_immutable_parameter", x=X)
    refused("out = nl.load(x)", "wrong_outputs", x=X)
    refused("pass", "tensor_output_not_written_to", x=X)
    wrong = "out = nl.ndarray((8, 4), nl.float32, buffer=nl.shared_hbm)\nnl.store(out, nl.load(x))"
    refused(wrong, "store_dst_shape_smaller_than_other_shape", x=numbers(3, 8), out=(4, 8))


def test_loops_stay_known_beside_the_unrolled_instructions() -> None:
    body = """
        for i in nl.affine_range(2):
            for j in nl.sequential_range(3):
                nl.store(out[:, nl.ds(4 * i, 4)], nl.load(x[:, nl.ds(4 * i, 4)]))
    """
    trace = Kernel(body, x=X).trace
    assert [(loop.kind, loop.trips, loop.depth) for loop in trace.loops] == [
        ("affine", 2, 0), ("sequential", 3, 1), ("sequential", 3, 1),
    ]  # fmt: skip
    outer, first, second = trace.loops
    assert [list(r) for r in first.iterations()] == [[0, 1], [2, 3], [4, 5]]
    assert second.parent is outer
    assert [len(r) for r in outer.iterations()] == [6, 6]
    assert trace.instructions[7].loop is second


@pytest.mark.parametrize(
    "made",
    [
        "nl.copy(b)", "nisa.tensor_copy(b)", "nisa.activation(nl.copy, b)",
        "nisa.nc_transpose(nisa.tensor_copy(nisa.nc_transpose(b)))", "nl.exp(nl.log(b))",
        "nl.load(scratch)",
    ],
)  # fmt: skip
def test_what_was_copied_does_not_follow_its_source(made: str) -> None:
    values = np.abs(X) + 1
    body = f"""
        b = nl.ndarray((4, 8), nl.float32)
        scratch = nl.ndarray((4, 8), nl.float32, buffer=nl.hbm)
        b[...] = nl.load(x)
        nl.store(scratch, b)
        c = {made}
        b[...] = 7.0
        nl.store(scratch, b)
        nl.store(out, c)
    """
    np.testing.assert_allclose(Kernel(body, x=values).run(), values, rtol=1e-5)


def test_a_copy_out_of_psum_does_not_follow_the_sum() -> None:
    body = """
        p = nl.zeros((8, 8), nl.float32, buffer=nl.psum)
        t = nl.load(x)
        p += nisa.nc_matmul(t, t)
        s = nisa.nc_matmul(p, p)
        p += nisa.nc_matmul(t, t)
        nl.store(out, s)
    """
    values = numbers(8, 8)
    product = values.T @ values
    found = Kernel(body, x=values, out=(8, 8)).run()
    np.testing.assert_allclose(found, product.T @ product, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "region",
    [
        "kept.ap(pattern=[[1, 4], [4, 4]], offset=0)",
        "kept.ap(pattern=[[0, 4], [1, 4]], offset=0)",
        "kept[0:4, 0:4]",
        "kept[4:8, 0:4]",
    ],
)
def test_a_returned_output_is_a_whole_tensor_in_its_own_order(region: str) -> None:
    arrays = {"x": numbers(8, 4)}
    body = (
        "kept = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.shared_hbm)\n"
        f"nisa.dma_copy(dst=kept, src=x)\nout = {region}"
    )
    refused(body, "wrong_outputs", language=2, out=(4, 4), **arrays)
    whole = body.replace(region, "kept.reshape((2, 4, 4))")
    assert (
        Kernel(whole, language=2, out=(2, 4, 4), **arrays).run().ravel() == arrays["x"].ravel()
    ).all()


@pytest.mark.parametrize("operand", ["stationary", "moving"])
def test_a_promise_of_ones_and_zeros_is_checked_on_the_values(operand: str) -> None:
    body = (
        "a = nl.load(x)\nb = nl.load(y)\n"
        f"nl.store(out, nl.copy(nisa.nc_matmul(a, b, is_{operand}_onezero=True)))"
    )
    whole, ones = numbers(4, 8), np.ones((4, 8), np.float32)
    arrays = {"x": ones, "y": whole} if operand == "stationary" else {"x": whole, "y": ones}
    Kernel(body, out=(8, 8), **arrays).run()
    assert f"omit is_{operand}_onezero" in str(
        refused(body, "unsupported_operand", out=(8, 8), x=arrays["y"], y=arrays["x"])
    )


def test_a_transfer_starts_at_any_partition() -> None:
    body = """
        t = nl.ndarray((48, 8), nl.float32)
        u = nl.ndarray((48, 8), nl.float32)
        for i in range(3):
            nisa.dma_copy(t[16 * i:16 * i + 16, :], x[16 * i:16 * i + 16, :])
        nisa.activation(u, nl.copy, t)
        nisa.dma_copy(out[0:8, :], u[40:48, :])
        nisa.dma_copy(out[8:48, :], u[0:40, :])
    """
    found = Kernel(body, x=ROWS[:48], out=(48, 8), language=2).run()
    np.testing.assert_array_equal(found, np.roll(ROWS[:48], 8, axis=0))


def test_a_loaded_tile_may_be_assigned_from_any_partition() -> None:
    body = """
        t = nl.ndarray((48, 8), nl.float32)
        for i in range(3):
            t[16 * i:16 * i + 16, :] = nl.load(x[16 * i:16 * i + 16, :])
        nl.store(out[0:40, :], t[8:48, :])
        nl.store(out[40:48, :], t[0:8, :])
    """
    found = Kernel(body, x=ROWS[:48], out=(48, 8)).run()
    np.testing.assert_array_equal(found, np.roll(ROWS[:48], -8, axis=0))


@pytest.mark.parametrize(
    "body",
    [
        "t = nl.ndarray((48, 8), nl.float32)\nt[16:32, :] = nl.exp(nl.load(x[0:16]))",
        "t = nl.load(x[0:16])\nt2 = nl.exp(t)\nu = nl.ndarray((48, 8), nl.float32)\n"
        "u[16:32, :] = t",
        "p = nl.ndarray((48, 8), nl.float32, buffer=nl.psum)\np[...] = nl.exp(nl.load(x[0:48]))\n"
        "nl.store(out[0:16], p[16:32, :])",
        "t = nl.ndarray((48, 8), nl.float32)\nt[...] = nl.load(x[0:48])\n"
        "nl.load(x[0:16], dtype=nl.bfloat16)\nnl.copy(t[16:32, :])",
    ],
)  # fmt: skip
def test_an_engine_starts_at_few_partitions(body: str) -> None:
    refused(body, "unsupported_partition_start", x=ROWS)


@pytest.mark.parametrize(("rows", "carried"), [("0:16", False), ("16:32", True)])
def test_iterations_that_load_neighbouring_partitions_do_not_depend(
    rows: str, carried: bool
) -> None:
    body = f"""
        t = nl.ndarray((64, 8), nl.float32)
        t[0:32, :] = nl.load(x[0:32, :])
        for i in nl.affine_range(2):
            t[16 + 16 * i:32 + 16 * i, :] = nl.load(x[16 + 16 * i:32 + 16 * i, :])
            u = nl.ndarray((16, 8), nl.float32)
            nisa.dma_copy(dst=u, src=t[{rows}, :])
            nl.store(out[16 * i:16 * i + 16, :], u)
    """
    if carried:
        refused(body, "unexpected_output_dependencies", x=ROWS[:64], out=(32, 8))
    else:
        found = Kernel(body, x=ROWS[:64], out=(32, 8)).run()
        np.testing.assert_array_equal(found, np.tile(ROWS[:16], (2, 1)))
