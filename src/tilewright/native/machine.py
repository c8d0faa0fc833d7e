"""Detects the processor of this machine, and selects the cores that measure."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright.core.errors import ConfigurationError, DeviceBusyError
from tilewright.timing import exclusive

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True)
class Processor:
    """Name, features as the system spells them, and data caches in bytes (0 where unknown).

    `generation` has the numbers of the family and of the model, because virtual machines often
    report the same name for all generations; empty if the system does not report them.
    """

    name: str
    features: frozenset[str]
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    generation: str = ""

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
        generation=f"family {fields['cpu family']} model {fields['model']}"
        if {"cpu family", "model"} <= fields.keys()
        else "",
    )


def measuring_cores(count: int = 1) -> list[int]:
    """The cores on which kernels are measured, which are the last of those that this process may
    use.

    Raises `ConfigurationError` if there are fewer than `count` cores.
    """
    usable = sorted(_usable())
    if count > len(usable):
        raise ConfigurationError(
            f"threads = {count}, but this process may use {len(usable)} cores: each thread is "
            "measured on its own core, so declare no more threads than cores."
        )
    return usable[-count:]


def spare_cores(count: int = 1) -> int:
    """The number of cores on which kernels are not measured."""
    return len(_usable()) - len(measuring_cores(count))


@contextmanager
def on_measuring_cores(count: int = 1) -> Iterator[None]:
    """Move this thread, and processes that it starts, to the measuring cores when no measurement is
    running there.

    It waits until then, because it would disturb a measurement.
    """
    with ExitStack() as stack:
        for core in reversed(measuring_cores(count)):  # the same order for all, to avoid deadlocks
            stack.enter_context(exclusive(f"cpu{core}"))
        stack.enter_context(_on(set(measuring_cores(count))))
        yield


@contextmanager
def off_measuring_cores(count: int = 1) -> Iterator[None]:
    """Keep this thread off the measuring cores if there is another core."""
    with _on(_usable() - set(measuring_cores(count)) or _usable()):
        yield


@contextmanager
def on_building_cores(count: int = 1) -> Iterator[None]:
    """Build on the measuring cores while no measurement is running there, and otherwise on the
    other cores.

    A measurement waits until the build has ended, which is better than leaving the core idle.
    """
    with ExitStack() as stack:
        try:
            for core in reversed(measuring_cores(count)):
                stack.enter_context(exclusive(f"cpu{core}", wait_s=0))
        except DeviceBusyError:
            stack.close()
            stack.enter_context(off_measuring_cores(count))
        else:
            stack.enter_context(_on(set(measuring_cores(count))))
        yield


@cache
def _usable() -> frozenset[int]:
    """The cores that this process could use when it was first asked. Later changes are made by this
    module itself.
    """
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
