"""`tilewright preflight`: tests whether the correctness check of a task rejects wrong kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import search_options as options
from tilewright.cli.options import Json, NoColor, TargetName, UnusedProject
from tilewright.cli.output import check_outputs, write_json
from tilewright.core.config import Settings

if TYPE_CHECKING:
    from tilewright.core.records import AttackResult

EPILOG = """
\b
Examples:
  tilewright preflight gemmini:gemm-512x512x512
  tilewright preflight examples/gemmini --json attacks.json
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("preflight", epilog=EPILOG)(preflight)


def preflight(
    task: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD|FOLDER",
            help="A workload that `tilewright workloads` lists, or a kernel folder.",
        ),
    ],
    target: TargetName = None,
    input_seed: options.InputSeed = None,
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Test that deliberately wrong kernels are rejected.

    The correctness check of the workload must reject each wrong kernel. `optimize` runs this test
    automatically before the first search for a workload in a project. If the check accepts a wrong
    kernel, or if the reference returns NaN or gives different results in two calls, the command
    says what to change and ends with exit code 2.
    """
    from tilewright.core.errors import WorkloadError
    from tilewright.evaluation.preflight.examine import refusal
    from tilewright.verification import preflight as examine

    check_outputs(json=json)
    name, results = examine(task, Settings(input_seed=input_seed, target=target))
    problem = refusal(name, results)
    write_json(json, _as_json(name, results, sound=problem is None))
    _print(results)
    if problem is not None:
        raise WorkloadError(problem)
    for result in results:
        if result.verdict == "indistinguishable":
            typer.echo(
                "The inputs do not always distinguish a correct kernel from one that "
                f"{result.text}. Therefore, {result.remedy}."
            )
    typer.echo(f"{name}: the check rejects every wrong kernel that applies to this workload.")


def _as_json(name: str, results: list[AttackResult], *, sound: bool) -> dict[str, object]:
    attacks = [
        {
            "name": result.name,
            "text": result.text,
            "verdict": result.verdict,
            "log": result.log,
            "remedy": result.remedy,
        }
        for result in results
    ]
    return {"workload": name, "sound": sound, "attacks": attacks}


def _print(results: list[AttackResult]) -> None:
    from rich.table import Table
    from rich.text import Text

    from tilewright.cli.console import results as console

    table = Table("wrong kernel", "verdict", "reason", box=None, pad_edge=False)
    styles = {
        "rejected": "green",
        "accepted": "bold red",
        "indistinguishable": "yellow",
        "does not apply": "dim",
    }
    for result in results:
        verdict = Text(result.verdict, style=styles[result.verdict])
        table.add_row(Text(result.name), verdict, Text(result.log))
    console().print(table)
