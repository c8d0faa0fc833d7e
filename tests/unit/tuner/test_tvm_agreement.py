"""Closed forms against TVM's lowered code, and CUDA without a GPU. Needs the extra `tune`."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

if find_spec("tvm") is None:
    pytest.skip("needs the extra 'tune' (TVM)", allow_module_level=True)

from tilewright.core.errors import ToolchainMissingError
from tilewright.tuner.detect import detect_gpu
from tilewright.tuner.device import GpuDevice
from tilewright.tuner.ptxas import KernelResources, compile_resources, misfit
from tilewright.tuner.tvm.builder import compile_module, open_builder
from tilewright.tuner.tvm.cuda import cuda_source, cuda_space
from tilewright.tuner.tvm.loading import load_device_runtime
from tilewright.tuner.tvm.lowered import lowered_kernel
from tilewright.tuner.tvm.programs import Program, conv2d, matmul
from tilewright.tuner.tvm.targets import parse_target

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")


def programs() -> list[Program]:
    return [matmul(64, 96, 128), conv2d(1, 8, 28, 28, 16, 3, stride=2, padding=1)]


@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("which", [0, 1])
def test_every_valid_candidate_lowers_to_what_the_closed_form_says(
    which: int, restricted: bool
) -> None:
    drawn = cuda_space(programs()[which], parse_target("nvidia/h100"), restricted=restricted)
    points = drawn.space.random(12, np.random.default_rng(0))
    closed = drawn.features.shape(points)
    for row in range(len(points)):
        schedule = drawn.template.schedule(points[[row]])
        assert schedule is not None, points.tiles[row]
        kernel = lowered_kernel(schedule.mod)
        for name in ("grid", "vthreads", "threads", "shared_bytes", "register_tile"):
            assert getattr(kernel, name) == getattr(closed, name)[row], (name, points.tiles[row])


def test_points_of_every_stage_are_read_back_from_their_traces() -> None:
    drawn = cuda_space(programs()[0], parse_target("nvidia/h100"))
    points = drawn.space.random(12, np.random.default_rng(1))
    schedules = [drawn.template.schedule(points[[row]]) for row in range(len(points))]
    again = drawn.template.points([schedule.trace for schedule in schedules])
    assert again.row_keys() == points.row_keys()
    assert len(set(drawn.features.structure.values(points, "stages").tolist())) > 1


@needs_nvcc
def test_a_generated_kernel_compiles_and_its_shared_memory_is_as_predicted() -> None:
    target = parse_target("nvidia/h100")
    assert isinstance(target.device, GpuDevice)
    drawn = cuda_space(programs()[0], target, restricted=True)
    point = drawn.space.random(1, np.random.default_rng(0))
    schedule = drawn.template.schedule(point)
    source = cuda_source(schedule.mod, target.target)
    assert "__global__" in source
    found = compile_resources(source, target.device.arch)
    assert isinstance(found, KernelResources)
    assert found.shared_bytes == drawn.features.shape(point).shared_bytes[0]
    assert misfit(source, target.device) is None


@pytest.mark.skipif(detect_gpu() is not None, reason="a CUDA driver is here")
def test_a_missing_cuda_runtime_is_named() -> None:
    load_device_runtime("cpu")
    with pytest.raises(ToolchainMissingError, match="LD_LIBRARY_PATH"):
        load_device_runtime("cuda")


@needs_nvcc
def test_the_builder_of_a_gpu_writes_libraries_and_drops_misfits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = parse_target("nvidia/h100")
    drawn = cuda_space(programs()[0], target, restricted=True)
    schedule = drawn.template.schedule(drawn.space.random(1, np.random.default_rng(0)))
    with open_builder(target) as builder:
        (built,) = builder.build([schedule])
        assert built.library is not None
        assert built.library.stat().st_size > 0
    # Compiled in this process, not in the builder's: there the patch would not be seen.
    monkeypatch.setattr(KernelResources, "fits", lambda self, device, threads: False)
    dropped = compile_module(schedule.mod, target.target, tmp_path / "k.so", target.device)
    assert dropped.library is None
    assert "registers" in dropped.log


@needs_nvcc
def test_a_kernel_that_spills_is_a_misfit() -> None:
    target = parse_target("nvidia/h100")
    assert isinstance(target.device, GpuDevice)
    # Each of 1024 threads may have 64 registers; 256 values live across a barrier do not fit.
    source = """
    extern "C" __global__ void __launch_bounds__(1024) f(float* a) {
      float v[256];
      #pragma unroll
      for (int i = 0; i < 256; ++i) v[i] = a[i * 1024 + threadIdx.x];
      __syncthreads();
      #pragma unroll
      for (int i = 0; i < 256; ++i) a[i * 1024 + threadIdx.x] = v[255 - i] * v[i];
    }"""
    assert "spilled" in str(misfit(source, target.device))
    assert "rejects" in str(misfit("this is no source", target.device))
