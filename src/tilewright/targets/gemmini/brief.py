"""What proposers may know about Gemmini, read from this folder's text and TOML files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilewright.core.records import TargetBrief
from tilewright.parts.brief_files import load_commands, load_examples, load_menu, render
from tilewright.targets.gemmini.instance import Instance

FOLDER = Path(__file__).parent


def load_brief(instance: Instance) -> TargetBrief:
    """The brief of an instance, from the files of this folder and of `examples/`."""
    known = words(instance)
    return TargetBrief(
        name=instance.name,
        isa=render(FOLDER / "isa.md", known),
        rules=render(FOLDER / "rules.md", known),
        menu=load_menu(FOLDER / "menu.toml", known),
        commands=load_commands(FOLDER / "commands.toml", known),
        limits=instance.limits,
        constants=instance.constants,
        examples=load_examples(FOLDER / "examples", known),
    )


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
