"""The built-in proposer, which chooses the rewriter for the language of the target's kernels.

Kernels in CUDA C++, including those in an answer of KernelBench, are not rewritten. Instead, the
target's templates, which are kernels with free parameters, are used. Kernels in NKI are rewritten
by the rewriter of NKI; other Python is not supported. Kernels in C are rewritten by the rewriter of
commands if they issue commands that address local memories, and otherwise by the rewriter of loop
nests. A target declares its language, and macros with the unit `space` if it has local memories.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright.core.factors import StepFactors
from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    LeftAlone,
    Plan,
    TargetBrief,
    Trial,
    Workload,
)
from tilewright.core.roles import StreamingPlanner
from tilewright.parts.languages import CUDA, KERNELBENCH, NKI, TRITON, C
from tilewright.proposers.wrong_steps import avoided_in, lessons, techniques_of, without

if TYPE_CHECKING:
    from tilewright.proposers.loops.proposer import LoopProposer
    from tilewright.proposers.nki.proposer import NkiProposer
    from tilewright.proposers.rewriter.proposer import RewriterProposer
    from tilewright.proposers.template_proposer import TemplateProposer

NAME = "builtin"
REWRITTEN = (C.name, NKI.name)
"""Languages for which there is a rewriter."""
BEGUN_ANEW = (CUDA.name, KERNELBENCH.name, TRITON.name)
"""Languages for which plans can begin with the target's templates instead of the parent."""


class BuiltinProposer:
    """The proposer, which needs neither a key nor a model. The result depends only on the seed."""

    name = NAME
    parallel = True
    replays = True
    languages = (*REWRITTEN, *BEGUN_ANEW)

    def modules(self, target: TargetBrief) -> list[str]:
        """The module of the target's rewriter."""
        return [type(self._for(target)).__module__]

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Up to `count` distinct plans."""
        return list(self.each_plan(brief, parent, history, count, seed))

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        """The plans of `plan`, each as soon as it is made, if the target's rewriter supports
        this. Steps that made wrong results in this run are not proposed again.
        """
        rewriter, learned = self._for(brief.target), lessons(history, brief)
        told = rewriter.each_plan if isinstance(rewriter, StreamingPlanner) else rewriter.plan
        plans = told(without(brief, learned.excluded), parent, history, count, seed)
        yield from learned.allowed(plans)

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """Candidates that carry out a plan of this proposer. Variants add no excluded
        or unproven techniques, and a plan with an unproven technique has no variants.
        """
        avoided = avoided_in(plan)
        count = 1 if avoided & techniques_of(plan.steps) else count
        brief = without(brief, avoided)
        return self._for(brief.target).implement(brief, parent, plan, count, seed)

    def left_alone(self, target: TargetBrief, source: str, workload: Workload) -> list[LeftAlone]:
        """The code that it will not change, with the reasons."""
        return self._for(target).left_alone(target, source, workload)

    def offers_factors(self, target: TargetBrief) -> bool:
        """True only for targets with the rewriter of commands (docs/results/templates.md)."""
        return target.language.name not in BEGUN_ANEW and has_local_memories(target)

    def factors(self, target: TargetBrief, kernel: Trial, history: History) -> StepFactors | None:
        """The numbers that the rewriter of commands finds in the steps that led to a kernel."""
        return self._of_commands.factors(target, kernel, history)

    def normalize(self, source: str, target: TargetBrief) -> str:
        """The normal form of the target's rewriter."""
        return self._for(target).normalize(source, target)

    def _for(
        self, target: TargetBrief
    ) -> RewriterProposer | LoopProposer | NkiProposer | TemplateProposer:
        if target.language.name in BEGUN_ANEW:
            return self._of_templates
        if is_nki(target):
            return self._of_nki
        return self._of_commands if has_local_memories(target) else self._of_loops

    @cached_property
    def _of_commands(self) -> RewriterProposer:
        from tilewright.proposers.rewriter import create_proposer

        return create_proposer()

    @cached_property
    def _of_templates(self) -> TemplateProposer:
        from tilewright.proposers.template_proposer import TemplateProposer

        return TemplateProposer(NAME)

    @cached_property
    def _of_nki(self) -> NkiProposer:
        from tilewright.proposers.nki.proposer import NkiProposer

        return NkiProposer(NAME)

    @cached_property
    def _of_loops(self) -> LoopProposer:
        from tilewright.proposers.loops.proposer import LoopProposer

        return LoopProposer(NAME)


def is_nki(target: TargetBrief) -> bool:
    """Whether kernels of a target are written in NKI."""
    return target.language.name == "NKI"


def has_local_memories(target: TargetBrief) -> bool:
    """Whether kernels of a target move data through memories that commands address."""
    return any(command.unit == "space" for command in target.commands)


def create_proposer() -> BuiltinProposer:
    """The entry point. A rewriter is imported only when it is first used."""
    return BuiltinProposer()
