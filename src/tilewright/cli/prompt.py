"""`tilewright prompt`: exactly what would be sent to a model."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tilewright.cli import model_options
from tilewright.cli import search_options as options
from tilewright.cli.options import Json, NoColor, Project, TargetName
from tilewright.cli.output import check_outputs, write_json
from tilewright.core.config import Settings

if TYPE_CHECKING:
    from tilewright.core.records import Brief, History, Plan, Trial

EXAMPLE_PLAN = "(Here, the prompt contains the plan that a model has made.)"
"""The plan in an implementation prompt if there is no run whose plan can be used."""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("prompt")(prompt)


def prompt(
    task: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD|FOLDER", help="The workload or kernel folder to optimise."
        ),
    ],
    phase: Annotated[
        Literal["plan", "implement"],
        typer.Option(
            "--phase",
            metavar="NAME",
            help="Which prompt to print: 'plan' requests a plan, 'implement' requests the kernel "
            "for a plan.",
        ),
    ] = "plan",
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Print the prompt for the best kernel of this run, with its measurements.",
        ),
    ] = None,
    target: TargetName = None,
    seed: options.Seed = options.DEFAULT.seed,
    dropout: options.Dropout = options.DEFAULT.dropout,
    edits: model_options.Edits = False,
    templates: model_options.Templates = False,
    without: model_options.Without = None,
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Print the prompt that a language model would receive.

    Without --run, the command prints the first prompt of a search, with the starting kernel and
    without measurements. The command also prints the length of the prompt to stderr, in characters
    and estimated tokens.
    """
    from tilewright.cli.console import write_out
    from tilewright.proposers.applicable import applicable
    from tilewright.proposers.llm.prices import CHARACTERS_PER_TOKEN
    from tilewright.proposers.llm.prompts.render import Prompts
    from tilewright.proposers.llm.providers.base import joined

    check_outputs(json=json)
    settings = Settings(
        seed=seed,
        target=target,
        dropout=dropout,
        edits=edits,
        templates=templates,
        without=tuple(sorted(set(without or ()))),
    )
    brief, parent, history = _situation(task, settings, run, project)
    prompts = Prompts(settings.without, settings.edits, applicable, templates=settings.templates)
    if phase == "plan":
        messages = prompts.plan(brief, parent, history)
    else:
        messages = prompts.implement(brief, parent, _plan(parent))
    text = joined(list(messages))
    write_out(text + "\n")
    tokens = round(len(text) / CHARACTERS_PER_TOKEN)
    typer.echo(f"({len(text)} characters, at most about {tokens} tokens)", err=True)
    write_json(json, {"phase": phase, "prompt": text, "most_tokens": tokens})


def _situation(
    task: str, settings: Settings, run: str | None, project: Path
) -> tuple[Brief, Trial, History]:
    """Brief, parent and history of the first iteration, or of the next one of a run."""
    from tilewright.core.errors import InputError
    from tilewright.core.records import Brief, Candidate, Failed, History, Trial
    from tilewright.core.tasks import open_task
    from tilewright.run import open_project
    from tilewright.search.steps import derived_seed

    opened = open_task(task, settings.recorded())
    unmeasured = Failed("measure", "timeout", "not measured yet")
    history = History([Trial(0, 0, Candidate(opened.task.start), unmeasured)])
    parent: Trial | None = history[0]
    if run is not None:
        with closing(open_project(project)) as storage:
            history = storage.history(storage.run(run).id)
        parent = history.best
    if parent is None:
        raise InputError(f"run {run} has no correct kernel yet. Leave out --run.")
    iteration = history[-1].iteration + 1
    target = opened.target.brief()
    brief = Brief(
        opened.task.workload,
        target,
        target.menu_for(opened.task.workload, settings.target_settings),
        iteration,
        max(iteration, settings.iterations),
        dropout=settings.menu_dropout,
        seed=derived_seed(settings.seed, iteration, parent.candidate.id, "dropout"),
        stop_within=settings.stop_within,
    )
    return brief, parent, history


def _plan(parent: Trial) -> Plan:
    """The parent's own plan, or an example."""
    from tilewright.core.records import Plan

    made = parent.candidate.plan
    return made or Plan(parent.candidate.id, "other", EXAMPLE_PLAN, "example")
