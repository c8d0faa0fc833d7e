"""`tilewright evaluate`: build, check and measure one kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import search_options as options
from tilewright.cli.file_names import with_file_name
from tilewright.cli.options import Json, NoColor, TargetName
from tilewright.cli.output import check_outputs, write_json
from tilewright.cli.task_names import shown_task
from tilewright.cli.wrapping import print_sentences
from tilewright.core.config import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from tilewright.core.records import ExternalResult, Failed, Measured
    from tilewright.evaluating import Evaluation

EPILOG = """
\b
Example:
  tilewright evaluate kernel.c --workload gemmini:gemm-512x512x512 \\
      --json result.json
"""

_UNKNOWN_PRECISION = (
    "The precision of the results is unknown, because the errors on this workload's inputs do not "
    "show whether a kernel computes with fewer digits (docs/tolerance.md)."
)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("evaluate", epilog=EPILOG)(evaluate)


def evaluate(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="File with the kernel's source, in the language of its target."
        ),
    ],
    workload: Annotated[
        str,
        typer.Option(
            "--workload",
            metavar="WORKLOAD|FOLDER",
            help="What the kernel must compute: a workload that `tilewright workloads` lists, a "
            "kernel folder, or a Python file with a problem in the form of KernelBench.",
        ),
    ],
    target: TargetName = None,
    input_seed: options.InputSeed = None,
    target_settings: options.TargetSettings = None,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines",
            help="Also measure the target's baselines, for example a naive kernel and a library "
            "routine, and compare the kernel with them.",
        ),
    ] = False,
    simulator: Annotated[
        str | None,
        typer.Option(
            "--simulator",
            metavar="NAME",
            help="Also run the kernel on an external simulator or chip: spike, verilator or "
            "firesim for gemmini, neuron for trainium (docs/targets.md).",
        ),
    ] = None,
    simulator_timeout: Annotated[
        float,
        typer.Option(
            "--simulator-timeout", metavar="SECONDS", min=1, help="Time limit for --simulator."
        ),
    ] = 3600.0,
    project: Annotated[
        Path,
        typer.Option(
            "--project",
            metavar="DIR",
            help="Folder of a project; by default the current folder. If `tilewright tune` has "
            "found kernels for this workload in the project, they are among the --baselines. "
            "Nothing is stored in the project.",
        ),
    ] = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Build, check and measure one kernel.

    The command prints whether the kernel is correct, the kernel's latency, the utilisation of the
    accelerator, and where the time goes. If this machine cannot measure the kernel, the command
    still builds and checks the kernel, and says why there is no latency. The exit code is 1 if the
    kernel fails a check, and 2 if the kernel does not build.
    """
    from tilewright.cli.console import results
    from tilewright.core.errors import InputError, NotTimedError
    from tilewright.core.records import Failed
    from tilewright.evaluating import code_notes, evaluate_kernel

    check_outputs(json=json)
    settings = Settings(
        input_seed=input_seed,
        target=target,
        target_settings=options.parse_target_settings(target_settings or ()),
    )
    try:
        evaluation = evaluate_kernel(
            file,
            workload,
            settings,
            simulator=simulator,
            simulator_timeout_s=simulator_timeout,
            with_baselines=baselines,
            tuned_in=project,
        )
    except NotTimedError as error:
        typer.echo(f"{workload}: {error}")
        not_measured = {"workload": workload, "verdict": "correct", "latency": None}
        write_json(json, {**not_measured, "feedback": str(error)})
        return
    notes = code_notes(evaluation, settings)
    write_json(json, {**evaluation_json(evaluation, input_seed), "code_notes": list(notes)})
    if isinstance(evaluation.outcome, Failed):
        _print_failed(results(), evaluation, evaluation.outcome, file)
        if evaluation.outcome.stage == "build":
            language = evaluation.language
            raise InputError(
                f"kernel file {file} does not build; the reason is printed above. Write "
                f"{language.name} that defines {language.kernel_in_words} and follows the rules of "
                f"target {evaluation.target}."
            )
        raise typer.Exit(1)
    _print_measured(results(), evaluation, evaluation.outcome, notes)
    if evaluation.external is not None:
        _print_external(results(), evaluation.external, evaluation.outcome.latency)
        if isinstance(evaluation.external, Failed):
            raise typer.Exit(1)


def evaluation_json(evaluation: Evaluation, input_seed: int | None) -> dict[str, object]:
    """The documented fields of `evaluate --json`; for a failed kernel, unknown fields are null or
    empty.
    """
    from tilewright.cli.searching import baseline_json
    from tilewright.core.records import Failed

    common: dict[str, object] = {
        "workload": evaluation.workload,
        "target": evaluation.target,
        "verdict": "correct",
        "latency": None,
        "unit": None,
        "quantity": None,
        "instructions": None,
        "utilization": None,
        "precision": None,
        "breakdown": None,
        "by_line": None,
        "feedback": None,
        "warnings": [],
        "baselines": {},
        "external": None,
        "failure": None,
        "wall_s": evaluation.wall_s,
        "input_seed": input_seed,
        "sandbox": evaluation.outcome.sandbox,
        "versions": dict(evaluation.versions),
    }
    outcome = evaluation.outcome
    if isinstance(outcome, Failed):
        failure = {
            "stage": outcome.stage,
            "kind": outcome.kind,
            "line": outcome.line,
            "log": outcome.log,
        }
        return {**common, "verdict": outcome.kind, "failure": failure}
    return {
        **common,
        "latency": outcome.latency,
        "unit": outcome.unit,
        "quantity": outcome.quantity,
        "instructions": outcome.details.get("instructions"),
        "utilization": outcome.utilization,
        "precision": outcome.verdict.precision or None,
        "breakdown": dict(outcome.breakdown),
        "by_line": {line: dict(counts) for line, counts in outcome.by_line.items()},
        "details": dict(outcome.details),
        "feedback": outcome.feedback,
        "warnings": list(outcome.warnings),
        "baselines": {b.name: baseline_json(b, outcome.latency) for b in evaluation.baselines},
        "external": _external_json(evaluation),
        "versions": {**evaluation.versions, **outcome.versions},
    }


def _external_json(evaluation: Evaluation) -> dict[str, object] | None:
    """The run on an external simulator; `difference` is the embedded latency divided by that of the
    simulator, minus 1.
    """
    from tilewright.core.records import Failed, Measured

    external, outcome = evaluation.external, evaluation.outcome
    if external is None or not isinstance(outcome, Measured):
        return None
    if isinstance(external, Failed):
        return {"verdict": external.kind, "stage": external.stage, "log": external.log}
    return {
        "verdict": "correct",
        "simulator": external.simulator,
        "latency": external.latency,
        "unit": external.unit,
        "difference": outcome.latency / external.latency - 1 if external.latency else None,
        "instructions": external.instructions,
        "wall_s": external.wall_s,
        "versions": dict(external.versions),
        "details": dict(external.details),
    }


def _print_external(console: Console, external: ExternalResult | Failed, latency: float) -> None:
    from rich.text import Text

    from tilewright.core.records import Failed
    from tilewright.report.text import duration, number

    console.print()
    if isinstance(external, Failed):
        console.print(Text(f"external simulator: the kernel {external.words}", style="bold red"))
        console.print(Text(external.log.rstrip()), soft_wrap=True)
        return
    text = f"{external.simulator}: correct in {duration(external.wall_s)}"
    if external.latency:
        difference = latency / external.latency - 1
        text += f", {number(external.latency)} {external.unit}; "
        text += f"the latency of the built-in simulator differs by {difference:+.2%}"
    if external.versions:
        text += "\n" + ", ".join(f"{n} {v}" for n, v in external.versions.items())
    console.print(Text(text, style="bold green"))


def _print_measured(
    console: Console, evaluation: Evaluation, outcome: Measured, notes: Sequence[str]
) -> None:
    from rich.table import Table
    from rich.text import Text

    from tilewright.cli.summary_table import comparison
    from tilewright.core.plugins import load_target
    from tilewright.report.breakdown import cause_groups
    from tilewright.report.text import measurements, number, percent, share, words

    checks = ", ".join(dict.fromkeys(c.distribution for c in outcome.verdict.checks))
    console.print(
        Text(f"{shown_task(evaluation.workload)}: correct ({checks})", style="bold green")
    )
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row(f"{outcome.quantity} {outcome.unit}", number(outcome.latency))
    table.add_row("utilisation", percent(outcome.utilization))
    table.add_row("precision", outcome.verdict.precision or "unknown")
    for row in measurements(outcome.details):
        table.add_row(*row)
    console.print(table)
    if not outcome.verdict.precision:
        console.print()
        print_sentences(console, _UNKNOWN_PRECISION)
    for group in cause_groups(outcome.breakdown, load_target(evaluation.target).brief().causes):
        console.print(f"\n{group.title or 'Where the time goes:'}")
        table = Table(box=None, show_header=False, pad_edge=False)
        for justify in ("left", "right", "right", "left"):
            table.add_column(justify=justify)
        for name, meaning, value in group.rows:
            table.add_row(words(name), number(value), share(value, outcome.latency), meaning)
        console.print(table)
    if outcome.feedback:
        console.print()
        print_sentences(console, "\n".join((outcome.feedback, *notes)))
    for warning in outcome.warnings:
        console.print()
        print_sentences(console, f"warning: {warning}", style="yellow")
    if evaluation.baselines:
        console.print()
        console.print(comparison(evaluation.baselines, outcome))
    if evaluation.not_tuned:
        console.print()
        print_sentences(console, evaluation.not_tuned)


def _print_failed(console: Console, evaluation: Evaluation, outcome: Failed, file: Path) -> None:
    """Print the kind and the stage of the failure, the source line, and the log."""
    from rich.text import Text

    task = shown_task(evaluation.workload)
    console.print(Text(f"{task}: the kernel {outcome.words}", style="bold red"))
    lines = evaluation.candidate.source.splitlines()
    log = with_file_name(outcome.log.rstrip(), file)
    if outcome.line is not None and 0 < outcome.line <= len(lines):
        place = f"{file}:{outcome.line}: {lines[outcome.line - 1].strip()}"
        console.print(Text(place), soft_wrap=True)
        log = log.removeprefix(f"{file}:{outcome.line}: ")  # `place` contains it
    print_sentences(console, log)
