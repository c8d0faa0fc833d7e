"""Options of commands that search, and the settings they make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.core.budget_text import parse_budget
from tilewright.core.config import Settings
from tilewright.core.errors import ConfigurationError, InputError

DEFAULT = Settings()
STOP_WITHIN = f"{100 * DEFAULT.stop_within:g} %"

Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Source of all randomness; same seed, same run.")
]
Strategy = Annotated[
    str,
    typer.Option(
        "--strategy",
        metavar="NAME",
        help="How the kernels to improve next are chosen: 'beam', 'islands' (several beams that "
        "exchange their best kernels), 'best-of-n' (always the starting kernel), or a plug-in.",
    ),
]
InputSeed = Annotated[
    int | None,
    typer.Option(
        "--input-seed",
        metavar="N",
        min=0,
        help="Seed of the inputs that kernels are checked and timed on, for tests and reproducible "
        "demonstrations. By default every run draws a secret one.",
    ),
]
Beam = Annotated[
    int, typer.Option("--beam", metavar="B", help="Kernels kept from one iteration to the next.")
]
Plans = Annotated[
    int, typer.Option("--plans", metavar="N", help="Plans per kernel in each iteration.")
]
Implementations = Annotated[
    int, typer.Option("--implementations", metavar="K", help="Candidates per plan.")
]
Iterations = Annotated[
    int, typer.Option("--iterations", metavar="T", help="Maximum number of iterations.")
]
Dropout = Annotated[
    float,
    typer.Option(
        "--dropout", metavar="P", help="Probability that an optimisation is hidden from a plan."
    ),
]
Patience = Annotated[
    int,
    typer.Option(
        "--patience", metavar="P", help="Stop after P iterations without a faster kernel."
    ),
]
StopWithin = Annotated[
    str,
    typer.Option(
        "--stop-within",
        metavar="PERCENT",
        help="Stop once the best kernel is within this percentage of its bound, the least time "
        "that any kernel needs; 0 never stops for that reason.",
    ),
]
BudgetText = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="TEXT",
        help='Upper limits: "90 s", "10 min", "500 evaluations", "5 USD, 2 h, 3 Mtok", "40 calls".',
    ),
]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Start with the steps that this run of the project found for a similar workload.",
    ),
]
Reuse = Annotated[
    bool,
    typer.Option(
        "--reuse/--no-reuse",
        help="Start with what the project's runs found for the workloads of the same kind that are "
        "nearest in shape.",
    ),
]
Shapes = Annotated[
    Path | None,
    typer.Option(
        "--shapes",
        metavar="FILE",
        help="Optimise also for the shapes in FILE (one workload on each line, each within the "
        "budget), and write one C file whose kernel_dispatch chooses by size.",
    ),
]
DispatchFile = Annotated[
    Path,
    typer.Option("-o", "--output", metavar="FILE", help="The C file that --shapes writes."),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        min=1,
        help="Evaluations at the same time; by default one per core.",
    ),
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="HOST",
        help="Evaluate on another machine, by `ssh HOST tilewright worker` (docs/targets/cuda.md).",
    ),
]
Executor = Annotated[
    str,
    typer.Option(
        "--executor",
        metavar="WHERE",
        help="Where candidates are evaluated: 'local', 'dask' (worker processes on this machine) "
        "or 'dask://HOST:PORT', the scheduler of a cluster (docs/cluster.md).",
    ),
]
TargetSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of the target, such as ordering=timing of gemmini (docs/targets.md). May "
        "be repeated.",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write the report, one HTML file, when done."),
]

Events = Annotated[
    Path | None,
    typer.Option(
        "--events",
        metavar="FILE",
        help="Append every event of the search as a line of JSON (docs/python.md).",
    ),
]


def make_settings(
    *,
    seed: int,
    target: str | None = None,
    strategy: str = DEFAULT.strategy,
    beam: int,
    plans: int,
    implementations: int,
    iterations: int,
    dropout: float,
    patience: int,
    stop_within: str = STOP_WITHIN,
    budget: str | None,
    proposers: Sequence[str] | None = None,
    without: Sequence[str] | None = None,
    edits: bool = False,
    templates: bool = False,
    repairs: int = DEFAULT.repairs,
    turns: int = DEFAULT.turns,
    share: int | None = None,
    allow_unpriced: bool = False,
    schedule_from: str = "",
    reuse: bool = DEFAULT.reuse,
    host: str = DEFAULT.host,
    target_settings: Sequence[str] | None = None,
    allocation: str = DEFAULT.allocation,
    input_seed: int | None = None,
) -> Settings:
    """Settings of a run; raises InputError for a budget or number that cannot be used."""
    settings = Settings(
        seed=seed,
        target=target,
        strategy=strategy,
        beam=beam,
        plans=plans,
        implementations=implementations,
        iterations=iterations,
        dropout=dropout,
        patience=patience,
        stop_within=_share(stop_within),
        **limits(budget),
        proposers=tuple(dict.fromkeys(proposers or DEFAULT.proposers)),
        without=tuple(sorted(set(without or ()))),
        edits=edits,
        templates=templates,
        repairs=repairs,
        turns=turns,
        share=share,
        allow_unpriced=allow_unpriced,
        schedule_from=schedule_from,
        reuse=reuse,
        host=host,
        target_settings=parse_target_settings(target_settings or ()),
        allocation=allocation,
        input_seed=input_seed,
    )
    _require_a_limit_in_use(budget, settings)
    return settings


def _require_a_limit_in_use(text: str | None, settings: Settings) -> None:
    """Without models, a budget of dollars, tokens or calls would never end the search."""
    from tilewright.proposers.llm.models import is_model_name

    budget = settings.budget
    limited = budget.evaluations is not None or budget.wall_s is not None
    if text is not None and not limited and not any(map(is_model_name, settings.proposers)):
        raise ConfigurationError(
            f"--budget {text!r} limits language models only, and none takes part in this search: "
            'give a time or evaluations, such as "10 min", or name a model with --proposer.'
        )


def limits(budget: str | None) -> dict[str, Any]:
    """The settings that a budget makes; `InputError` for one that cannot be read."""
    return {} if budget is None else Settings.limits(parse_budget(budget))


def _share(percent: str) -> float:
    """A percentage as a share."""
    try:
        share = float(percent.strip().removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise ConfigurationError(
            f"--stop-within is {percent!r}: give a percentage such as 1 or '0.5 %', or 0 to "
            "continue at the bound."
        )
    return share


def parse_target_settings(words: Sequence[str]) -> dict[str, str]:
    """Values by name, in the order of names; `InputError` for a word without `=`."""
    for word in words:
        if "=" not in word:
            raise InputError(f"--set {word!r} names no value: write NAME=VALUE.")
    return dict(sorted((name, value) for name, _, value in (w.partition("=") for w in words)))
