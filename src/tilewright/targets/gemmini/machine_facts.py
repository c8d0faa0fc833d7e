"""Every parameter of an instance with its meaning and source, and measured costs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache

from tilewright.core.records import MachineFact
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.parameter_ranges import dotted
from tilewright.targets.gemmini.parameters import (
    CONFIGURATIONS,
    ELEMENT_TYPES,
    load_config,
)
from tilewright.targets.gemmini.toolchain import COMPILE_FLAGS, compiler_family

STANDARD = CONFIGURATIONS["gemmini-int8-16x16"]
"""The file whose comments give the meaning and the source of every parameter."""
COSTS = STANDARD.with_name("costs.toml")
SOURCES: Mapping[str, str] = {
    "rtl": "public RTL",
    "fit": "fitted to RTL simulation",
    "estimate": "an estimate",
}
FIRST = (
    "commands.load_queue", "commands.execute_queue", "commands.store_queue",
    "commands.front_queues", "array.drain_cycles", "array.minimum_rows", "l2.hit_latency",
    "l2.bytes", "dram.latency", "cpu.load_use", "cpu.multiply_bits", "cpu.branch_miss",
    "cpu.fetch_queue", "cpu.l1_bytes", "cpu.l1_refill", "cpu.fetch_refill", "cpu.fence_latency",
)  # fmt: skip
"""Important parameters that the description of the commands does not contain."""
_SECTION = re.compile(r"^\[simulator\.(\w+)\]$")
_PARAMETER = re.compile(r"^(\w+)\s*=\s*[^#]+?(?:\s*#\s*(.*))?$")
_MARK = re.compile(r"\s*\[(rtl|fit|estimate)\]\s*$")


def machine_facts(instance: Instance) -> tuple[MachineFact, ...]:
    """The parameters in the order of target.toml, the costs in the order of costs.toml, and the
    compiler's flags.
    """
    return (
        *_parameters(instance),
        *_costs(instance),
        MachineFact(
            "compiler_flags", " ".join(COMPILE_FLAGS), "how kernels are compiled", first=True
        ),
    )


def _parameters(instance: Instance) -> Iterator[MachineFact]:
    standard, described = load_config(STANDARD), _described()
    for name, value in instance.config.parameters.items():
        meaning, mark = described.get(name, ("", ""))
        source = SOURCES.get(mark, f"the description of {instance.name}")
        if value != standard[name]:
            source = f"the configuration of {instance.name}"
        shown = ELEMENT_TYPES[value] if name.endswith("element_type") else str(value)
        told = dotted(name).removeprefix("simulator.")
        yield MachineFact(told, shown, source, meaning, told in FIRST)


def _costs(instance: Instance) -> Iterator[MachineFact]:
    """The costs that were measured for this instance with the compiler of this machine."""
    table = tomllib.loads(COSTS.read_text(encoding="utf-8"))[compiler_family()]
    source = f"simulated, with {table['version'].partition(' (')[0]}"
    for name, value in table.get(instance.name, {}).items():
        yield MachineFact(f"costs.{name}", f"{value:g}", source)


@cache
def _described() -> Mapping[str, tuple[str, str]]:
    """The meaning of every parameter and the mark of its source, by name, from the comments of the
    standard file.
    """
    found: dict[str, tuple[str, str]] = {}
    section = ""
    for line in STANDARD.read_text(encoding="utf-8").splitlines():
        begun, parameter = _SECTION.match(line.strip()), _PARAMETER.match(line.strip())
        if begun:
            section = begun[1]
        elif parameter and section:
            comment = parameter[2] or ""
            mark = _MARK.search(comment)
            text = _MARK.sub("", comment).strip()
            found[f"{section}_{parameter[1]}"] = text, mark[1] if mark else ""
    return found
