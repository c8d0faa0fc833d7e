"""Facts about an instance: every parameter, its meaning, and where its value comes from."""

from __future__ import annotations

from tilewright.core.records import MachineFact
from tilewright.targets.gemmini import create_fp32_target, create_target
from tilewright.targets.gemmini.machine_facts import machine_facts
from tilewright.targets.gemmini.target import GemminiTarget


def facts(target: GemminiTarget) -> dict[str, MachineFact]:
    return {fact.name: fact for fact in machine_facts(target.instance)}


def test_every_parameter_is_told_with_its_source() -> None:
    target = create_target()
    found = facts(target)
    for name, value in target.instance.config.parameters.items():
        section, _, key = name.partition("_")
        fact = found[f"{section}.{key}"]
        assert fact.source
        assert fact.value == str(value) or key == "element_type"
    assert found["l2.hit_latency"] == MachineFact(
        "l2.hit_latency",
        "11",
        "fitted to RTL simulation",
        "from the DMA's request to the answer's first beat",
        first=True,
    )
    assert found["cpu.float_divide"].source == "an estimate"
    assert found["array.element_type"].value == "int8"
    assert found["commands.execute_entries"].source == "the description of gemmini"


def test_what_an_instance_changes_is_its_own() -> None:
    found = facts(create_fp32_target())
    assert (found["array.dim"].value, found["array.dim"].source) == (
        "4",
        "the configuration of gemmini-fp32-4x4",
    )
    assert found["l2.hit_latency"].source == "fitted to RTL simulation"


def test_costs_and_flags_are_told() -> None:
    found = facts(create_target())
    assert found["costs.pair_instructions"].source.startswith("simulated, with ")
    assert "-O2" in found["compiler_flags"].value
    assert create_target().brief().facts == machine_facts(create_target().instance)
