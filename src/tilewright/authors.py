"""Assembles the proposers of a run: built-in proposers, models and agents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, NamedTuple

from tilewright.agents.hidden_files import hidden_from_agents
from tilewright.agents.names import is_agent_name, parse_agent
from tilewright.core.config import Settings
from tilewright.core.records import RunRecord
from tilewright.core.roles import (
    Checkpoint,
    ExplainsCode,
    OffersFactors,
    OffersTemplates,
    Proposer,
    Storage,
)
from tilewright.core.run_notes import AgentWork
from tilewright.core.tasks import OpenTask
from tilewright.evaluation.building import Builds
from tilewright.evaluation.code_notes import CodeNotes
from tilewright.models import Models
from tilewright.proposers.first_schedules import FirstSchedules, Rewriter
from tilewright.proposers.mixed import Member, MixedProposer
from tilewright.proposers.parameters import ParametersFirst
from tilewright.proposers.template_proposer import TemplateProposer
from tilewright.search.events import AgentEnded, Called, OnEvent
from tilewright.tools.copies import Copies
from tilewright.tools.records import Fact
from tilewright.tuner.parameters.searches import GuidedParameters
from tilewright.verification import fresh_seed

if TYPE_CHECKING:
    from tilewright.agents.proposer import AgentProposer

AGENT_SHARE = 16
"""Number of evaluations of one agent if the budget contains no number of evaluations."""


class Author(NamedTuple):
    """A run's proposer, with further data for the search.

    `models_stop` returns the reason why models are no longer called, or None. `closed` returns the
    ids of the kernels from which no more candidates are made from an iteration on. `templates` are
    the templates of the target, by name.
    """

    proposer: Proposer
    models_stop: Callable[[], str | None] = lambda: None
    closed: Callable[[int], Collection[str]] = lambda iteration: ()
    templates: Mapping[str, str] = {}


class Authors:
    """The proposers of one run; `others` are those that are neither models nor agents."""

    def __init__(
        self,
        opened: OpenTask,
        settings: Settings,
        storage: Storage,
        run: RunRecord,
        models: Models,
        others: Sequence[Proposer],
        hear: OnEvent,
    ) -> None:
        self._opened = opened
        self._settings = settings
        self._storage = storage
        self._run = run
        self._models = models
        self._others = others
        self._hear = hear
        self.agents = [name for name in settings.proposers if is_agent_name(name)]

    def open(self, stack: ExitStack) -> Author:
        """All proposers as one proposer. Everything that it starts ends with the stack."""
        author, task = self._together(stack), self._opened.task
        offered = task.templates() if isinstance(task, OffersTemplates) else {}
        factors = self._factors()
        is_searched = self._opened.template is not None or self._settings.templates or offered
        if not is_searched and factors is None:
            return author
        proposer = author.proposer
        if "structure" in self._settings.without:
            proposer = TemplateProposer(proposer.name)
        brief = self._opened.target.brief()
        notation = brief.language.templates
        search = GuidedParameters()
        first = ParametersFirst(proposer, search, self._opened.template, notation, factors)
        whole: Proposer = first
        searched = factors is not None and self._opened.template is None
        if searched and isinstance(proposer, Rewriter) and proposer.offers_factors(brief):
            whole = FirstSchedules(proposer, first, search)
        return author._replace(proposer=whole, templates=offered)

    def _factors(self) -> OffersFactors | None:
        """The proposer that gives the numbers in the steps of kernels, unless this search is
        switched off.
        """
        if {"factors", "structure"} & {*self._settings.without}:
            return None
        return next((one for one in self._others if isinstance(one, OffersFactors)), None)

    def builds(self, stack: ExitStack, checkpoint: Checkpoint = lambda: None) -> Builds:
        """Builds kernels for models, which need to know whether a kernel compiles. An exception
        from `checkpoint` ends a build.
        """
        settings = self._settings.evaluated_with(fresh_seed())
        return stack.enter_context(closing(Builds(self._opened.name, settings, checkpoint)))

    def _together(self, stack: ExitStack) -> Author:
        agents = [self._agent(name, stack) for name in self.agents]
        members = [Member(one, (one.name,)) for one in (*self._others, *agents)]
        if not self._models.names:
            return Author(_only_or_mixed(members))
        builds = self.builds(stack)
        llm, ledger = self._models.create_proposer(
            self._storage,
            self._run,
            stack,
            lambda call: self._hear(Called(call)),
            builds,
            CodeNotes(builds).of if isinstance(self._opened.task, ExplainsCode) else None,
        )
        mixed = _only_or_mixed([*members, Member(llm, self._models.asked)])
        author = Author(mixed, lambda: ledger.stop_reason)
        return author if members else author._replace(closed=llm.branches.closed_before)

    def _agent(self, name: str, stack: ExitStack) -> AgentProposer:
        """The proposer that starts agents with this name, which end with the stack."""
        # Not at the top, because only runs with agents need these modules, and asyncio with them.
        from tilewright.agents.bench import Machine
        from tilewright.agents.proposer import AgentProposer

        storage, run, task = self._storage, self._run, self._opened.task
        facts = [Fact(name, version, "this machine") for name, version in run.versions.items()]
        copies = Copies(task.baselines, self._opened.target.brief().language)

        def keep(work: AgentWork) -> None:
            storage.keep(run.id, work)
            self._hear(AgentEnded(work))

        proposer = AgentProposer(
            parse_agent(name),
            self._settings.proposal_share(1) or AGENT_SHARE,
            Machine(self.builds(stack), facts, copies, hidden_from_agents(self._models.store)),
            storage.kept(run.id, AgentWork),
            keep,
        )
        stack.enter_context(closing(proposer))
        return proposer


def _only_or_mixed(members: Sequence[Member]) -> Proposer:
    return members[0].proposer if len(members) == 1 else MixedProposer(members)
