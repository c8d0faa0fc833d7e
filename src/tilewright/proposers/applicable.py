"""Removes from a menu the options that cannot help a kernel, according to its facts and its
measurement.

The target declares for each option which facts of a kernel it needs, which causes of lost time it
reduces, and which counts of the target show that it cannot help (`MenuOption`). If a kernel cannot
be analysed or was not measured, no option is removed for this reason.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.core.records import Measured, MenuOption, TargetBrief, Trial
from tilewright.parts.languages import CUDA, KERNELBENCH, NKI, TRITON, C
from tilewright.proposers.builtin import has_local_memories


def applicable(
    target: TargetBrief, parent: Trial, menu: Sequence[MenuOption]
) -> tuple[MenuOption, ...]:
    """The options that may help, or all options if none would be left."""
    measured = [o for o in menu if _saves(o, parent) and _counts_allow(o, parent)]
    needed = {fact for option in measured for fact in option.needs}
    facts = _facts(target, parent.candidate.source, needed)
    return tuple(option for option in measured if _fits(option, facts)) or tuple(menu)


def _fits(option: MenuOption, facts: frozenset[str] | None) -> bool:
    """Whether one of the facts that the option needs holds. An option that needs no facts fits
    every source that contains a kernel (others have the fact `no-kernel`).
    """
    if facts is None:
        return True
    return not facts.isdisjoint(option.needs) if option.needs else "no-kernel" not in facts


def _saves(option: MenuOption, parent: Trial) -> bool:
    outcome = parent.outcome
    if not option.saves or not isinstance(outcome, Measured) or not outcome.breakdown:
        return True
    lost = sum(outcome.breakdown.get(cause, 0.0) for cause in option.saves)
    return lost >= option.worth * outcome.latency


def _counts_allow(option: MenuOption, parent: Trial) -> bool:
    """Whether the kernel does something that the option improves, and has not done it already.
    Counts that are not known allow everything."""
    counts = parent.outcome.details if isinstance(parent.outcome, Measured) else {}
    lacks = option.requires and all(counts.get(name) == 0 for name in option.requires)
    return not lacks and not any(counts.get(name) for name in option.unless)


def _facts(target: TargetBrief, source: str, needed: Collection[str]) -> frozenset[str] | None:
    if has_local_memories(target):
        from tilewright.proposers.rewriter.facts import facts_of

        return facts_of(target, source, needed)
    if target.language.name == NKI.name:
        from tilewright.proposers.nki import facts

        return facts.facts_of(source)
    if target.language.name == CUDA.name:
        from tilewright.proposers import cuda_facts

        return cuda_facts.facts_in(source)
    if target.language.name == KERNELBENCH.name:
        from tilewright.proposers import cuda_facts

        return cuda_facts.facts_in_answer(source)
    if target.language.name == TRITON.name:
        from tilewright.proposers import triton_facts

        return triton_facts.facts_in(source)
    if target.language.name == C.name:
        from tilewright.proposers.loops.facts import facts_in

        return facts_in(source)
    return None
