"""`tilewright bundle` and `tilewright verify`: a result in one file, which others can verify."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import Json, NoColor, Project, RunName, UnusedProject, command_text
from tilewright.cli.output import check_outputs, write_bytes, write_json
from tilewright.cli.wrapping import print_sentences

if TYPE_CHECKING:
    from tilewright.bundles import Row, Verification

EPILOG = """
\b
Example:
  tilewright bundle latest -o win.twb
  tilewright verify win.twb        (on this machine or any other)
"""


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("bundle", epilog=EPILOG)(bundle)
    app.command("verify", epilog=EPILOG)(verify)


def bundle(
    run: RunName,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Write the bundle to this file.")
    ],
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Write a result to one file that others can verify.

    The bundle contains the sources, the workload, the configuration of the target, settings,
    versions, raw results and the steps that led to the result. The bundle never contains an API key
    or a path of this machine. `tilewright verify` detects every later change to the bundle.
    """
    from tilewright.bundle_creation import create
    from tilewright.bundles import brings_code, read

    check_outputs(output=output, json=json)
    data = create(project, run)
    write_bytes(output, data)
    typer.echo(f"wrote {output} ({len(data):,} bytes)", err=True)
    own = ["--trust-reference"] if brings_code(read(output)) else []
    typer.echo(f"verify it     {command_text('verify', str(output), *own)}", err=True)
    write_json(json, {"file": str(output), "bytes": len(data)})


def verify(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The bundle, a file that `tilewright bundle` wrote."),
    ],
    trust_reference: Annotated[
        bool,
        typer.Option(
            "--trust-reference",
            help="Allow the bundle's reference.py to run on this machine. The maker of the bundle "
            "wrote this code; read it first with --print-reference.",
        ),
    ] = False,
    print_reference: Annotated[
        bool,
        typer.Option(
            "--print-reference",
            help="Print reference.py and the other files of the kernel folder, and run nothing.",
        ),
    ] = False,
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Verify a bundle: build, check and measure its kernels again.

    The command does not rely on any number in the bundle. The exit code is 1 if the command cannot
    confirm the result.
    """
    from tilewright import bundles
    from tilewright.cli.console import say

    check_outputs(json=json)
    document = bundles.read(file)
    if print_reference:
        say(bundles.texts_of(document) or "# the bundle contains no files of a kernel folder")
        return
    found = bundles.verify(document, trust_reference=trust_reference)
    write_json(json, _as_json(found))
    _print(found)
    if not found.confirmed:
        raise typer.Exit(1)


def _as_json(found: Verification) -> dict[str, object]:
    rows = [
        {"name": row.name, "recorded": row.recorded, "here": row.here, "same": row.same}
        for row in found.rows
    ]
    return {
        "workload": found.workload,
        "confirmed": found.confirmed,
        "reasons": list(found.reasons),
        "speedup_recorded": found.speedup_recorded,
        "speedup_here": found.speedup_here,
        "facts": rows,
    }


def _compared(row: Row) -> str:
    """How the value on this machine compares with the bundle's, and the value if they differ."""
    if not row.same:
        return f"{row.here} (differs)"
    return "the same" if row.recorded == row.here else f"{row.here} (the same within the noise)"


def _print(found: Verification) -> None:
    from rich.table import Table
    from rich.text import Text

    from tilewright.cli.console import results

    table = Table("", box=None, pad_edge=False)
    for heading in ("in the bundle", "here"):
        table.add_column(heading, overflow="fold")
    for row in found.rows:
        style = "green" if row.same else "bold red" if row.matters else "yellow"
        table.add_row(Text(row.name), Text(row.recorded), Text(_compared(row), style=style))
    console = results()
    console.print(table)
    verdict = "confirmed" if found.confirmed else "not confirmed"
    style = "bold green" if found.confirmed else "bold red"
    console.print(Text(f"{found.workload}: {verdict}", style=style))
    for reason in found.reasons:
        print_sentences(console, f"  {reason}")
