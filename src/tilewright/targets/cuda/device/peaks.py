"""The peak rates of a GPU, which are measured once in about a second, in addition to compiling, and
stored.

The user's cache folder contains one file for each GPU, driver, compiler and text of `peaks.cu`. If
measuring fails, nominal rates are used, which are computed from the properties that the driver
reports. Every result says to which of the two its shares refer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from tilewright.core.records import Argument, Failed, content_id
from tilewright.native.calibration import kept_file, read_kept, write_kept
from tilewright.targets.cuda.device.build import DeviceCompiler
from tilewright.targets.cuda.device.gpus import Gpu
from tilewright.targets.cuda.device.process import DeviceFacts, DeviceFailedError, DeviceProcess
from tilewright.targets.cuda.launcher import call
from tilewright.targets.cuda.nvcc import Nvcc
from tilewright.targets.cuda.occupancy import Architecture
from tilewright.timing import exclusive

SOURCE = Path(__file__).with_name("peaks.cu")
SAMPLES = 5
"""Number of batches, of which the fastest is used, when calls are long enough."""
CALL_S = 0.02
"""Target duration of a call in seconds, of which the communication with the process is a
thousandth.
"""
MOST_PASSES = 1 << 24
_THREADS, _BLOCKS_OF_ONE = 256, 4
_CACHES = 16
"""Size of each array of the copy as a multiple of the second-level cache, so that the cache
contains little of it."""
_SHARE = 0.2
"""Share of the device's free memory that each array may take."""
_TENSOR_CORES = 80
"""The first architecture, without `sm_`, whose tensor cores support tf32 and bfloat16."""
_COMPILE_S, _CALL_S = 120.0, 30.0
_SIZES = ("length", "blocks", "work")


@dataclass(frozen=True, slots=True)
class Peaks:
    """Rates per second: bytes that a copy reads and writes, and multiply-adds of each kind; 0 if
    not known.

    The rates of tensor cores are those of `nvcuda::wmma`. Tensor cores of Hopper and later GPUs are
    faster with instructions for groups of warps.
    """

    bytes_per_s: float
    float32_per_s: float
    tf32_per_s: float
    bf16_per_s: float
    quantity: Literal["measured", "nominal"]

    def products_per_s(self, lowest: str) -> float:
        """Multiply-adds in the lowest class of precision that is accepted; 0 if not known."""
        if not lowest:
            return self.float32_per_s
        return {"tf32-like": self.tf32_per_s, "bf16-like": self.bf16_per_s}[lowest]

    @property
    def most_products_per_s(self) -> float:
        """Multiply-adds of the fastest kind."""
        return max(self.float32_per_s, self.tf32_per_s, self.bf16_per_s)


@dataclass(frozen=True, slots=True)
class _Rate:
    """One number of `Peaks`: the `work` argument of the launcher, and the work of a thread (for the
    copy: of a pass)."""

    name: str
    work: int
    of_a_thread: float


_RATES = (
    _Rate("bytes_per_s", 0, 0.0),
    _Rate("float32_per_s", 1, 8 * 16),
    _Rate("tf32_per_s", 2, 4 * 4 * 16 * 16 * 8 / 32),
    _Rate("bf16_per_s", 3, 4 * 4 * 16 * 16 * 16 / 32),
)
"""The constants of `peaks.cu`: SUMS * STEPS, and PRODUCTS * TILES products of 16 x 16 x DEPTH per
warp."""


def nominal(facts: DeviceFacts, architecture: Architecture) -> Peaks:
    """The rates that follow from the clock rates of the driver; 0 if it reports none. Memory
    transfers data on both clock edges."""
    memory = 2 * facts.memory_khz * 1e3 * facts.bus_bits / 8
    products = facts.multiprocessors * architecture.lanes * facts.clock_khz * 1e3
    return Peaks(memory, products, 0.0, 0.0, "nominal")


@cache
def measured_peaks(gpu: Gpu, nvcc: Nvcc, architecture: str) -> Peaks | None:
    """The peak rates of a GPU. If they are not stored yet, they are measured while no other
    measurement runs.

    None if they cannot be measured.
    """
    names = [rate.name for rate in _rates(architecture)]
    has_tensor_cores = len(names) == len(_RATES)
    text = SOURCE.read_text(encoding="utf-8")
    source = f"#define TENSOR_CORES {int(has_tensor_cores)}\n{text}"
    path = kept_file("gpu-peaks", content_id(gpu.uuid, gpu.id, nvcc.id, architecture, source))
    found = _kept(path, names)
    if found is None:
        with exclusive(gpu.lock):
            found = _kept(path, names) or _measured(DeviceCompiler(nvcc, architecture), source)
        if found is None:
            return None
        write_kept(path, found)
    rates = {rate.name: found.get(rate.name, 0.0) for rate in _RATES}
    return Peaks(**rates, quantity="measured")


def _rates(architecture: str) -> list[_Rate]:
    has_tensor_cores = int(architecture.removeprefix("sm_")) >= _TENSOR_CORES
    return [rate for rate in _RATES if rate.work < 2 or has_tensor_cores]


def _kept(path: Path, names: list[str]) -> dict[str, float] | None:
    found = read_kept(path, names)
    usable = found is not None and all(math.isfinite(v) and v > 0 for v in found.values())
    return found if usable else None


def _measured(compiler: DeviceCompiler, source: str) -> dict[str, float] | None:
    """All rates that the architecture has, or None."""
    program = compiler.build(source, call(_arguments(1), _SIZES), _COMPILE_S)
    if isinstance(program, Failed):
        return None
    try:
        with DeviceProcess(program[0], _arguments(1), (1, 1, 1), "measure", _CALL_S) as process:
            facts = process.facts
        return {r.name: _rate(program[0], r, facts) for r in _rates(compiler.architecture)}
    except DeviceFailedError:
        return None


def _rate(program: bytes, rate: _Rate, facts: DeviceFacts) -> float:
    """Bytes or multiply-adds per second. Raises `DeviceFailedError`."""
    blocks = max(1, facts.multiprocessors) * _BLOCKS_OF_ONE
    threads = blocks * _THREADS
    room = int(_SHARE * facts.free_bytes) // 16 * 4
    length = min(room, max(threads * 32, _CACHES * facts.cache_bytes // 16 * 4))
    arguments = _arguments(length)
    amount = rate.of_a_thread * threads or 2 * 4 * length
    with DeviceProcess(
        program, arguments, (length, blocks, rate.work), "measure", _CALL_S
    ) as process:
        process.make_room(1)
        process.draw(1, 1, 1, 1e-5)
        passes, best_s = 1, _seconds(process, 1)
        while best_s < CALL_S and passes < MOST_PASSES:
            passes = min(MOST_PASSES, passes * min(16, max(2, math.ceil(CALL_S / best_s))))
            best_s = _seconds(process, passes)
        best_s = min(best_s, *(_seconds(process, passes) for _ in range(SAMPLES - 1)))
    return amount * passes / best_s


def _seconds(process: DeviceProcess, passes: int) -> float:
    """Seconds of one call with this number of passes, by this process's clock."""
    process.upload(0, 0, np.array([passes], np.int32))
    return max(1e-9, process.batch(0, 1)[0])


def _arguments(length: int) -> tuple[Argument, ...]:
    return (
        Argument("passes", (1,), "int32", "input"),
        Argument("from", (length,), "float32", "inout"),
        Argument("to", (length,), "float32", "inout"),
    )


def in_words(peaks: Peaks) -> str:
    """The known rates as text."""
    said = [f"{1e-9 * peaks.bytes_per_s:,.0f} GB/s copied"]
    kinds = {
        "float32": peaks.float32_per_s,
        "tf32 on tensor cores": peaks.tf32_per_s,
        "bfloat16 on tensor cores": peaks.bf16_per_s,
    }
    said += [f"{2e-9 * rate:,.0f} GFLOP/s of {kind}" for kind, rate in kinds.items() if rate]
    return ", ".join(said)
