"""The settings of one run, which contain everything that can change its result.

The number of worker processes is not a setting, because it does not change the result.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.core.budget import Budget
from tilewright.core.errors import ConfigurationError, UnknownNameError
from tilewright.core.text import shortened

_AT_LEAST = {
    "seed": 0,
    "input_seed": 0,
    "beam": 1,
    "plans": 1,
    "implementations": 1,
    "iterations": 0,
    "patience": 1,
    "checks": 1,
    "repairs": 0,
    "turns": 1,
    "share": 1,
    "max_evaluations": 1,
    "max_tokens": 1,
    "max_calls": 1,
}
_POSITIVE = {
    "compile_timeout_s": "seconds",
    "simulation_timeout_s": "seconds",
    "max_wall_s": "seconds",
    "max_usd": "US dollars",
}
_LIMITS = {f"max_{field.name}": field.name for field in dataclasses.fields(Budget)}
"""The settings that form the budget, with the limit that each of them sets."""
COMPONENTS = (
    "isa", "costs", "menu", "filter", "dropout", "feedback", "examples", "history", "failed",
    "done", "plan", "ensemble", "tools", "structure", "factors",
)  # fmt: skip
"""The components that `without` can switch off: parts of the prompts and of the search. Without
`structure`, only the values of templates are searched, and no other kernels are written. Without
`factors`, the numbers in the steps of the built-in rewriter are not searched."""
SHARES = 4
"""Maximum number of proposals in turns among which the budget's evaluations are divided."""
ALLOCATIONS = ("even", "adaptive")
"""How language models share the work: evenly, or by their measured gain per dollar."""


_PLAIN_PROPOSER = re.compile(r"[A-Za-z0-9][\w./-]*", re.ASCII)


def is_plain_proposer(name: str) -> bool:
    """Whether a proposer is a built-in one, a plug-in or a model of a known provider.

    All others name a program, a folder or an address.
    """
    return _PLAIN_PROPOSER.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a search. Raises `ConfigurationError` if a value is impossible.

    Attributes:
        seed: seed of all random choices of the search.
        input_seed: seed of the inputs on which candidates are checked and timed, for tests and
            demonstrations. With None, each run draws a secret seed.
        target: name of a target, or path of a TOML file that describes one, to use instead of the
            task's own target. None stands for the task's own target.
        proposers: names of the proposers and models that write candidates. They share the work.
        strategy: the strategy that chooses parents, by its name in `tilewright.strategies`.
        beam: number of parents in each iteration (B).
        plans: number of plans for each parent in each iteration (N).
        implementations: number of candidates for each plan (K).
        iterations: maximum number of iterations (T).
        dropout: probability with which each menu option is left out when a plan is made.
        patience: number of consecutive iterations without a faster kernel after which the search
            stops.
        stop_within: the search stops when its best kernel is at most this share above the bound.
            With 0, it never stops for this reason.
        checks: number of comparisons with the reference for each candidate, each on its own inputs.
        compile_timeout_s, simulation_timeout_s: time limits in seconds for one compilation and one
            simulation. For kernels that are interpreted, the latter limits processor time.
        max_evaluations, max_wall_s, max_usd, max_tokens, max_calls: the budget; None for no limit.
        allow_unpriced: accept models of unknown price even if `max_usd` is set.
        repairs: number of times that a model may correct a kernel that failed.
        turns: number of turns, with tools, that a model has for one proposal. With 1, a proposal
            is one plan and one implementation.
        share: number of evaluations that one proposal in turns, or one agent, may use. None stands
            for a quarter of the budget's evaluations, or for an equal part if the run has fewer
            than four proposals.
        edits: let language models answer with search/replace edits.
        templates: let language models leave numbers open, whose values are then searched.
        without: components to switch off, from `COMPONENTS`.
        schedule_from: id of a run of the same project whose schedule is tried first; "" for none.
        reuse: without `schedule_from`, first try the schedules of the project's runs for the most
            similar shapes.
        allocation: how language models share the work, one of `ALLOCATIONS`.
        host: name of the machine that evaluates, for ssh; "" for this machine.
        target_settings: values of the settings that the target's brief declares.

    >>> import tilewright as tw
    >>> settings = tw.Settings(seed=7, beam=2, plans=2)
    >>> run = tw.optimize("gemmini:gemm-16x16x16", budget="2 evaluations", settings=settings)
    >>> run.summary.seed
    7
    """

    seed: int = 0
    target: str | None = None
    proposers: tuple[str, ...] = ("builtin",)
    strategy: str = "beam"
    beam: int = 6
    plans: int = 6
    implementations: int = 2
    iterations: int = 15
    dropout: float = 0.7
    patience: int = 4
    stop_within: float = 0.01
    checks: int = 3
    compile_timeout_s: float = 20.0
    simulation_timeout_s: float = 60.0
    max_evaluations: int | None = None
    max_wall_s: float | None = None
    max_usd: float | None = None
    max_tokens: int | None = None
    max_calls: int | None = None
    allow_unpriced: bool = False
    repairs: int = 1
    turns: int = 1
    share: int | None = None
    edits: bool = False
    templates: bool = False
    without: tuple[str, ...] = ()
    schedule_from: str = ""
    reuse: bool = True
    allocation: str = "even"
    host: str = ""
    target_settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    input_seed: int | None = None

    def __post_init__(self) -> None:
        for name, least in _AT_LEAST.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < least):
                raise ConfigurationError(
                    f"setting {name} is {shortened(value)}. "
                    f"Give a whole number of at least {least}."
                )
        for name, unit in _POSITIVE.items():
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigurationError(
                    f"setting {name} is {shortened(value)}. Give a number of {unit} above 0."
                )
        if not self.proposers:
            raise ConfigurationError(
                "setting proposers is empty, so that nothing would write candidates. Name at least "
                'one, such as "builtin".'
            )
        for component in self.without:
            if component not in COMPONENTS:
                raise UnknownNameError("component", component, COMPONENTS)
        if self.host.startswith("-") or any(c.isspace() for c in self.host):
            raise ConfigurationError(
                f"setting host is {shortened(self.host)}. "
                "Give the name of a machine that ssh can reach."
            )
        if self.allocation not in ALLOCATIONS:
            raise UnknownNameError("allocation", self.allocation, ALLOCATIONS)
        if self.templates and self.turns > 1:
            raise ConfigurationError(
                "--templates and --turns cannot be combined. Leave out one of them."
            )
        if not 0 <= self.stop_within < 1:
            raise ConfigurationError(
                f"setting stop_within is {shortened(self.stop_within)}. "
                "Give a share from 0 to below 1."
            )
        if not 0 <= self.dropout < 1:
            raise ConfigurationError(
                f"setting dropout is {shortened(self.dropout)}. "
                "Give a probability from 0 to below 1."
            )

    @staticmethod
    def limits(budget: Budget) -> dict[str, Any]:
        """The settings that form a budget; None means no limit."""
        return {name: getattr(budget, limit) for name, limit in _LIMITS.items()}

    @property
    def budget(self) -> Budget:
        """The limits of the run."""
        return Budget(**{limit: getattr(self, name) for name, limit in _LIMITS.items()})

    @property
    def menu_dropout(self) -> float:
        """The dropout in effect, which is 0 if dropout is switched off."""
        return 0.0 if "dropout" in self.without else self.dropout

    @property
    def turns_taken(self) -> int:
        """The number of turns of one proposal, which is 1 if tools are switched off."""
        return 1 if "tools" in self.without else self.turns

    def proposal_share(self, from_parent: int) -> int | None:
        """The number of evaluations for one proposal in turns or one agent; None for no limit.

        By default, the budget's evaluations are divided among `SHARES` proposals, or among all
        proposals of the run if there are fewer: `from_parent` for each parent of an iteration.
        """
        if self.share is not None or self.max_evaluations is None:
            return self.share
        parents = 1 + self.beam * (self.iterations - 1)  # the first iteration has one parent
        return math.ceil(self.max_evaluations / min(SHARES, max(1, from_parent * parents)))

    def recorded(self) -> dict[str, object]:
        """The fields that a run stores: all fields, except an input seed that the user did not
        give.
        """
        fields = dataclasses.asdict(self)
        if self.input_seed is None:
            del fields["input_seed"]
        return fields

    def evaluated_with(self, secret: int) -> dict[str, object]:
        """The fields that targets read to evaluate candidates, including the seed of the inputs.

        Only the evaluating processes know the seed. It is stored in a file that only the user can
        read.
        """
        seed = secret if self.input_seed is None else self.input_seed
        return {**dataclasses.asdict(self), "input_seed": seed}

    @classmethod
    def from_recorded(cls, values: Mapping[str, object]) -> Settings:
        """The inverse of `recorded`; `ConfigurationError` if a setting is unknown."""
        known = {f.name for f in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigurationError(
                f"setting {unknown[0]!r} is not known to this version of tilewright. Resume the "
                "run with the version that wrote it."
            )
        kept = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in known}
        return cls(**kept)  # type: ignore[arg-type]
