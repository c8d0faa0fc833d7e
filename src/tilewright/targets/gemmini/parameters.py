"""Reads the machine's parameters from the `[simulator.*]` tables of a target.toml."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.core.errors import ConfigurationError
from tilewright.core.files import read_toml
from tilewright.targets.gemmini.parameter_ranges import dotted, impossible

_FOLDER = Path(__file__).parent
CONFIGURATIONS: Mapping[str, Path] = {
    "gemmini-int8-16x16": _FOLDER / "target.toml",
    "gemmini-fp32-4x4": _FOLDER / "fp32-4x4.toml",
}
"""The configurations that come with the package, which `base` of another file can name."""

FILE_KEYS = ("target", "name", "base", "simulator", "tools")
ELEMENT_TYPES = ("int8", "fp32", "int32")
"""Names of the element types, in the order of the simulator's numbers."""
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "array_element_type": ("int8", "fp32"),
    "accumulator_element_type": ("int32", "fp32"),
}


@dataclass(frozen=True, slots=True)
class SimConfig:
    """A complete and checked set of parameters, which maps `SECTION_KEY` of target.toml to a whole
    number.
    """

    parameters: Mapping[str, int]

    def __getitem__(self, name: str) -> int:
        return self.parameters[name]

    @property
    def element_type(self) -> str:
        """The element type of the array's operands: int8 or fp32."""
        return ELEMENT_TYPES[self["array_element_type"]]

    @property
    def element_bytes(self) -> int:
        """The size of one element in the scratchpad in bytes."""
        return _BYTES[self.element_type]

    @property
    def sum_bytes(self) -> int:
        """The size of one element in the accumulator in bytes."""
        return _BYTES[ELEMENT_TYPES[self["accumulator_element_type"]]]

    @property
    def max_blocks(self) -> int:
        """The maximum number of blocks of `dim` columns in one move, which is the number that fits
        the largest request, or one.
        """
        row_bytes = self["array_dim"] * self.element_bytes
        return max(1, self["dma_max_request_bytes"] // row_bytes)

    @property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of a hash of all parameters."""
        text = repr(sorted(self.parameters.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_BYTES = {"int8": 1, "fp32": 4, "int32": 4}


def load_config(path: Path) -> SimConfig:
    """The simulator's parameters in `path`, completed by those of its `base` if it names one.

    Raises `ConfigurationError` for a file that cannot be read, and for a parameter that is
    missing, unknown or impossible.
    """
    parameters = _read_parameters(path)
    _check_names(path, parameters)
    wrong = impossible(parameters)
    if wrong is not None:
        raise ConfigurationError(f"{path}: {wrong}")
    return SimConfig(parameters)


def instance_name(path: Path) -> str:
    """The name of an instance, from the file's field `name` or the name of the file. It is part of
    workload names.
    """
    name = _read_file(path).get("name", path.stem)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise ConfigurationError(
            f"{path}: name = {name!r} must be letters, digits, '_', '.' and '-', as it is part of "
            "workload names."
        )
    return name


def chipyard_folder(path: Path) -> Path | None:
    """The chipyard checkout that the file names in `[tools]`, relative to the file; or None."""
    tools = _read_file(path).get("tools", {})
    if not isinstance(tools, dict) or set(tools) - {"chipyard"}:
        raise ConfigurationError(
            f"{path}: [tools] may contain only chipyard, the path of a folder."
        )
    if not tools:
        return None
    folder = path.parent / str(tools["chipyard"])
    if not isinstance(tools["chipyard"], str) or not folder.is_dir():
        raise ConfigurationError(
            f"{path}: tools.chipyard = {tools['chipyard']!r} is not a folder. Give a built "
            "chipyard checkout, or leave it out."
        )
    return folder.resolve()


def _read_file(path: Path) -> dict[str, Any]:
    try:
        tables = read_toml(path)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}.") from error
    for key in tables:
        if key not in FILE_KEYS:
            known = ", ".join(FILE_KEYS)
            raise ConfigurationError(f"{path}: unknown field {key!r}: a file may have {known}.")
    return tables


def _read_parameters(path: Path) -> dict[str, int]:
    tables = _read_file(path)
    simulator = tables.get("simulator", {})
    if not isinstance(simulator, dict) or not (simulator or "base" in tables):
        raise ConfigurationError(f"{path} has no [simulator.*] tables. Add one for every unit.")
    return {**_base_parameters(path, tables.get("base")), **_flatten(path, simulator)}


def _base_parameters(path: Path, base: object) -> dict[str, int]:
    if base is None:
        return {}
    if not isinstance(base, str) or base not in CONFIGURATIONS:
        raise ConfigurationError(
            f"{path}: base = {base!r} is not a configuration of tilewright. Give one of "
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
    """A parameter in the form that the simulator requires, in which words are replaced by their
    numbers.
    """
    choices = _CHOICES.get(name)
    if choices is not None:
        if value not in choices:
            raise ConfigurationError(
                f"{path}: {dotted(name)} = {value!r} must be one of {', '.join(choices)}."
            )
        return ELEMENT_TYPES.index(str(value))
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{path}: {dotted(name)} = {value!r} must be a whole number.")
    return value


def _check_names(path: Path, parameters: Mapping[str, int]) -> None:
    known = _names()
    for name in parameters:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {dotted(near[0])}?" if near else "remove it."
            raise ConfigurationError(f"{path}: unknown parameter {dotted(name)}: {hint}")
    for name in known:
        if name not in parameters:
            raise ConfigurationError(f"{path}: parameter {dotted(name)} is missing. Add it.")


@cache
def _names() -> list[str]:
    """The names of all parameters, which are those of the configuration without a base."""
    return list(_read_parameters(CONFIGURATIONS["gemmini-int8-16x16"]))
