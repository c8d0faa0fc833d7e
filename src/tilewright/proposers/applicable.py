"""Leaves out of a menu what cannot help a kernel, by what is known of it.

The target says of an option which facts of a kernel it needs and which causes of lost time it saves
(`MenuOption`). What the analysis cannot read, or nobody has measured, leaves nothing out.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core.records import Measured, MenuOption, TargetBrief, Trial
from tilewright.parts.languages import NKI
from tilewright.proposers.builtin import has_local_memories


def applicable(
    target: TargetBrief, parent: Trial, menu: Sequence[MenuOption]
) -> tuple[MenuOption, ...]:
    """The options that may help; all of them where none would be left."""
    facts = _facts(target, parent.candidate.source)
    kept = tuple(
        option
        for option in menu
        if (facts is None or not option.needs or not facts.isdisjoint(option.needs))
        and _saves(option, parent)
    )
    return kept or tuple(menu)


def _saves(option: MenuOption, parent: Trial) -> bool:
    outcome = parent.outcome
    if not option.saves or not isinstance(outcome, Measured) or not outcome.breakdown:
        return True
    lost = sum(outcome.breakdown.get(cause, 0.0) for cause in option.saves)
    return lost >= option.worth * outcome.latency


def _facts(target: TargetBrief, source: str) -> frozenset[str] | None:
    if has_local_memories(target):
        from tilewright.proposers.rewriter.facts import facts_of

        return facts_of(target, source)
    if target.language.name == NKI.name:
        from tilewright.proposers.nki import facts

        return facts.facts_of(source)
    from tilewright.proposers.loops.facts import facts_in

    return facts_in(source)
