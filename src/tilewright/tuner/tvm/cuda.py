"""CUDA without a GPU: the template's space for a device, and generated sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.tuner.device import GpuDevice
from tilewright.tuner.features.gpu import GpuFeatures
from tilewright.tuner.space import TileSpace
from tilewright.tuner.structure import gpu_structure
from tilewright.tuner.tvm import rules
from tilewright.tuner.tvm.analysis import analyse
from tilewright.tuner.tvm.programs import Program
from tilewright.tuner.tvm.targets import TuningTarget
from tilewright.tuner.tvm.template import Template


@dataclass(frozen=True)
class CudaSpace:
    """A program's schedules on a GPU and their closed-form features."""

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
    """The CUDA C++ source of a scheduled module. Needs neither a GPU nor a CUDA compiler."""
    import tvm

    (device_code,) = tvm.compile(module, target=target).mod.imports
    return str(device_code.inspect_source())
