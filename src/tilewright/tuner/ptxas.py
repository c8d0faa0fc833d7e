"""The resources of a kernel as the CUDA compiler reports them: registers, spills, shared memory.
Needs no GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError
from tilewright.tuner.device import GpuDevice

_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_LAUNCH_BOUNDS = re.compile(r"__launch_bounds__\((\d+)\)")
_COMPILE_S = 120


@dataclass(frozen=True)
class KernelResources:
    """The report of ptxas on one kernel: values per thread, and shared memory in bytes per
    block."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int

    def fits(self, device: GpuDevice, threads: int) -> bool:
        """Whether a block of this many threads can be launched and no register spills.

        A kernel that spills can run, but its accumulators are in memory, so measuring it is never
        worthwhile.
        """
        padded = -(-threads // device.warp_size) * device.warp_size
        launches = self.registers * padded <= device.registers_per_sm
        return launches and self.spill_store_bytes == 0 and self.spill_load_bytes == 0


@dataclass(frozen=True)
class Rejected:
    """The compiler rejected the source; `log` is the end of its output."""

    log: str


def nvcc_path() -> str:
    """The CUDA compiler; `ToolchainMissingError` if there is none."""
    found = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if found is None:
        raise ToolchainMissingError(
            "compiling CUDA sources needs nvcc, which is not on the PATH. Install the CUDA toolkit."
        )
    return found


def compile_resources(source: str, arch: str) -> KernelResources | Rejected:
    """Compile one CUDA source that holds one kernel to machine code for `arch`, such as `sm_90`."""
    with tempfile.TemporaryDirectory(prefix="tilewright-nvcc-") as folder:
        file = Path(folder) / "kernel.cu"
        file.write_text(source, encoding="utf-8")
        command = [nvcc_path(), "-cubin", f"-arch={arch}", "-O3", "-Xptxas", "-v", str(file)]
        try:
            done = subprocess.run(
                [*command, "-o", str(Path(folder) / "kernel.cubin")],
                capture_output=True,
                text=True,
                timeout=_COMPILE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Rejected(f"nvcc took longer than {_COMPILE_S} s")
    if done.returncode:
        return Rejected(done.stderr.strip()[-2000:])
    return read_resources(done.stderr)


def read_resources(report: str) -> KernelResources | Rejected:
    """Resources of the one kernel in a report of `ptxas -v`."""
    registers, spills = _REGISTERS.findall(report), _SPILLS.findall(report)
    if len(registers) != 1 or len(spills) != 1:
        return Rejected(f"expected one kernel in the report of ptxas: {report.strip()[-500:]}")
    shared = _SHARED.search(report)
    stores, loads = spills[0]
    return KernelResources(
        registers=int(registers[0]),
        spill_store_bytes=int(stores),
        spill_load_bytes=int(loads),
        shared_bytes=int(shared.group(1)) if shared else 0,
    )


def misfit(source: str, device: GpuDevice) -> str | None:
    """The reason why a kernel is not worth measuring on a device; None if it is worth it.

    The reason is an error of the compiler, too many registers, or registers that spill.

    This part of a candidate's validity has no closed form.
    """
    found = compile_resources(source, device.arch)
    if isinstance(found, Rejected):
        return f"nvcc rejects the source: {found.log}"
    bounds = _LAUNCH_BOUNDS.search(source)
    threads = int(bounds.group(1)) if bounds else device.threads_per_block
    if found.fits(device, threads):
        return None
    return (
        f"{found.registers} registers in each of {threads} threads, "
        f"{found.spill_store_bytes} bytes spilled and {found.spill_load_bytes} read back"
    )
