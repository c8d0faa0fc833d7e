"""Reports of ptxas are read; what is no report of one kernel is rejected."""

import pytest

from tilewright.core.errors import ToolchainMissingError
from tilewright.tuner import ptxas
from tilewright.tuner.device import GpuDevice, named_device
from tilewright.tuner.ptxas import KernelResources, Rejected, read_resources

REPORT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'main_kernel' for 'sm_90'
ptxas info    : Function properties for main_kernel
    0 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 16384 bytes smem
ptxas info    : Compile time = 40.000 ms
"""


def test_a_report_is_read() -> None:
    assert read_resources(REPORT) == KernelResources(168, 12, 8, 16384)


def test_a_kernel_without_shared_memory_is_read() -> None:
    assert read_resources(REPORT.replace(", 16384 bytes smem", "")) == KernelResources(
        168, 12, 8, 0
    )


@pytest.mark.parametrize("report", ["", "error: everything", REPORT + REPORT])
def test_anything_but_one_kernel_is_rejected(report: str) -> None:
    assert isinstance(read_resources(report), Rejected)


def test_what_fits_launches_and_does_not_spill() -> None:
    device = named_device("h100")
    assert isinstance(device, GpuDevice)
    assert KernelResources(128, 0, 0, 0).fits(device, 512)
    assert not KernelResources(129, 0, 0, 0).fits(device, 512)
    assert not KernelResources(128, 0, 0, 0).fits(device, 513)
    assert not KernelResources(32, 4, 0, 0).fits(device, 128)


def test_without_a_compiler_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ptxas.shutil, "which", lambda name: None)
    with pytest.raises(ToolchainMissingError, match="nvcc"):
        ptxas.nvcc_path()
