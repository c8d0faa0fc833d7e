"""Measures what searches without a language model gain over -O3 on plain C kernels of many styles.

    python benchmarks/plain_c.py [--runs 5] [--seconds 60] [--results FILE] [KERNEL ...]

The kernels of tests/fixtures/plain_c are searched as kernel folders. Each factor is relative to the
original kernel, compiled with -O3: the median over pairs in three fresh sessions, with its
bootstrap interval. The benchmark also prints the seconds until a kernel was at least 3 % faster
than the start, and what limits the best kernel.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from native_runs import Kept, Record, check_effort, exit_code, parser_of

from tilewright.core.config import Settings
from tilewright.core.errors import UnknownNameError
from tilewright.core.records import Measured
from tilewright.native.machine import processor
from tilewright.native.toolchain import find_toolchain
from tilewright.run import optimize
from tilewright.search.events import Evaluated, Event, RunStarted
from tilewright.storage.project import open_project

SOURCES = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "plain_c"
_ROOT = "0.7978845608"
_TANH = f"0.5 * z * (1 + np.tanh({_ROOT} * (z + 0.044715 * z * z * z)))"
_LAYER = "[X in 96 256] [W in 256 192] [b in 192] [Y out 96 192]"
KERNELS: dict[str, tuple[str, int, str]] = {
    "gelu_tanh": ("[x in 65536] [y out 65536]", 65536, f"z = x\n    return {_TANH}"),
    "gelu_exp": ("[x in 65536] [y out 65536]", 65536, "return x / (1 + np.exp(-1.702 * x))"),
    "mlp_tanh": (_LAYER, 96 * 192 * 256, f"z = X @ W + b\n    return {_TANH}"),
    "mlp_exp": (_LAYER, 96 * 192 * 256, "z = X @ W + b\n    return z / (1 + np.exp(-1.702 * z))"),
    "int8_dots": (
        "[A in 96 1024 int8] [B in 96 1024 int8] [C out 96 96 int32]", 96 * 96 * 1024,
        "return A.astype(np.int32) @ B.astype(np.int32).T",
    ),
    "histogram": (
        "[data in 65536 uint8] [bins out 256 int32]", 65536,
        "return np.bincount(data, minlength=256).astype(np.int32)",
    ),
    "prefix_sum": ("[x in 32768] [y out 32768]", 32768, "return np.cumsum(x)"),
    "stencil": (
        "[grid in 512 512] [next out 512 512]", 5 * 510 * 510,
        "inner = 0.5 * grid[1:-1, 1:-1] + 0.125 * ("
        "grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:])\n"
        "    side, top = 0 * inner[:, :1], 0 * grid[:1]\n"
        "    return np.concatenate([top, np.concatenate([side, inner, side], axis=1), top])",
    ),
    "softmax_walk": (
        "[x in 256 512] [y out 256 512]", 3 * 256 * 512,
        "e = np.exp(x - x.max(axis=1, keepdims=True))\n    return e / e.sum(axis=1, keepdims=True)",
    ),
    "leaky_norm": (
        "[x in 128 384] [gain in 384] [y out 128 384]", 2 * 128 * 384,
        "v = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)\n"
        "    return np.where(v < 0, 0.01 * v, v) * gain",
    ),
}  # fmt: skip
KERNELS |= {
    "gelu_while": KERNELS["gelu_tanh"],
    "mlp_rows": KERNELS["mlp_exp"],
    "histogram_memset": KERNELS["histogram"],
    "stencil_border": (
        "[grid in 512 512] [next out 512 512]",
        5 * 510 * 510,
        "inner = 0.2 * (grid[1:-1, 1:-1] + grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2]"
        " + grid[1:-1, 2:])\n"
        "    rows = np.concatenate([grid[1:-1, :1], inner, grid[1:-1, -1:]], axis=1)\n"
        "    return np.concatenate([grid[:1], rows, grid[-1:]])",
    ),
    "mlp_flat": (
        "[x in 96 256] [w in 192 256] [bias in 192] [y out 96 192]",
        96 * 192 * 256,
        f"z = x @ w.T + bias\n    return {_TANH}",
    ),
    "prefix_recurrent": KERNELS["prefix_sum"],
    "dot_i8_unroll8": (
        "[a in 64 1024 int8] [b in 64 1024 int8] [c out 64 64 int32]",
        64 * 64 * 1024,
        "return a.astype(np.int32) @ b.astype(np.int32).T",
    ),
}
KERNELS |= {
    "scan_u32": (
        "[x in 262144 uint32] [y out 262144 uint32]", 262144,
        "return np.add.accumulate(x, dtype=np.uint32)",
    ),
    "offsets_u32": (
        "[counts in 262144 uint32] [offsets out 262145 uint32]", 262144,
        "sums = np.add.accumulate(counts, dtype=np.uint32)\n"
        "    return np.concatenate([[0], sums]).astype(np.uint32)",
    ),
    "stats_f64": (
        "[x in 256 4096 float64] [mean out 256 float64] [var out 256 float64]", 2 * 256 * 4096,
        "m = x.mean(axis=1)\n    return m, ((x - m[:, None]) ** 2).mean(axis=1)",
    ),
    "dot_f64_of_f32": (
        "[A in 512 2048] [B in 512 2048] [out out 512]", 512 * 2048,
        "return (A.astype(np.float64) * B.astype(np.float64)).sum(axis=1).astype(np.float32)",
    ),
    "argmax_rows": (
        "[logits in 512 2048] [best out 512 int32]", 512 * 2048,
        "return np.argmax(logits, axis=1).astype(np.int32)",
    ),
    "argmin_i32": (
        "[d in 1024 1024 int32] [at out 1024 int32] [least out 1024 int32]", 1024 * 1024,
        "return np.argmin(d, axis=1).astype(np.int32), d.min(axis=1)",
    ),
    "rope_pairs": (
        "[q in 256 1024] [c in 256 32] [s in 256 32] [out out 256 1024]", 2 * 256 * 1024,
        "p = q.reshape(256, 16, 32, 2)\n    a, b = p[..., 0], p[..., 1]\n"
        "    c, s = c[:, None, :], s[:, None, :]\n"
        "    return np.stack([a * c - b * s, a * s + b * c], axis=-1).reshape(256, 1024)",
    ),
    "bilinear": (
        "[src in 300 400] [dst out 600 900]", 6 * 600 * 900,
        "f = np.float32\n"
        "    y = np.maximum((np.arange(600, dtype=f) + f(0.5)) * f(f(300) / f(600)) - f(0.5), 0)\n"
        "    x = np.maximum((np.arange(900, dtype=f) + f(0.5)) * f(f(400) / f(900)) - f(0.5), 0)\n"
        "    y0, x0 = y.astype(int), x.astype(int)\n"
        "    y1, x1 = np.minimum(y0 + 1, 299), np.minimum(x0 + 1, 399)\n"
        "    wy, wx = (y - y0.astype(f))[:, None], (x - x0.astype(f))[None]\n"
        "    top = src[y0][:, x0] * (1 - wx) + src[y0][:, x1] * wx\n"
        "    low = src[y1][:, x0] * (1 - wx) + src[y1][:, x1] * wx\n"
        "    return (top * (1 - wy) + low * wy).astype(f)",
    ),
    "rgb_gray": (
        "[rgb in 1080 1920 3 uint8] [gray out 1080 1920 uint8]", 3 * 1080 * 1920,
        "r, g, b = (rgb[..., k].astype(np.int32) for k in range(3))\n"
        "    return ((77 * r + 150 * g + 29 * b + 128) >> 8).astype(np.uint8)",
    ),
    "qgemm_u8": (
        "[a in 65536 uint8] [b in 65536 uint8] [c out 16384 int32]", 128 * 128 * 512,
        "a, b = a.reshape(128, 512).astype(np.int32), b.reshape(512, 128).astype(np.int32)\n"
        "    return ((a - 128) @ (b - 131)).reshape(-1)",
    ),
    "qdot_u8s8": (
        "[x in 16 1024 uint8] [w in 256 1024 int8] [bias in 256 int16] [y out 16 256 int32]",
        16 * 256 * 1024,
        "return (x.astype(np.int32) - 127) @ w.astype(np.int32).T + bias.astype(np.int32)",
    ),
    "jacobi5": (
        "[u in 1024 1024] [f in 1024 1024] [v out 1024 1024]", 5 * 1024 * 1024,
        "inner = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - f[1:-1, 1:-1])\n"
        "    rows = np.concatenate([u[1:-1, :1], inner, u[1:-1, -1:]], axis=1)\n"
        "    return np.concatenate([u[:1], rows, u[-1:]])",
    ),
    "gemm_sparse": ("[A in 256 256] [B in 256 256] [C out 256 256]", 256**3, "return A @ B"),
    "heat_swap": (
        "[start in 256 256] [end out 256 256]", 10 * 5 * 254 * 254,
        "cur = start.copy()\n    for _ in range(10):\n        c = cur[1:-1, 1:-1]\n"
        "        near = cur[:-2, 1:-1] + cur[2:, 1:-1] + cur[1:-1, :-2] + cur[1:-1, 2:]\n"
        "        inner = c + 0.1 * (near - 4 * c)\n"
        "        rows = np.concatenate([cur[1:-1, :1], inner, cur[1:-1, -1:]], axis=1)\n"
        "        cur = np.concatenate([cur[:1], rows, cur[-1:]])\n    return cur",
    ),
    "bodies": (
        "[b in 2048] [acc out 1536]", 10 * 512 * 512,
        "p = b.reshape(512, 4)\n    d = p[None, :, :3] - p[:, None, :3]\n"
        "    near = 1 / np.sqrt((d * d).sum(axis=2) + np.float32(0.01))\n"
        "    w = p[None, :, 3] * near * near * near\n"
        "    return (w[:, :, None] * d).sum(axis=1).reshape(-1)",
    ),
    "maxpool_u8": (
        "[x in 512 1024 uint8] [y out 256 512 uint8]", 512 * 1024,
        "return x.reshape(256, 2, 512, 2).max(axis=(1, 3))",
    ),
    "deinterleave": (
        "[img in 224 224 3 uint8] [out out 3 224 224]", 2 * 3 * 224 * 224,
        "f = np.float32\n    m = np.array([0.485, 0.456, 0.406], f)\n"
        "    s = np.array([0.229, 0.224, 0.225], f)\n"
        "    return ((img.astype(f) / f(255) - m) / s).transpose(2, 0, 1).astype(f)",
    ),
}  # fmt: skip
KERNELS |= {
    "gelu_rows": (
        "[x in 128 768] [y out 128 768]", 98304,
        f"z = x\n    return {_TANH}",
    ),
    "gelu_bias_walk": (
        "[x in 256 256] [bias in 256] [y out 256 256]", 65536,
        f"z = x + bias\n    return {_TANH}",
    ),
    "silu_gate": (
        "[gate in 65536] [up in 65536] [y out 65536]", 65536,
        "return up * gate / (1 + np.exp(-1.702 * gate))",
    ),
    "mlp_exp_struct": (
        "[x in 80 256] [w in 256 192] [b in 192] [y out 80 192]", 3932160,
        "z = x @ w + b\n"
        "    return z / (1 + np.exp(-1.702 * z))",
    ),
    "mlp_two_pass": (
        "[a in 96 320] [w in 320 160] [b in 160] [c out 96 160]", 4915200,
        "z = a @ w + b\n"
        "    return z / (1 + np.exp(-1.702 * z))",
    ),
    "mlp_wt": (
        "[x in 100 300] [w in 200 300] [b in 200] [y out 100 200]", 6000000,
        "z = x @ w.T + b\n"
        "    return 0.5 * z * (1 + np.tanh(0.79788456 * z + 0.0356774 * z * z * z))",
    ),
    "laplace_clamp": (
        "[u in 480 640] [v out 480 640]", 1843200,
        "p = np.pad(u, 1, mode='edge')\n"
        "    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u",
    ),
    "scan_i64": (
        "[n in 200000 int32] [start out 200000 int64]", 200000,
        "c = np.cumsum(n.astype(np.int64))\n"
        "    return c - n",
    ),
    "scan_f64": (
        "[x in 131072 float64] [y out 131072 float64]", 131072,
        "return np.cumsum(x)",
    ),
    "scan_i16": (
        "[d in 262144 uint8] [out out 262144 uint16]", 262144,
        "return np.cumsum(d.astype(np.uint64)).astype(np.uint16)",
    ),
    "hist_ptr": (
        "[p in 200000 uint8] [h out 256 uint32]", 200000,
        "return np.bincount(p, minlength=256).astype(np.uint32)",
    ),
    "transpose_scale": (
        "[a in 512 384] [b out 384 512]", 196608,
        "return 0.125 * a.T",
    ),
    "rope_half": (
        "[x in 128 512] [c in 128 32] [s in 128 32] [y out 128 512]", 196608,
        "p = x.reshape(128, 8, 2, 32)\n"
        "    a, b = p[:, :, 0], p[:, :, 1]\n"
        "    c, s = c[:, None, :], s[:, None, :]\n"
        "    return np.stack([a * c - b * s, a * s + b * c], axis=2).reshape(128, 512)",
    ),
    "cross_entropy": (
        "[logits in 256 1000] [label in 256 int32] [loss out 256]", 768000,
        "m = logits.max(axis=1)\n"
        "    z = np.exp(logits - m[:, None]).sum(axis=1)\n"
        "    return np.log(z) + m - logits[np.arange(256), label & 511]",
    ),
    "add_layernorm": (
        "[x in 128 512] [r in 128 512] [g in 512] [b in 512] [y out 128 512]", 524288,
        "z = x + r\n"
        "    m = z.mean(axis=1, keepdims=True)\n"
        "    return (z - m) / np.sqrt(((z - m) ** 2).mean(axis=1, keepdims=True) + 1e-5) * g + b",
    ),
}  # fmt: skip
KERNELS |= {
    "dgemm_strided": (
        "[a in 128 160 float64] [b in 160 192 float64] [c out 128 192 float64]", 128 * 160 * 192,
        "return 1.5 * (a @ b)",
    ),
    "mlp_params": (
        "[x in 96 256] [w in 192 256] [b in 192] [y out 96 192]", 96 * 192 * 256,
        "z = x @ w.T + b\n    return z / (1 + np.exp(-1.702 * z))",
    ),
    "crc32_table": (
        "[table in 256 uint32] [msg in 256 512 uint8] [crc out 256 uint32]", 256 * 512,
        "c = np.full(256, 0xFFFFFFFF, np.uint32)\n    for i in range(512):\n"
        "        c = table[(c ^ msg[:, i]) & 255] ^ (c >> np.uint32(8))\n"
        "    return c ^ np.uint32(0xFFFFFFFF)",
    ),
    "cummax": (
        "[x in 256 1024] [y out 256 1024]", 256 * 1024,
        "return np.maximum.accumulate(x, axis=1)",
    ),
}  # fmt: skip
KERNELS |= {
    "mlp_float_tanh": (
        "[x in 96 256] [w in 256 192] [b in 192] [y out 96 192]", 96 * 192 * 256,
        f"z = x @ w + b\n    return {_TANH}",
    ),
    "mlp_blocked_vla": (
        "[x in 112 224] [w in 224 160] [b in 160] [y out 112 160]", 112 * 224 * 160,
        f"z = x @ w + b\n    return {_TANH}",
    ),
    "dot_mixed_unroll4": (
        "[a in 72 768 int8] [b in 88 768 uint8] [c out 72 88 int32]", 72 * 88 * 768,
        "return a.astype(np.int32) @ b.astype(np.int32).T",
    ),
    "dots_shift": (
        "[a in 64 768 int8] [w in 80 768 uint8] [out out 64 80 int32]", 64 * 80 * 768,
        "return (a.astype(np.int32) @ (w.astype(np.int32) - 128).T) >> 3",
    ),
    "hist_private": (
        "[data in 131072 uint8] [hist out 256 uint32]", 131072,
        "return np.bincount(data, minlength=256).astype(np.uint32)",
    ),
    "scan_exclusive_walk": (
        "[src in 98304] [out out 98304]", 98304,
        "s = np.cumsum(src)\n    return np.concatenate([0 * s[:1], s[:-1]])",
    ),
    "stencil7_3d": (
        "[u in 96 96 96] [v out 96 96 96]", 8 * 94**3,
        "v = u + 0\n    c, n, s = slice(1, -1), slice(None, -2), slice(2, None)\n"
        "    near = u[n, c, c] + u[s, c, c] + u[c, n, c] + u[c, s, c] + u[c, c, n] + u[c, c, s]\n"
        "    v[c, c, c] = 0.4 * u[c, c, c] + 0.1 * near\n    return v",
    ),
    "attention_scores": (
        "[q in 192 64] [k in 192 64] [v in 192 64] [o out 192 64]", 2 * 192 * 192 * 64,
        "p = 0.125 * (q @ k.T)\n    e = np.exp(p - p.max(axis=1, keepdims=True))\n"
        "    return e @ v / e.sum(axis=1, keepdims=True)",
    ),
    "blur_separable": (
        "[src in 270 480 uint8] [dst out 270 480 uint8]", 10 * 270 * 480,
        "p = np.pad(src.astype(np.int32), 2, mode='edge')\n    t = [1, 4, 6, 4, 1]\n"
        "    q = sum(t[i] * p[:, i : i + 480] for i in range(5))\n"
        "    return ((sum(t[i] * q[i : i + 270] for i in range(5)) + 128) >> 8).astype(np.uint8)",
    ),
    "depthwise_nhwc": (
        "[src in 34 34 96] [filter in 3 3 96] [bias in 96] [out out 32 32 96]", 9 * 32 * 32 * 96,
        "s = bias + sum(src[i : i + 32, j : j + 32] * filter[i, j]"
        " for i in range(3) for j in range(3))\n    return np.minimum(np.maximum(s, 0), 6)",
    ),
    "logsumexp_cols": (
        "[x in 384 320] [lse out 320]", 3 * 384 * 320,
        "m = x.max(axis=0)\n    return m + np.log(np.exp(x - m).sum(axis=0))",
    ),
    "cosine_pairs": (
        "[a in 256 640] [b in 256 640] [sim out 256]", 3 * 256 * 640,
        "a, b = a.astype(np.float64), b.astype(np.float64)\n"
        "    n = lambda v: np.sqrt((v * v).sum(axis=1))\n"
        "    return ((a * b).sum(axis=1) / (n(a) * n(b) + 1e-9)).astype(np.float32)",
    ),
    "kahan_rows": ("[x in 192 1024] [total out 192]", 4 * 192 * 1024, "return x.sum(axis=1)"),
    "requant_switch": (
        "[a in 32768 int8] [w in 49152 int8] [bias in 96 int32] [out out 6144 int8]", 64 * 96 * 512,
        "s = a.reshape(64, 512).astype(np.int32) @ w.reshape(512, 96).astype(np.int32) + bias\n"
        "    return np.clip((s * 5 + 2048) >> 12, -64, 63).astype(np.int8).reshape(-1)",
    ),
    "gemm_tiles_double": (
        "[a in 192 192 float64] [b in 192 192 float64] [c out 192 192 float64]", 192**3,
        "return a @ b",
    ),
    "gelu_chunks": (
        "[src in 81920] [dst out 81920]", 81920, "return src / (1 + np.exp(-1.702 * src))",
    ),
    "welford_struct": (
        "[x in 512 256] [mean out 512] [var out 512]", 5 * 512 * 256,
        "return x.mean(axis=1), x.var(axis=1)",
    ),
    "conv1d_taps": (
        "[x in 65536 int16] [h in 16 int16] [y out 65521 int32]", 16 * 65521,
        "s = np.convolve(x.astype(np.int64), h.astype(np.int64), 'valid')\n"
        "    return (s >> 8).astype(np.int32)",
    ),
}  # fmt: skip
KERNELS["bilateral"] = (
    "[src in 160 192] [dst out 160 192]", 160 * 192 * 25 * 8,
    "total, weights = np.zeros((160, 192)), np.zeros((160, 192))\n"
    "    p = np.pad(src, 2, constant_values=np.nan)\n"
    "    for b in range(5):\n        for a in range(5):\n"
    "            v = p[b : b + 160, a : a + 192]\n"
    "            d = (a - 2) ** 2 + (b - 2) ** 2\n"
    "            w = np.where(np.isnan(v), 0, np.exp(-d / 4.5 - (v - src) ** 2 / 0.32))\n"
    "            total += w * np.nan_to_num(v)\n            weights += w\n"
    "    return (total / weights).astype(np.float32)",
)  # fmt: skip
KERNELS["csr_spmv"] = (
    "[ptr in 4097 int32] [col in 65536 int32] [val in 65536] [x in 4096] [y out 4096]", 65536,
    "p = val.astype(np.float64) * x[col]\n    s = np.concatenate([[0], np.cumsum(p)])\n"
    "    some = ptr[1:] > ptr[:-1]\n"
    "    return np.where(some, s[ptr[1:]] - s[ptr[:-1]], 0).astype(np.float32)",
)  # fmt: skip
"""Arguments, useful operations and reference of each."""
GENERATED = {
    "csr_spmv": {
        "ptr": "np.concatenate([[0], np.sort(rng.integers(0, 65537, 4095)), [65536]])",
        "col": "rng.integers(0, 4096, shape)",
    },
}
"""Inputs with their own distribution: formulas of random whole numbers."""


def written(name: str, folder: Path) -> Path:
    """The kernel as a folder of a user's own."""
    arguments, operations, formula = KERNELS[name]
    lines = [f'target = "host-c"\nname = "{name}"\noperations = {operations}\n']
    names, described = [], ""
    # Sums in another order and rounded places cannot be followed: docs/tolerance.md.
    if "cumsum" in formula or name in ("bilateral", "bilinear", "deinterleave"):
        lines.append("[tolerance]\nabsolute = 1e-2\nrelative = 1e-3\n")
        described = "inputs = { range = [-1, 1] }\n" if name != "deinterleave" else ""
    for text in arguments[1:-1].split("] ["):
        argument, role, *shape = text.split()
        own = GENERATED.get(name, {}).get(argument)
        inputs = described if own is None else f'inputs = {{ generator = "{argument}" }}\n'
        dtype = "float32" if shape[-1].isdigit() else shape.pop()
        if role == "in":
            names.append(argument)
        lines.append(
            f'[[argument]]\nname = "{argument}"\nshape = [{", ".join(shape)}]\n'
            f'dtype = "{dtype}"\nrole = "{role}put"\n' + inputs * (role == "in")
        )
    made = folder / name
    made.mkdir()
    (made / "workload.toml").write_text("\n".join(lines))
    (made / "kernel.c").write_text((SOURCES / f"{name}.c").read_text())
    (made / "reference.py").write_text(
        f"import numpy as np\n\n\ndef reference({', '.join(names)}):\n    {formula}\n"
        + "".join(
            f"\n\ndef {argument}(rng, shape):\n    return {own}.astype(np.int32)\n"
            for argument, own in GENERATED.get(name, {}).items()
        )
    )
    return made


def searched(name: str, seed: int, seconds: float) -> Record:
    """One search of the kernel."""
    began, first, start = 0.0, 0.0, 0.0
    settings = Settings(seed=seed, max_wall_s=seconds, patience=99, iterations=99)

    def hear(event: Event) -> None:
        nonlocal began, first, start
        if isinstance(event, RunStarted):
            began = time.monotonic()
        if isinstance(event, Evaluated) and isinstance(event.trial.outcome, Measured):
            share = event.trial.outcome.details.get("percent_of_baseline", 100.0)
            if not first and share < 97.0:
                first = time.monotonic() - began

    with tempfile.TemporaryDirectory(prefix="plain-c-") as temporary:
        folder = Path(temporary)
        task = written(name, folder)
        summary = optimize(str(task), settings, project=folder, on_event=hear)
        best = open_project(folder).history(summary.run_id).best
        alone = [f"line {a.line}: {a.reason}" for a in summary.left_alone]
    assert best is not None
    found = best.outcome
    assert isinstance(found, Measured)
    share = found.details["percent_of_baseline"]
    return {
        "factor": 100 / share,
        "low": 100 / found.details["percent_of_baseline_high"],
        "high": 100 / found.details["percent_of_baseline_low"],
        "first_s": first,
        "latency_ns": found.latency,
        "feedback": found.feedback.strip().splitlines()[-1],
        "left_alone": "; ".join(alone),
        "source": best.candidate.source,
    }


def measure(options: argparse.Namespace) -> int:
    """The whole table. Raises `TilewrightError`."""
    check_effort(options)
    for name in options.workloads:
        if name not in KERNELS:
            raise UnknownNameError("plain C kernel", name, KERNELS)
    kept = Kept(options.results)
    print(f"measured on {processor().name} ({find_toolchain().id}); load {os.getloadavg()[0]:.1f}")
    print("| kernel | over -O3 | first improvement | what bounds it |\n|---|---|---|---|")
    for name in options.workloads:
        runs = []
        for seed in range(1, options.runs + 1):
            key = ("plain_c", name, seed, options.seconds)
            runs.append(kept.get(key, lambda: searched(name, seed, options.seconds)))  # noqa: B023
        middle = statistics.median_low(r["factor"] for r in runs)
        run = next(r for r in runs if r["factor"] == middle)
        spread = f"{middle:.2f}x ({run['low']:.2f}..{run['high']:.2f})"
        says = run["left_alone"] or run["feedback"]
        print(f"| `{name}` | {spread} | {run['first_s']:.1f} s | {says} |", flush=True)
    return 0


def main() -> int:
    parser = parser_of(__doc__ or "", tuple(KERNELS), seconds=60.0)
    parser.set_defaults(runs=5)
    return exit_code(measure, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
