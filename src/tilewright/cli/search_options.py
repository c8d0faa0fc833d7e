"""The options of commands that search, and their conversion to settings."""

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
    int,
    typer.Option(
        "--seed",
        metavar="N",
        help="Seed of all random choices. If latencies are simulated or modelled, the same seed "
        "gives the same kernels in the same order.",
    ),
]
Strategy = Annotated[
    str,
    typer.Option(
        "--strategy",
        metavar="NAME",
        help="How the search chooses the kernels that it improves next: 'beam' chooses the fastest "
        "ones, 'islands' keeps several beams that exchange their best kernels, and 'best-of-n' "
        "always chooses the starting kernel. Plug-ins can add strategies.",
    ),
]
InputSeed = Annotated[
    int | None,
    typer.Option(
        "--input-seed",
        metavar="N",
        min=0,
        help="Seed of the inputs on which kernels are checked and timed. By default, each run "
        "uses a secret random seed. Set this option only for tests and demonstrations that must be "
        "reproducible.",
    ),
]
Beam = Annotated[
    int,
    typer.Option(
        "--beam",
        metavar="B",
        help="Maximum number of kernels from which an iteration derives new kernels.",
    ),
]
Plans = Annotated[
    int,
    typer.Option(
        "--plans",
        metavar="N",
        help="Maximum number of plans for each kernel in an iteration; a plan describes one "
        "change.",
    ),
]
Implementations = Annotated[
    int,
    typer.Option(
        "--implementations",
        metavar="K",
        help="Maximum number of candidates for each plan.",
    ),
]
Iterations = Annotated[
    int, typer.Option("--iterations", metavar="T", help="Maximum number of iterations.")
]
Dropout = Annotated[
    float,
    typer.Option(
        "--dropout",
        metavar="P",
        help="Probability with which the search hides each optimisation of the target's menu, so "
        "that plans differ.",
    ),
]
Patience = Annotated[
    int,
    typer.Option(
        "--patience",
        metavar="P",
        help="Stop after P consecutive iterations that found no faster kernel.",
    ),
]
StopWithin = Annotated[
    str,
    typer.Option(
        "--stop-within",
        metavar="PERCENT",
        help="Stop when the latency of the best kernel is at most this percentage above the "
        "lower bound for the workload. With 0, the search never stops for this reason.",
    ),
]
BudgetText = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="TEXT",
        help="Stop when one of these limits is reached: a time, a number of evaluations or, for "
        "language models, a cost, a number of tokens or a number of calls. "
        'Examples: "90 s", "500 evaluations", "5 USD, 2 h, 3 Mtok", "40 calls".',
    ),
]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="RUN",
        help="First try the steps that led to the best kernel of this earlier run, which may be "
        "a run for a similar workload.",
    ),
]
Reuse = Annotated[
    bool,
    typer.Option(
        "--reuse/--no-reuse",
        help="First try the steps that earlier runs of the project found for workloads of the "
        "same kind, beginning with the most similar shapes.",
    ),
]
Shapes = Annotated[
    Path | None,
    typer.Option(
        "--shapes",
        metavar="FILE",
        help="Also optimise the workloads in FILE, which lists one workload per line. The budget "
        "applies to each workload. The result is one C file with a function kernel_dispatch, which "
        "chooses the kernel by size.",
    ),
]
DispatchFile = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write the result of --shapes to this C file; by default kernel_dispatch.c.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        min=1,
        help="Maximum number of evaluations at the same time; by default one per core.",
    ),
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="HOST",
        help="Evaluate candidates on the machine HOST, where tilewright starts a worker with `ssh "
        "HOST tilewright worker`. docs/targets/cuda.md explains how to set up HOST.",
    ),
]
Executor = Annotated[
    str,
    typer.Option(
        "--executor",
        metavar="WHERE",
        help="Where to evaluate candidates: 'local' for processes on this machine, 'dask' for "
        "a Dask cluster on this machine, or 'dask://HOST:PORT' for the cluster with the scheduler "
        "at this address (docs/cluster.md).",
    ),
]
TargetSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting of the target, for example ordering=timing for gemmini; "
        "docs/targets.md lists the settings. The option may be repeated.",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="Write the report of the run to this HTML file at the end."
    ),
]

Events = Annotated[
    Path | None,
    typer.Option(
        "--events",
        metavar="FILE",
        help="Append each event of the search to this file as one line of JSON; docs/python.md "
        "lists the events.",
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
    _require_a_share_in_use(settings)
    return settings


def _require_a_limit_in_use(text: str | None, settings: Settings) -> None:
    """Refuse a budget of dollars, tokens or calls without models, because it would never end the
    search.
    """
    from tilewright.proposers.llm.models import is_model_name

    budget = settings.budget
    limited = budget.evaluations is not None or budget.wall_s is not None
    if text is not None and not limited and not any(map(is_model_name, settings.proposers)):
        raise ConfigurationError(
            f"--budget {text!r} limits only language models, but none takes part in this search. "
            'Give a time or a number of evaluations, such as "10 min", or name a model with '
            "--proposer."
        )


def _require_a_share_in_use(settings: Settings) -> None:
    """Refuse --share if no author of the search uses it."""
    from tilewright.agents.names import is_agent_name
    from tilewright.proposers.llm.models import is_model_name

    models = any(map(is_model_name, settings.proposers)) and settings.turns > 1
    if (
        settings.share is not None
        and not models
        and not any(map(is_agent_name, settings.proposers))
    ):
        raise ConfigurationError(
            f"--share {settings.share} limits only language models with --turns and agents, but "
            "neither takes part in this search. Leave it out, or name a model with --proposer and "
            "give --turns."
        )


def limits(budget: str | None) -> dict[str, Any]:
    """The settings that a budget determines; `InputError` if the budget cannot be parsed."""
    return {} if budget is None else Settings.limits(parse_budget(budget))


def _share(percent: str) -> float:
    """Convert a percentage to a share."""
    try:
        share = float(percent.strip().removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise ConfigurationError(
            f"--stop-within is {percent!r}. Give a percentage such as 1 or '0.5 %', or 0 to "
            "continue when the bound is reached."
        )
    return share


def parse_target_settings(words: Sequence[str]) -> dict[str, str]:
    """Values by name, in the order of names; `InputError` for a word without `=`."""
    for word in words:
        if "=" not in word:
            raise InputError(f"--set {word!r} has no value. Write NAME=VALUE.")
    return dict(sorted((name, value) for name, _, value in (w.partition("=") for w in words)))
