"""Records that name themselves by their content."""

from __future__ import annotations

from dataclasses import replace

from tilewright.core.records import Check, Plan, Verdict

PLAN = Plan("parent", "tile", "Tile loop i.", "builtin", {"loop": "i", "size": 4})


def test_plans_that_differ_in_a_parameter_only_are_different_plans() -> None:
    others = [replace(PLAN, parameters={"loop": "i", "size": size}) for size in (2, 8)]
    others.append(replace(PLAN, parameters={}))
    assert len({plan.id for plan in (PLAN, *others)}) == 4


def test_neither_the_order_of_parameters_nor_what_is_expected_makes_another_plan() -> None:
    reordered = replace(PLAN, parameters={"size": 4, "loop": "i"})
    assert PLAN.id == reordered.id == replace(PLAN, expected="10 % fewer cycles").id


def test_the_precision_of_a_verdict_is_the_coarsest_that_was_seen() -> None:
    seen = [Check(i, "small", name) for i, name in enumerate(["float32", "", "exact", "tf32-like"])]
    assert Verdict(tuple(seen)).precision == "tf32-like"
    assert Verdict(tuple(seen[:3])).precision == "float32"
    assert Verdict((seen[1],)).precision == ""
