"""The checked content of `workload.toml`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.core.errors import WorkloadError
from tilewright.core.files import read_toml
from tilewright.core.records import ArgumentRole
from tilewright.parts.element_types import ElementType, is_float, limits
from tilewright.parts.json_schema import Mistake, first_mistake
from tilewright.parts.workload_schema import MAX_COUNT, SCHEMA

USUAL_REDUCTION = 64
"""The number of products of a sum if it is not known."""
_MOST_SHOWN = 64
"""Maximum number of characters of a field's name that messages show."""

_Number = bool | int | float
Constant = _Number | str | tuple[_Number, ...]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the values of an argument look like; exactly one of the fields is not None.

    `range` has the lowest and the highest value, `normal` has mean and standard deviation, and
    `generator` is the name of a function of `reference.py`.
    """

    range: tuple[float, float] | None = None
    normal: tuple[float, float] | None = None
    generator: str | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest value. For a normal distribution, ten standard deviations
        below and above the mean.
        """
        mean, deviation = self.normal or (0.0, 0.0)
        return self.range or (mean - 10 * deviation, mean + 10 * deviation)


@dataclass(frozen=True, slots=True)
class ArgumentTable:
    """One parameter of the kernel, a row-major array."""

    name: str
    shape: tuple[int, ...]
    dtype: ElementType
    role: ArgumentRole
    inputs: Inputs | None = None


@dataclass(frozen=True, slots=True)
class ToleranceTable:
    """Accepted is |got - expected| <= absolute + relative * |expected|; both 0 is bit-exact."""

    absolute: float = 0.0
    relative: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkloadFile:
    """What a kernel computes, on which target, over which arrays. `workload_schema` describes the
    fields.
    """

    target: str
    operations: int
    argument: tuple[ArgumentTable, ...]
    name: str | None = None
    reduction: int = USUAL_REDUCTION
    tolerance: ToleranceTable | None = None
    constants: Mapping[str, Constant] = field(default_factory=dict)


def read_workload_file(path: Path) -> WorkloadFile:
    """The checked content of a `workload.toml`; `WorkloadError` names the field that is wrong."""
    try:
        document = read_toml(path)
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror}.") from error
    mistake = first_mistake(document, SCHEMA)
    if mistake is None:
        found = _file(document)
        wrong = (_impossible_inputs(at, each) for at, each in enumerate(found.argument))
        mistake = next((one for one in wrong if one is not None), None)
    if mistake is not None:
        place = ".".join(str(part)[:_MOST_SHOWN] for part in mistake.place)
        raise WorkloadError(
            f"{path}: field {place!r}: {mistake.advice} (see docs/targets.md for the format)."
        )
    return found


def _file(document: Mapping[str, Any]) -> WorkloadFile:
    given = dict(document)
    given["operations"] = int(given["operations"])
    given["argument"] = tuple(map(_argument, given["argument"]))
    if "reduction" in given:
        given["reduction"] = int(given["reduction"])
    if "tolerance" in given:
        given["tolerance"] = ToleranceTable(**{n: float(v) for n, v in given["tolerance"].items()})
    if "constants" in given:
        given["constants"] = {name: _constant(value) for name, value in given["constants"].items()}
    return WorkloadFile(**given)


def _argument(table: Mapping[str, Any]) -> ArgumentTable:
    given = dict(table)
    given["shape"] = tuple(map(int, given["shape"]))
    if "inputs" in given:
        ((name, value),) = given["inputs"].items()
        numbers: Any = tuple(map(float, value)) if isinstance(value, list) else value
        given["inputs"] = Inputs(**{name: numbers})
    return ArgumentTable(**given)


def _constant(value: Any) -> Constant:
    """A list as a tuple, and a whole number above the limit as a float."""
    if isinstance(value, list):
        return tuple(_constant(item) for item in value)  # type: ignore[misc]
    return float(value) if isinstance(value, int) and abs(value) > MAX_COUNT else value


def _impossible_inputs(position: int, argument: ArgumentTable) -> Mistake | None:
    """The mistake in the described inputs of an argument, or None."""
    if argument.inputs is None:
        return None
    low, high = argument.inputs.ends
    if low > high:
        advice = "the first number of a range must be the smaller one"
        return Mistake(("argument", position, "inputs"), advice)
    if is_float(argument.dtype):
        largest = float(limits(argument.dtype).max)
        if low < -largest or high > largest or high - low > sys.float_info.max:
            advice = f"its inputs have values that {argument.dtype} cannot hold"
            return Mistake(("argument", position), advice)
    return None
