"""Describes the resources that each launch of a kernel takes, and what a GPU would refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.core.records import Failed
from tilewright.parts.languages import CUDA
from tilewright.targets.cuda.emulation import Launch
from tilewright.targets.cuda.nvcc import Resources
from tilewright.targets.cuda.occupancy import Architecture, Occupancy, occupancy


def in_words(
    functions: Sequence[Resources], launches: Sequence[Launch], architecture: Architecture
) -> str:
    """One clause for each launched function: registers, spills, memory, occupancy."""
    said = dict[str, None]()
    for launch, function in _launched(functions, launches):
        found = _occupancy(launch, function, architecture)
        shared = function.shared_bytes + launch.dynamic_shared_bytes
        said[
            f"{launch.name} has {function.registers} registers and {function.spilled_bytes} bytes "
            f"spilled per thread, {shared} bytes of shared memory per block of {launch.threads} "
            f"threads, occupancy {found.share:.0%} (limit: {found.limit})"
        ] = None
    if not said:
        return "the resources of the launched functions are not known"
    return "; ".join(said)


def refused_launch(
    functions: Sequence[Resources], launches: Sequence[Launch], architecture: Architecture
) -> Failed | None:
    """A launch that needs more resources than a multiprocessor has, or None."""
    for launch, function in _launched(functions, launches):
        found = _occupancy(launch, function, architecture)
        if found.blocks:
            continue
        shared = function.shared_bytes + launch.dynamic_shared_bytes
        log = (
            f"{launch.name} does not fit {architecture.name} ({found.limit}): a block has "
            f"{launch.threads} threads with {function.registers} registers each, and {shared} "
            "bytes of shared memory"
        )
        return Failed("check", "launch_failure", CUDA.located(f"{log}.", launch.line), launch.line)
    return None


def _occupancy(launch: Launch, function: Resources, architecture: Architecture) -> Occupancy:
    shared = function.shared_bytes + launch.dynamic_shared_bytes
    return occupancy(architecture, launch.threads, function.registers, shared)


def _launched(
    functions: Sequence[Resources], launches: Sequence[Launch]
) -> Iterator[tuple[Launch, Resources]]:
    """Each launch with its function. For a template, this is the instance that needs most
    resources."""
    for launch in launches:
        name = launch.name.rpartition("::")[2]
        named = [f for f in functions if f"{len(name)}{name}" in f.symbol or f.symbol == name]
        if named:
            yield launch, max(named, key=lambda f: (f.registers, f.shared_bytes))
