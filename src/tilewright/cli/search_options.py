"""Options of commands that search, and the settings they make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.budget_text import parse_budget
from tilewright.core.config import Settings

DEFAULT = Settings()

Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Source of all randomness; same seed, same run.")
]
Beam = Annotated[
    int, typer.Option("--beam", metavar="B", help="Kernels kept from iteration to iteration.")
]
Plans = Annotated[int, typer.Option("--plans", metavar="N", help="Plans per kernel and iteration.")]
Implementations = Annotated[
    int, typer.Option("--implementations", metavar="K", help="Candidates per plan.")
]
Iterations = Annotated[int, typer.Option("--iterations", metavar="T", help="Iterations at most.")]
Dropout = Annotated[
    float,
    typer.Option(
        "--dropout", metavar="P", help="Chance that an optimisation is hidden from one plan round."
    ),
]
Patience = Annotated[
    int,
    typer.Option(
        "--patience", metavar="P", help="Stop after P iterations without a faster kernel."
    ),
]
BudgetText = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="TEXT",
        help='Upper limits: "90 s", "10 min", "500 evaluations", "5 USD, 2 h, 3 Mtok".',
    ),
]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Begin with the schedule that this run of the project found for a similar workload.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", metavar="N", min=1, help="Evaluations at a time; one per core unless given."
    ),
]
Ordering = Annotated[
    str,
    typer.Option(
        "--ordering",
        metavar="fence|timing",
        help="What must order accesses to the same memory: a fence, or else the modelled timing, "
        "with a warning in every result.",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write the report, one HTML file, when done."),
]


def make_settings(
    *,
    seed: int,
    target: str | None = None,
    beam: int,
    plans: int,
    implementations: int,
    iterations: int,
    dropout: float,
    patience: int,
    budget: str | None,
    proposers: Sequence[str] | None = None,
    without: Sequence[str] | None = None,
    edits: bool = False,
    repairs: int = DEFAULT.repairs,
    allow_unpriced: bool = False,
    schedule_from: str = "",
    ordering: str = DEFAULT.ordering,
    allocation: str = DEFAULT.allocation,
) -> Settings:
    """Settings of a run; raises InputError for a budget or number that cannot be used."""
    limits = parse_budget(budget) if budget is not None else None
    return Settings(
        seed=seed,
        target=target,
        beam=beam,
        plans=plans,
        implementations=implementations,
        iterations=iterations,
        dropout=dropout,
        patience=patience,
        max_evaluations=limits.evaluations if limits else None,
        max_wall_s=limits.wall_s if limits else None,
        max_usd=limits.usd if limits else None,
        max_tokens=limits.tokens if limits else None,
        proposers=tuple(dict.fromkeys(proposers or DEFAULT.proposers)),
        without=tuple(sorted(set(without or ()))),
        edits=edits,
        repairs=repairs,
        allow_unpriced=allow_unpriced,
        schedule_from=schedule_from,
        ordering=ordering,
        allocation=allocation,
    )
