"""`tilewright experiment`: measures the contribution of each part of a search."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import model_options
from tilewright.cli import search_options as options
from tilewright.cli.options import Json, NoColor, UnusedProject
from tilewright.cli.searching import INTERRUPTED

if TYPE_CHECKING:
    from tilewright.experiments.definition import Cell
    from tilewright.experiments.running import CellResult

EPILOG = """
\b
Examples:
  tilewright experiment keyless-ablation -o ablation
  tilewright experiment my-arms.toml --replay recording.jsonl
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("experiment", epilog=EPILOG)(experiment)


def experiment(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME",
            help="A TOML file with workloads, arms, seeds and a budget, or the name of a "
            "predefined experiment: keyless-ablation, keyless-factors, keyless-reuse, "
            "keyless-smoke or model-ablation.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Store the runs and the results in this folder; by default a folder with the name "
            "of the experiment's file.",
        ),
    ] = None,
    trust_file: Annotated[
        bool,
        typer.Option(
            "--trust-file",
            help="Allow the file to name programs, machines, folders and addresses, which "
            "tilewright then uses with your rights. Read the file first if somebody else wrote it.",
        ),
    ] = False,
    replay: model_options.Replay = None,
    jobs: options.Jobs = None,
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Compare settings of the search under equal budgets.

    The file lists workloads, seeds and arms. An arm is a named group of settings. The command makes
    one run for each combination of workload, arm and seed, and stores all runs in the output
    folder. If the command is interrupted or killed, repeat it to continue. Before you repeat it,
    you may add arms, workloads or seeds to the file. With --replay, a prompt that the recording
    does not contain is an error.
    """
    from rich.table import Table

    from tilewright.cli.console import notes, results
    from tilewright.cli.output import check_outputs, write_json, write_text
    from tilewright.experiments import output as texts
    from tilewright.experiments.definition import read_experiment, shipped_names
    from tilewright.experiments.running import InterruptedExperimentError, run_experiment
    from tilewright.experiments.table import table
    from tilewright.experiments.trust import require_harmless

    check_outputs(json=json)
    opened = read_experiment(file)
    if not trust_file and file not in shipped_names():
        require_harmless(opened)
    folder = output or Path(Path(file).stem)
    _make(folder)
    console = notes()

    def tell(cell: Cell, result: CellResult, number: int, count: int) -> None:
        speedup = "no speedup" if result.speedup is None else f"{result.speedup:.2f}x"
        console.print(
            f"{number} of {count}: {cell.workload} {cell.arm} seed {cell.seed}: {speedup} after "
            f"{result.evaluations} evaluations in {result.seconds:.0f} s",
            markup=False,
            soft_wrap=True,
        )

    try:
        found = run_experiment(opened, folder, workers=jobs, replay=replay, on_cell=tell)
    except InterruptedExperimentError:
        console.print("interrupted; repeat the command to continue", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    rows = table(found, opened.baseline)
    write_text(folder / "table.csv", texts.table_csv(rows))
    write_text(folder / "runs.csv", texts.cells_csv(found))
    write_text(folder / "points.csv", texts.points_csv(found))
    write_text(folder / "index.html", texts.page(opened, rows, found))
    for columns in texts.PRINTED:
        shown = Table(*columns, box=None, pad_edge=False)
        for row in rows:
            cells = texts.cells_of(row)
            shown.add_row(*(cells[name] for name in columns))
        results().print(shown, "")
    results().print(texts.caption(opened, found), markup=False, soft_wrap=True)
    results().print(
        f"index.html, table.csv, runs.csv and points.csv are in {folder}/", markup=False
    )
    write_json(json, {"rows": [asdict(row) for row in rows]})


def _make(folder: Path) -> None:
    """Create the folder; `OutputError` if this fails, or if it contains a pipe or a device."""
    from tilewright.core.errors import OutputError
    from tilewright.core.files import refuse_special_files

    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_special_files(folder)
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}.") from error
