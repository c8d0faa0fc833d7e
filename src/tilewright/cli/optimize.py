"""`tilewright optimize`: search for a faster kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import model_options
from tilewright.cli import search_options as options
from tilewright.cli.options import Json, NoColor, Project, TargetName, command_text
from tilewright.cli.searching import Outputs, search
from tilewright.core.errors import InputError

if TYPE_CHECKING:
    from tilewright.search.events import OnEvent
    from tilewright.search.summary import Summary

EPILOG = """
\b
Examples:
  tilewright optimize gemmini:gemm-512x512x512
  tilewright optimize gemmini:gemm-784x256x1024 --budget "5 min" --seed 7
  tilewright optimize gemmini:gemm-512x512x512 --proposer openai/gpt-5.5 \\
      --proposer builtin --budget "5 USD, 2 h"
  tilewright optimize gemmini:gemm-256x256x256 --from 6bc76228
  tilewright optimize gemmini:gemm-256x256x256 \\
      --shapes shapes.txt -o kernel_dispatch.c
  tilewright optimize gemm-256x256x256 --target my-gemmini.toml
  tilewright optimize examples/gemmini --json result.json --report report.html
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("optimize", epilog=EPILOG)(optimize)


def optimize(
    context: typer.Context,
    task: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD|FOLDER",
            help="What to optimise: a workload that `tilewright workloads` lists, a folder with "
            "workload.toml, reference.py and the kernel, or a Python file with a problem in the "
            "form of KernelBench.",
        ),
    ],
    target: TargetName = None,
    seed: options.Seed = options.DEFAULT.seed,
    input_seed: options.InputSeed = None,
    strategy: options.Strategy = options.DEFAULT.strategy,
    beam: options.Beam = options.DEFAULT.beam,
    plans: options.Plans = options.DEFAULT.plans,
    implementations: options.Implementations = options.DEFAULT.implementations,
    iterations: options.Iterations = options.DEFAULT.iterations,
    dropout: options.Dropout = options.DEFAULT.dropout,
    patience: options.Patience = options.DEFAULT.patience,
    stop_within: options.StopWithin = options.STOP_WITHIN,
    budget: options.BudgetText = None,
    proposer: model_options.Proposers = None,
    repairs: model_options.Repairs = options.DEFAULT.repairs,
    turns: model_options.Turns = options.DEFAULT.turns,
    share: model_options.Share = None,
    edits: model_options.Edits = False,
    templates: model_options.Templates = False,
    without: model_options.Without = None,
    allow_unpriced: model_options.AllowUnpriced = False,
    allocation: model_options.Allocation = options.DEFAULT.allocation,
    schedule_from: options.From = "",
    reuse: options.Reuse = options.DEFAULT.reuse,
    shapes: options.Shapes = None,
    output: options.DispatchFile = None,
    record: model_options.Record = None,
    replay: model_options.Replay = None,
    target_settings: options.TargetSettings = None,
    host: options.Host = options.DEFAULT.host,
    jobs: options.Jobs = None,
    executor: options.Executor = "local",
    project: Project = Path(),
    json: Json = None,
    report: options.Report = None,
    events: options.Events = None,
    no_color: NoColor = False,
) -> None:
    """Search for a faster kernel.

    tilewright compiles every candidate, compares it with the reference on private inputs, and times
    it. The run is stored in the project folder. After an interruption, the same command continues
    the run.
    """
    settings = options.make_settings(
        seed=seed,
        input_seed=input_seed,
        target=target,
        strategy=strategy,
        beam=beam,
        plans=plans,
        implementations=implementations,
        iterations=iterations,
        dropout=dropout,
        patience=patience,
        stop_within=stop_within,
        budget=budget,
        proposers=proposer,
        without=without,
        edits=edits,
        templates=templates,
        repairs=repairs,
        turns=turns,
        share=share,
        allow_unpriced=allow_unpriced,
        allocation=allocation,
        schedule_from=schedule_from,
        reuse=reuse,
        host=host,
        target_settings=target_settings,
    )

    if shapes is not None:
        from tilewright.cli.shapes import optimize_shapes

        if record or replay or report or events or executor != "local":
            raise InputError(
                "--shapes makes one run for each shape on this machine, so leave out --record, "
                "--replay, --report, --events and --executor."
            )
        file = output or Path("kernel_dispatch.c")
        optimize_shapes(task, shapes, settings, project, jobs, file, json, context.obj)
        return
    if output is not None:
        instead = command_text("best", "latest", "-o", str(output))
        raise InputError(
            "--output belongs to --shapes. Leave it out; after the search, "
            f"`{instead}` writes the best kernel to a file."
        )

    def start(on_event: OnEvent) -> Summary:
        from tilewright import run

        return run.optimize(
            task,
            settings,
            project=project,
            workers=jobs,
            on_event=on_event,
            replay=replay,
            executor=executor,
            began=context.obj,
        )

    search(start, settings, project, Outputs(json, report, record, events))
