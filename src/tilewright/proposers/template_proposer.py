"""Proposes the target's templates, for languages without a rewriter.

For each template that is not in the history yet, there is one plan, independently of the parent.
The parameters of the templates are then searched like those of any template
(`proposers/parameters.py`).
"""

from __future__ import annotations

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
from tilewright.core.templates import KernelTemplate, parse_template

OPTION = "template"
"""Menu option of a plan that introduces a template."""


class TemplateProposer:
    """The proposer, which is deterministic. Its candidates do not depend on the parent."""

    def __init__(self, name: str) -> None:
        self.name = name

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """One plan for each template that was not introduced yet, in the target's order."""
        brought = {
            trial.candidate.plan.parameters.get("template")
            for trial in history
            if trial.candidate.plan is not None
        }
        plans = []
        for name, text in brief.templates.items():
            template = self._parsed(brief, text)
            if text in brought or template is None:
                continue
            words = (
                f"Begin anew with the target's own kernel {name!r}, which leaves "
                f"{', '.join(p.name for p in template.parameters)} open."
            )
            parameters = {**template.planned(template.first), "template": text}
            plans.append(Plan(parent.candidate.id, OPTION, words, self.name, parameters=parameters))
        return plans[:count]

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """The template's first instance."""
        template = self._parsed(brief, str(plan.parameters["template"]))
        if template is None:
            return []
        source = template.instance(template.first)
        return [Candidate(source, parent.candidate.id, plan, self.name)]

    def left_alone(self, target: TargetBrief, source: str, workload: Workload) -> list[LeftAlone]:
        """The whole kernel."""
        first = source.lstrip().partition("\n")[0]
        reason = "the built-in rewriter does not change kernels in this language"
        return [LeftAlone(1, first, reason)]

    def normalize(self, source: str, target: TargetBrief) -> str:
        """The language's form."""
        return target.language.normal_form(source)

    def _parsed(self, brief: Brief, text: str) -> KernelTemplate | None:
        return parse_template(text, brief.target.language.templates)
