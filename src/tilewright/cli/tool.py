"""`tilewright tool`: one step of work on a kernel, by the tools that models and agents use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli import search_options as options
from tilewright.cli.options import Json, NoColor, Project, TargetName
from tilewright.cli.output import check_outputs, write_json, write_text

if TYPE_CHECKING:
    from tilewright.core.records import KernelLanguage

EPILOG = """
\b
Examples:
  tilewright tool check kernel.c --workload gemmini:gemm-256x256x256
  tilewright tool evaluate kernel.c --workload gemmini:gemm-256x256x256 --budget "16 evaluations"
  tilewright tool try a.c b.c c.c --workload gemmini:gemm-256x256x256 --budget "16 evaluations"
  tilewright tool asm kernel.c --loop 2 --workload host-c:gemm-256x256x256
  tilewright tool rewrite parent --steps "hoist B" -o new.c --workload gemmini:gemm-256x256x256
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("tool", epilog=EPILOG)(tool)


def tool(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="check, evaluate, try, profile, asm, facts, tried, rewrites, rewrite or submit.",
        ),
    ],
    workload: Annotated[
        str,
        typer.Option(
            "--workload",
            metavar="WORKLOAD|FOLDER",
            help="What the kernel must compute: a workload's name or a folder.",
        ),
    ],
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KERNEL]...",
            help="Files with kernels, or ids of kernels of the run; start, parent and best are ids "
            "too.",
        ),
    ] = None,
    parent: Annotated[
        str | None,
        typer.Option(
            "--parent", metavar="ID", help="The kernel to work on; the best one unless given."
        ),
    ] = None,
    steps: Annotated[
        str | None, typer.Option("--steps", metavar="STEPS", help="What `rewrite` is to do.")
    ] = None,
    loop: Annotated[
        str | None,
        typer.Option("--loop", metavar="N", help="The loop that `asm` is to list."),
    ] = None,
    note: Annotated[
        str | None,
        typer.Option("--note", metavar="TEXT", help="What was changed, kept with the trial."),
    ] = None,
    budget: options.BudgetText = None,
    target: TargetName = None,
    target_settings: options.TargetSettings = None,
    project: Project = Path(),
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the rewritten kernel here."),
    ] = None,
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Do one step of work on a kernel, as agents do.

    The tools are those that models and agents use (docs/agents.md). Evaluated kernels become trials
    of a run in the project folder; the same workload and budget continue that run. `check`, `asm`,
    `facts` and `rewrites` of a file need no run.
    """
    from dataclasses import replace

    from tilewright.cli.console import write_out
    from tilewright.core.config import Settings
    from tilewright.core.errors import InputError
    from tilewright.tools.records import Refused, Rewritten, answer_json
    from tilewright.tools.text import answer_text
    from tilewright.tools.toolbox import tool_named
    from tilewright.workbench import workbench

    chosen = tool_named(name)
    check_outputs(json=json, output=output)
    settings = replace(
        Settings(
            target=target, target_settings=options.parse_target_settings(target_settings or ())
        ),
        **options.limits(budget),
    )
    with workbench(workload, settings, project=project, parent=parent) as bench:
        given = [_kernel(kernel, bench.target.language) for kernel in kernels or ()]
        arguments: dict[str, Any] = {"note": note, "steps": steps, "loop": loop}
        if any(parameter.many for parameter in chosen.parameters):
            arguments["kernels"] = [{"kernel": kernel} for kernel in given]
        elif len(given) > 1:
            raise InputError(f"tool {name} takes one kernel, and {len(given)} are given: name one.")
        else:
            arguments["kernel"] = given[0] if given else None
        answer = bench.call(name, {key: text for key, text in arguments.items() if text})
    if isinstance(answer, Refused):
        raise InputError(answer.reason)
    write_json(json, answer_json(answer))
    if isinstance(answer, Rewritten) and output:
        write_text(output, answer.source)
    else:
        write_out(answer_text(answer) + "\n")


def _kernel(named: str, language: KernelLanguage) -> str:
    """A kernel as the tools take it: the text of the file of this name, else the name of one."""
    from tilewright.core.files import read_kernel

    path = Path(named)
    return read_kernel(path, language) if path.exists() or path.suffix else named
