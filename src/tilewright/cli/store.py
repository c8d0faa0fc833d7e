"""`tilewright store copy`: copies the database of a project to another database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import Json, NoColor, UnusedProject
from tilewright.cli.output import check_outputs, write_json

EPILOG = """
\b
Examples:
  tilewright store copy . postgresql://me@db.example.org/tilewright
  tilewright store copy postgresql://me@db.example.org/tilewright ../copy
  tilewright store copy .tilewright/tilewright.db ../copy
"""

app = typer.Typer(help="Copy a project's database.")


@app.command("copy", epilog=EPILOG)
def copy(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM", help="A project folder, a .db file or a PostgreSQL address."
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="Another folder, .db file or PostgreSQL address, which must not contain any runs.",
        ),
    ],
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Copy a project into an empty database.

    The command copies all runs and everything that is stored with them, from SQLite or PostgreSQL
    to SQLite or PostgreSQL. The command compares the copy with the source before committing the
    copy. If anything fails, nothing is copied. The source is never changed.
    """
    from tilewright.cli.console import say
    from tilewright.storage.copying import copy_database, database_of

    check_outputs(json=json)
    counts = copy_database(database_of(source), database_of(target))
    say(", ".join(f"{count} {table}" for table, count in counts.items()) + " copied")
    write_json(json, {"rows": counts})
