"""`tilewright prompt`: exactly what would be sent to a model."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tilewright.cli import model_options
from tilewright.cli import search_options as options
from tilewright.cli.options import NoColor, Project, TargetName
from tilewright.core.config import Settings

if TYPE_CHECKING:
    from tilewright.core.records import Brief, History, Plan, Trial

EXAMPLE_PLAN = "Tile the loops so that both operands fit into the scratchpad."
"""Stands in for the plan of an implement prompt where there is no run to take one from."""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("prompt")(prompt)


def prompt(
    task: Annotated[
        str, typer.Argument(metavar="WORKLOAD|FOLDER", help="What is to be optimised.")
    ],
    phase: Annotated[
        Literal["plan", "implement"], typer.Option("--phase", help="Which prompt.")
    ] = "plan",
    run: Annotated[
        str | None,
        typer.Option(
            "--run", metavar="RUN", help="Prompt for the best kernel of this run, as measured."
        ),
    ] = None,
    target: TargetName = None,
    seed: options.Seed = options.DEFAULT.seed,
    dropout: options.Dropout = options.DEFAULT.dropout,
    edits: model_options.Edits = False,
    without: model_options.Without = None,
    project: Project = Path(),
    no_color: NoColor = False,
) -> None:
    """Print a prompt exactly as a model would get it, and on stderr how long it is.

    Without --run it is for the starting kernel, which then has not been measured.
    """
    from tilewright.proposers.llm.prices import CHARACTERS_PER_TOKEN
    from tilewright.proposers.llm.prompts.render import Prompts
    from tilewright.proposers.llm.providers.base import joined

    settings = Settings(
        seed=seed,
        target=target,
        dropout=dropout,
        edits=edits,
        without=tuple(sorted(set(without or ()))),
    )
    brief, parent, history = _situation(task, settings, run, project)
    prompts = Prompts(settings.without, settings.edits)
    if phase == "plan":
        messages = prompts.plan(brief, parent, history)
    else:
        messages = prompts.implement(brief, parent, _plan(parent))
    text = joined(list(messages))
    typer.echo(text)
    tokens = len(text) / CHARACTERS_PER_TOKEN
    typer.echo(f"({len(text)} characters, at most about {tokens:.0f} tokens)", err=True)


def _situation(
    task: str, settings: Settings, run: str | None, project: Path
) -> tuple[Brief, Trial, History]:
    """Brief, parent and history of the first iteration, or of the next one of a run."""
    from tilewright.core.errors import InputError
    from tilewright.core.records import Brief, Candidate, Failed, History, Trial
    from tilewright.core.tasks import open_task
    from tilewright.run import open_project
    from tilewright.search.proposing import derived_seed, dropped

    opened = open_task(task, settings.recorded())
    unmeasured = Failed("measure", "timeout", "not measured yet")
    history = History([Trial(0, 0, Candidate(opened.task.start), unmeasured)])
    parent: Trial | None = history[0]
    if run is not None:
        with closing(open_project(project)) as storage:
            history = storage.history(storage.run(run).id)
        parent = history.best
    if parent is None:
        raise InputError(f"run {run} has no correct kernel yet: leave out --run.")
    iteration = history[-1].iteration + 1
    target = opened.target.brief()
    seed = derived_seed(settings.seed, iteration, parent.candidate.id, "dropout")
    menu = dropped(target.menu_for(opened.task.workload), settings.menu_dropout, seed)
    iterations = max(iteration, settings.iterations)
    return Brief(opened.task.workload, target, menu, iteration, iterations), parent, history


def _plan(parent: Trial) -> Plan:
    """The parent's own plan, or an example."""
    from tilewright.core.records import Plan

    made = parent.candidate.plan
    return made or Plan(parent.candidate.id, "other", EXAMPLE_PLAN, "example")
