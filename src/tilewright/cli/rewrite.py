"""`tilewright rewrite`: the built-in rewriter by hand."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.file_names import with_file_name
from tilewright.cli.options import Json, NoColor, TargetName, UnusedProject
from tilewright.cli.output import check_outputs, write_json, write_text
from tilewright.cli.wrapping import print_sentences

if TYPE_CHECKING:
    from tilewright.core.tasks import OpenTask
    from tilewright.tools.records import Rewrites

EPILOG = """
\b
Examples:
  tilewright rewrite kernel.c --workload gemmini:gemm-512x512x512 --list
  tilewright rewrite kernel.c --workload gemmini:gemm-512x512x512 \\
      --apply "double-buffer A; hoist B" -o faster.c
  tilewright rewrite kernel.c --workload host-c:softmax-256x1024 \\
      --apply "vectorise 3 16"
  tilewright rewrite kernel.py --workload trainium:rmsnorm-512x4096 \\
      --apply "hoist gain r"
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("rewrite", epilog=EPILOG)(rewrite)


def rewrite(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="File with the kernel's source, in the language of its target."
        ),
    ],
    workload: Annotated[
        str,
        typer.Option(
            "--workload",
            metavar="WORKLOAD|FOLDER",
            help="What the kernel computes: a workload that `tilewright workloads` lists, or a "
            "kernel folder.",
        ),
    ],
    target: TargetName = None,
    apply: Annotated[
        str | None,
        typer.Option(
            "--apply", metavar="STEPS", help="Steps to apply in this order, separated by ';'."
        ),
    ] = None,
    list_: Annotated[
        bool,
        typer.Option(
            "--list",
            help="List the rewrites that apply to the kernel, and the code "
            "that no rewrite can change.",
        ),
    ] = False,
    raise_: Annotated[
        bool,
        typer.Option(
            "--raise",
            help="Print what the kernel computes as a simple loop nest, without the "
            "kernel's tiling and loop order.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the kernel to this file; by default the command prints the kernel.",
        ),
    ] = None,
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Apply the built-in rewrites to a kernel, or list them.

    A step is a rewrite with arguments that say where in the kernel it is applied. If you leave out
    the arguments, the rewrite is applied where the estimated gain is largest. This command does
    not run the kernel; use `tilewright evaluate` to check and measure the result.
    """
    from tilewright.cli.console import say, write_out
    from tilewright.core.errors import InputError
    from tilewright.core.files import read_kernel
    from tilewright.proposers.builtin import has_local_memories
    from tilewright.proposers.rewriter.planning.catalogue import RAISE
    from tilewright.tools.rewriting import require_readable, rewrites, rewritten

    if (apply is not None) + list_ + raise_ != 1:
        raise InputError('rewrite needs exactly one of --list, --raise and --apply "STEPS".')
    check_outputs(output=output, json=json)
    opened = _opened(workload, target)
    brief, called = opened.target.brief(), opened.task.workload
    require_readable(brief)
    source = read_kernel(file, brief.language)
    if raise_ and not has_local_memories(brief):
        raise InputError(
            "--raise works only for C kernels that give commands to an accelerator, "
            "such as those of target gemmini."
        )
    try:
        if list_:
            found = rewrites(source, brief, called)
        else:
            made = rewritten(source, brief, called, apply if apply is not None else RAISE)
    except InputError as error:
        raise InputError(with_file_name(str(error), file)) from error
    if list_:
        _print(found, with_left=has_local_memories(brief))
        write_json(json, asdict(found))
        return
    for line in made.done:
        say(line, err=True)
    if output:
        write_text(output, made.source)
    else:
        write_out(made.source)
    write_json(json, asdict(made))


def _print(found: Rewrites, with_left: bool) -> None:
    """Print estimates, and the code that is not rewritten, if the rewriter provides them."""
    from rich.table import Table

    from tilewright.cli.console import results

    console = results()
    estimated = any(one.time is not None for one in found.rewrites)
    columns = ("rewrite", *(["estimated time"] if estimated else []), "what it does")
    table = Table(*columns, box=None, pad_edge=False)
    for one in found.rewrites:
        time = [f"{100 * one.time:.0f} %"] if one.time is not None else []
        table.add_row(one.step, *time, one.what)
    console.print(table if table.row_count else "no rewrite applies to this kernel", markup=False)
    if found.incomplete:
        console.print(f"More rewrites may apply: {found.incomplete}", markup=False)
    if not with_left:
        return
    console.print()
    for place in found.left_alone:
        print_sentences(console, f"not rewritten: {place}")
    if not found.left_alone:
        console.print("The rewriter can analyse the whole kernel.")


def _opened(workload: str, target: str | None) -> OpenTask:
    from tilewright.core.config import Settings
    from tilewright.core.tasks import open_task

    return open_task(workload, Settings(target=target).recorded())
