"""The fields of `workload.toml`, and their JSON Schema for editors."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from tilewright.core.errors import WorkloadError
from tilewright.core.files import read_toml
from tilewright.parts.element_types import ElementType, is_float, limits

MAX_DIMENSIONS = 8
MAX_CONSTANTS = 32
MAX_CONSTANT_LENGTH = 256
MAX_COUNT = 10**18
"""Maximum number of operations and elements; a machine would need years for more."""


def _not_bool(value: object) -> object:
    """The value, unless it is true or false, which pydantic would read as 1 or 0."""
    if isinstance(value, bool):
        raise ValueError(f"give a number instead of {str(value).lower()}")
    return value


_NotBool = BeforeValidator(_not_bool)
_Count = Annotated[int, Field(ge=0, le=MAX_COUNT), _NotBool]
_Positive = Annotated[int, Field(gt=0, le=MAX_COUNT), _NotBool]
_Finite = Annotated[float, Field(allow_inf_nan=False), _NotBool]
_AtLeastZero = Annotated[float, Field(ge=0, allow_inf_nan=False), _NotBool]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=64)]
_Number = (
    Annotated[bool, Field(strict=True)]
    | Annotated[int, Field(strict=True, ge=-MAX_COUNT, le=MAX_COUNT)]
    | _Finite
)
_Constant = (
    _Number
    | Annotated[str, Field(max_length=MAX_CONSTANT_LENGTH)]
    | Annotated[tuple[_Number, ...], Field(max_length=MAX_CONSTANT_LENGTH)]
)


class _Strict(BaseModel):
    # The text below each field is its description in the JSON Schema.
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Inputs(_Strict):
    """What the values of an argument look like; exactly one of the fields."""

    range: tuple[_Finite, _Finite] | None = None
    """Uniform from the first number to the second."""
    normal: tuple[_Finite, _AtLeastZero] | None = None
    """Normally distributed: mean and standard deviation."""
    generator: _Name | None = None
    """A function of `reference.py`, called as `generator(rng, shape)` with a
    `numpy.random.Generator`; it returns the values."""

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest value. For a normal distribution, ten standard deviations
        below and above the mean.
        """
        mean, deviation = self.normal or (0.0, 0.0)
        return self.range or (mean - 10 * deviation, mean + 10 * deviation)

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        given = [name for name, value in self if value is not None]
        if len(given) != 1:
            raise ValueError("give one of range, normal and generator")
        if self.range is not None and self.range[0] > self.range[1]:
            raise ValueError("the first number of a range must be the smaller one")
        return self


class ArgumentTable(_Strict):
    """One parameter of the kernel, a row-major array."""

    name: _Name
    """The parameter's name; `reference` receives an input under the same name."""
    shape: Annotated[
        tuple[_Positive, ...],
        Field(min_length=1, max_length=MAX_DIMENSIONS),
    ]
    """Elements in each dimension."""
    dtype: ElementType
    """Type of the elements."""
    role: Literal["input", "output", "inout"]
    """`input` is only read, `output` only written; `inout` is given, written and compared."""
    inputs: Inputs | None = None
    """A description of the values, if not every value is meaningful."""

    @model_validator(mode="after")
    def _holds_the_values(self) -> Self:
        if self.inputs is not None and is_float(self.dtype):
            low, high = self.inputs.ends
            largest = float(limits(self.dtype).max)
            if low < -largest or high > largest or high - low > sys.float_info.max:
                raise ValueError(f"its inputs have values that {self.dtype} cannot hold")
        return self


class ToleranceTable(_Strict):
    """Accepted is |got - expected| <= absolute + relative * |expected|; both 0 is bit-exact."""

    absolute: _AtLeastZero = 0.0
    """Error allowed for every element."""
    relative: _AtLeastZero = 0.0
    """Further error allowed, as a share of the expected value."""


class WorkloadFile(_Strict):
    """What a kernel computes, on which target, over which arrays (tilewright's workload.toml)."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=100)] | None = None
    """Name in results; the folder's name unless given."""
    target: str
    """An installed target (`tilewright targets`), or the path of a .toml file that describes one,
    relative to this file."""
    operations: _Count
    """Multiply-adds that one call must perform. The utilisation is computed from this number. Give
    0 if a Trainium kernel only moves data."""
    reduction: _Positive = 64
    """Number of products that each output sums. tilewright scales the inputs by this number, so
    that the outputs spread over their range."""
    tolerance: ToleranceTable | None = None
    """The error that a result may have. Without this table, float32 outputs may have up to four
    times the error of ordinary float32 arithmetic, and all other outputs must be exact."""
    constants: Annotated[dict[_Name, _Constant], Field(max_length=MAX_CONSTANTS)] = {}
    """Arguments of a Trainium kernel that are not arrays, by name. `reference` receives those for
    which it has a parameter. A string that names a type, such as "bfloat16", is passed to the
    kernel as this type, and a list is passed as a tuple."""
    argument: Annotated[tuple[ArgumentTable, ...], Field(min_length=1)]
    """The kernel's parameters, in their order."""


def schema() -> Mapping[str, object]:
    """The JSON Schema of `workload.toml`."""
    found = WorkloadFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


_GIVE = {
    "Value error, ": "",
    "Extra inputs are not permitted": "no such field exists, so correct its name or remove it",
    "Field required": "the field is missing, so add it",
    "Input should be a valid integer, unable to parse string as an integer": "give a whole number",
    "Input should be greater": "give a number greater",
    "Input should be less": "give a number less",
    "Input should be ": "give ",
}
_PLAIN = re.compile("^(?:" + "|".join(_GIVE) + ")")
"""The beginnings of pydantic's messages, and the instructions that replace them."""


def read_workload_file(path: Path) -> WorkloadFile:
    """The checked content of a `workload.toml`; `WorkloadError` names the field that is wrong."""
    try:
        return WorkloadFile.model_validate(read_toml(path))
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        message = _PLAIN.sub(lambda found: _GIVE[found[0]], first["msg"])
        raise WorkloadError(
            f"{path}: field {field!r}: {message} (see docs/targets.md for the format)."
        ) from error
