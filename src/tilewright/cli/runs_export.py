"""`tilewright runs export`: the trials of a run as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from contextlib import closing
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import Json, NoColor, Project, RunName
from tilewright.cli.output import check_outputs, write_bytes, write_json
from tilewright.core.errors import InputError, ToolchainMissingError

if TYPE_CHECKING:
    from tilewright.core.records import RunRecord, Trial

Rows = Sequence[dict[str, object]]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("export")(export)


def export(
    run: RunName,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the table to this file. The ending of its name, .csv, .json or .parquet, "
            "selects the format.",
        ),
    ],
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Write the trials of a run as a table.

    Each row describes one trial: the plan, whether the kernel is correct, and its latency. Writing
    Parquet needs the Python package pyarrow.
    """
    from tilewright.run import open_project

    writers = {".csv": _csv, ".json": _json, ".parquet": _parquet}
    writer = writers.get(output.suffix)
    if writer is None:
        raise InputError(
            f"cannot export to {output}, because the extension of the file name is not a supported "
            f"format. Use one of {', '.join(writers)}."
        )
    check_outputs(output=output, json=json)
    with closing(open_project(project)) as storage:
        record = storage.run(run)
        rows = [_row(record, trial) for trial in storage.history(record.id)]
    write_bytes(output, writer(rows))
    typer.echo(f"wrote {len(rows)} trials of run {record.id} to {output}", err=True)
    write_json(json, {"run": record.id, "trials": len(rows), "file": str(output)})


def _row(run: RunRecord, trial: Trial) -> dict[str, object]:
    """The fields of a trial as plain values; None for fields without a value."""
    from tilewright.search.event_records import trial_record

    plan = trial.candidate.plan
    gain = plan.expected_gain if plan else None
    return {"run": run.id, "workload": run.task, **trial_record(trial), "expected_gain": gain}


def _csv(rows: Rows) -> bytes:
    from tilewright.search.event_records import spreadsheet_row

    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(map(spreadsheet_row, rows))
    return text.getvalue().encode()


def _json(rows: Rows) -> bytes:
    return (dumps(list(rows), indent=2, allow_nan=False) + "\n").encode()


def _parquet(rows: Rows) -> bytes:
    from importlib import import_module

    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise ToolchainMissingError(
            "Parquet needs the Python package pyarrow. Install it with `pip install "
            "'tilewright[parquet]'`, or export to .csv or .json."
        ) from None
    data = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(list(rows)), data)
    return data.getvalue()
