"""Reads the machine's parameters from the `[simulator.*]` tables of a target.toml."""

from __future__ import annotations

import difflib
import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.core.errors import ConfigurationError

_FOLDER = Path(__file__).parent
CONFIGURATIONS: Mapping[str, Path] = {
    "gemmini-int8-16x16": _FOLDER / "target.toml",
    "gemmini-fp32-4x4": _FOLDER / "fp32-4x4.toml",
}
"""The configurations that come with the package: what `base` of another file may name."""

ELEMENT_TYPES = ("int8", "fp32", "int32")
"""Names of the simulator's numbers for element types, in order."""
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "array_element_type": ("int8", "fp32"),
    "accumulator_element_type": ("int32", "fp32"),
}
ARRAY_SIZES = (2, 4, 8, 16, 32)
"""Rows and columns of the arrays that are modelled."""

_MAY_BE_ZERO = {
    "array_element_type",
    "accumulator_scaled_loads",
    "array_tile_latency",
    "array_output_delay",
    "commands_front_latency",
    "l2_mshr_release",
    "l2_clean_victim",
    "l2_dirty_victim",
    "l2_full_line_store",
    "l2_probe_latency",
    "l2_second_request",
    "dma_issue_latency",
    "cpu_load_use",
    "cpu_branch_miss",
    "cpu_multiply",
    "cpu_divide",
    "cpu_float",
    "cpu_store_to_load",
    "cpu_store_latency",
    "cpu_fence_latency",
}
_POWERS_OF_TWO = (
    "scratchpad_banks",
    "scratchpad_bank_rows",
    "accumulator_banks",
    "accumulator_bank_rows",
    "l2_bytes",
    "l2_ways",
    "l2_line_bytes",
    "dma_bus_bytes",
    "dma_max_request_bytes",
    "cpu_l1_bytes",
    "cpu_l1_ways",
)


@dataclass(frozen=True, slots=True)
class SimConfig:
    """A complete, checked set of parameters: `SECTION_KEY` of target.toml to its whole number."""

    parameters: Mapping[str, int]

    def __getitem__(self, name: str) -> int:
        return self.parameters[name]

    @property
    def element_type(self) -> str:
        """Of the array's operands: int8 or fp32."""
        return ELEMENT_TYPES[self["array_element_type"]]

    @property
    def element_bytes(self) -> int:
        """Of one element in the scratchpad."""
        return _BYTES[self.element_type]

    @property
    def sum_bytes(self) -> int:
        """Of one element in the accumulator."""
        return _BYTES[ELEMENT_TYPES[self["accumulator_element_type"]]]

    @property
    def digest(self) -> str:
        """First 16 hexadecimal digits of a hash of all parameters."""
        text = repr(sorted(self.parameters.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_BYTES = {"int8": 1, "fp32": 4, "int32": 4}


def load_config(path: Path) -> SimConfig:
    """The simulator's parameters in `path`, and those of its `base` where it names one.

    Raises `ConfigurationError` for a file that cannot be read, and for a parameter that is
    missing, unknown or impossible.
    """
    parameters = _read_parameters(path)
    _check_names(path, parameters)
    _check_values(path, parameters)
    return SimConfig(parameters)


def _read_parameters(path: Path) -> dict[str, int]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}.") from error
    simulator = tables.get("simulator", {})
    if not isinstance(simulator, dict) or not (simulator or "base" in tables):
        raise ConfigurationError(f"{path} has no [simulator.*] tables: add one for every unit.")
    return {**_base_parameters(path, tables.get("base")), **_flatten(path, simulator)}


def _base_parameters(path: Path, base: object) -> dict[str, int]:
    if base is None:
        return {}
    if not isinstance(base, str) or base not in CONFIGURATIONS:
        raise ConfigurationError(
            f"{path}: base = {base!r} is not a configuration of tilewright: name one of "
            f"{', '.join(CONFIGURATIONS)}, or leave base out and give every parameter."
        )
    return _read_parameters(CONFIGURATIONS[base])


def _flatten(path: Path, simulator: Mapping[str, Any]) -> dict[str, int]:
    parameters: dict[str, int] = {}
    for section, table in simulator.items():
        if not isinstance(table, dict):
            raise ConfigurationError(
                f"{path}: simulator.{section} = {table!r} must be a table of parameters."
            )
        for key, value in table.items():
            name = f"{section}_{key}"
            parameters[name] = _number(path, name, value)
    return parameters


def _number(path: Path, name: str, value: object) -> int:
    """A parameter as the simulator takes it: words by their number."""
    choices = _CHOICES.get(name)
    if choices is not None:
        if value not in choices:
            raise ConfigurationError(
                f"{path}: {_dotted(name)} = {value!r} must be one of {', '.join(choices)}."
            )
        return ELEMENT_TYPES.index(str(value))
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{path}: {_dotted(name)} = {value!r} must be a whole number.")
    return value


def _check_names(path: Path, parameters: Mapping[str, int]) -> None:
    known = _names()
    for name in parameters:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {_dotted(near[0])}?" if near else "remove it."
            raise ConfigurationError(f"{path}: unknown parameter {_dotted(name)}: {hint}")
    for name in known:
        if name not in parameters:
            raise ConfigurationError(f"{path}: parameter {_dotted(name)} is missing: add it.")


@cache
def _names() -> list[str]:
    """All parameters there are: those of the configuration that has no base."""
    return list(_read_parameters(CONFIGURATIONS["gemmini-int8-16x16"]))


def _check_values(path: Path, parameters: Mapping[str, int]) -> None:
    def refuse(name: str, must: str) -> None:
        value = parameters[name]
        raise ConfigurationError(f"{path}: {_dotted(name)} = {value} is impossible: it must {must}")

    for name, value in parameters.items():
        least = 0 if name in _MAY_BE_ZERO else 1
        if not least <= value <= 1 << 24:
            refuse(name, f"be between {least} and {1 << 24}.")
    for name in _POWERS_OF_TWO:
        if parameters[name].bit_count() != 1:
            refuse(name, "be a power of two.")
    if parameters["array_dim"] not in ARRAY_SIZES:
        refuse("array_dim", f"be one of {', '.join(map(str, ARRAY_SIZES))}.")
    for name in ("load", "execute", "store"):
        if parameters[f"commands_{name}_entries"] > 32:
            refuse(f"commands_{name}_entries", "be at most 32.")
    if parameters["scratchpad_banks"] > 16:
        refuse("scratchpad_banks", "be at most 16.")
    if parameters["accumulator_banks"] > 8:
        refuse("accumulator_banks", "be at most 8.")
    if parameters["l2_ways"] * parameters["l2_line_bytes"] > parameters["l2_bytes"]:
        refuse("l2_bytes", "hold at least one line for every way.")
    if parameters["cpu_l1_ways"] * parameters["l2_line_bytes"] > parameters["cpu_l1_bytes"]:
        refuse("cpu_l1_bytes", "hold at least one line for every way.")


def _dotted(name: str) -> str:
    section, _, key = name.partition("_")
    return f"simulator.{section}.{key}"
