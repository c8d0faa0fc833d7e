"""`tilewright demo`: a complete search on one known workload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import search_options as options
from tilewright.cli.options import Json, NoColor, Project
from tilewright.cli.searching import Outputs, search
from tilewright.core.budget_text import parse_budget
from tilewright.core.config import Settings

if TYPE_CHECKING:
    from tilewright.search.events import OnEvent
    from tilewright.search.summary import Summary

WORKLOAD = "gemmini:gemm-12544x64x256"
BUDGET = "90 s"
EPILOG = """
\b
Examples:
  tilewright demo
  tilewright demo --seed 3 --json result.json --report demo.html
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("demo", epilog=EPILOG)(demo)


def demo(
    context: typer.Context,
    seed: options.Seed = options.DEFAULT.seed,
    budget: Annotated[
        str,
        typer.Option(
            "--budget", metavar="TEXT", help="Stop after this time or this number of evaluations."
        ),
    ] = BUDGET,
    jobs: options.Jobs = None,
    project: Project = Path(),
    json: Json = None,
    report: Annotated[
        Path, typer.Option("--report", metavar="FILE", help="Write the report to this HTML file.")
    ] = Path("tilewright-demo.html"),
    events: options.Events = None,
    no_color: NoColor = False,
) -> None:
    """Make a naive Gemmini kernel several times faster.

    The demo needs no API key and no accelerator, because the built-in rewriter writes the
    candidates and a simulator executes them. The kernel computes one layer of ResNet-50, an int8
    matrix product of 12544x64x256.
    """
    limits = parse_budget(budget)
    settings = Settings(
        seed=seed,
        max_evaluations=limits.evaluations,
        max_wall_s=limits.wall_s,
        reuse=False,  # the same demonstration in every project
    )

    def start(on_event: OnEvent) -> Summary:
        from tilewright import run

        return run.optimize(
            WORKLOAD,
            settings,
            project=project,
            workers=jobs,
            on_event=on_event,
            began=context.obj,
        )

    search(start, settings, project, Outputs(json, report, events=events))
