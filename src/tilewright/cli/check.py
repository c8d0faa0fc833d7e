"""`tilewright check`: finds mistakes in a kernel folder before a search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import (
    Json,
    NoColor,
    TargetName,
    UnusedProject,
    as_started,
    command_text,
)
from tilewright.cli.output import check_outputs, write_json
from tilewright.cli.wrapping import say_sentence
from tilewright.core.config import Settings
from tilewright.core.text import counted, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.core.records import Workload

EPILOG = """
\b
Examples:
  tilewright check examples/gemmini
  tilewright check my-kernel --json check.json
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("check", epilog=EPILOG)(check)


def check(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="A folder with workload.toml, reference.py and the kernel."
        ),
    ],
    target: TargetName = None,
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Find mistakes in a kernel folder before a search.

    In a few seconds, the command reads workload.toml, compiles the kernel, and compares the
    kernel's results with those of the reference. The command also verifies that the reference gives
    the same results when it is called again. If the command finds a mistake, it describes the first
    mistake in one sentence and ends with exit code 2.
    """
    from tilewright.core.errors import NotTimedError
    from tilewright.core.tasks import open_task
    from tilewright.report.text import number
    from tilewright.verification import check_kernel, check_reference

    check_outputs(json=json)
    settings = Settings(target=target)
    opened = open_task(folder, settings.recorded())
    workload = opened.task.workload
    say_sentence(f"ok  workload  {arrays(workload)}")
    template = opened.template
    if template is not None:
        many = counted(len(template.points()), "valid combination")
        values = ", ".join(f"{name} = {value}" for name, value in template.first.items())
        say_sentence(f"ok  template  {many} of values; the kernel has the first one: {values}")
        if template.unused:
            say_sentence(unused_warning(template.unused))
    measured = None
    try:
        measured = check_kernel(opened, settings)
    except NotTimedError as error:
        why = as_started(str(error))
        say_sentence(f"ok  kernel    agrees with the reference, but was not timed: {why}")
    else:
        count = len(measured.verdict.checks)
        said = f"{number(measured.latency)} {measured.quantity} {measured.unit}"
        say_sentence(f"ok  kernel    agrees with the reference in {count} comparisons; {said}")
    check_reference(opened, settings)
    say_sentence(
        "ok  reference gives the same results in every call; deliberately wrong kernels "
        "are rejected"
    )
    if measured is not None:
        typer.echo(f"next          {command_text('optimize', folder, '--budget', '60 s')}")
    write_json(
        json,
        {
            "workload": opened.name,
            "target": opened.target.name,
            "latency": measured.latency if measured else None,
            "unit": measured.unit if measured else None,
            "values": template.first if template else {},
            "unused_parameters": list(template.unused) if template else [],
            "quantity": measured.quantity if measured else None,
        },
    )


def unused_warning(names: Sequence[str]) -> str:
    """A sentence on the parameters of a template that the kernel declares and never uses."""
    several = len(names) > 1
    return (
        f"warning: the kernel declares the parameter{'s' * several} {listed(names)}, but does not "
        f"use {'them' if several else 'it'}, so all {'their' if several else 'its'} values give "
        "the same kernel."
    )


def arrays(workload: Workload) -> str:
    """The kernel's parameters in one line."""
    return ", ".join(
        f"{a.name} {a.dtype}[{']['.join(map(str, a.shape))}] ({a.role})" for a in workload.arguments
    )
