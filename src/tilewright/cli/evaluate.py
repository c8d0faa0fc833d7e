"""`tilewright evaluate`: build, check and measure one kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import search_options as options
from tilewright.cli.options import Json, NoColor, TargetName
from tilewright.cli.output import check_outputs, write_json
from tilewright.core.config import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from tilewright.core.records import ExternalResult, Failed, Measured
    from tilewright.run import Evaluation

EPILOG = """
\b
Example:
  tilewright evaluate kernel.c --workload gemmini:gemm-512x512x512 --json result.json
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("evaluate", epilog=EPILOG)(evaluate)


def evaluate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="C source that defines `kernel`.")],
    workload: Annotated[
        str,
        typer.Option(
            "--workload",
            metavar="WORKLOAD|FOLDER",
            help="What the kernel must compute: a workload's name or a folder.",
        ),
    ],
    target: TargetName = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Seed of the private inputs.")
    ] = Settings().seed,
    ordering: options.Ordering = options.DEFAULT.ordering,
    baselines: Annotated[
        bool,
        typer.Option("--baselines", help="Also measure the target's baselines and compare."),
    ] = False,
    simulator: Annotated[
        str | None,
        typer.Option(
            "--simulator",
            metavar="NAME",
            help="Also run it on a real tool: spike, verilator or firesim (see docs/targets.md).",
        ),
    ] = None,
    simulator_timeout: Annotated[
        float,
        typer.Option("--simulator-timeout", metavar="SECONDS", min=1, help="When to stop it."),
    ] = 3600.0,
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Build, check and measure one kernel: verdict, cycles, utilisation, where cycles went.

    Ends with exit code 1 if the kernel fails a check, 2 if it does not build.
    """
    from tilewright.cli.console import results
    from tilewright.core.errors import InputError
    from tilewright.core.records import Failed
    from tilewright.run import evaluate_file

    check_outputs(json=json)
    evaluation = evaluate_file(
        file,
        workload,
        Settings(seed=seed, target=target, ordering=ordering),
        simulator=simulator,
        simulator_timeout_s=simulator_timeout,
        with_baselines=baselines,
    )
    if json:
        write_json(json, evaluation_json(evaluation, seed))
    if isinstance(evaluation.outcome, Failed):
        _print_failed(results(), evaluation, evaluation.outcome, file)
        if evaluation.outcome.stage == "build":
            raise InputError(
                f"kernel file {file} does not build ({evaluation.outcome.kind}, see above): give "
                "C that defines `kernel` and uses only the target's commands."
            )
        raise typer.Exit(1)
    _print_measured(results(), evaluation, evaluation.outcome)
    if evaluation.external is not None:
        _print_external(results(), evaluation.external, evaluation.outcome.latency)
        if isinstance(evaluation.external, Failed):
            raise typer.Exit(1)


def evaluation_json(evaluation: Evaluation, seed: int) -> dict[str, object]:
    """The documented fields of `evaluate --json`; what a failed kernel lacks is null or empty."""
    from tilewright.cli.searching import baseline_json
    from tilewright.core.records import Failed

    common: dict[str, object] = {
        "workload": evaluation.workload,
        "target": evaluation.target,
        "verdict": "correct",
        "cycles": None,
        "instructions": None,
        "utilization": None,
        "breakdown": None,
        "feedback": None,
        "warnings": [],
        "baselines": {},
        "external": None,
        "failure": None,
        "wall_s": evaluation.wall_s,
        "seed": seed,
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
        "cycles": outcome.latency,
        "instructions": outcome.details.get("instructions"),
        "utilization": outcome.utilization,
        "breakdown": dict(outcome.breakdown),
        "details": dict(outcome.details),
        "feedback": outcome.feedback,
        "warnings": list(outcome.warnings),
        "baselines": {b.name: baseline_json(b, outcome.latency) for b in evaluation.baselines},
        "external": _external_json(evaluation),
        "versions": {**evaluation.versions, **outcome.versions},
    }


def _external_json(evaluation: Evaluation) -> dict[str, object] | None:
    """The run on another simulator; `difference` is the embedded one's cycles over its, less 1."""
    from tilewright.core.records import Failed, Measured

    external, outcome = evaluation.external, evaluation.outcome
    if external is None or not isinstance(outcome, Measured):
        return None
    if isinstance(external, Failed):
        return {"verdict": external.kind, "stage": external.stage, "log": external.log}
    return {
        "verdict": "correct",
        "simulator": external.simulator,
        "cycles": external.cycles,
        "difference": outcome.latency / external.cycles - 1 if external.cycles else None,
        "instructions": external.instructions,
        "wall_s": external.wall_s,
    }


def _print_external(console: Console, external: ExternalResult | Failed, latency: float) -> None:
    from rich.text import Text

    from tilewright.core.records import Failed
    from tilewright.report.text import duration, number

    console.print()
    if isinstance(external, Failed):
        kind = external.kind.replace("_", " ")
        console.print(Text(f"external simulator: {kind} ({external.stage})", style="bold red"))
        console.print(Text(external.log.rstrip()), soft_wrap=True)
        return
    text = f"{external.simulator}: correct in {duration(external.wall_s)}"
    if external.cycles:
        difference = latency / external.cycles - 1
        text += f", {number(external.cycles)} cycles; the embedded model is {difference:+.2%} off"
    console.print(Text(text, style="bold green"))


def _print_measured(console: Console, evaluation: Evaluation, outcome: Measured) -> None:
    from rich.table import Table
    from rich.text import Text

    from tilewright.cli.summary_table import comparison
    from tilewright.report.text import number, percent, share, words

    checks = ", ".join(f"{c.distribution}" for c in outcome.verdict.checks)
    console.print(Text(f"{evaluation.workload}: correct ({checks})", style="bold green"))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")
    table.add_row(f"{outcome.quantity} {outcome.unit}", number(outcome.latency), "")
    table.add_row("utilisation", percent(outcome.utilization), "")
    for name, value in outcome.details.items():
        table.add_row(words(name), number(value), "")
    table.add_section()
    for name, value in sorted(outcome.breakdown.items(), key=lambda item: -item[1]):
        table.add_row(f"  {words(name)}", number(value), share(value, outcome.latency))
    console.print(table)
    if outcome.feedback:
        console.print()
        console.print(Text(outcome.feedback), soft_wrap=True)
    for warning in outcome.warnings:
        console.print()
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
    if evaluation.baselines:
        console.print()
        console.print(comparison(evaluation.baselines, outcome))


def _print_failed(console: Console, evaluation: Evaluation, outcome: Failed, file: Path) -> None:
    """Kind and stage, the offending source line, then the log as it is."""
    from rich.text import Text

    kind = outcome.kind.replace("_", " ")
    console.print(Text(f"{evaluation.workload}: {kind} ({outcome.stage})", style="bold red"))
    lines = evaluation.candidate.source.splitlines()
    if outcome.line is not None and 0 < outcome.line <= len(lines):
        place = f"{file}:{outcome.line}: {lines[outcome.line - 1].strip()}"
        console.print(Text(place), soft_wrap=True)
    console.print(Text(outcome.log.rstrip()), soft_wrap=True)
