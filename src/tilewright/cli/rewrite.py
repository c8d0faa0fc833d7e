"""`tilewright rewrite`: the built-in rewriter by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import NoColor, TargetName
from tilewright.cli.output import check_outputs, write_text

if TYPE_CHECKING:
    from tilewright.core.records import TargetBrief
    from tilewright.proposers.rewriter.ir import Kernel
    from tilewright.proposers.rewriter.machine import Machine

EPILOG = """
\b
Examples:
  tilewright rewrite kernel.c --workload gemmini:gemm-512x512x512 --list
  tilewright rewrite kernel.c --workload gemmini:gemm-512x512x512 \\
      --apply "double-buffer A; hoist B" -o faster.c
  tilewright rewrite kernel.c --workload host-c:softmax-256x1024 --apply "vectorise 3 16"
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("rewrite", epilog=EPILOG)(rewrite)


def rewrite(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="C source that defines `kernel`.")],
    workload: Annotated[
        str,
        typer.Option(
            "--workload",
            metavar="WORKLOAD|FOLDER",
            help="What the kernel computes; its target says which commands there are.",
        ),
    ],
    target: TargetName = None,
    apply: Annotated[
        str | None,
        typer.Option("--apply", metavar="STEPS", help="Rewrites to carry out, separated by ';'."),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Show which rewrites apply, and what is left alone.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write here instead of to stdout."),
    ] = None,
    no_color: NoColor = False,
) -> None:
    """Apply rewrites to a kernel and print its C, or list those that apply.

    Arguments of a step may be left out: the place with the best estimate is taken. Nothing is run:
    `tilewright evaluate` checks and measures the result.
    """
    from tilewright.core.errors import InputError
    from tilewright.proposers.builtin import has_local_memories
    from tilewright.proposers.rewriter import by_hand
    from tilewright.proposers.rewriter.emit import emit
    from tilewright.proposers.rewriter.machine import Machine
    from tilewright.proposers.rewriter.reading import read

    if (apply is not None) == list_:
        raise InputError('give either --list or --apply "STEPS", so that there is one thing to do.')
    check_outputs(output=output)
    source, brief = _source(file), _brief(workload, target)
    if not has_local_memories(brief):
        _rewrite_loops(source, brief, apply, output)
        return
    machine = Machine.of(brief)
    kernel = read(source, machine)
    if apply is None:
        _list(source, kernel, machine)
        return
    kernel, steps = by_hand.carried_out(kernel, machine, apply)
    for step in steps:
        typer.echo(f"{step}: {step.sentence}", err=True)
    if output:
        write_text(output, emit(kernel))
    else:
        typer.echo(emit(kernel), nl=False)


def _list(source: str, kernel: Kernel, machine: Machine) -> None:
    from rich.table import Table

    from tilewright.cli.console import results
    from tilewright.proposers.rewriter import by_hand

    console = results()
    table = Table("rewrite", "estimated time", "what it does", box=None, pad_edge=False)
    for found in by_hand.applicable(kernel, machine):
        table.add_row(str(found.step), f"{100 * found.time:.0f} %", found.step.sentence)
    console.print(table if table.row_count else "no rewrite applies to this kernel", markup=False)
    console.print()
    kept = by_hand.left_alone(source, machine)
    for part in kept:
        place = f"left alone: line {part.line}: {part.text} ({part.reason})"
        console.print(place, markup=False, highlight=False, soft_wrap=True)
    if not kept:
        console.print("left alone: nothing, the whole kernel is understood")


def _brief(workload: str, target: str | None) -> TargetBrief:
    from tilewright.core.config import Settings
    from tilewright.core.tasks import open_task

    return open_task(workload, Settings(target=target).recorded()).target.brief()


def _rewrite_loops(source: str, brief: TargetBrief, apply: str | None, output: Path | None) -> None:
    """The same for kernels of plain loops."""
    from rich.table import Table

    from tilewright.cli.console import results
    from tilewright.proposers.loops import by_hand

    if apply is None:
        table = Table("rewrite", "what it does", box=None, pad_edge=False)
        for step, sentence in by_hand.applicable(source, brief):
            table.add_row(str(step), sentence)
        results().print(table if table.row_count else "no rewrite applies to this kernel")
        return
    text, done = by_hand.carried_out(source, brief, apply)
    for line in done:
        typer.echo(line, err=True)
    if output:
        write_text(output, text)
    else:
        typer.echo(text, nl=False)


def _source(file: Path) -> str:
    from tilewright.core.errors import InputError

    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"kernel file {file} cannot be read ({error}): name a C file in UTF-8."
        ) from error
