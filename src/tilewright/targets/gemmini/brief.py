"""What proposers may know about Gemmini, read from this folder's text and TOML files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, TemplateError

from tilewright.core.errors import ConfigurationError
from tilewright.core.records import CommandEffect, Example, MenuOption, TargetBrief
from tilewright.targets.gemmini.instance import Instance

FOLDER = Path(__file__).parent


def load_brief(instance: Instance) -> TargetBrief:
    """The brief of an instance, from the files of this folder and of `examples/`."""
    return TargetBrief(
        name=instance.name,
        isa=render(FOLDER / "isa.md", instance),
        rules=render(FOLDER / "rules.md", instance),
        menu=load_menu(FOLDER / "menu.toml", instance),
        commands=load_commands(FOLDER / "commands.toml", instance),
        limits=instance.limits,
        constants=instance.constants,
        examples=load_examples(FOLDER / "examples", instance),
    )


def render(path: Path, instance: Instance) -> str:
    """The text of a file with the instance's numbers and names in place of `{{ ... }}`."""
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    try:
        return environment.from_string(path.read_text(encoding="utf-8")).render(words(instance))
    except (OSError, UnicodeDecodeError, TemplateError) as error:
        raise ConfigurationError(f"{path} cannot be read as a template: {error}.") from error


def words(instance: Instance) -> Mapping[str, object]:
    """What the files may refer to: geometry, types, and what costs how much. Sizes in elements."""
    config, limits, dim = instance.config, instance.limits, instance.dim
    scratchpad_rows = limits["scratchpad_banks"] * limits["scratchpad_bank_rows"]
    accumulator_rows = limits["accumulator_banks"] * limits["accumulator_bank_rows"]
    row_bytes = dim * config.element_bytes
    row_beats = max(1, -(-row_bytes // config["dma_bus_bytes"]))
    wide_beats = -(-instance.move_columns * config.element_bytes // config["dma_bus_bytes"])
    banks = limits["accumulator_banks"]
    return {
        **limits,
        "dim": dim,
        "is_integer": instance.is_integer,
        "type_name": config.element_type,
        "elem": instance.element.dtype,
        "elem_c": instance.element.c,
        "elem_bytes": config.element_bytes,
        "sum": instance.sum.dtype,
        "sum_c": instance.sum.c,
        "scratchpad_rows": scratchpad_rows,
        "scratchpad_kib": _kib(scratchpad_rows * row_bytes),
        "accumulator_rows": accumulator_rows,
        "accumulator_kib": _kib(accumulator_rows * dim * config.sum_bytes),
        "accumulator_banks_text": f"{banks} banks of {limits['accumulator_bank_rows']}"
        if banks > 1
        else "one bank",
        "output_bits": config["array_output_bits"],
        "scale_cycles": -(-dim // config["dma_scale_lanes"]),
        "bus_bytes": config["dma_bus_bytes"],
        "wide_load_cycles": dim * wide_beats,
        "narrow_load_cycles": dim * row_beats * 3 // 2,
        "loads_in_flight": config["dma_in_flight"] // dim + 1,
        "load_entries": config["commands_load_entries"],
        "execute_entries": config["commands_execute_entries"],
        "store_entries": config["commands_store_entries"],
        # The example of the ISA text: a square of the widest move's columns.
        "s": instance.move_columns,
        "blocks": instance.move_columns // dim,
    }


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / 1024:g}"


def load_menu(path: Path, instance: Instance) -> tuple[MenuOption, ...]:
    """The `[[option]]` tables of a menu: id, text and optionally technique and kinds."""
    tables = [{**t, "kinds": tuple(t.get("kinds", ()))} for t in _tables(path, "option", instance)]
    return tuple(_record(path, "option", table, MenuOption) for table in tables)


def load_commands(path: Path, instance: Instance) -> tuple[CommandEffect, ...]:
    """The `[[command]]` tables: name, operands, unit and optionally attributes."""
    return tuple(
        _record(
            path, "command", {**table, "operands": tuple(table.get("operands", ()))}, CommandEffect
        )
        for table in _tables(path, "command", instance)
    )


def load_examples(folder: Path, instance: Instance) -> tuple[Example, ...]:
    """The worked examples of a folder: a line each of `name:` and `triggers:`, ---, the text."""
    examples = []
    for path in sorted(folder.glob("*.md")):
        head, rule, text = render(path, instance).partition("\n---\n")
        fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
        if not rule or set(fields) != {"name", "triggers"}:
            raise ConfigurationError(
                f"{path} has no usable head: begin it with a name: line, a triggers: line and ---."
            )
        triggers = tuple(trigger.strip() for trigger in fields["triggers"].split(","))
        examples.append(Example(fields["name"], triggers, text.strip()))
    return tuple(examples)


def _tables(path: Path, key: str, instance: Instance) -> list[dict[str, Any]]:
    try:
        document = tomllib.loads(render(path, instance))
    except tomllib.TOMLDecodeError as error:
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
