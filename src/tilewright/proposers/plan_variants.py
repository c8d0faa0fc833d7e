"""Variants of the plan that is being implemented: plans with further or other steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.core.records import Plan


def lengthened(plan: Plan, steps: Sequence[str], sentences: Sequence[str]) -> Plan:
    """The plan with further steps, given as texts and in words; the same plan if there are none.

    They become part of the first sentence, because tables show only this one.
    """
    if not steps:
        return plan
    every = "; ".join((*plan.steps, *steps))
    first, _, rest = plan.text.partition(". ")
    text = f"{'; then '.join((first.removesuffix('.'), *sentences))}. {rest}".rstrip()
    return variant(plan, text, every)


def variant(plan: Plan, text: str, steps: str) -> Plan:
    """A variant of the plan with other steps and another text, which the search still counts as the
    same plan.
    """
    changed = {"steps": steps, "variant_of": plan.base_text}
    return replace(plan, text=text, parameters={**plan.parameters, **changed})
