"""Renders prompts from a part that is the same in all requests of a run, followed by the question
itself.

The part that does not change is first, so that providers can cache it. Every component can be
switched off (`COMPONENTS`) to measure its benefit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tilewright.core.records import Brief, Example, History, Measured, MenuOption, Plan, Trial
from tilewright.core.roles import MenuFilter
from tilewright.proposers.llm.attempts import (
    Notes,
    describe_ancestors,
    describe_others,
    describe_schedule,
    describe_tried,
)
from tilewright.proposers.llm.conversations import Terms
from tilewright.proposers.llm.feedback import (
    describe_failure,
    describe_goal,
    describe_latency,
    lines_named,
    with_lines_marked,
)
from tilewright.proposers.llm.lessons import describe_mistakes
from tilewright.proposers.llm.messages import Message
from tilewright.proposers.llm.prompts.computation import computation_of
from tilewright.proposers.llm.replies import OTHER

if TYPE_CHECKING:
    from jinja2 import Environment

VERSION = "v2"
"""The folder of the templates. Changed templates get a new folder, so that the prompts of old runs
can be reproduced.
"""

COMPONENTS = (
    "isa", "costs", "menu", "feedback", "examples", "history", "failed", "done", "plan",
)  # fmt: skip
"""Parts of the templates that `without` may name, in addition to `filter`. Menu dropout and the
ensemble are switched off elsewhere.
"""


class Prompts:
    """The prompts of one run.

    Args:
        without: the components that are left out.
        edits: request search/replace edits instead of complete kernels.
        applicable: removes the options that cannot apply to a kernel from a menu; None offers the
            whole menu.
        notes: returns further lines on a kernel; None if there are none.
        templates: explain how a kernel may leave numbers open.
    """

    def __init__(
        self,
        without: Collection[str] = (),
        edits: bool = False,
        applicable: MenuFilter | None = None,
        notes: Notes | None = None,
        templates: bool = False,
    ) -> None:
        self._notes = notes
        self._applicable = applicable if "filter" not in without else None
        self._use = SimpleNamespace(**{name: name not in without for name in COMPONENTS})
        self._edits = edits
        self._templates = templates

    @property
    def in_two_phases(self) -> bool:
        """Whether a plan is requested first. Otherwise, `plan` requests the new kernel itself."""
        return bool(self._use.plan)

    def menu(self, brief: Brief, parent: Trial, number: int) -> tuple[MenuOption, ...]:
        """The options that plan `number` for `parent` may choose from: dropout acts on the filtered
        menu, except for `OTHER` and for options that the feedback recommends in backquotes.
        """
        if self._applicable is not None:
            kept = self._applicable(brief.target, parent, brief.menu)
            brief = replace(brief, menu=kept)
        offered, told = brief.offered(number), self._feedback(parent)
        return tuple(o for o in brief.menu if o in offered or o.id == OTHER or f"`{o.id}`" in told)

    def plan(
        self, brief: Brief, parent: Trial, history: History, number: int = 0
    ) -> tuple[Message, ...]:
        """The request for plan `number` for `parent`, on one of the options that are offered for
        that number.

        Lines that the measurement mentions are marked only if the answer contains no code, because
        a model could copy the marks into a kernel. Otherwise, they are listed.
        """
        situation = self._situation(brief, parent, history, number)
        if self.in_two_phases:
            told, comment = situation["feedback"], brief.target.language.comment
            situation["source"] = with_lines_marked(situation["source"], told, comment)
            situation["quoted"] = []
        return self._messages("plan", brief, **situation)

    def turns(
        self,
        brief: Brief,
        parent: Trial,
        history: History,
        number: int,
        terms: Terms,
        native: bool = False,
    ) -> tuple[Message, ...]:
        """The first request of proposal `number` for `parent` with these terms.

        With `native`, tools are called through the provider's protocol, and otherwise in plain
        text.
        """
        situation = self._situation(brief, parent, history, number)
        return self._messages("turns", brief, **situation, terms=terms, native=native)

    def _situation(
        self, brief: Brief, parent: Trial, history: History, number: int
    ) -> dict[str, Any]:
        """A description of the kernel with which a proposal begins."""
        feedback = self._feedback(parent)
        causes = brief.target.exclusive_causes
        notes = self._notes if self._use.feedback and self._use.failed else None
        return {
            "source": parent.candidate.source.rstrip(),
            "feedback": feedback,
            "quoted": lines_named(parent.candidate.source, feedback),
            "goal": describe_goal(parent, brief.stop_within),
            "least_gain": "at least 1 % faster" if brief.stop_within else "faster",
            "ancestors": describe_ancestors(parent, history, causes),
            "tried": describe_tried(parent, history, causes, notes),
            "others": describe_others(parent, history, causes, notes),
            "mistakes": describe_mistakes(history),
            "similar": brief.schedules[0].workload if brief.schedules else "",
            "schedule": describe_schedule(brief.schedules[0]) if brief.schedules else [],
            "step": None if brief.step is None else brief.step + 1,
            "menu": self.menu(brief, parent, number),
            "iteration": brief.iteration,
            "iterations": brief.iterations,
        }

    def _feedback(self, parent: Trial) -> str:
        """The measurement in words, with the notes; empty if this component is switched off."""
        if not self._use.feedback:
            return ""
        measured = isinstance(parent.outcome, Measured)
        notes = self._notes(parent.candidate.source) if self._notes and measured else ()
        return describe_latency(parent, notes)

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, mistakes: Sequence[str] = ()
    ) -> tuple[Message, ...]:
        """The request for a kernel that implements `plan`; `mistakes` are those of earlier
        kernels.
        """
        source = parent.candidate.source.rstrip()
        feedback = describe_latency(parent) if self._use.feedback else ""
        quoted = lines_named(source, feedback)
        return self._messages(
            "implement",
            brief,
            source=source,
            plan=plan,
            feedback=feedback,
            quoted=quoted,
            mistakes=mistakes,
            named=[line for line in lines_named(source, plan.text) if line not in quoted],
            option_text=next((o.text for o in brief.target.menu if o.id == plan.option), ""),
            examples=examples_of(brief.target.examples, plan.option),
        )

    def repair(self, brief: Brief, parent: Trial, failed: Trial) -> tuple[Message, ...]:
        """The request for a correction of `failed`, a child of `parent`."""
        return self._messages(
            "repair",
            brief,
            source=parent.candidate.source.rstrip(),
            plan=failed.candidate.plan,
            broken=failed.candidate.source.rstrip(),
            diagnosis=describe_failure(failed),
        )

    def _messages(self, template: str, brief: Brief, **values: Any) -> tuple[Message, ...]:
        common = {"target": brief.target, "workload": brief.workload, "use": self._use}
        stable = _render("isa", {**common, "computation": computation_of(brief)})
        notation = brief.target.language.templates if self._templates else None
        own = {"edits": self._edits, "open": notation, "broken": ""}
        question = _render(template, {**own, **common, **values})
        return Message("user", stable, stable=True), Message("user", question)


def examples_of(examples: Sequence[Example], option: str) -> list[Example]:
    """The examples of plans on a menu option."""
    return [example for example in examples if option in example.options]


def _render(name: str, values: dict[str, Any]) -> str:
    return _environment().get_template(f"{name}.j2").render(values).strip()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("tilewright.proposers.llm", f"prompts/{VERSION}"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
