"""The brief for proposers, which is read from this folder's text and TOML files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from tilewright.core.records import TargetBrief
from tilewright.core.text import listed
from tilewright.parts.brief_files import load_commands, load_examples, load_menu, render
from tilewright.parts.languages import C
from tilewright.targets.gemmini.causes import CAUSES
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.machine_facts import machine_facts
from tilewright.targets.gemmini.parameters import SimConfig
from tilewright.targets.gemmini.settings import LATENCY, ORDERINGS
from tilewright.targets.gemmini.toolchain import compiler_family

FOLDER = Path(__file__).parent
FAILURES = {
    "local_out_of_bounds": "scratchpad or accumulator rows that do not exist",
    "limit_exceeded": "rows, columns or strides that exceed the limits of a command",
    "uninitialised_read": "a local row or an output was read before it was ever written",
    "unordered_dram_read": "DRAM was read after an accelerator store to it, without a fence",
    "unordered_dram_write": "DRAM was written after an accelerator access to it, without a fence",
    "raced_dram_access": "an access to the same bytes of DRAM overtook the earlier one in the "
    "modelled time",
}
"""Kinds of failure that only the simulator of this target reports."""
CORE_BINDS_BELOW = 8
"""Number of rows of an array below which the core usually issues pairs of commands more slowly than
the array executes them.
"""


def load_brief(instance: Instance) -> TargetBrief:
    """The brief of an instance, from the files of this folder and of `examples/`."""
    known = {**words(instance), **_measured(instance)}
    return TargetBrief(
        name=instance.name,
        isa=render(FOLDER / "isa.md", known),
        rules=render(FOLDER / "rules.md", known),
        menu=load_menu(FOLDER / "menu.toml", known),
        commands=load_commands(FOLDER / "commands.toml", known),
        limits=instance.limits,
        constants=instance.constants,
        language=C,
        latency=LATENCY,
        settings={"ordering": ORDERINGS},
        failures=FAILURES,
        causes=CAUSES,
        examples=load_examples(FOLDER / "examples", known),
        costs=render(FOLDER / "costs.md", known).strip(),
        plan_hints=render(FOLDER / "plan_hints.md", known).strip(),
        facts=machine_facts(instance),
    )


def words(instance: Instance) -> Mapping[str, object]:
    """The values that the files may contain: geometry, types and costs, with sizes in elements."""
    config, limits, dim = instance.config, instance.limits, instance.dim
    scratchpad_rows = limits["scratchpad_banks"] * limits["scratchpad_bank_rows"]
    accumulator_rows = limits["accumulator_banks"] * limits["accumulator_bank_rows"]
    row_bytes = dim * config.element_bytes
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
        "minimum_rows": config["array_minimum_rows"],
        "array_latency": config["array_input_delay"]
        + (2 * dim - 1) * (config["array_tile_latency"] + 1)
        + config["array_output_delay"],
        "bus_bytes": config["dma_bus_bytes"],
        "line_cycles": config["dram_line_cycles"],
        "wide_load_cycles": dim * wide_beats,
        "wide_sum_load_cycles": dim
        * instance.move_columns
        * config.sum_bytes
        // config["dma_bus_bytes"],
        "loads_in_flight": config["dma_in_flight"] // dim + 1,
        "load_latency": _load_latency(config),
        "miss_latency": _load_latency(config) + config["dram_latency"],
        "request_sizes": _listed_sizes(config["dma_bus_bytes"], config["dma_max_request_bytes"]),
        "load_entries": config["commands_load_entries"],
        "execute_entries": config["commands_execute_entries"],
        "store_entries": config["commands_store_entries"],
        # The example of the ISA text: a square of the widest move's columns.
        "s": instance.move_columns,
        "blocks": instance.move_columns // dim,
    }


def _measured(instance: Instance) -> Mapping[str, object]:
    """The measured values that the texts may contain: times of the machine and results of the
    benchmark. For an instance that was not measured itself, the numbers of the int8 array are used.
    Values that depend on the array's size are included only if `is_measured` is true. Values for
    the core depend on the compiler.
    """
    config = instance.config
    hit, miss = config["l2_hit_latency"], config["l2_hit_latency"] + config["dram_latency"]
    family = compiler_family()
    tables = tomllib.loads((FOLDER / "costs.toml").read_text(encoding="utf-8"))[family]
    measured = tables.get(instance.name, tables["gemmini"])
    return {
        **{name: f"{value:g}" for name, value in measured.items() if value},
        "compiler": family,
        "same_row_cycles": measured["same_row_cycles"],
        "is_measured": instance.name in tables,
        "fetch_cycles": miss + config["cpu_fetch_refill"],
        "core_binds": config["array_dim"] < CORE_BINDS_BELOW,
        "queued_cycles": config["commands_execute_entries"] // 2 * config["array_dim"],
        "hit_fetch_cycles": hit + config["cpu_fetch_refill"],
        "data_cycles": miss + config["cpu_l1_refill"],
        "line_bytes": config["l2_line_bytes"],
    }


def _load_latency(config: SimConfig) -> int:
    """Cycles from the core to the first row that a load writes, if the L2 cache holds the row."""
    stages = ("commands_front_queues", "dma_issue_latency", "l2_hit_latency", "dma_write_latency")
    return sum(config[stage] for stage in stages)


def _listed_sizes(smallest: int, largest: int) -> str:
    """All powers of two from `smallest` to `largest`, in words."""
    return listed([str(smallest << n) for n in range((largest // smallest).bit_length())], "or")


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / 1024:g}"
