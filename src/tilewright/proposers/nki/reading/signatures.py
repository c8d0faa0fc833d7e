"""The parameters of NKI 2's instructions in order, because kernels may omit the names."""

from __future__ import annotations

from collections.abc import Mapping

_SIGNATURES = """
dma_copy dst src
dma_transpose dst src axes
dma_compute dst srcs reduce_op scales
tensor_copy dst src engine
memset dst value engine
iota dst pattern offset channel_multiplier
nc_matmul dst stationary moving is_stationary_onezero is_moving_onezero is_transpose accumulate
nc_transpose dst data engine
tensor_tensor dst data1 data2 op engine
tensor_scalar dst data op0 operand0 reverse0 op1 operand1 reverse1 engine
scalar_tensor_tensor dst data op0 operand0 op1 operand1 reverse0 reverse1
tensor_reduce dst op data axis negate keepdims
tensor_partition_reduce dst op data
tensor_scalar_reduce dst data op0 operand0 reduce_op reduce_res reverse0
activation dst op data bias scale reduce_op reduce_res reduce_cmd
activation_reduce dst op data reduce_op reduce_res bias scale
reciprocal dst data
tensor_tensor_scan dst data0 data1 initial op0 op1 reverse0 reverse1
affine_select dst pattern channel_multiplier on_true_tile on_false_value cmp_op offset
bn_stats dst data
bn_aggr dst data
max8 dst src
nc_find_index8 dst data vals
nc_match_replace8 dst data vals imm
local_gather dst src_buffer index num_elem_per_idx num_valid_indices
nc_n_gather dst data indices
tensor_copy_predicated dst src predicate reverse_pred
dropout dst data prob
select_reduce dst predicate on_true on_false reduce_res reduce_cmd reduce_op reverse_pred
topk val_dst idx_dst src n
nc_stream_shuffle dst src shuffle_mask
"""
SIGNATURES: Mapping[str, tuple[str, ...]] = {
    line.split()[0]: tuple(line.split()[1:]) for line in _SIGNATURES.strip().splitlines()
} | {
    "range_select": (
        "dst", "on_true_tile", "comp_op0", "comp_op1", "bound0", "bound1", "reduce_cmd",
        "reduce_res", "reduce_op", "range_start", "on_false_value",
    ),
}  # fmt: skip
DEFAULTS: Mapping[str, object] = {
    "scale": 1.0, "reverse0": False, "reverse1": False, "negate": False, "is_transpose": False,
    "is_stationary_onezero": False, "is_moving_onezero": False, "reverse_pred": False,
}  # fmt: skip
"""Values that have the same effect as omitting the argument."""
