"""`tilewright preflight`: does a task's own check tell wrong kernels from right ones?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import Json, NoColor, TargetName
from tilewright.cli.output import check_outputs, write_json
from tilewright.core.config import Settings

if TYPE_CHECKING:
    from tilewright.core.records import AttackResult

EPILOG = """
\b
Examples:
  tilewright preflight gemmini:gemm-512x512x512
  tilewright preflight examples/my-gemm --json attacks.json
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("preflight", epilog=EPILOG)(preflight)


def preflight(
    task: Annotated[
        str, typer.Argument(metavar="WORKLOAD|FOLDER", help="A workload's name or your folder.")
    ],
    target: TargetName = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Seed of the private inputs.")
    ] = Settings().seed,
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Attack a task's own check with deliberately wrong kernels; each must be rejected.

    `optimize` does this by itself before it spends a budget, once per task and project. Ends with
    exit code 2 and says what to change if the check accepts one, or if the reference is
    non-deterministic or gives no number.
    """
    from tilewright.core.errors import WorkloadError
    from tilewright.evaluation.preflight.examine import refusal
    from tilewright.verification import preflight as examine

    check_outputs(json=json)
    name, results = examine(task, Settings(seed=seed, target=target))
    problem = refusal(name, results)
    if json:
        write_json(json, _as_json(name, results, sound=problem is None))
    _print(results)
    if problem is not None:
        raise WorkloadError(problem)
    typer.echo(f"{name}: sound, every attack that applies is rejected.")


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

    table = Table("attack", "verdict", "told apart by", box=None, pad_edge=False)
    styles = {"rejected": "green", "accepted": "bold red", "does not apply": "dim"}
    for result in results:
        verdict = Text(result.verdict, style=styles[result.verdict])
        table.add_row(Text(result.name), verdict, Text(result.log))
    console().print(table)
