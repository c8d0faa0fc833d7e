"""Kernels for operations of no registered workload, as others write and publish them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from nki_world import BF16, TRN1, numbers

from tilewright.core.records import Argument
from tilewright.targets.trainium.latency.model import estimate
from tilewright.targets.trainium.program import Call, parse, run_program, trace_program

SOFTMAX = '''
"""Copyright (C) 2024, Some Company. NKI softmax over rows, SPMD over row tiles."""
import math
import os
import numpy as np
import torch
from torch_xla.core import xla_model as xm

from neuronxcc import nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa
from neuronxcc.nki.language import par_dim


@nki.jit
def _softmax_kernel(x):
  """One program handles one tile of 128 rows."""
  n_rows, n_cols = x.shape
  out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
  pid = nl.program_id(axis=0)

  ix = pid * nl.tile_size.pmax + nl.arange(nl.tile_size.pmax)[:, None]
  iy = nl.arange(n_cols)[None, :]
  a = nl.load(x[ix, iy], mask=(ix < n_rows))

  row_max = nl.max(a, axis=[1], keepdims=True)
  num = nl.exp(nl.subtract(a, row_max))
  den = nl.sum(num, axis=[1], keepdims=True)
  res = num / den
  nl.store(out[ix, iy], value=res, mask=(ix < n_rows))
  return out


def nki_softmax(x):
  grid_x = math.ceil(x.shape[0] / 128)
  return _softmax_kernel[grid_x](x)


if __name__ == "__main__":
  device = xm.xla_device()
  t = torch.rand((300, 700), dtype=torch.float32).to(device=device)
  print(f"max diff: {(nki_softmax(t) - torch.softmax(t, 1)).abs().max()}")
'''

AVERAGE_POOL = '''
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
from neuronxcc.nki.typing import tensor


@nki.jit
def tensor_avgpool_kernel(in_tensor, pool_size):
  """NKI kernel to compute a 2D avg-pool operation.

  Args:
      in_tensor: an input tensor, of shape C x H x W
      pool_size: an integer representing a (square) pool-window size
  """
  # Get input/output dimensions
  sz_cin, sz_hin, sz_win = in_tensor.shape
  sz_hout = sz_hin // pool_size
  sz_wout = sz_win // pool_size
  # Create output tensor shared between all SPMD instances as result tensor
  out_tensor = nl.ndarray((sz_cin, sz_hout, sz_wout), dtype=in_tensor.dtype,
                          buffer=nl.shared_hbm)

  # Set relevant sizes
  sz_p = sz_cin
  sz_pool = pool_size

  # Generate pool index patterns (requires two extra dimensions, for the pool window)
  i0, i1, i2, i3, i4 = nl.mgrid[0:sz_p, 0:sz_hin//sz_pool, 0:sz_win//sz_pool, 0:sz_pool, 0:sz_pool]

  # Load input data from external memory to on-chip memory
  in_tile: tensor[sz_p, sz_hin, sz_win] = nl.load(in_tensor)

  # Perform the pooling operation:
  out_tile = nl.sum(in_tile[i0, sz_pool*i1+i3, sz_pool*i2+i4], axis=[3,4]) / (pool_size*pool_size)

  # Store the results back to hbm
  nl.store(out_tensor, value=out_tile)

  # Transfer the ownership of `out_tensor` to the caller
  return out_tensor
'''

SWIGLU = '''
from dataclasses import dataclass
from typing import Optional, Tuple
import logging
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
from neuronxcc.nki.language import par_dim

logger = logging.getLogger(__name__)
B_P_SIZE = 128
B_F_SIZE = 512


@dataclass(frozen=True)
class FfnConfig:
  rows_per_tile: int = 128
  cols_per_tile: int = 512
  acc_type: type = np.float32

  def __post_init__(self):
    assert self.rows_per_tile <= 128, f"rows {self.rows_per_tile} exceed pmax"


def ceil_div(a: int, b: int) -> int:
  return (a + b - 1) // b


def transpose_to_sbuf(dst, src_tile, n_k):
  """dst: [par_dim(128), n_k, 128] gets the transposed blocks of src_tile [128, n_k * 128]"""
  for k in nl.affine_range(n_k):
    psum = nl.ndarray((par_dim(B_P_SIZE), B_P_SIZE), dtype=np.float32, buffer=nl.psum)
    psum[...] = nisa.nc_transpose(src_tile[:, nl.ds(k * B_P_SIZE, B_P_SIZE)])
    dst[:, k, :] = nl.copy(psum[...], dtype=dst.dtype)


@nki.jit(mode="auto")
def swiglu_fwd(hidden: nt.tensor, w_gate: nt.tensor, w_up: nt.tensor,
               config: Optional[FfnConfig] = None):
  config = config or FfnConfig()
  T, H = hidden.shape
  H_, I = w_gate.shape
  assert H == H_ and tuple(w_up.shape) == (H, I), \\
      f"weights of {w_up.shape} do not fit {hidden.shape}"
  assert T % config.rows_per_tile == 0
  n_k = ceil_div(H, B_P_SIZE)
  out = nl.ndarray((T, I), dtype=hidden.dtype, buffer=nl.shared_hbm)

  i_p = nl.arange(B_P_SIZE)[:, None]
  i_f = nl.arange(B_F_SIZE)[None, :]

  weights = {}
  for name, w in (("gate", w_gate), ("up", w_up)):
    buf = nl.ndarray((n_k, par_dim(B_P_SIZE), I), dtype=w.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(n_k):
      buf[k, :, :] = nl.load(w[k * B_P_SIZE:(k + 1) * B_P_SIZE, :])
    weights[name] = buf

  for t in nl.affine_range(T // config.rows_per_tile):
    rows = nl.load(hidden[t * 128 + i_p, nl.arange(H)[None, :]])
    lhsT = nl.ndarray((par_dim(B_P_SIZE), n_k, config.rows_per_tile), dtype=hidden.dtype)
    transpose_to_sbuf(lhsT, rows, n_k)
    for n in nl.affine_range(I // config.cols_per_tile):
      acc = {key: nl.zeros((par_dim(B_P_SIZE), B_F_SIZE), dtype=config.acc_type, buffer=nl.psum,
                           lazy_initialization=True)
             for key in weights}
      for key, buf in weights.items():
        for k in nl.affine_range(n_k):
          acc[key] += nisa.nc_matmul(lhsT[:, k, :], buf[k, i_p, n * B_F_SIZE + i_f])
      gate = nl.multiply(acc["gate"], nl.sigmoid(acc["gate"]))
      prod = nl.ndarray((par_dim(B_P_SIZE), B_F_SIZE), dtype=out.dtype, buffer=nl.sbuf)
      prod[i_p, i_f] = nisa.tensor_tensor(gate, acc["up"], op=np.multiply)
      nl.store(out[t * 128 + i_p, n * B_F_SIZE + i_f], value=prod[i_p, i_f])
  return out
'''

GROUP_NORM = '''
# SPDX-License-Identifier: Apache-2.0
"""Group normalisation for channel-first activations; statistics across partitions by a matmul."""
from functools import reduce
from operator import mul
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl

P_MAX = 128


def prod(items):
    return reduce(mul, items, 1)


def kernel_assert(condition: bool, message: str = "") -> None:
    assert condition, f"[group_norm] {message}"


class TileInfo(nl.NKIObject):
    def __init__(self, total: int, tile: int):
        self.total = total
        self.tile = tile
        self.count = (total + tile - 1) // tile

    def bounds(self, i: int):
        start = i * self.tile
        return start, min(start + self.tile, self.total)


def build_group_mask(per_group: int, dtype: Any = nl.float32):
    """[128, 128] block-diagonal ones / (elements of a group)"""
    mask = nl.ndarray((P_MAX, P_MAX), dtype=dtype, buffer=nl.sbuf)
    nisa.memset(mask, value=1.0)
    n_blocks = P_MAX // per_group
    view = mask.reshape((P_MAX, n_blocks, per_group))
    # keep where p - g*per_group >= 0
    nisa.affine_select(dst=view, pattern=[[-per_group, n_blocks], [0, per_group]], offset=0,
                       channel_multiplier=1, on_true_tile=view, on_false_value=0.0,
                       cmp_op=nl.greater_equal)
    # keep where (per_group - 1) - p + g*per_group >= 0
    nisa.affine_select(dst=view, pattern=[[per_group, n_blocks], [0, per_group]],
                       offset=per_group - 1,
                       channel_multiplier=-1, on_true_tile=view, on_false_value=0.0,
                       cmp_op=nl.greater_equal)
    return mask


def row_statistics(data, columns):
    """mean and mean of squares of each partition, [P, 2]"""
    n_chunks = (columns + nl.tile_size.bn_stats_fmax - 1) // nl.tile_size.bn_stats_fmax
    stats = nl.ndarray((P_MAX, n_chunks * 6), dtype=nl.float32, buffer=nl.sbuf)
    for c in range(n_chunks):
        lo = c * nl.tile_size.bn_stats_fmax
        hi = min(lo + nl.tile_size.bn_stats_fmax, columns)
        nisa.bn_stats(dst=stats[:, nl.ds(c * 6, 6)], data=data[:, lo:hi])
    aggr = nl.ndarray((P_MAX, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_aggr(dst=aggr, data=stats)
    # E[x^2] = var + mean^2
    nisa.scalar_tensor_tensor(dst=aggr[:, 1:2], data=aggr[:, 0:1], op0=nl.multiply,
                              operand0=aggr[:, 0:1], op1=nl.add, operand1=aggr[:, 1:2])
    return aggr


@nki.jit
def group_norm_kernel(x: nl.ndarray, gamma: nl.ndarray, beta: nl.ndarray,
                      eps: float = 1e-5, groups: int = 64):
    N, C, S = x.shape
    kernel_assert(C % P_MAX == 0, f"C ({C}) must be a multiple of {P_MAX}")
    per_group = C // groups
    kernel_assert(P_MAX % per_group == 0 and per_group >= 1, f"{per_group=} channels in a group")
    y = nl.ndarray((N, C, S), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = TileInfo(C, P_MAX)
    mask = build_group_mask(per_group)
    for n in nl.affine_range(N):
        for ct in nl.affine_range(tiles.count):
            c0, c1 = tiles.bounds(ct)
            data = nl.ndarray((P_MAX, S), dtype=nl.float32, buffer=nl.sbuf, name=f"data_{n}_{ct}")
            nisa.dma_copy(dst=data[...], src=x[n, c0:c1, :])
            g = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)
            b = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=g, src=gamma[c0:c1, 0:1])
            nisa.dma_copy(dst=b, src=beta[c0:c1, 0:1])
            stats = row_statistics(data, S)
            total = nl.ndarray((P_MAX, 2), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=total, stationary=mask, moving=stats)
            mean = nl.ndarray((P_MAX, 2), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=mean, data=total, op0=nl.multiply, operand0=1.0 / per_group)
            var = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=var, data1=mean[:, 0:1], data2=mean[:, 0:1], op=nl.multiply)
            nisa.tensor_tensor(dst=var, data1=mean[:, 1:2], data2=var, op=nl.subtract)
            rstd = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=rstd, data=var, op0=nl.add, operand0=eps)
            nisa.activation(dst=rstd, op=nl.rsqrt, data=rstd)
            scale = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(scale, rstd, g, nl.multiply)
            shift = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.scalar_tensor_tensor(dst=shift, data=mean[:, 0:1], op0=nl.multiply, operand0=scale,
                                      op1=nl.subtract, operand1=b, reverse1=True)
            res = nl.ndarray((P_MAX, S), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=res, data=data, op0=nl.multiply, operand0=scale,
                               op1=nl.add, operand1=shift)
            nisa.dma_copy(dst=y[n, c0:c1, :], src=res)
    return y
'''

CROSS_ENTROPY = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa
import numpy as np
from neuronxcc.nki.language import par_dim
from neuronxcc.nki.isa.constants import oob_mode


def _cdiv(a, b):
    return -(-a // b)


@nki.jit
def cross_entropy_forward(logits, labels, chunk_size=2048, dtype=nl.float32):
    num_positions, vocab_size = logits.shape
    num_chunks = _cdiv(vocab_size, chunk_size)
    P = nl.tile_size.pmax
    loss = nl.ndarray((num_positions, 1), dtype=dtype, buffer=nl.shared_hbm)

    for b in nl.affine_range(_cdiv(num_positions, P)):
        ip = nl.arange(P)[:, None]
        i1 = nl.arange(1)[None, :]
        row_ok = b * P + ip < num_positions
        label = nl.load(labels[b * P + ip, i1], mask=row_ok)
        label_f = nl.copy(label, dtype=np.float32)

        run_max = nl.full((par_dim(P), 1), fill_value=-3e38, dtype=np.float32, buffer=nl.sbuf)
        run_sum = nl.zeros((par_dim(P), 1), dtype=np.float32, buffer=nl.sbuf)
        picked = nl.zeros((par_dim(P), 1), dtype=np.float32, buffer=nl.sbuf)

        for c in nl.sequential_range(num_chunks):
            ic = nl.arange(chunk_size)[None, :]
            ok = (b * P + ip < num_positions) & (c * chunk_size + ic < vocab_size)
            tile = nl.ndarray((par_dim(P), chunk_size), dtype=np.float32, buffer=nl.sbuf)
            tile[...] = nisa.memset((P, chunk_size), value=-3e38, dtype=np.float32)
            tile[ip, ic] = nl.load(logits[b * P + ip, c * chunk_size + ic], mask=ok)

            new_max = nl.maximum(run_max, nisa.tensor_reduce(np.max, tile[ip, ic], axis=(1,)))
            neg_max = nl.negative(new_max)
            rescale = nisa.activation(op=nl.exp, data=run_max, bias=neg_max, scale=1.0)
            chunk_sum = nl.ndarray((par_dim(P), 1), dtype=np.float32)
            exps = nisa.activation_reduce(op=np.exp, data=tile, reduce_op=np.add,
                                          reduce_res=chunk_sum[:, 0], bias=neg_max)
            run_sum[...] = nisa.scalar_tensor_tensor(data=run_sum, op0=np.multiply,
                                                     operand0=rescale,
                                                     op1=np.add, operand1=chunk_sum)
            run_max[...] = nl.copy(new_max)

            ids = nisa.iota(c * chunk_size + ic + 0 * ip, dtype=nl.int32)
            hit = nisa.tensor_scalar(ids, op0=nl.equal, operand0=label_f, dtype=np.float32)
            kept = nl.where(hit, tile, 0.0)
            picked[...] = nl.add(picked, nl.sum(kept, axis=1, keepdims=True))

        lse = nl.log(run_sum) + run_max
        result = nl.subtract(lse, picked, dtype=dtype)
        nl.store(loss[b * P + ip, i1], result, mask=row_ok)
    return loss
"""


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _average_pool(in_tensor: Any, pool_size: int) -> Any:
    c, h, w = in_tensor.shape
    windows = in_tensor.reshape(c, h // pool_size, pool_size, w // pool_size, pool_size)
    return windows.mean(axis=(2, 4))


def _swiglu(hidden: Any, w_gate: Any, w_up: Any) -> Any:
    gate = hidden @ w_gate
    return gate / (1 + np.exp(-gate)) * (hidden @ w_up)


def _group_norm(x: Any, gamma: Any, beta: Any, eps: float, groups: int) -> Any:
    v = x.reshape(x.shape[0], groups, -1)
    v = (v - v.mean(2, keepdims=True)) / np.sqrt(v.var(2, keepdims=True) + eps)
    return v.reshape(x.shape) * gamma + beta


def _cross_entropy(logits: Any, labels: Any) -> Any:
    most = logits.max(1, keepdims=True)
    total = np.log(np.exp(logits - most).sum(1, keepdims=True)) + most
    return total - np.take_along_axis(logits, labels.astype(np.int64), 1)


@pytest.mark.parametrize(
    ("source", "reference", "inputs", "constants", "dtype"),
    [
        (SOFTMAX, _softmax, {"x": numbers(300, 90)}, {}, "float32"),
        (AVERAGE_POOL, _average_pool, {"in_tensor": numbers(64, 24, 24)}, {"pool_size": 4},
         "float32"),
        (SWIGLU, _swiglu,
         {"hidden": numbers(256, 256).astype(BF16),
          "w_gate": (0.05 * numbers(256, 512, seed=1)).astype(BF16),
          "w_up": (0.05 * numbers(256, 512, seed=2)).astype(BF16)}, {}, "bfloat16"),
        (GROUP_NORM, _group_norm,
         {"x": numbers(2, 256, 700), "gamma": numbers(256, 1, seed=1),
          "beta": numbers(256, 1, seed=2)}, {"eps": 1e-5, "groups": 64}, "float32"),
        (CROSS_ENTROPY, _cross_entropy,
         {"logits": numbers(200, 5000),
          "labels": np.random.default_rng(0).integers(0, 5000, (200, 1)).astype(np.int32)},
         {}, "float32"),
    ],
    ids=["softmax", "average_pool", "swiglu", "group_norm", "cross_entropy"],
)  # fmt: skip
@pytest.mark.parametrize("shuffle", [None, 3])
def test_a_foreign_kernel_runs_unchanged(
    source: str, reference: Callable[..., Any], inputs: dict[str, np.ndarray],
    constants: dict[str, Any], dtype: str, shuffle: int | None,
) -> None:  # fmt: skip
    exact = {n: a.astype(np.float64) for n, a in inputs.items()}
    wanted = reference(**exact, **constants)
    call = Call(
        tuple(Argument(n, a.shape, a.dtype.name, "input") for n, a in inputs.items()),
        (Argument("out", wanted.shape, dtype, "output"),),
        constants,
    )
    program = parse(source)
    assert estimate(trace_program(program, call, TRN1), TRN1).latency_ns > TRN1.launch
    (found,) = run_program(program, call, TRN1, inputs, shuffle=shuffle)
    near = 0.02 if dtype == "bfloat16" else 1e-4
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=near, atol=near)
