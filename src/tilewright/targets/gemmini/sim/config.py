"""Reads the machine's parameters from the `[simulator.*]` tables of a target.toml."""

from __future__ import annotations

import difflib
import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.core.errors import ConfigurationError
from tilewright.targets.gemmini.sim import _cosim

_MAY_BE_ZERO = {
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
    "array_dim",
    "scratchpad_banks",
    "accumulator_banks",
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
    def digest(self) -> str:
        """First 16 hexadecimal digits of a hash of all parameters."""
        text = repr(sorted(self.parameters.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def load_config(path: Path) -> SimConfig:
    """The simulator's parameters in `path`.

    Raises `ConfigurationError` for a file that cannot be read, and for a parameter that is
    missing, unknown or impossible.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}.") from error
    simulator = tables.get("simulator")
    if not isinstance(simulator, dict):
        raise ConfigurationError(f"{path} has no [simulator.*] tables: add one for every unit.")
    parameters = _flatten(path, simulator)
    _check_names(path, parameters)
    _check_values(path, parameters)
    return SimConfig(parameters)


def _flatten(path: Path, simulator: Mapping[str, Any]) -> dict[str, int]:
    parameters: dict[str, int] = {}
    for section, table in simulator.items():
        if not isinstance(table, dict):
            raise ConfigurationError(
                f"{path}: simulator.{section} = {table!r} must be a table of parameters."
            )
        for key, value in table.items():
            if not isinstance(value, int) or isinstance(value, bool):
                raise ConfigurationError(
                    f"{path}: simulator.{section}.{key} = {value!r} must be a whole number."
                )
            parameters[f"{section}_{key}"] = value
    return parameters


def _check_names(path: Path, parameters: Mapping[str, int]) -> None:
    known = _cosim.config_fields()
    for name in parameters:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {_dotted(near[0])}?" if near else "remove it."
            raise ConfigurationError(f"{path}: unknown parameter {_dotted(name)}: {hint}")
    for name in known:
        if name not in parameters:
            raise ConfigurationError(f"{path}: parameter {_dotted(name)} is missing: add it.")


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
    if parameters["array_dim"] > 16:
        refuse("array_dim", "be at most 16.")
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
