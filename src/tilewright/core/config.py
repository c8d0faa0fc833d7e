"""The settings of one run: everything that decides its result, and nothing else.

They enter once, at the command line; the number of worker processes is not among them, because it
does not change a result.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.core.budget import Budget
from tilewright.core.errors import ConfigurationError, UnknownNameError

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
"""The settings that make the budget, and what each limits."""
COMPONENTS = (
    "isa", "costs", "menu", "filter", "dropout", "feedback", "examples", "history", "failed",
    "done", "plan", "ensemble", "tools", "structure",
)  # fmt: skip
"""What `without` may name: parts of what language models are told, and who is asked. Without
`structure` only the values of templates are searched, by whomever else kernels would be written."""
SHARES = 4
"""Proposals in turns that the evaluations of a budget are enough for, unless a share is given."""
ALLOCATIONS = ("even", "adaptive")
"""How work is shared among language models: evenly, or by their measured gain per dollar."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Search, checking and budget. Raises `ConfigurationError` on an impossible value.

    Attributes:
        seed: source of the search's randomness; the same seed gives the same search.
        input_seed: seed of the inputs that candidates are checked and timed on, for tests and
            demonstrations; None for a secret that each run draws for itself.
        target: the target to open the task on instead of the one it names: its name, or the path
            of a TOML file that describes one; None for the task's own.
        proposers: who writes candidates: entry-point names and models, in shares of equal size.
        strategy: who chooses parents: the name of an entry point in `tilewright.strategies`.
        beam: B, parents kept per iteration.
        plans: N, plans per parent and iteration.
        implementations: K, candidates per plan.
        iterations: T, iterations at most.
        dropout: probability that a menu option is not offered to a plan, drawn anew for each.
        patience: iterations without a better kernel after which the search stops.
        stop_within: the search is over once its best kernel is at most this share above the bound
            that the target knows; 0 to continue.
        checks: comparisons with the reference per candidate, each on inputs of its own.
        compile_timeout_s, simulation_timeout_s: wall seconds per compilation and
            simulation; seconds of processor time per run where kernels are interpreted.
        max_evaluations, max_wall_s, max_usd, max_tokens, max_calls: the budget; None is no limit.
        allow_unpriced: accept models without a known price although `max_usd` is set.
        repairs: rounds in which candidates that do not compile or pass go back to their author.
        turns: of one proposal by a model, with tools; 1 for a plan and an implementation of it.
        share: evaluations that one proposal in turns, or one agent, may spend; None for a quarter
            of the budget's.
        edits: language models may answer with search/replace edits.
        templates: language models may leave numbers open, which are then searched.
        without: components that are switched off, some of `COMPONENTS`.
        schedule_from: the run of the same project whose schedule is taken up; "" for none.
        reuse: without a run named, take up what the project's runs found for the nearest shapes.
        allocation: how work is shared among language models, one of `ALLOCATIONS`.
        host: the machine that evaluates, as ssh names it; "" for this one.
        target_settings: values of the target's own settings, which its brief declares.

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
                    f"setting {name} is {value!r}. Give a whole number of at least {least}."
                )
        for name, unit in _POSITIVE.items():
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigurationError(
                    f"setting {name} is {value!r}. Give a number of {unit} above 0."
                )
        for component in self.without:
            if component not in COMPONENTS:
                raise UnknownNameError("component", component, COMPONENTS)
        if self.host.startswith("-") or any(c.isspace() for c in self.host):
            raise ConfigurationError(
                f"setting host is {self.host!r}. Give the name of a machine that ssh can reach."
            )
        if self.allocation not in ALLOCATIONS:
            raise UnknownNameError("allocation", self.allocation, ALLOCATIONS)
        if self.templates and self.turns > 1:
            raise ConfigurationError(
                "--templates and --turns cannot be combined. Leave out one of them."
            )
        if not 0 <= self.stop_within < 1:
            raise ConfigurationError(
                f"setting stop_within is {self.stop_within!r}. Give a share from 0 to below 1."
            )
        if not 0 <= self.dropout < 1:
            raise ConfigurationError(
                f"setting dropout is {self.dropout!r}. Give a probability from 0 to below 1."
            )

    @staticmethod
    def limits(budget: Budget) -> dict[str, Any]:
        """All settings that make up the budget; None means no limit."""
        return {name: getattr(budget, limit) for name, limit in _LIMITS.items()}

    @property
    def budget(self) -> Budget:
        """The limits of the run."""
        return Budget(**{limit: getattr(self, name) for name, limit in _LIMITS.items()})

    @property
    def menu_dropout(self) -> float:
        """The dropout in effect: 0 where it is switched off."""
        return 0.0 if "dropout" in self.without else self.dropout

    @property
    def turns_taken(self) -> int:
        """Turns of one proposal; 1 where tools are switched off, as in a control arm."""
        return 1 if "tools" in self.without else self.turns

    @property
    def proposal_share(self) -> int | None:
        """Evaluations of one proposal in turns or of one agent; None for any number."""
        if self.share is not None or self.max_evaluations is None:
            return self.share
        return math.ceil(self.max_evaluations / SHARES)

    def recorded(self) -> dict[str, object]:
        """What a run stores: every field, but no input seed unless the user gave one."""
        fields = dataclasses.asdict(self)
        if self.input_seed is None:
            del fields["input_seed"]
        return fields

    def evaluated_with(self, secret: int) -> dict[str, object]:
        """What targets read to evaluate candidates: every field, and the seed of the inputs.

        It never leaves the evaluating processes, except in a file that only the user may read.
        """
        seed = secret if self.input_seed is None else self.input_seed
        return {**dataclasses.asdict(self), "input_seed": seed}

    @classmethod
    def from_recorded(cls, values: Mapping[str, object]) -> Settings:
        """Inverse of `recorded`; `ConfigurationError` on a setting this version does not know."""
        known = {f.name for f in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigurationError(
                f"setting {unknown[0]!r} is not known to this version of tilewright. Resume the "
                "run with the version that wrote it."
            )
        kept = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in known}
        return cls(**kept)  # type: ignore[arg-type]
