"""`tilewright targets`: lists the available accelerators."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import Json, NoColor, UnusedProject, command_text
from tilewright.cli.output import check_outputs, write_json


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("targets")(list_targets)


def list_targets(
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Also print the compiler, the simulator and the configuration of each target.",
        ),
    ] = False,
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """List the supported accelerators and processors."""
    from rich.table import Table

    from tilewright.cli.capabilities import uncheckable, untimed
    from tilewright.cli.console import results
    from tilewright.core.errors import ToolchainMissingError
    from tilewright.core.plugins import load_target, target_names

    check_outputs(json=json)
    headings = ("target", "ready", "optimisations", *(["versions"] * full))
    table = Table(*headings, box=None, pad_edge=False)
    rows: list[dict[str, object]] = []
    for name in target_names():
        target = load_target(name)
        found = [usable for _, usable, _ in target.doctor()]
        checks = uncheckable(target) is None and False not in found
        times = checks and untimed(target) is None
        ready = times and any(found)  # None: missing, but not needed
        checks = ready or (checks and not times)
        try:
            versions = dict(target.versions())
        except ToolchainMissingError:  # `doctor` names the missing part and says how to get it
            versions = {}
        options = len(target.brief().menu)
        text = ", ".join(f"{k} {v}" for k, v in sorted(versions.items()))
        state = "yes" if ready else "checks only" if checks else "no"
        if not ready:
            state += f": see {command_text('doctor')}"
        table.add_row(name, state, str(options), *([text] * full))
        rows.append(
            {
                "target": name,
                "ready": ready,
                "checks": checks,
                "optimisations": options,
                "versions": versions,
            }
        )
    results().print(table)
    write_json(json, {"targets": rows})
