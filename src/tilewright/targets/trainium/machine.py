"""The parameters of one NeuronCore, read from a file such as trn1.toml.

The files also give the source of each value.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar, get_type_hints

from tilewright.core.errors import ConfigurationError

_FOLDER = Path(__file__).parent
_Section = TypeVar("_Section")


@dataclass(frozen=True, slots=True)
class Clock:
    """Clocks of the engines in GHz: cycles per nanosecond."""

    pe: float
    vector: float
    scalar: float
    gpsimd: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Sizes of SBUF and PSUM, per partition if the name says so."""

    partitions: int
    sbuf_partition_bytes: int
    psum_banks: int
    psum_bank_bytes: int
    sbuf_tile_elements: int
    psum_tile_elements: int

    @property
    def psum_partition_bytes(self) -> int:
        """Bytes of PSUM in one partition."""
        return self.psum_banks * self.psum_bank_bytes


@dataclass(frozen=True, slots=True)
class Issue:
    """Cost of starting an instruction, in cycles of its engine; `semaphore` is in ns."""

    least_cycles: float
    start_cycles: float
    result_cycles: float
    gpsimd_start_cycles: float
    semaphore: float
    window: int
    copies: int


@dataclass(frozen=True, slots=True)
class Passes:
    """How often the PE array runs over float32 operands; bfloat16 takes one pass."""

    fp32_passes: float
    fp32_transpose_passes: float
    fp32_identity_passes: float


@dataclass(frozen=True, slots=True)
class Dma:
    """The DMA engines: times in ns, `bytes_per_ns` of each engine, `hbm_bytes_per_ns` of HBM."""

    engines: int
    partitions_per_job: int
    bytes_per_ns: float
    descriptor: float
    fixed: float
    element: float
    hbm_bytes_per_ns: float

    @property
    def hbm_copy_bytes_per_ns(self) -> float:
        """Bytes of a copy inside HBM that each engine moves per nanosecond.

        HBM reads and writes each of them. If all engines copy, the bandwidth of HBM limits them.
        """
        return min(self.bytes_per_ns, self.hbm_bytes_per_ns / 2 / self.engines)

    @property
    def peak_bytes_per_ns(self) -> float:
        """Bytes that all engines together move per nanosecond (GB/s)."""
        return self.engines * self.bytes_per_ns


@dataclass(frozen=True, slots=True)
class Machine:
    """One NeuronCore. `launch` is in ns; the two flags say which engines share a port."""

    name: str
    vector_port_shared: int
    psum_port_shared: int
    launch: float
    clock: Clock
    memory: Memory
    issue: Issue
    pe: Passes
    dma: Dma

    @property
    def digest(self) -> str:
        """First 16 hexadecimal digits of a hash of all parameters."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    @property
    def products_per_ns(self) -> float:
        """Multiply-adds of bfloat16 that the PE array computes per nanosecond."""
        return self.memory.partitions**2 * self.clock.pe


@cache
def load_machine(name: str) -> Machine:
    """The machine with this name in the package: trn1 or trn2."""
    return read_machine(_FOLDER / f"{name}.toml")


def read_machine(path: Path) -> Machine:
    """The machine in a file; `ConfigurationError` names the parameter that is wrong."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"target file {path} cannot be read: {error}.") from error
    table.pop("target", None)
    return _section(Machine, table, path, "")


def _section(kind: type[_Section], table: object, path: Path, prefix: str) -> _Section:
    if not isinstance(table, dict):
        raise ConfigurationError(f"{path}: {prefix.rstrip('.')} must be a table.")
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for name in names:
        if name not in table:
            raise ConfigurationError(f"{path}: {prefix}{name} is missing.")
    for name in table:
        if name not in names:
            raise ConfigurationError(
                f"{path}: unknown parameter {prefix}{name}: there are {', '.join(names)}."
            )
    return kind(**{n: _value(hints[n], table[n], path, prefix + n) for n in names})


def _value(kind: type, value: object, path: Path, name: str) -> object:
    if dataclasses.is_dataclass(kind):
        return _section(kind, value, path, name + ".")
    if kind is str:
        if isinstance(value, str) and value:
            return value
        raise ConfigurationError(f"{path}: {name} = {value!r} must be a string that is not empty.")
    whole = kind is int
    if type(value) not in ((int,) if whole else (int, float)):
        text = "an integer" if whole else "a number"
        raise ConfigurationError(f"{path}: {name} = {value!r} must be {text}.")
    assert isinstance(value, (int, float))
    least = 0 if name in _MAY_BE_ZERO else 1e-3
    if not least <= value < 1e12 or math.isnan(value):
        raise ConfigurationError(f"{path}: {name} = {value!r} must be positive.")
    return value


_MAY_BE_ZERO = {
    "vector_port_shared",
    "psum_port_shared",
    "launch",
    "issue.start_cycles",
    "issue.result_cycles",
    "issue.gpsimd_start_cycles",
    "issue.semaphore",
    "dma.descriptor",
    "dma.fixed",
    "dma.element",
}
