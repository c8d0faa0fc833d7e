"""`tilewright runs tag|note|delete`: sets the tags and the note of a run, and deletes runs."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import Json, NoColor, Project, RunName
from tilewright.cli.output import check_outputs, write_json
from tilewright.core.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for command in (tag, note, delete):
        app.command(command.__name__)(command)


def tag(
    run: RunName,
    tags: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TAG", help="The new tags; if you give no tag, all tags of the run are removed."
        ),
    ] = None,
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Replace the tags of a run.

    `runs list` and `runs show` print the tags of each run.
    """
    given = tuple(dict.fromkeys(tags or ()))
    if not all(one.strip() for one in given):
        raise InputError("a tag is empty. Give other tags, or none to remove all tags of the run.")
    _label(project, run, json, tags=given)


def note(
    run: RunName,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The new note; an empty text removes the note.")
    ],
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Replace the note of a run.

    `runs show` prints the note.
    """
    _label(project, run, json, text=text)


def delete(
    run: RunName,
    yes: Annotated[
        bool, typer.Option("--yes", help="Delete the run without asking for confirmation.")
    ] = False,
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Delete a run, after asking for confirmation.

    The command also deletes the run's trials, sources, events and calls to models. Cached results
    of evaluations are kept, because all runs of the project share them.
    """
    from tilewright.run import open_project, standing

    check_outputs(json=json)
    with closing(open_project(project)) as storage:
        record = storage.run(run)
        if standing(project, record) == "running":
            raise InputError(
                f"run {record.id} is still in progress. Interrupt it first with Ctrl-C."
            )
        trials = len(storage.history(record.id))
        if not yes and not sys.stdin.isatty():
            raise InputError(
                f"run {record.id} was not deleted, because there is no terminal on which to ask "
                "for confirmation. Add --yes to delete the run without confirmation."
            )
        question = f"Delete run {record.id} ({record.task}, {trials} trials)?"
        if not yes and not typer.confirm(question):
            raise typer.Abort
        storage.delete_run(record.id)
    typer.echo(f"deleted run {record.id}", err=True)
    write_json(json, {"run": record.id, "trials": trials})


def _label(project: Path, run: str, json: Path | None, **changes: object) -> None:
    """Store a new label, which is the run's last label with the given changes."""
    from dataclasses import replace

    from tilewright.run import open_project
    from tilewright.run_metadata import label_of

    check_outputs(json=json)
    with closing(open_project(project)) as storage:
        record = storage.run(run)
        label = replace(label_of(storage, record.id), **changes)  # type: ignore[arg-type]
        storage.keep(record.id, label)
    tags = ", ".join(label.tags) or "none"
    typer.echo(f"run {record.id}: tags: {tags}; note: {label.text or 'none'}", err=True)
    write_json(json, {"run": record.id, "tags": list(label.tags), "note": label.text})
