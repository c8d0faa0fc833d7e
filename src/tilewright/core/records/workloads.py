"""What a kernel must compute, and on which arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ArgumentRole = Literal["input", "output", "inout"]
"""An `inout` array has given values like an input, and is written and compared like an output."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One array the kernel takes, in the order of its parameters (row-major, C layout)."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: ArgumentRole

    @property
    def is_given(self) -> bool:
        """Whether the array has meaningful values before the call, which is true for all roles
        except outputs.
        """
        return self.role != "output"

    @property
    def is_written(self) -> bool:
        """Whether the kernel writes it and the result is compared."""
        return self.role != "input"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Accepted difference from the reference: |got - expected| <= absolute + relative*|expected|.

    If both are 0, results must be bit-exact.

    >>> import tilewright as tw
    >>> tw.Tolerance(absolute=1e-5)
    Tolerance(absolute=1e-05, relative=0.0)
    """

    absolute: float = 0.0
    relative: float = 0.0


@dataclass(frozen=True, slots=True)
class Workload:
    """What a kernel must compute, on which target and on which arrays.

    `operations` is the number of multiply-adds that the computation requires. An array of P units
    needs at least `operations / P` cycles, and every utilisation is relative to this number.
    `source` is a registered name or the absolute path of a folder.
    """

    name: str
    target: str
    arguments: tuple[Argument, ...]
    operations: int
    tolerance: Tolerance = Tolerance()
    source: str = ""
