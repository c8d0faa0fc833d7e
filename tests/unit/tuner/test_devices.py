"""Device files, names and detection."""

from pathlib import Path

import pytest

from tilewright.core.errors import ConfigurationError, UnknownNameError
from tilewright.tuner.detect import detect_cpu
from tilewright.tuner.device import GpuDevice, device_names, named_device, read_device


def test_every_device_file_reads_and_is_sane() -> None:
    assert {"3090", "4090", "a100", "h100", "h200"} <= set(device_names())
    for name in device_names():
        device = named_device(name)
        assert isinstance(device, GpuDevice)
        assert device.warps_per_sm * device.warp_size == device.threads_per_sm
        assert device.shared_bytes_per_block < device.shared_bytes_per_sm
        # A ridge point of fp32 between a few and a hundred operations for each byte.
        assert 5 < device.peak_gflops / device.bandwidth_gb_s < 100


def test_names_are_forgiving_and_mistakes_get_a_suggestion() -> None:
    assert named_device("nvidia/nvidia-h100") == named_device("H100")
    assert named_device("nvidia/geforce-rtx-4090") == named_device("4090")
    with pytest.raises(UnknownNameError, match="did you mean 'h100'"):
        named_device("h1000")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sms = 1", 'needs kind = "gpu"'),
        ('kind = "gpu"\nname = "x"', "lacks fields"),
        ('kind = "cpu"\nsmm = 3', "unknown fields smm"),
        ("kind = ", "cannot be read"),
    ],
)
def test_a_broken_device_file_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        read_device(file)


def test_a_new_device_is_one_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'kind = "gpu"\nname = "mine"\narch = "sm_99"\nsms = 7\nregisters_per_sm = 65536\n'
        "shared_bytes_per_sm = 102400\nthreads_per_sm = 1536\nblocks_per_sm = 16\n"
    )
    device = read_device(file)
    assert isinstance(device, GpuDevice)
    assert (device.sms, device.warps_per_sm) == (7, 48)


def test_a_processor_is_read_from_system_files(tmp_path: Path) -> None:
    for index, (level, kind, size) in enumerate(
        [
            (1, "Data", "48K"),
            (1, "Instruction", "32K"),
            (2, "Unified", "2048K"),
            (3, "Unified", "1M"),
        ]
    ):
        folder = tmp_path / "cpu0" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        (folder / "level").write_text(f"{level}\n")
        (folder / "type").write_text(f"{kind}\n")
        (folder / "size").write_text(f"{size}\n")
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name\t: Some CPU\nflags\t\t: fpu avx avx2 fma\n")
    device = detect_cpu(cores=4, sysfs=tmp_path, cpuinfo=cpuinfo)
    assert (device.name, device.cores) == ("Some CPU", 4)
    assert (device.l1_bytes, device.l2_bytes, device.l3_bytes) == (48 << 10, 2 << 20, 1 << 20)
    assert (device.vector_bytes, device.vector_registers) == (32, 16)


def test_a_processor_that_tells_nothing_falls_back(tmp_path: Path) -> None:
    device = detect_cpu(cores=1, sysfs=tmp_path, cpuinfo=tmp_path / "none")
    assert device.l1_bytes == 32 << 10
    assert device.vector_bytes == 16
