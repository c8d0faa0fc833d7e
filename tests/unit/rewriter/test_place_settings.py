"""Settings that are placed anew: each array by a form of its own, set as early as it can be."""

from __future__ import annotations

import pytest
from kernel_model import trace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.place_settings import place_settings, with_forms_apart

ARRAYS = "ABCD"
LOAD = "mvin(&{0}[0][0], SPAD({1}), 16, 16);"


def kernel(machine: Machine, text: str) -> Kernel:
    arguments = ", ".join(f"const int8_t {a}[64][64]" for a in ARRAYS)
    return lift(f"void kernel({arguments}, int n) {{ {text} }}", machine)


def moves(kernel: Kernel) -> list[tuple[object, ...]]:
    """What is moved, each with what its form is set to at that moment."""
    ids = {"mvin": 0, "mvin2": 1, "mvin3": 2}
    force: dict[int, tuple[object, ...]] = {}
    found = []
    for name, operands in trace(kernel.body):
        if name == "config_ld":
            force[operands[3]] = operands[:3]
        elif name in ids:
            found.append((*operands, *force[ids[name]]))
    return found


def set_and_load(*pairs: tuple[str, int]) -> str:
    return " ".join(
        f"config_ld({stride}, 1.0f, 16, 0); {LOAD.format(array, 16 * n)}"
        for n, (array, stride) in enumerate(pairs)
    )


@pytest.mark.parametrize(
    ("pairs", "settings"),
    [
        ([("A", 64), ("B", 64)], 2),  # forms for both arrays
        ([("A", 64), ("A", 128), ("B", 64)], 3),
        ([("A", 64), ("B", 64), ("C", 64), ("D", 64)], 1),  # too many arrays: one for the setting
        ([("A", 1), ("B", 2), ("C", 3), ("D", 4)], 2 + 4 * 2),  # two have to take turns
    ],
)
def test_forms_for_arrays_or_else_for_settings(
    machine: Machine, pairs: list[tuple[str, int]], settings: int
) -> None:
    before = kernel(machine, f"for (int i = 0; i < 4; i++) {{ {set_and_load(*pairs)} }}")
    after = place_settings(before, machine)
    assert moves(after) == moves(before)
    assert sum(name == "config_ld" for name, _ in trace(after.body)) == settings


def test_a_loop_that_may_not_run_leaves_no_setting_behind(machine: Machine) -> None:
    turns = set_and_load(("A", 1), ("B", 2), ("C", 3), ("D", 4))
    text = f"for (int i = 0; i < 2; i++) {{ for (int k = 0; k < i; k++) {{ {turns} }} {turns} }}"
    before = kernel(machine, text)
    assert moves(place_settings(before, machine)) == moves(before)


@pytest.mark.parametrize(
    "text",
    [
        f"for (int i = 1; i < 4; i++) {{ config_ld(64 * i, 1.0f, 16, 0); {LOAD.format('A', 0)} }}",
        f"{LOAD.format('A', 0)}",  # set by whoever ran before
        f"for (int i = 0; i < 4; i++) {{ {LOAD.format('A', 0)} config_ld(64, 1.0f, 16, 0); }}",
        f"{set_and_load(('A', 64))} if (A[0][0]) mvin2(0, SPAD(0), 16, 16);",
    ],
)
def test_settings_that_are_not_known_stay(machine: Machine, text: str) -> None:
    before = kernel(machine, text)
    with pytest.raises(NotApplicable):
        place_settings(before, machine)
    assert with_forms_apart(before, machine) is before


def test_one_form_stays_where_there_are_too_few(machine: Machine) -> None:
    before = kernel(machine, set_and_load(*((a, 64) for a in ARRAYS)))
    assert with_forms_apart(before, machine) is before
    parted = with_forms_apart(kernel(machine, set_and_load(("A", 64), ("B", 64))), machine)
    assert [name for name, _ in trace(parted.body) if name != "config_ld"] == ["mvin", "mvin2"]
