"""Device files, names and detection."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.core.errors import ConfigurationError, UnknownNameError
from tilewright.tuner import detect
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


class FakeDriver:
    """The four calls of a CUDA driver that detection makes, for one device."""

    def __init__(self, name: str, attributes: dict[int, int]) -> None:
        self._name, self._attributes = name, attributes

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:
        return 0 if ordinal == 0 else 101

    def cuDeviceGetName(self, text: Any, length: int, device: Any) -> int:
        text.value = self._name.encode()
        return 0

    def cuDeviceGetAttribute(self, value: Any, number: int, device: Any) -> int:
        value._obj.value = self._attributes.get(number, 0)
        return 0 if number in self._attributes else 1


def attributes_of(device: GpuDevice) -> dict[int, int]:
    fields = {field: getattr(device, field) for field in detect._ATTRIBUTES}
    major, minor = divmod(device.compute_capability, 10)
    clocks = {13: 1_000_000, 36: 2_000_000, 37: 1024, 75: major, 76: minor}
    return {detect._ATTRIBUTES[field]: value for field, value in fields.items()} | clocks


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA GeForce RTX 4090", "4090"),
    ],
)
def test_a_known_gpu_is_recognised_by_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, known: str
) -> None:
    described = named_device(known)
    assert isinstance(described, GpuDevice)
    driver = FakeDriver(name, attributes_of(described))
    monkeypatch.setattr(detect.ctypes, "CDLL", lambda path: driver)
    assert detect.detect_gpu() == replace(described, name=name)
    assert detect.detect_gpu(ordinal=1) is None


def test_an_unknown_gpu_gets_its_peak_from_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    described = named_device("h100")
    assert isinstance(described, GpuDevice)
    driver = FakeDriver("NVIDIA Something", attributes_of(replace(described, sms=10)))
    monkeypatch.setattr(detect.ctypes, "CDLL", lambda path: driver)
    found = detect.detect_gpu()
    assert found is not None
    assert found.peak_gflops == pytest.approx(2 * 128 * 10 * 1.0)  # lanes, SMs, 1 GHz
    assert found.bandwidth_gb_s == pytest.approx(2 * 2.0 * 1024 / 8)


def test_no_driver_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> None:
        raise OSError(path)

    monkeypatch.setattr(detect.ctypes, "CDLL", missing)
    assert detect.detect_gpu() is None


def test_a_processor_that_tells_nothing_falls_back(tmp_path: Path) -> None:
    device = detect_cpu(cores=1, sysfs=tmp_path, cpuinfo=tmp_path / "none")
    assert device.l1_bytes == 32 << 10
    assert device.vector_bytes == 16
