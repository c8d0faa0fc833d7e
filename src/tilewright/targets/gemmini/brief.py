"""What proposers may know about Gemmini, read from this folder's text and TOML files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.core.errors import ConfigurationError
from tilewright.core.records import CommandEffect, Example, MenuOption, TargetBrief

FOLDER = Path(__file__).parent


CONSTANTS: Mapping[str, int] = {
    "DIM": 16,
    "SPAD": 0,
    "SPAD_BANK_ROWS": 4096,
    "ACC": 0x80000000,
    "ACC_BANK_ROWS": 512,
    "ACCUMULATE": 0x40000000,
    "FULL": 0x20000000,
    "NONE": 0xFFFFFFFF,
    "OUTPUT_STATIONARY": 0,
    "WEIGHT_STATIONARY": 1,
    "NO_ACTIVATION": 0,
    "RELU": 1,
}
"""Names of gemmini.h and their values; of `SPAD(row)` and `ACC(row)`, the address of row 0."""

LIMITS: Mapping[str, int] = {
    "tile_rows": 16,
    "tile_columns": 16,
    "move_rows": 16,
    "move_columns": 64,
    "scratchpad_banks": 4,
    "scratchpad_bank_rows": 4096,
    "accumulator_banks": 2,
    "accumulator_bank_rows": 512,
}
"""Geometry, in rows, columns and banks."""


def load_brief(name: str) -> TargetBrief:
    """The brief of this target, from the files of this folder and of `examples/`."""
    return TargetBrief(
        name=name,
        isa=(FOLDER / "isa.md").read_text(encoding="utf-8"),
        rules=(FOLDER / "rules.md").read_text(encoding="utf-8"),
        menu=load_menu(FOLDER / "menu.toml"),
        commands=load_commands(FOLDER / "commands.toml"),
        limits=LIMITS,
        constants=CONSTANTS,
        examples=load_examples(FOLDER / "examples"),
    )


def load_menu(path: Path) -> tuple[MenuOption, ...]:
    """The `[[option]]` tables of a menu: id, text and optionally technique."""
    return tuple(_record(path, "option", table, MenuOption) for table in _tables(path, "option"))


def load_commands(path: Path) -> tuple[CommandEffect, ...]:
    """The `[[command]]` tables: name, operands, unit and optionally attributes."""
    return tuple(
        _record(
            path, "command", {**table, "operands": tuple(table.get("operands", ()))}, CommandEffect
        )
        for table in _tables(path, "command")
    )


def load_examples(folder: Path) -> tuple[Example, ...]:
    """The worked examples of a folder: a line each of `name:` and `triggers:`, ---, the text."""
    examples = []
    for path in sorted(folder.glob("*.md")):
        head, rule, text = path.read_text(encoding="utf-8").partition("\n---\n")
        fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
        if not rule or set(fields) != {"name", "triggers"}:
            raise ConfigurationError(
                f"{path} has no usable head: begin it with a name: line, a triggers: line and ---."
            )
        triggers = tuple(trigger.strip() for trigger in fields["triggers"].split(","))
        examples.append(Example(fields["name"], triggers, text.strip()))
    return tuple(examples)


def _tables(path: Path, key: str) -> list[dict[str, Any]]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read as TOML: {error}.") from error
    tables: list[dict[str, Any]] = document.get(key, [])
    return tables


def _record(path: Path, key: str, table: dict[str, Any], cls: Any) -> Any:
    try:
        return cls(**table)
    except TypeError as error:
        raise ConfigurationError(
            f"{path} has a [[{key}]] table {table} that does not fit {cls.__name__}: {error}."
        ) from error
