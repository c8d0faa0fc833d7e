"""Kernels of a workload in NKI 2 for the built-in rewriter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from tilewright.core.errors import InputError
from tilewright.core.records import Workload
from tilewright.parts.languages import NKI
from tilewright.parts.workload_file import read_workload_file
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Limits
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.program import Call
from tilewright.targets.trainium.shapes import parse_shape
from tilewright.targets.trainium.translation.clipping import UntranslatableError
from tilewright.targets.trainium.translation.translator import translated

LIMITS = Limits(steps=5_000_000, instructions=300_000)
"""Limits that are lower than those of evaluation, because the records here take more memory."""


def in_nki_2(machine: str, source: str, workload: Workload) -> str:
    """A kernel of a workload as plain NKI 2; `InputError` gives the reason if it cannot be
    translated."""
    text, reason = _written(machine, source, workload)
    if reason:
        raise InputError(reason)
    return text


@lru_cache(maxsize=64)
def _written(machine: str, source: str, workload: Workload) -> tuple[str, str]:
    """The text, or the reason why there is none. Both are cached."""
    try:
        return translated(source, call_of(workload), load_machine(machine), LIMITS), ""
    except KernelError as error:
        return "", str(error)
    except UntranslatableError as error:
        return "", NKI.located(f"the rewriter does not read this: {error}.", error.line)


def call_of(workload: Workload) -> Call:
    """The arguments with which a workload's kernels are called."""
    given = tuple(a for a in workload.arguments if a.is_given)
    written = tuple(a for a in workload.arguments if a.is_written)
    return Call(given, written, constants_of(workload))


def constants_of(workload: Workload) -> Mapping[str, object]:
    """The arguments of the kernels that are not arrays."""
    folder = Path(workload.source)
    if folder.is_absolute():
        return read_workload_file(folder / "workload.toml").constants
    return parse_shape(workload.source).constants
