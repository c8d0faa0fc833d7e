"""Whole files as they are published, with all that stands around a kernel, run unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nki_world import TRN1, numbers

from tilewright.core.records import Argument
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.program import Call, parse, run_program, trace_program

A, B = numbers(256, 256), numbers(256, 512, seed=1)


def ran(
    source: str, outputs: dict[str, tuple[int, ...]], constants: dict[str, Any] | None = None,
    **arrays: np.ndarray,
) -> list[np.ndarray]:  # fmt: skip
    """The outputs (float32) of a file's kernel, traced first."""
    call = Call(
        tuple(Argument(n, a.shape, a.dtype.name, "input") for n, a in arrays.items()),
        tuple(Argument(n, shape, "float32", "output") for n, shape in outputs.items()),
        constants or {},
    )
    program = parse(source)
    trace_program(program, call, TRN1)
    return run_program(program, call, TRN1, arrays)


TILED_PRODUCT = '''
"""
Copyright (c) 2024

NKI tutorial style: several versions of one kernel, a reference and a command line.
"""
import os
import argparse
import logging

import numpy as np
import torch
from torch_xla.core import xla_model as xm
from neuronxcc import nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa
from neuronxcc.nki import benchmark, baremetal

os.environ["NEURON_CC_FLAGS"] = "-O1"
logger = logging.getLogger(__name__)


@nki.jit
def matmul_basic_(lhsT, rhs):
  """Only 128x128 times 128x512."""
  result = nl.ndarray((128, 512), dtype=lhsT.dtype, buffer=nl.shared_hbm)
  i_lhsT_p, i_lhsT_f = nl.mgrid[0:128, 0:64]
  lhs_tile = nl.load(lhsT[i_lhsT_p, i_lhsT_f])
  with torch.no_grad():
    pass
  return result


@nki.jit
def matmul_tiled_(lhsT, rhs):
  """Matrix product.

  Args:
      lhsT: an input tensor of shape [K,M]
  """
  K, M = lhsT.shape
  K_, N = rhs.shape
  assert K == K_, f"lhsT and rhs must have the same contraction dimension {K=} {K_!r}"
  result = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)

  TILE_M = nl.tile_size.gemm_stationary_fmax  # 128
  TILE_K = nl.tile_size.pmax  # 128
  TILE_N = nl.tile_size.gemm_moving_fmax  # 512

  for m in nl.affine_range(M // TILE_M):
    for n in nl.affine_range(N // TILE_N):
      # Allocate a tensor in PSUM
      res_psum = nl.zeros((TILE_M, TILE_N), nl.float32, buffer=nl.psum)

      for k in nl.affine_range(K // TILE_K):
        lhsT_tile = nl.ndarray((TILE_K, TILE_M), dtype=lhsT.dtype, buffer=nl.sbuf)
        rhs_tile = nl.ndarray((TILE_K, TILE_N), dtype=rhs.dtype, buffer=nl.sbuf)
        lhsT_tile[...] = nl.load(lhsT[k * TILE_K:(k + 1) * TILE_K, m * TILE_M:(m + 1) * TILE_M])
        rhs_tile[...] = nl.load(rhs[k * TILE_K:(k + 1) * TILE_K, n * TILE_N:(n + 1) * TILE_N])
        res_psum += nl.matmul(lhsT_tile[...], rhs_tile[...], transpose_x=True)

      res_sb = nl.copy(res_psum, dtype=result.dtype)
      nl.store(result[m * TILE_M:(m + 1) * TILE_M, n * TILE_N:(n + 1) * TILE_N], value=res_sb)
  return result


def reference(lhsT, rhs):
  return torch.matmul(lhsT.T, rhs)


class Harness(torch.nn.Module):
  def forward(self, x):
    return super().forward(x)


def check_correct():
  try:
    lhs = torch.rand((128, 64), dtype=torch.bfloat16, device=xm.xla_device())
    print(f"ok {lhs.shape}")
  except Exception as e:
    raise e
  finally:
    del lhs


if __name__ == "__main__":
  parser = argparse.ArgumentParser()
  with open("log.txt", "w") as f:
    f.write("x")
  bench = nki.benchmark(warmup=5, iters=20)(matmul_tiled_)
  bench(np.random.rand(128, 128), *[])
  sys.exit(0)
'''


def test_a_tutorial_with_its_reference_and_its_command_line() -> None:
    (found,) = ran(TILED_PRODUCT, {"c": (256, 512)}, lhsT=A, rhs=B)
    np.testing.assert_allclose(found, A.T @ B, rtol=1e-4, atol=1e-3)


BLOCKED_PRODUCT = '''
from dataclasses import dataclass, field
from enum import Enum
from functools import partial, reduce
from typing import List, NamedTuple, Optional, Tuple
import functools
import math
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt

Shape = Tuple[int, ...]
ceil_div = lambda a, b: (a + b - 1) // b


class Engine(Enum):
    VECTOR = 1
    SCALAR = "act"


class Size(NamedTuple):
    rows: int
    cols: int = 512


@dataclass(frozen=True)
class Config:
    """Sizes of blocks."""
    tile: Size = field(default_factory=lambda: Size(128))
    blocks_k: int = 2
    engine: Engine = Engine.VECTOR
    names: Optional[List[str]] = None

    def __post_init__(self):
        assert self.blocks_k > 0

    @property
    def area(self) -> int:
        return self.tile.rows * self.tile.cols

    @staticmethod
    def of(k: int) -> "Config":
        return Config(blocks_k=k)

    def split(self, n, *, by=1):
        return [(i, i + by) for i in range(0, n, by)]


def _load(src: nt.tensor, rows: slice, cols, dtype=None):
    return nl.load(src[rows, cols], dtype=dtype or src.dtype)


@nki.jit(mode="baremetal", experimental_flags="x")
def product(lhsT: nt.tensor, rhs: nt.tensor, cfg: Optional[Config] = None):
    cfg = cfg or Config.of(2)
    (K, M), (*_, N) = lhsT.shape, rhs.shape
    first, *rest = cfg.split(K, by=128)
    assert len({K, rhs.shape[0]}) == 1 and cfg.area == 128 * 512, "sizes"
    assert isinstance(cfg, Config) and cfg.engine is Engine.VECTOR
    out: nt.tensor = nl.ndarray((M, N), lhsT.dtype, nl.shared_hbm)
    load = partial(_load, dtype=nl.float32)
    total = reduce(lambda a, b: a * b, (K, M), 1)
    assert total == K * M == math.prod([K, M])
    for m in nl.affine_range(ceil_div(M, 128)):
        partials = []
        for (a, b) in [first, *rest]:
            ps = nl.zeros((128, N), dtype=nl.float32, buffer=nl.psum)
            ps += nisa.nc_matmul(load(lhsT, slice(a, b), nl.ds(m * 128, 128)),
                                 load(rhs, slice(a, b), slice(0, N)))
            partials.append(nl.copy(ps))
        if (n := len(partials)) > 1:
            acc = sum(partials[1:], partials[0])
        else:
            acc = partials[0]
        nl.store(out[nl.ds(m * 128, 128), 0:N], acc)
    return out
'''


def test_classes_partials_and_helpers_as_configuration() -> None:
    (found,) = ran(BLOCKED_PRODUCT, {"c": (256, 512)}, lhsT=A, rhs=B)
    np.testing.assert_allclose(found, A.T @ B, rtol=1e-4, atol=1e-3)


ROWS = """
try:
    import neuronxcc.nki as nki
    import neuronxcc.nki.language as nl
    import neuronxcc.nki.isa as nisa
except ImportError:
    import nki
    import nki.language as nl
    import nki.isa as nisa
import numpy as np

def nki_softmax_kernel_(a_tensor, out_tensor):
    sz_p, sz_n = a_tensor.shape
    ix = nl.arange(128)[:, None]
    iy = nl.arange(sz_n)[np.newaxis, :]
    trip = int(np.ceil(sz_p / 128))
    for i in nl.affine_range(trip):
        a = nl.load(a_tensor[i * 128 + ix, iy], mask=(i * 128 + ix < sz_p))
        top = nl.max(a, axis=[1], keepdims=True)
        e = nl.exp(a - top)
        s = nl.sum(e, axis=[1], keepdims=True)
        nl.store(out_tensor[i * 128 + ix, iy], value=e / s, mask=(i * 128 + ix < sz_p))

def check(device):
    import torch
    x = torch.rand((200, 96), device=device)
    nki_softmax_kernel_[1](x, torch.empty_like(x))
"""


def test_an_older_kernel_is_given_its_outputs() -> None:
    x = numbers(200, 96)
    (found,) = ran(ROWS, {"y": (200, 96)}, a_tensor=x)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)


IMPORTS = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

try:
    HAS_XLA = True
    import torch_xla
    from torch_xla import core
except (KeyError, ModuleNotFoundError) as error:
    HAS_XLA = False
    text = str(error)

def factor():
    try:
        from scipy import special
        return special.gamma(3)
    except ImportError:
        return 2.0

try:
    from neuronxcc.nki.somewhere import div_ceil
    from somewhere import *
except ImportError:
    div_ceil = None

def nested():
    try:
        import torch
    except ImportError:
        pass
    found = 1.0
    try:
        if found:
            for n in range(1):
                import torch
            found = 4.0
    except ImportError:
        found += 2.0
        import torch
    return found

def fast():
    import torch
    return 9.0

def in_function():
    try:
        return fast()
    except ImportError:
        return 3.0

def root():
    try:
        import math
        return math.sqrt(4.0)
    except ImportError:
        return 0.0
    finally:
        seen.append(1)

seen = []

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    assert not HAS_XLA and "torch_xla" in text and div_ceil(3, 2) == 2
    nl.store(out, nl.multiply(nl.load(x), factor() * root() + len(seen)))
    assert nested() == 3.0 and in_function() == 3.0
    return out
"""


def test_an_import_that_kernels_cannot_use_is_caught_as_in_python() -> None:
    x = numbers(128, 8)
    (found,) = ran(IMPORTS, {"y": (128, 8)}, x=x)
    np.testing.assert_allclose(found, 5 * x, rtol=1e-6)


CORES = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.ds(nl.program_id(0) * 32 + nl.program_id(1) * 16, 16)
    nl.store(out[rows], nl.add(nl.load(x[rows]), 1.0))
    return out

def launch(x):
    return kernel[nl.spmd_dim(nl.nc(2), 2), nl.nc(2)](x)
"""


def test_a_grid_may_name_cores() -> None:
    x = numbers(128, 8)
    (found,) = ran(CORES, {"y": (128, 8)}, x=x)
    np.testing.assert_allclose(found, x + 1, rtol=1e-6)


PLACED = '''
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.compiler as ncc
from neuronxcc.nki.language import par_dim
import numpy as np

@nki.compiler.skip_middle_end_transformations
@nki.compiler.enable_stack_allocator(log_level=20)
@nki.jit
def scaled(x, *, scale=1.0 / np.sqrt(64)):
    """Tiles placed by hand."""
    P, F = x.shape
    n_tiles = P // nl.tile_size.pmax
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    buf = nl.ndarray((n_tiles, par_dim(128), F), dtype=x.dtype,
                     buffer=ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(2, )))
    def body(i, *args, **kwargs):
        buf[i] = nl.load(x[i * 128:(i + 1) * 128], **kwargs)
        ps = nl.ndarray((128, 128), np.float32, buffer=ncc.psum.alloc(lambda idx, pdim, fdim: 0))
        for j in nl.static_range(F // 128):
            ps[...] = nisa.nc_transpose(buf[i, :, j * 128:j * 128 + 128])
            back = nisa.nc_transpose(nisa.tensor_copy(ps))
            buf[i, :, nl.ds(j * 128, 128)] = nisa.tensor_scalar(
                back, op0=np.multiply, operand0=scale, op1=np.add, operand1=0.0)
        nl.store(y[i * 128:(i + 1) * 128, :], buf[i])
    for i in nl.affine_range(n_tiles):
        body(i, "unused", dtype=nl.float32)
    return y
'''


def test_tiles_placed_by_hand_and_nested_functions() -> None:
    (found,) = ran(PLACED, {"y": (256, 256)}, x=A)
    np.testing.assert_allclose(found, A / 8, rtol=1e-6)


NKI2 = '''
"""Root mean square, NKI 2."""
from __future__ import annotations
from dataclasses import dataclass
from typing import Final
import nki
import nki.isa as nisa
import nki.language as nl

P_MAX: Final = 128
_EPS = 1e-6


@dataclass
class Tiling(nl.NKIObject):
    rows: int = 128
    cols: int = 0
    count: int = 0

    def __init__(self, rows, cols):
        self.rows, self.cols = rows, cols
        self._private = rows
        self.count = 0

    def next(self):
        self.count += 1
        return self.count - 1


def div_up(a, b=P_MAX): return -(-a // b)


def load_tile(src, p0, p1, dtype=None):
    tile = nl.ndarray((p1 - p0, src.shape[-1]), dtype=dtype if dtype is not None else src.dtype,
                      buffer=nl.sbuf, name=f"t{p0}")
    nisa.dma_copy(dst=tile[...], src=src[p0:p1, :])
    return tile


@nki.jit
def rms(x, g, eps: float = _EPS):
    n, d = x.shape
    out = nl.ndarray((n, d), dtype=x.dtype, buffer=nl.shared_hbm)
    t = Tiling(rows=P_MAX, cols=d)
    row = load_tile(g, 0, 1)
    ones = nl.ndarray((1, P_MAX), nl.float32, buffer=nl.sbuf)
    nisa.memset(ones, 1.0)
    gamma_ps = nl.ndarray((P_MAX, d), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(gamma_ps, stationary=ones, moving=row)
    gamma = nl.ndarray((P_MAX, d), nl.float32)
    nisa.tensor_copy(dst=gamma, src=gamma_ps)
    bounds = [(i * P_MAX, min(n, (i + 1) * P_MAX)) for i in range(div_up(n))]
    for i, (a, b) in enumerate(bounds):
        assert t.next() == i
        r = b - a
        tile = load_tile(x, a, b)
        sq = nl.ndarray((r, d), nl.float32)
        total = nl.ndarray((r, 1), nl.float32)
        nisa.activation_reduce(sq, nl.square, tile, reduce_op=nl.add, reduce_res=total)
        inv = nl.ndarray((r, 1), nl.float32)
        nisa.tensor_scalar(inv, total, op0=nl.multiply, operand0=1.0 / d, op1=nl.add, operand1=eps)
        nisa.activation(inv, op=nl.rsqrt, data=inv)
        y = nl.ndarray(shape=(r, d), dtype=x.dtype, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(dst=y, data=tile, op0=nl.multiply, operand0=inv,
                                  op1=nl.multiply, operand1=gamma[0:r, :])
        nisa.dma_copy(dst=out[nl.ds(a, r)], src=y)
    return out
'''


def test_nki_2_with_a_class_and_helpers() -> None:
    x, g = numbers(200, 64), numbers(1, 64, seed=2)
    (found,) = ran(NKI2, {"y": (200, 64)}, x=x, g=g)
    wanted = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6) * g
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


STATISTICS = """
import math
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa

def norm(x, gamma, beta, eps=1e-5):
    B, D = x.shape
    out = nl.ndarray((B, D), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(nl.tile_size.pmax)[:, None]
    i_f = nl.arange(D)[None, :]
    i_1 = nl.arange(1)[:, None]
    g = nl.load(gamma.reshape((1, D))[i_1, i_f]).broadcast_to((nl.tile_size.pmax, D))
    b = nl.load(beta.reshape((1, D))[i_1, i_f]).broadcast_to((nl.tile_size.pmax, D))
    fmax = nl.tile_size.bn_stats_fmax
    for i in nl.affine_range(math.ceil(B / nl.tile_size.pmax)):
        t = nl.load(x[i * nl.tile_size.pmax + i_p, i_f], mask=(i * nl.tile_size.pmax + i_p < B))
        if D <= fmax:
            stats = nisa.bn_stats(t, mask=(i * nl.tile_size.pmax + i_p < B))
            agg = nisa.bn_aggr(stats, mask=(i * nl.tile_size.pmax + i_p < B))
        else:
            raise NotImplementedError(f"D = {D}")
        mean, var = agg[:, 0:1], agg[:, 1:2]
        scale = nl.rsqrt(nl.add(var, eps))
        y = nisa.tensor_scalar(t, nl.subtract, mean, op1=nl.multiply, operand1=scale)
        y = y * g + b
        nl.store(out[i * nl.tile_size.pmax + i_p, i_f], value=y,
                 mask=(i * nl.tile_size.pmax + i_p < B))
    return out

norm_kernel = nki.jit(norm)

def numpy_norm(x):
    return (x - x.mean(-1)) / x.std(-1)
"""


def test_a_kernel_that_is_decorated_after_its_definition() -> None:
    x, g, b = numbers(200, 96), numbers(96, seed=3), numbers(96, seed=4)
    (found,) = ran(STATISTICS, {"y": (200, 96)}, x=x, gamma=g, beta=b)
    centred = x - x.mean(1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * g + b
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


MEMBERS = """
import nki
import nki.language as nl
import nki.isa as nisa
import torch
from torch import nn


class Block(nn.Module):
    pass


@torch.no_grad()
def host(x):
    return x


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(t, x)
    {}
    nisa.dma_copy(out, t)
    return out
"""


def test_what_is_not_used_may_stay() -> None:
    x = numbers(4, 8)
    (found,) = ran(MEMBERS.format("pass"), {"y": (4, 8)}, x=x)
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("torch.relu(t)", "imports from torch"),
        ("host(t)", "imports from torch"),
        ("Block()", "imports from torch"),
        ("nn.relu(t)", "imports from torch"),
    ],
)
def test_what_is_used_of_another_module_is_refused(line: str, words: str) -> None:
    with pytest.raises(KernelError, match=words) as caught:
        ran(MEMBERS.format(line), {"y": (4, 8)}, x=numbers(4, 8))
    assert caught.value.code == "import_not_allowed"
    assert caught.value.line == 23


@pytest.mark.parametrize("path", ["nki.collectives", "neuronxcc.nki.collectives"])
@pytest.mark.parametrize("form", ["import {0} as ncc", "from {0} import all_reduce"])
def test_a_module_of_nki_that_is_lacking_is_not_called_forbidden(path: str, form: str) -> None:
    call = "ncc.all_reduce(x)" if form.startswith("import") else "all_reduce(x)"
    source = (
        "import nki\nimport nki.language as nl\n\n@nki.jit\ndef kernel(x):\n"
        f"    {form.format(path)}\n    {call}\n"
    )
    with pytest.raises(KernelError, match=f"{path} .*is not supported") as caught:
        ran(source, {"y": (4, 8)}, x=numbers(4, 8))
    assert caught.value.code == "not_supported"
    assert caught.value.line == 7


def test_what_is_missing_of_a_class_is_not_called_wrong() -> None:
    source = """
import nki
import nki.language as nl
class Tiles:
    def __getitem__(self, i):
        return i
@nki.jit
def kernel(x):
    for tile in Tiles():
        pass
    return x
"""
    with pytest.raises(KernelError, match="over the items of Tiles, which has no '__iter__'"):
        ran(source, {"y": (4, 8)}, x=numbers(4, 8))


DEFAULTS = """
from collections import defaultdict
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles, uses = defaultdict(list), defaultdict(int)
    sums = defaultdict(lambda: nl.zeros((128, 64), dtype=nl.float32, buffer=nl.sbuf))
    nested = defaultdict(lambda: defaultdict(dict))
    for r in nl.static_range(4):
        tiles[r % 2].append(nl.load(x[r * 128 + nl.arange(128)[:, None], nl.arange(64)[None, :]]))
        uses[r % 2] += r
        nested[r % 2]["at"][r] = r
    for half, found in tiles.items():
        for tile in found:
            sums[half] += tile
    assert uses.get(7) is None and 7 not in uses and len(uses) == 2 and isinstance(uses, dict)
    assert nested[1]["at"][3] == 3
    nl.store(out, sums[0] * uses[0] + sums[1] * uses[1] {more})
    return out
"""


def test_dicts_with_default_values() -> None:
    x = numbers(512, 64)
    (found,) = ran(DEFAULTS.format(more=""), {"out": (128, 64)}, x=x)
    a, b, c, d = x.reshape(4, 128, 64)
    np.testing.assert_allclose(found, (a + c) * 2 + (b + d) * 4, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("defaultdict()[3]", "a dict has no key 3"),
        ("defaultdict(3)[1]", "a int is not a function"),
        ("defaultdict(int)[[1]]", "list cannot be a key of a dict"),
        ("defaultdict(int)[([1], 2)]", "list cannot be a key of a dict"),
    ],
)
def test_dicts_with_default_values_are_as_strict_as_others(wrong: str, words: str) -> None:
    with pytest.raises(KernelError, match=words):
        ran(DEFAULTS.format(more=f"* {wrong}"), {"out": (128, 64)}, x=numbers(512, 64))


def test_default_values_count_as_items() -> None:
    wide = "for n in range(40):\n        tiles[n].extend([n] * 30000)\n    nl.store"
    source = DEFAULTS.format(more="").replace("nl.store", wide, 1)
    with pytest.raises(KernelError, match=r"more than [0-9,]+ items"):
        ran(source + "\n", {"out": (128, 64)}, x=numbers(512, 64))
