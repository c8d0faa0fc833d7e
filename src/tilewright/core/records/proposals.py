"""What a proposer receives and returns: briefs, plans and candidates."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.core.records.identity import content_id
from tilewright.core.records.targets import MenuOption, TargetBrief
from tilewright.core.records.workloads import Workload


@dataclass(frozen=True, slots=True)
class Brief:
    """The input of a proposer for one step: workload, target and the workload's menu.

    `dropout` is the probability with which an option is left out of the menu of a plan, drawn from
    `seed` (see `offered`). `rank` is the parent's place in the beam, 0 for the best. `schedules`
    contains schedules of earlier runs for similar workloads, the most similar first. While a search
    applies the plans of the first schedule, one in each iteration, `step` is the number of the
    current plan, from 0, and the menu contains only the option of this plan. The search stops when
    the best kernel is at most the share `stop_within` above its bound; 0 disables this stop.
    `templates` contains the templates that the target offers for the workload, by name.
    """

    workload: Workload
    target: TargetBrief
    menu: tuple[MenuOption, ...]
    iteration: int
    iterations: int
    rank: int = 0
    schedules: tuple[Schedule, ...] = ()
    dropout: float = 0.0
    seed: int = 0
    stop_within: float = 0.0
    step: int | None = None
    templates: Mapping[str, str] = field(default_factory=dict)

    def offered(self, number: int = 0) -> tuple[MenuOption, ...]:
        """The menu of one plan after dropout, drawn for each `number` separately; never empty.

        A proposer that uses one menu for all plans of a parent uses the menu of number 0.
        """
        rng = random.Random(self.seed + number)
        kept = tuple(option for option in self.menu if rng.random() >= self.dropout)
        return kept or tuple(rng.sample(self.menu, min(1, len(self.menu))))


@dataclass(frozen=True, slots=True)
class Plan:
    """One optimisation of one parent: the option of the menu, and how to apply it, in words.

    `parameters` is for proposers that implement their own plans, such as the rewriter. The
    following names have a meaning for the search:

    - `base`: the candidate from which the plan starts, if this is not the parent
    - `turn`: the turn of a proposal in several turns
    - `variant_of`: the text of the plan of which this one is a variant with other steps
    - `anew`: present if the plan keeps nothing of the parent's schedule
    - `reused`: the workload whose recorded schedule the plan carries out
    - `beyond`: by how much the kernel may exceed its limit while it is measured, in percent
    - `template`: the text of the template whose first instance the plan makes
    - `instance` and `tune.NAME`: the candidate that introduced the template of an instance, and
      the values of its parameters

    `expected` says which quantity the plan should save and by how much, and is empty if this is
    not known. `expected_gain` is the expected speedup over the parent, or None. `estimated` is the
    static estimate of the kernel in cycles: of the whole kernel (`total`), and of the time for
    which each unit is busy. It is empty if there is no estimate.
    """

    parent_id: str
    option: str
    text: str
    proposer: str
    parameters: Mapping[str, str | int] = field(default_factory=dict)
    expected: str = ""
    expected_gain: float | None = None
    estimated: Mapping[str, float] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Content hash of parent, option, text and parameters."""
        items = sorted((k, str(v)) for k, v in self.parameters.items())
        return content_id(self.parent_id, self.option, self.text, repr(items))

    @property
    def turn(self) -> int | None:
        """The turn of the proposal that made its candidates; None without turns.

        All candidates of a turn have the same plan, and their outcomes are reported together.
        """
        turn = self.parameters.get("turn")
        return turn if isinstance(turn, int) else None

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps of a plan of the rewriter, as texts; empty for plans of other proposers."""
        return tuple(filter(None, str(self.parameters.get("steps", "")).split("; ")))

    @property
    def base_text(self) -> str:
        """The text of the plan of which this is a variant, or its own text. It is the same for all
        variants of a plan."""
        return str(self.parameters.get("variant_of", self.text))

    @property
    def begins_anew(self) -> bool:
        """Whether its kernels are a new start, which is measured and kept even if it is slower."""
        return "anew" in self.parameters

    @property
    def brings_template(self) -> bool:
        """Whether its kernel is the first instance of a template."""
        return "template" in self.parameters

    @property
    def is_instance(self) -> bool:
        """Whether its kernel differs from the parent only in the values of a template."""
        return "instance" in self.parameters

    @property
    def is_reused(self) -> bool:
        """Whether it carries out a recorded schedule."""
        return "reused" in self.parameters

    @property
    def measured_beyond(self) -> float | None:
        """Up to which multiple of its limit the kernel is measured; None for the default."""
        percent = self.parameters.get("beyond")
        return percent / 100 if isinstance(percent, int) else None


@dataclass(frozen=True, slots=True)
class Schedule:
    """The plans that led an earlier run from its starting kernel to its best one, in order.

    `latencies` are in `unit`: that of the starting kernel, then of the kernel after each plan.
    """

    workload: str
    plans: tuple[Plan, ...]
    latencies: tuple[float, ...]
    unit: str


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Code of a kernel that a proposer cannot work on: its line, its first line, and why."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel's full source and its origin. Two equal sources are the same candidate.

    >>> import tilewright as tw
    >>> tw.Candidate("void kernel(void) {}").id
    '2ee6a6bde544f1bc'
    """

    source: str
    parent_id: str | None = None
    plan: Plan | None = None
    proposer: str = "start"

    def __repr__(self) -> str:
        """The candidate without its source and without its plan."""
        return f"Candidate(id={self.id!r}, proposer={self.proposer!r})"

    @property
    def id(self) -> str:
        """Content hash of the source (16 hexadecimal digits)."""
        return content_id(self.source)
