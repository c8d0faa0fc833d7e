"""Measures the maximum rate of multiply-adds of this processor without memory accesses."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tilewright.tuner.device import CpuDevice
from tilewright.tuner.tvm.builder import compile_module

_ROUNDS = 4096
_MOST_CHAINS = 24
_REPEATS = 7


def measured_peak_gflops(target: Any, device: CpuDevice) -> float:
    """Peak fp32 GFLOP/s of all of the device's cores, computed from a measurement on one core.

    The kernel has as many independent chains of fused multiply-adds as the pipelines need and the
    vector registers can hold. The result is the fastest of several repetitions, or 0 if the kernel
    cannot be built.
    """
    import numpy as np
    import tvm

    lanes = max(device.vector_bytes // 4, 1)
    chains = max(1, min(_MOST_CHAINS, device.vector_registers - 4))
    with tempfile.TemporaryDirectory(prefix="tilewright-peak-") as folder:
        built = compile_module(_chains(chains, lanes), target, Path(folder) / "peak.so")
        if built.library is None:
            return 0.0
        module = tvm.runtime.load_module(str(built.library))
    cpu = tvm.runtime.device("cpu", 0)
    factor = tvm.runtime.tensor(np.full((2, lanes), 0.5, np.float32))
    state = tvm.runtime.tensor(np.ones((chains, lanes), np.float32))
    timer = module.time_evaluator("main", cpu, number=20, repeat=_REPEATS)
    fastest: float = min(timer(factor, state).results)
    return 2.0 * chains * lanes * _ROUNDS / fastest / 1e9 * device.cores


def _chains(chains: int, lanes: int) -> Any:
    """Repeats `state[c] = state[c] * factor + addend` for independent vectors."""
    from tvm import te, tirx
    from tvm.s_tir import Schedule

    factor = te.placeholder((2, lanes), name="factor")
    round_ = te.reduce_axis((0, _ROUNDS), name="round")
    chain = te.comm_reducer(
        lambda x, y: x * y + y, lambda kind: tirx.const(1.0, kind), name="chain"
    )
    state = te.compute((chains, lanes), lambda c, v: chain(factor[0, v], axis=round_), name="state")
    schedule = Schedule(te.create_prim_func([factor, state]))
    block = schedule.get_sblock("state")
    c, v, r = schedule.get_loops(block)
    schedule.reorder(r, c, v)
    schedule.vectorize(v)
    schedule.unroll(c)
    return schedule.mod
