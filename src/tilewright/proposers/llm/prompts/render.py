"""Renders what is sent: a stable part that all requests of a run share, and the question itself.

The stable part comes first, so that providers can cache it. Every component can be switched off
(`COMPONENTS`), to measure what it is worth.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tilewright.core.records import Brief, Example, History, Plan, Trial
from tilewright.proposers.llm.feedback import (
    describe_ancestors,
    describe_failure,
    describe_latency,
    describe_schedule,
)
from tilewright.proposers.llm.messages import Message

if TYPE_CHECKING:
    from jinja2 import Environment

VERSION = "v1"
"""Folder of the templates; changed templates get a new one, so that old runs stay explainable."""

COMPONENTS = ("isa", "menu", "feedback", "examples", "history")
"""What `without` may name here; menu dropout and the ensemble are switched off elsewhere."""


class Prompts:
    """The prompts of one run.

    Args:
        without: components left out.
        edits: ask for search/replace edits instead of complete kernels.
    """

    def __init__(self, without: Collection[str] = (), edits: bool = False) -> None:
        self._use = SimpleNamespace(**{name: name not in without for name in COMPONENTS})
        self._edits = edits

    def plan(self, brief: Brief, parent: Trial, history: History) -> tuple[Message, ...]:
        """Asks for one plan for `parent`."""
        return self._messages(
            "plan",
            brief,
            source=parent.candidate.source.rstrip(),
            feedback=describe_latency(parent),
            ancestors=describe_ancestors(parent, history),
            similar=brief.schedule.workload if brief.schedule else "",
            schedule=describe_schedule(brief.schedule) if brief.schedule else [],
            menu=brief.menu,
            iteration=brief.iteration,
            iterations=brief.iterations,
        )

    def implement(self, brief: Brief, parent: Trial, plan: Plan) -> tuple[Message, ...]:
        """Asks for a kernel that carries out `plan`."""
        return self._messages(
            "implement",
            brief,
            source=parent.candidate.source.rstrip(),
            plan=plan,
            examples=triggered(brief.target.examples, plan.text),
        )

    def repair(self, brief: Brief, parent: Trial, failed: Trial) -> tuple[Message, ...]:
        """Asks for a correction of `failed`, a child of `parent`."""
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
        stable = _render("isa", common)
        question = _render(template, {"edits": self._edits, "broken": "", **common, **values})
        return Message("user", stable, stable=True), Message("user", question)


def triggered(examples: Sequence[Example], text: str) -> list[Example]:
    """Examples with a trigger that occurs in the text."""
    low = text.lower()
    return [e for e in examples if any(trigger.lower() in low for trigger in e.triggers)]


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
