"""Reads kernels with the information in a target's brief."""

from __future__ import annotations

from functools import lru_cache

from tilewright.core.records import CommandEffect, TargetBrief, Workload
from tilewright.parts.inputs import bytes_of
from tilewright.proposers.loops.ir import Kernel
from tilewright.proposers.loops.parsing.kernel import parse


def read_kernel(source: str, target: TargetBrief, workload: Workload) -> Kernel:
    """The kernel of a source, which may use the target's register commands.

    Parameters that are declared as pointers get the sizes of the workload's arguments.
    Raises `UnsupportedError`.
    """
    limits = target.limits
    block = (limits.get("register_rows", 1), limits.get("register_row_bytes", 4))
    given_bytes = tuple(bytes_of([argument]) for argument in workload.arguments)
    return _parsed(source, target.name, _Commands(target.commands), block, given_bytes)


class _Commands(tuple[CommandEffect, ...]):
    """The commands of a target, identified by their names and operands."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(tuple((c.name, c.operands) for c in self))


@lru_cache(maxsize=128)
def _parsed(
    source: str,
    target: str,
    commands: _Commands,
    block: tuple[int, int],
    given_bytes: tuple[int, ...],
) -> Kernel:
    return parse(source, commands, block, given_bytes)


def threads_of(target: TargetBrief) -> int:
    """Number of threads that can share a loop; 1 if the target's menu does not offer this."""
    offered = any(option.technique == "share" for option in target.menu)
    return target.limits.get("threads", 1) if offered else 1


def lanes_of(target: TargetBrief) -> int:
    """Number of floats in a vector register."""
    return max(4, target.limits.get("vector_bytes", 16) // 4)
