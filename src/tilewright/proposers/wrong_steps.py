"""Learns from wrong results which steps of the built-in rewriters do not work on a kernel.

A rewriter checks whether its steps are legal, but not whether the workload accepts a lower
precision, and a step may also be wrong because the kernel was misunderstood. This is only known
after the check, so it is learned from the trials of the run, for all rewriters in the same way:

- The *suspect* steps of a wrong kernel are those that were never part of a correct kernel. If some
  of them lower the precision, only these are suspect; otherwise, if the techniques of some never
  had a correct result, only these are.
- A plan with all suspect steps of a wrong kernel is not proposed again.
- A technique that never had a correct result is excluded if its single step is the only suspect
  one of a wrong kernel, or if it is the technique that most of several wrong kernels have in
  common.
- A technique that lowers the precision is *unproven* unless it had more correct results than wrong
  ones. It is then used in one plan of an iteration, which has no variants, so that other plans are
  not lost with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.core.records import Brief, Failed, History, Measured, Plan, Trial

LOWERS_PRECISION = frozenset({"narrow"})
"""The techniques of all rewriters after which results are computed with a lower precision."""
AVOIDED = "avoided"
"""The parameter of a plan that lists the techniques that its variants must not add, because they
were excluded or unproven when it was made.
"""


@dataclass(frozen=True, slots=True)
class Lessons:
    """The excluded techniques, the sets of steps that made results wrong, the unproven techniques,
    and whether a plan may use one of these.
    """

    excluded: frozenset[str] = frozenset()
    wrong: tuple[frozenset[str], ...] = ()
    unproven: frozenset[str] = frozenset()
    may_risk: bool = True

    def has_unproven(self, steps: Iterable[str]) -> bool:
        """Whether some of the steps have an unproven technique."""
        return bool(self.unproven & techniques_of(steps))

    def allows(self, steps: Sequence[str]) -> bool:
        """Whether a plan with these steps may be proposed."""
        return not self.excluded & techniques_of(steps) and not any(
            suspects <= set(steps) for suspects in self.wrong
        )

    def allowed(self, plans: Iterable[Plan]) -> Iterator[Plan]:
        """The plans that may be proposed, of which at most one has unproven techniques. Each lists
        the techniques that its variants must not add.
        """
        may_risk, avoided = self.may_risk, " ".join(sorted(self.excluded | self.unproven))
        named = {AVOIDED: avoided} if avoided else {}
        for plan in plans:
            risky = self.has_unproven(plan.steps)
            if not self.allows(plan.steps) or (risky and not may_risk):
                continue
            may_risk = may_risk and not risky
            yield replace(plan, parameters={**plan.parameters, **named}) if named else plan


NOTHING_LEARNED = Lessons()


def lessons(history: History, brief: Brief) -> Lessons:
    """What the trials of a run say about the techniques of its menu. Only plans for the best parent
    may have unproven techniques.
    """
    rewritten = [t for t in history if (p := t.candidate.plan) is not None and p.steps]
    correct = [_steps(t) for t in rewritten if isinstance(t.outcome, Measured)]
    passed = frozenset[str]().union(*correct)
    proven = techniques_of(passed)
    suspects = [_suspects(_steps(t), passed, proven) for t in rewritten if is_wrong(t)]
    wrong = tuple(dict.fromkeys(suspects))
    excluded = frozenset(_excluded(wrong, proven))
    offered = {option.technique for option in brief.target.menu}
    balance = _uses(correct)
    balance.subtract(_uses(suspects))
    unproven = {t for t in LOWERS_PRECISION & offered - excluded if balance[t] <= 0}
    return Lessons(excluded, wrong, frozenset(unproven), brief.rank == 0)


def is_wrong(trial: Trial) -> bool:
    """Whether a kernel computed wrong results, in the first or in the second evaluation."""
    outcome = trial.outcome
    return isinstance(outcome, Failed) and "wrong_result" in (outcome.kind, outcome.cause)


def without(brief: Brief, techniques: frozenset[str]) -> Brief:
    """The brief with a menu without some techniques."""
    if not techniques:
        return brief
    kept = tuple(o for o in brief.target.menu if o.technique not in techniques)
    menu = tuple(o for o in brief.menu if o.technique not in techniques)
    return replace(brief, menu=menu, target=replace(brief.target, menu=kept))


def avoided_in(plan: Plan) -> frozenset[str]:
    """The techniques that variants of a plan must not add."""
    return frozenset(str(plan.parameters.get(AVOIDED, "")).split())


def techniques_of(steps: Iterable[str]) -> frozenset[str]:
    """The techniques of steps that are given as texts."""
    return frozenset(map(_technique, steps))


def _technique(step: str) -> str:
    return step.split()[0]


def _uses(kernels: Iterable[frozenset[str]]) -> Counter[str]:
    """In how many kernels each technique is used."""
    return Counter(technique for steps in kernels for technique in techniques_of(steps))


def _steps(trial: Trial) -> frozenset[str]:
    plan = trial.candidate.plan
    return frozenset(plan.steps if plan is not None else ())


def _suspects(
    steps: frozenset[str], passed: frozenset[str], proven: frozenset[str]
) -> frozenset[str]:
    """The steps of a wrong kernel that may have made its results wrong."""
    new = steps - passed
    lower = frozenset(step for step in new if _technique(step) in LOWERS_PRECISION)
    return lower or frozenset(s for s in new if _technique(s) not in proven) or new or steps


def _excluded(wrong: Sequence[frozenset[str]], proven: frozenset[str]) -> Iterator[str]:
    """The techniques that made results wrong alone, then those that explain most of the others."""
    alone = frozenset[str]().union(*(techniques_of(s) for s in wrong if len(s) == 1)) - proven
    yield from alone
    open_ones = [found for s in wrong if not alone & (found := techniques_of(s) - proven)]
    while open_ones:
        counts = Counter(technique for found in open_ones for technique in sorted(found))
        technique, count = max(counts.items(), key=lambda one: one[1], default=("", 0))
        if count < 2:
            return
        yield technique
        open_ones = [found for found in open_ones if technique not in found]
