"""Roles of proposers, and of the parts that choose parents, menu options and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from tilewright.core.factors import StepFactors
from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    LeftAlone,
    MenuOption,
    Plan,
    TargetBrief,
    Trial,
    Workload,
)
from tilewright.core.templates import ParameterSpace, Point, TriedPoint

MenuFilter = Callable[[TargetBrief, Trial, Sequence[MenuOption]], tuple[MenuOption, ...]]
"""Selects the options of a menu that may make a kernel faster, from its source and its measurement.
Options that cannot help are left out; options of which this is not certain are kept."""


@runtime_checkable
class Proposer(Protocol):
    """Writes candidates in two steps. The same `seed` gives the same result.

    A proposer can set the following attributes:

    - `waits` is true if the proposer mostly waits for other programs. Its methods may then be
      called from several threads at once, and candidates that are somewhat slower than their
      parent are measured to the end.
    - `parallel` is true if the proposer computes, and treats each parent separately. Parents may
      then be given to pickled copies of the proposer in other processes.
    - `modules` is a method that returns the names of the modules of tilewright that the proposer
      uses for a target. Other processes then begin with these modules imported.
    - `languages` names the languages of the kernels that the proposer can work on, if it cannot
      work on all kernels.
    - `replays` is true if the proposer carries out each recorded schedule (`Brief.schedules`) as a
      whole, in its plans for the first iteration. The search then does not give it the plans of a
      schedule one by one.
    """

    name: str

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Up to `count` different plans for `parent`, each with one of the offered options.

        Plans that carry out recorded schedules are not counted.
        """
        ...

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """Up to `count` candidates that carry out `plan`; none if it cannot be carried out."""
        ...

    def normalize(self, source: str, target: TargetBrief) -> str:
        """A canonical form, which is equal for two sources that differ, for example, only in
        comments.
        """
        ...


@runtime_checkable
class SearchStrategy(Protocol):
    """Chooses parents from the history, and says when to stop.

    Its results depend only on the history. To avoid reading the whole history each time, a
    strategy keeps an index of its own (`History.indexed`). tilewright finds a strategy through
    the entry point group `tilewright.strategies`, as a callable that takes a run's `Settings`.
    """

    def select(self, history: History) -> list[Trial]:
        """The trials to start from next; at least one as soon as any trial was measured.

        The candidates that are made from the first of these trials are evaluated first. If the
        budget ends early, candidates from the last trials are left out.
        """
        ...

    def limit_latency(self, parent: Trial) -> float | None:
        """The latency at which a child of `parent` is too slow to be kept; None for no limit."""
        ...

    def should_stop(self, history: History, iteration: int) -> str | None:
        """The reason why the search ends before `iteration` begins, or None if it continues."""
        ...


class ParameterSearch(Protocol):
    """Chooses which instances of a template, or of a kernel's steps, are evaluated next."""

    def next_points(
        self, space: ParameterSpace, tried: Sequence[TriedPoint], count: int, seed: int
    ) -> list[Point]:
        """Up to `count` different points that were not tried yet, the most promising first.

        The result depends only on the arguments, so a resumed run gets the same points. There are
        fewer than `count` if nearly all points were tried.
        """
        ...


@runtime_checkable
class StreamingPlanner(Protocol):
    """A proposer that makes its plans one by one."""

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan | None]:
        """The plans that `plan` returns, in the same order, each one as soon as it is made; None
        after a part of the work that gave no plan. The search limits the time of each part.
        """
        ...


@runtime_checkable
class Responder(Protocol):
    """A proposer that reacts to the outcomes of its own candidates."""

    def respond(
        self, brief: Brief, parent: Trial, trials: Sequence[Trial], history: History, seed: int
    ) -> list[Candidate]:
        """Further candidates; none for trials of another proposer.

        The trials are either one candidate that failed, which the proposer corrects, or all
        candidates of a turn (`Plan.turn`), whose proposal it continues. All of them were made from
        `parent`, when the history was `history`.
        """
        ...


@runtime_checkable
class LiveProposer(Protocol):
    """A proposer whose authors, such as agents, continue to work while kernels are evaluated.

    The search reports each outcome with `Responder.respond`, from any thread, when it is known.
    """

    def working(self, brief: Brief, parent: Trial, plan: Plan) -> Iterator[list[Candidate]] | None:
        """The candidates that the author wants evaluated, until the author has finished.

        None for a plan that `implement` carries out.
        """
        ...

    def give_up(self) -> None:
        """End all authors, because nothing more is evaluated for them. Idempotent."""
        ...


@runtime_checkable
class OffersFactors(Protocol):
    """A proposer that makes kernels by steps with numbers, and can make them with other numbers."""

    def offers_factors(self, target: TargetBrief) -> bool:
        """Whether it does so for kernels of this target."""
        ...

    def factors(self, target: TargetBrief, kernel: Trial, history: History) -> StepFactors | None:
        """The numbers in the steps that led to a kernel; None if there are none."""
        ...


@runtime_checkable
class FindsUnsupportedCode(Protocol):
    """A proposer that changes only the parts of a kernel it understands, and can list the rest."""

    def left_alone(self, target: TargetBrief, source: str, workload: Workload) -> list[LeftAlone]:
        """The code of a workload's kernel that the proposer will not change, in the order of the
        source.
        """
        ...
