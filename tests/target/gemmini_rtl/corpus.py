"""The programs of this folder, their RTL cycle counts and their input data."""

from __future__ import annotations

import csv
import functools
import struct
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
POOL_ADDRESS = 0x8010_0000
RESULTS_ADDRESS = 0x8000_1040
"""Where a program leaves cycles, instructions and output hash, 8 bytes each."""


@dataclass(frozen=True, slots=True)
class Program:
    """A built program and what RTL simulation says about it; no hash where it has no output."""

    name: str
    elf: bytes
    rtl_cycles: int
    instructions: int
    output_hash: int | None = None


@functools.cache
def pool() -> bytes:
    """The input data: 1.25 MiB of int8 over the full range, then 16384 int32 of 16 bits."""
    mask = (1 << 64) - 1
    state = 0x9E3779B97F4A7C15
    values = []
    for _ in range(0x140000 + 16384):
        state ^= (state << 13) & mask
        state ^= state >> 7
        state ^= (state << 17) & mask
        values.append((state >> 24) & 0xFFFF)
    small = bytes(v & 255 for v in values[:0x140000])
    signed = [v - 0x10000 if v & 0x8000 else v for v in values[0x140000:]]
    return small + struct.pack(f"<{len(signed)}i", *signed)


def programs() -> list[Program]:
    """The 26 builds of the 24 programs."""
    hashes = {r["name"]: r["output_hash"] for r in _rows("expected_hash.csv")}
    found = []
    for row in _rows("rtl_cycles.csv"):
        name = f"{row['name']}_{row['opt_level']}"
        expected = hashes[row["name"]]
        cycles, instructions = int(row["rtl_cycles"]), int(row["instructions"])
        output = int(expected) if expected else None
        found.append(Program(name, _elf(name), cycles, instructions, output))
    return found


def micro_loops() -> list[Program]:
    """The 47 loops that each measure one mechanism."""
    found = []
    for row in _rows("micro/micro_cycles.csv"):
        name = f"micro_{row['case']}"
        cycles, instructions = int(row["rtl_cycles_200_rounds"]), int(row["instret"])
        found.append(Program(name, _elf(name), cycles, instructions))
    return found


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _elf(name: str) -> bytes:
    return (FOLDER / "elf" / f"{name}.elf").read_bytes()
