"""Detects the devices of this machine: caches from sysfs, GPUs from the CUDA driver."""

from __future__ import annotations

import ctypes
import os
import platform
import re
from pathlib import Path

from tilewright.tuner.device import CpuDevice, GpuDevice, device_names, named_device

_SYSFS_CPU = Path("/sys/devices/system/cpu")
_CPUINFO = Path("/proc/cpuinfo")
# Widest vectors first: bytes of a register, number of registers.
_VECTORS = (("avx512f", 64, 32), ("avx2", 32, 16), ("avx", 32, 16), ("asimd", 16, 32))
_SUFFIXES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

# CUdevice_attribute numbers of cuda.h.
_ATTRIBUTES = {
    "threads_per_block": 1,
    "shared_bytes_per_block": 8,
    "warp_size": 10,
    "sms": 16,
    "l2_bytes": 38,
    "threads_per_sm": 39,
    "shared_bytes_per_sm": 81,
    "registers_per_sm": 82,
    "blocks_per_sm": 106,
    "reserved_shared_bytes": 111,
}
_CLOCK_KHZ, _MEMORY_CLOCK_KHZ, _BUS_BITS, _MAJOR, _MINOR = 13, 36, 37, 75, 76


def detect_cpu(
    cores: int | None = None, sysfs: Path = _SYSFS_CPU, cpuinfo: Path = _CPUINFO
) -> CpuDevice:
    """This machine's processor with `cores` cores (default: those this process may use).

    For values that the system does not report, a small common core is assumed: 32 KiB and 256 KiB
    of cache, 16-byte vectors, 16 registers.
    """
    name, flags = _cpuinfo(cpuinfo)
    caches = _caches(sysfs / "cpu0" / "cache")
    vector_bytes, registers = next(
        ((size, count) for flag, size, count in _VECTORS if flag in flags), (16, 16)
    )
    return CpuDevice(
        name=name,
        cores=cores if cores is not None else len(os.sched_getaffinity(0)),
        vector_bytes=vector_bytes,
        vector_registers=registers,
        l1_bytes=caches.get(1, 32 << 10),
        l2_bytes=caches.get(2, 256 << 10),
        l3_bytes=caches.get(3, 0),
    )


def detect_gpu(ordinal: int = 0) -> GpuDevice | None:
    """The CUDA device with this number, or `None` if there is no driver or no such device.

    If `devices/` has a file for the device, its measured peak and bandwidth are used. Otherwise,
    both are computed from clock rates and bus width.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, text = ctypes.c_int(), ctypes.create_string_buffer(128)
    if (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), ordinal)
        or driver.cuDeviceGetName(text, len(text), device)
    ):
        return None

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        status = driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return 0 if status else value.value

    name = text.value.decode(errors="replace")
    numbers = {field: attribute(number) for field, number in _ATTRIBUTES.items()}
    major, minor = attribute(_MAJOR), attribute(_MINOR)
    lanes = 64 if (major, minor) in ((7, 0), (7, 5), (8, 0)) else 128
    bandwidth = 2 * attribute(_MEMORY_CLOCK_KHZ) * attribute(_BUS_BITS) / 8 / 1e6
    peak = 2 * lanes * numbers["sms"] * attribute(_CLOCK_KHZ) / 1e6
    for word in set(re.split(r"[\s-]+", name.lower())) & set(device_names()):
        described = named_device(word)
        if isinstance(described, GpuDevice) and described.sms == numbers["sms"]:
            bandwidth, peak = described.bandwidth_gb_s, described.peak_gflops
    return GpuDevice(
        name=name,
        arch=f"sm_{major}{minor}",
        bandwidth_gb_s=bandwidth,
        peak_gflops=peak,
        **numbers,
    )


def _cpuinfo(file: Path) -> tuple[str, frozenset[str]]:
    """Model name and instruction-set flags of the first processor listed."""
    fields: dict[str, str] = {}
    try:
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            fields.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    flags = fields.get("flags", fields.get("Features", ""))
    return fields.get("model name", platform.machine() or "cpu"), frozenset(flags.split())


def _caches(folder: Path) -> dict[int, int]:
    """Size in bytes of each level of data cache, from a sysfs folder of `index*` folders."""
    sizes: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            text = (index / "size").read_text().strip()
            sizes[int((index / "level").read_text())] = int(text.rstrip("KMG")) * _SUFFIXES.get(
                text[-1], 1
            )
        except (OSError, ValueError):
            continue
    return sizes
