"""Computes how many warps of a kernel a multiprocessor holds at once, from the documented
limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright.core.files import read_toml

_FILE = Path(__file__).with_name("architectures.toml")
_WARP = 32


@dataclass(frozen=True, slots=True)
class Architecture:
    """One multiprocessor; see architectures.toml for the units and their sources."""

    name: str
    gpus: str
    lanes: int
    warps: int
    blocks: int
    registers: int
    register_unit: int
    shared_kib: int
    block_shared_kib: int
    block_shared_reserved: int
    shared_unit: int

    @property
    def limits(self) -> Mapping[str, int]:
        """What a multiprocessor holds, and what a block may use."""
        return {
            "warps_per_multiprocessor": self.warps,
            "registers_per_multiprocessor": self.registers,
            "shared_bytes_per_block": self.block_shared_kib << 10,
            "shared_bytes_per_multiprocessor": self.shared_kib << 10,
            "threads_per_block": 1024,
        }

    @property
    def in_words(self) -> str:
        """The limits in one sentence."""
        return (
            f"A multiprocessor of {self.name} ({self.gpus}) holds {self.warps} warps and "
            f"{self.blocks} blocks at once, {self.registers} registers of 32 bits, and "
            f"{self.shared_kib << 10} bytes of shared memory, of which a block may use "
            f"{self.block_shared_kib << 10}."
        )


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The numbers of `blocks` and `warps` that are resident on one multiprocessor, and the limiting
    resource.

    `share` is the number of warps divided by the maximum number, 0 to 1. If `blocks` is 0, no block
    fits.
    """

    blocks: int
    warps: int
    share: float
    limit: str


@cache
def architectures() -> dict[str, Architecture]:
    """All described architectures, by the name that nvcc uses."""
    return {name: Architecture(name, **fields) for name, fields in read_toml(_FILE).items()}


def occupancy(
    architecture: Architecture, threads: int, registers: int, shared_bytes: int
) -> Occupancy:
    """The occupancy for blocks of `threads` threads with these numbers of registers per thread and
    bytes of shared memory per block."""
    warps = -(-threads // _WARP)
    per_warp = _rounded(registers * _WARP, architecture.register_unit)
    used = shared_bytes + architecture.block_shared_reserved
    room = {
        "blocks": architecture.blocks,
        "warps": architecture.warps // warps,
        "registers": architecture.registers // per_warp // warps
        if per_warp
        else architecture.blocks,
        "shared memory": (architecture.shared_kib << 10) // _rounded(used, architecture.shared_unit)
        if used
        else architecture.blocks,
    }
    if shared_bytes > architecture.block_shared_kib << 10:
        room["shared memory"] = 0
    limit = min(room, key=lambda name: room[name])
    blocks = room[limit]
    return Occupancy(blocks, blocks * warps, blocks * warps / architecture.warps, limit)


def _rounded(value: int, unit: int) -> int:
    return -(-value // unit) * unit
