"""Requests plans and candidates for one parent from a proposer, step by step.

The result depends only on the history. All random choices are derived from a hash of (seed,
iteration, parent, purpose), so a resumed run proposes the same candidates again.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from tilewright.core.config import Settings
from tilewright.core.errors import TilewrightError
from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    MenuOption,
    Plan,
    Schedule,
    TargetBrief,
    Trial,
    Workload,
    content_id,
)
from tilewright.core.roles import LiveProposer, Proposer, Responder, StreamingPlanner
from tilewright.search.events import Planned, ProposalFailed
from tilewright.search.parameter_iterations import values_only
from tilewright.search.reuse import ReusePhase
from tilewright.search.step_limit import STEP_LIMIT_S, StepTooLongError, place_of


@dataclass(frozen=True)
class SearchTask:
    """The data that a proposer needs for a whole search; `schedules` are those of earlier runs.

    `templates` are the templates that the target provides for the workload.

    In a separate process, a step that exceeds `step_limit_s` seconds of CPU time is cancelled.
    """

    workload: Workload
    target: TargetBrief
    proposer: Proposer
    settings: Settings
    schedules: tuple[Schedule, ...] = ()
    step_limit_s: float = STEP_LIMIT_S
    templates: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def menu(self) -> tuple[MenuOption, ...]:
        """The options of the target for the workload and the settings."""
        return self.target.menu_for(self.workload, self.settings.target_settings)

    @cached_property
    def phase(self) -> ReusePhase:
        """The iterations in which recorded schedules are tried, before the normal search."""
        return ReusePhase.of(self.schedules, self.menu, getattr(self.proposer, "replays", False))


@dataclass(frozen=True, slots=True)
class Expansion:
    """One parent from which candidates are made, by its id; `rank` is its position among the
    parents.
    """

    iteration: int
    rank: int
    parent_id: str


@dataclass(frozen=True, slots=True)
class Children:
    """The candidates of one step, each with a 64-bit hash of its normal form."""

    made: tuple[tuple[Candidate, int], ...]


Message: TypeAlias = Planned | ProposalFailed | Children


class _End:
    """What follows the last plan."""


_END = _End()


class Steps:
    """Calls a proposer. If a step raises an exception, only this step is lost.

    `limit` limits each step, and a step in which it raises `StepTooLongError` is dropped.
    """

    def __init__(
        self, task: SearchTask, limit: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> None:
        self._task = task
        self._limit = limit

    def expand(self, expansion: Expansion, history: History) -> Iterator[Message]:
        """The messages about a parent: the children of each plan, before the next plan is made.

        Each message is one step of the proposer, which is made when the message is requested.
        """
        brief, parent = self.opened(expansion, history)
        plans = 0
        for found in self.each_plan(brief, parent, history):
            if isinstance(found, Plan):
                plans += 1
                yield from self.implemented(brief, parent, found)
            else:
                yield found
        yield Planned(expansion.iteration, expansion.parent_id, plans)

    def opened(self, expansion: Expansion, history: History) -> tuple[Brief, Trial]:
        """The parent and the brief for it, with menu, dropout and the parent's rank."""
        parent = history.get(expansion.parent_id)
        assert parent is not None, "a parent must be a trial of the history"
        task, settings = self._task, self._task.settings
        phase, iteration, only = task.phase, expansion.iteration, values_only(history)
        brief = Brief(
            task.workload,
            task.target,
            phase.menu(iteration, task.menu),
            iteration,
            settings.iterations + phase.iterations + only,
            expansion.rank,
            task.schedules,
            0.0 if phase.has(iteration) else settings.menu_dropout,
            self._seed(iteration - only, parent, "dropout"),
            settings.stop_within,
            phase.step(iteration),
            task.templates,
        )
        return brief, parent

    def each_plan(
        self, brief: Brief, parent: Trial, history: History
    ) -> Iterator[Plan | ProposalFailed]:
        """The proposer's plans, each as soon as it is made."""
        plans = self._plans(brief, parent, history)
        while True:
            try:
                with self._limit():
                    plan = next(plans, _END)
            except TilewrightError:
                raise
            except StepTooLongError as error:
                yield self._given_up(brief, parent, "planning", error)
                return
            except Exception:
                yield _failed(brief, parent)
                return
            if isinstance(plan, _End):
                return
            if plan is not None:
                yield plan

    def _plans(self, brief: Brief, parent: Trial, history: History) -> Iterator[Plan | None]:
        task, proposer = self._task, self._task.proposer
        count = task.phase.breadth(brief.iteration, task.settings.plans)
        seed = self._seed(self._number(brief), parent, "plan")
        if isinstance(proposer, StreamingPlanner):
            yield from proposer.each_plan(brief, parent, history, count, seed)
        else:
            yield from proposer.plan(brief, parent, history, count, seed)

    def implemented(self, brief: Brief, parent: Trial, plan: Plan) -> list[Message]:
        """The candidates that implement a plan."""
        task = self._task
        count = task.phase.breadth(brief.iteration, task.settings.implementations)
        seed = self._seed(self._number(brief), parent, f"implement {plan.id}")
        proposer = self._task.proposer
        return self._made(
            brief,
            parent,
            f"implementing {plan.text!r}",
            lambda: proposer.implement(brief, parent, plan, count, seed),
        )

    def working(self, brief: Brief, parent: Trial, plan: Plan) -> Iterator[Message] | None:
        """The candidates of an author who works on the plan while kernels are evaluated; None if
        there is no such author.
        """
        proposer = self._task.proposer
        made = proposer.working(brief, parent, plan) if isinstance(proposer, LiveProposer) else None
        return None if made is None else self._worked(brief, parent, made)

    def give_up(self) -> None:
        """End all authors that are still working."""
        if isinstance(self._task.proposer, LiveProposer):
            self._task.proposer.give_up()

    def _worked(
        self, brief: Brief, parent: Trial, made: Iterator[list[Candidate]]
    ) -> Iterator[Message]:
        try:
            for children in made:
                yield Children(tuple((child, self.normal_hash(child)) for child in children))
        except TilewrightError:
            raise
        except Exception:
            yield _failed(brief, parent)

    def answered(
        self, expansion: Expansion, trials: Sequence[Trial], history: History
    ) -> list[Message]:
        """Further candidates of a proposer that reacts to the outcomes of this parent's
        children.
        """
        proposer = self._task.proposer
        if not isinstance(proposer, Responder):
            return []
        brief, parent = self.opened(expansion, history)
        seed = self._seed(self._number(brief), parent, f"repair {trials[0].candidate.id}")
        return self._made(
            brief,
            parent,
            "answering outcomes",
            lambda: proposer.respond(brief, parent, trials, history, seed),
        )

    def normal_hash(self, candidate: Candidate) -> int:
        """A 64-bit hash of a candidate's normal form."""
        normal = self._task.proposer.normalize(candidate.source, self._task.target)
        return int(content_id(normal), 16)

    def _made(
        self, brief: Brief, parent: Trial, what: str, make: Callable[[], list[Candidate]]
    ) -> list[Message]:
        try:
            with self._limit():
                return [Children(tuple((child, self.normal_hash(child)) for child in make()))]
        except TilewrightError:
            raise
        except StepTooLongError as error:
            return [self._given_up(brief, parent, what, error)]
        except Exception:
            return [_failed(brief, parent)]

    def _given_up(
        self, brief: Brief, parent: Trial, what: str, error: StepTooLongError
    ) -> ProposalFailed:
        log = (
            f"{what} for candidate {parent.candidate.id} was given up after "
            f"{self._task.step_limit_s:g} s of computing, in {place_of(error)}"
        )
        return ProposalFailed(brief.iteration, parent.candidate.id, log)

    def _number(self, brief: Brief) -> int:
        """The iteration without the earlier ones that tried only values, so that these do not
        change the random choices of later iterations.
        """
        only = brief.iterations - self._task.settings.iterations - self._task.phase.iterations
        return brief.iteration - only

    def _seed(self, iteration: int, parent: Trial, purpose: str) -> int:
        return derived_seed(self._task.settings.seed, iteration, parent.candidate.id, purpose)


def _failed(brief: Brief, parent: Trial) -> ProposalFailed:
    return ProposalFailed(brief.iteration, parent.candidate.id, traceback.format_exc())


def derived_seed(seed: int, iteration: int, parent_id: str, purpose: str) -> int:
    """A 64-bit seed, derived from all four arguments."""
    return int(content_id(str(seed), str(iteration), parent_id, purpose), 16)
