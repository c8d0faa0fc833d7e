"""What this machine's processor is, and which core measures."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True)
class Processor:
    """Name, features as the system spells them, and data caches in bytes (0 where unknown)."""

    name: str
    features: frozenset[str]
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int

    @property
    def vector_bytes(self) -> int:
        """Bytes of the widest vector register."""
        if "avx512f" in self.features:
            return 64
        return 32 if "avx2" in self.features else 16

    @property
    def vector_registers(self) -> int:
        """Architectural vector registers."""
        return 16 if platform.machine() == "x86_64" and self.vector_bytes < 64 else 32


@cache
def processor() -> Processor:
    """The processor of the running system."""
    fields = _first_processor()
    features = fields.get("flags", fields.get("Features", ""))
    sizes = _data_caches()
    return Processor(
        name=fields.get("model name", platform.machine()),
        features=frozenset(features.split()),
        l1_bytes=sizes.get(1, 0),
        l2_bytes=sizes.get(2, 0),
        l3_bytes=sizes.get(3, 0),
    )


def measuring_core() -> int:
    """The core that measures: the last of those this process may use."""
    return max(_usable())


@contextmanager
def on_measuring_core() -> Iterator[None]:
    """Keep this thread, and what it starts, on the measuring core."""
    with _on({measuring_core()}):
        yield


@contextmanager
def off_measuring_core() -> Iterator[None]:
    """Leave the measuring core to what is measured, where there is another one."""
    with _on(_usable() - {measuring_core()} or _usable()):
        yield


@cache
def _usable() -> frozenset[int]:
    """As it was when this was first asked: later changes are this module's own."""
    return frozenset(os.sched_getaffinity(0))


@contextmanager
def _on(cores: set[int] | frozenset[int]) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    _usable()
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _first_processor() -> dict[str, str]:
    try:
        text = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _data_caches() -> dict[int, int]:
    """Bytes by level."""
    found = {}
    for folder in sorted(_CACHES.glob("index*")):
        try:
            if (folder / "type").read_text().strip() != "Instruction":
                size = (folder / "size").read_text().strip()
                found[int((folder / "level").read_text())] = int(size.rstrip("K")) << 10
        except (OSError, ValueError):
            continue
    return found
