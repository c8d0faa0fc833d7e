"""CUDA without a GPU: the template's space for a device, generated sources, what ptxas says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tilewright.tuner.device import GpuDevice
from tilewright.tuner.features.gpu import GpuFeatures
from tilewright.tuner.ptxas import KernelResources, Rejected, compile_resources
from tilewright.tuner.space import TileSpace
from tilewright.tuner.structure import gpu_structure
from tilewright.tuner.tvm import rules
from tilewright.tuner.tvm.analysis import analyse
from tilewright.tuner.tvm.programs import Program
from tilewright.tuner.tvm.targets import TuningTarget
from tilewright.tuner.tvm.template import Template

_LAUNCH_BOUNDS = re.compile(r"__launch_bounds__\((\d+)\)")


@dataclass(frozen=True)
class CudaSpace:
    """A program's schedules on a GPU and their closed forms."""

    template: Template
    features: GpuFeatures
    space: TileSpace


def cuda_space(program: Program, target: TuningTarget, *, restricted: bool = False) -> CudaSpace:
    """The template's space of a program on the device of a CUDA target."""
    from tvm.s_tir import meta_schedule as ms

    assert isinstance(target.device, GpuDevice)
    anatomy = analyse(program.function, program.name)
    structure = gpu_structure(anatomy.workload, restricted=restricted)
    features = GpuFeatures(anatomy.workload, structure, target.device)
    context = rules.context(
        program.function,
        target,
        rules.template(target, structure),
        ms.search_strategy.ReplayTrace(),
        seed=0,
    )
    space = TileSpace(anatomy.workload, structure, features.valid)
    return CudaSpace(Template(context, anatomy, structure), features, space)


def cuda_source(module: Any, target: Any) -> str:
    """The CUDA C++ source of a scheduled module; needs neither a GPU nor a CUDA compiler."""
    import tvm

    (device_code,) = tvm.compile(module, target=target).mod.imports
    return str(device_code.inspect_source())


def resources(source: str, device: GpuDevice) -> KernelResources | Rejected:
    """What the one kernel of a generated source needs on a device."""
    return compile_resources(source, device.arch)


def misfit(source: str, device: GpuDevice) -> str | None:
    """Why a kernel is not worth measuring on a device, by its registers and spills; None if it is.

    This is the part of a candidate's validity that has no closed form.
    """
    found = resources(source, device)
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
