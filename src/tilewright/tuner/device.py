"""Properties of a device, from which features and validity checks are computed.

Each device is described by one TOML file in `devices/`, so a new device needs only a new file.
`detect.py` creates the same records for the devices of this machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

from tilewright.core.errors import ConfigurationError, UnknownNameError
from tilewright.core.files import read_toml

_FOLDER = Path(__file__).parent / "devices"
_OPERAND_REGISTERS = 4


@dataclass(frozen=True)
class GpuDevice:
    """A CUDA device. Sizes are in bytes; bandwidth in GB/s and peak in GFLOP/s are 0 if unknown."""

    name: str
    arch: str
    sms: int
    registers_per_sm: int
    shared_bytes_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    bandwidth_gb_s: float = 0.0
    peak_gflops: float = 0.0
    l2_bytes: int = 0
    shared_bytes_per_block: int = 48 * 1024
    reserved_shared_bytes: int = 1024
    threads_per_block: int = 1024
    registers_per_thread: int = 255
    warp_size: int = 32

    @property
    def compute_capability(self) -> int:
        """Major and minor version as one number: 90 for `sm_90` and `sm_90a`."""
        return int(re.sub(r"\D", "", self.arch))

    @property
    def warps_per_sm(self) -> int:
        """Warps that one SM can hold."""
        return self.threads_per_sm // self.warp_size


@dataclass(frozen=True)
class CpuDevice:
    """Cores of one processor. Caches are per core, in bytes, and 0 if unknown."""

    name: str
    cores: int
    vector_bytes: int
    vector_registers: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int = 0
    bandwidth_gb_s: float = 0.0
    peak_gflops: float = 0.0

    @property
    def accumulators(self) -> int:
        """Number of vector registers that can be accumulators while the others hold operands."""
        return self.vector_registers - _OPERAND_REGISTERS

    def lanes(self, element_bytes: int) -> int:
        """Number of elements in a vector."""
        return max(self.vector_bytes // element_bytes, 1)


DeviceModel = GpuDevice | CpuDevice


def device_names() -> list[str]:
    """Names of the devices that have a file here."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


def named_device(name: str) -> DeviceModel:
    """The device with this name, such as `h100`. Case and vendor prefixes are ignored.

    For an unknown name, `UnknownNameError` suggests the most similar one.
    """
    stem = name.lower().rsplit("/", 1)[-1]
    for known in device_names():
        if stem in (known, f"nvidia-{known}", f"rtx-{known}", f"geforce-rtx-{known}"):
            return read_device(_FOLDER / f"{known}.toml")
    raise UnknownNameError("device", name, device_names())


def read_device(file: Path) -> DeviceModel:
    """The device that a TOML file describes. Its `kind` is `gpu` or `cpu`.

    `ConfigurationError` names the file and the field.
    """
    try:
        table = read_toml(file)
    except OSError as error:
        raise ConfigurationError(f"device file {file} cannot be read: {error.strerror}.") from error
    kind = table.pop("kind", None)
    if kind not in ("gpu", "cpu"):
        raise ConfigurationError(f'device file {file} needs kind = "gpu" or kind = "cpu".')
    record = GpuDevice if kind == "gpu" else CpuDevice
    known = {field.name for field in fields(record)}
    if unknown := sorted(set(table) - known):
        raise ConfigurationError(
            f"device file {file} has unknown fields {', '.join(unknown)}; "
            f"known are {', '.join(sorted(known))}."
        )
    try:
        return record(**table)
    except TypeError as error:
        raise ConfigurationError(f"device file {file} lacks fields: {error}.") from error
