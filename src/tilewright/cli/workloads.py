"""`tilewright workloads`: lists the workloads that can be optimised by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import Json, NoColor, UnusedProject
from tilewright.cli.output import check_outputs, write_json


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("workloads")(list_workloads)


def list_workloads(
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="NAME|FILE",
            help="List only the workloads of this target, given by its name or by a .toml file.",
        ),
    ] = None,
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """List the workloads that come with each target.

    To optimise a kernel of your own, give `tilewright optimize` a folder instead of a name. The
    folder contains workload.toml, reference.py and the kernel. `tilewright init` creates such a
    folder.
    """
    from rich.table import Table
    from rich.text import Text

    from tilewright.cli.console import results
    from tilewright.core.plugins import load_target, target_names

    check_outputs(json=json)
    table = Table(box=None, pad_edge=False)
    for heading in ("workload", "what it is"):
        table.add_column(heading, overflow="fold")
    rows: list[dict[str, object]] = []
    for chosen in [target] if target is not None else target_names():
        opened = load_target(chosen)
        for workload, text in opened.workloads().items():
            prefix = f"{opened.name}:"
            full_name = workload if workload.startswith(prefix) else prefix + workload
            table.add_row(full_name, Text(text))
            rows.append({"workload": full_name, "target": opened.name, "text": text})
    results().print(table)
    write_json(json, {"workloads": rows})
